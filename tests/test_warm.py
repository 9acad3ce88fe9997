"""Workers that stay up: one a build, prepared in the background, replaced when they die, gone at the end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_execute import IDENTITIES, Bench
from test_worker import engine_task, shelf, task

from inferproof.runners.warm import WarmWorkers

__all__ = ["shelf"]


@pytest.fixture
def bench(shelf: Path, tmp_path: Path) -> Bench:
    return Bench(shelf, tmp_path)


def warm(bench: Bench) -> WarmWorkers:
    site: Any = SimpleNamespace(launch=bench.launcher, identities=IDENTITIES, logs=bench.folder / "logs")
    return WarmWorkers(site, bench.ledger)


def test_runs_share_a_worker_and_each_is_recorded_even_when_it_is_the_same(bench: Bench) -> None:
    with warm(bench) as workers:
        ran = [workers.run(task(number=5)), workers.run(task(number=5))]

    assert (bench.workers, [e.observations for e in ran]) == (1, [{"answer": 5}] * 2)
    assert [e.id for e in bench.ledger.evidence()] == [e.id for e in ran]


def test_a_prepared_engine_is_the_one_that_answers(bench: Bench) -> None:
    with warm(bench) as workers:
        workers.prepare(engine_task("good"))
        evidence = workers.run(engine_task("good"))

    assert (evidence.ended, evidence.observations, evidence.engine_start_s) == ("ok", {"number": 1}, None)


def test_what_fails_while_it_is_prepared_fails_in_the_run_with_its_reason(bench: Bench) -> None:
    with warm(bench) as workers:
        workers.prepare(engine_task("no-start"))
        evidence = workers.run(engine_task("no-start"))

    assert (evidence.ended, evidence.reason) == ("failed", "RuntimeError: no room for the KV cache")


def test_a_dead_worker_costs_its_run_and_the_next_one_gets_another(bench: Bench) -> None:
    with warm(bench) as workers:
        died = workers.run(task("exit"))
        after = workers.run(task(number=2))

    assert (died.ended, after.ended, bench.workers) == ("died", "ok", 2)


def test_no_worker_outlives_the_session_however_it_ends(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt), warm(bench) as workers:
        workers.run(task(number=1))
        [worker] = workers._workers.values()
        raise KeyboardInterrupt

    assert not worker.alive
