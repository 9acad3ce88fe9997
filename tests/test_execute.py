"""Up-to-date evidence is reused; what ran is recorded at once; a dead worker costs the run it was on, and no other."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from test_worker import engine_task, shelf, task

from inferproof.runners.evidence import Task
from inferproof.runners.execute import Result, execute
from inferproof.runners.ledger import Ledger
from inferproof.runners.worker import Launch

__all__ = ["shelf"]
IDENTITIES: Mapping[str, Mapping[str, Any]] = {"test": {"version": "0", "digest": "b"}}


class Bench:
    """A ledger and a launcher for workers of this Python."""

    def __init__(self, shelf: Path, folder: Path) -> None:
        self.shelf, self.folder = shelf, folder
        self.ledger = Ledger(folder / "ledger.sqlite")
        self.workers = 0
        self.events: list[str] = []

    def launcher(self, build: str, log: Path) -> Launch:
        self.workers += 1
        environment = {"PYTHONPATH": str(self.shelf), "PATH": os.defpath}
        return Launch([sys.executable], environment, None, "0", self.folder / "models", log, 1 << 30)

    def listen(self, event: str, fields: Mapping[str, Any]) -> None:
        self.events.append(event)

    def execute(self, *tasks: Task, rerun: bool = False) -> Iterator[Result]:
        return execute(
            tasks,
            self.ledger,
            launcher=self.launcher,
            identities=IDENTITIES,
            logs=self.folder / "logs",
            rerun=rerun,
            listen=self.listen,
        )


@pytest.fixture
def bench(shelf: Path, tmp_path: Path) -> Bench:
    return Bench(shelf, tmp_path)


def test_what_ran_is_recorded_with_all_its_inputs(bench: Bench) -> None:
    (result,) = bench.execute(task(number=5))

    (record,) = bench.ledger.evidence()
    assert result.evidence == record
    assert (record.observations, record.ended, record.task["params"]) == ({"answer": 5}, "ok", {"number": 5})
    assert record.build == IDENTITIES["test"]
    assert (bench.folder / "logs" / record.log).exists()


def test_up_to_date_evidence_is_reused_and_no_worker_starts(bench: Bench) -> None:
    list(bench.execute(task(number=5)))
    (again,) = bench.execute(task(number=5))

    assert (again.reused, bench.workers, len(list(bench.ledger.evidence()))) == (True, 1, 1)


def test_rerun_runs_again_and_keeps_both_records(bench: Bench) -> None:
    list(bench.execute(task(number=5)))
    (again,) = bench.execute(task(number=5), rerun=True)

    assert (again.reused, bench.workers, len(list(bench.ledger.evidence()))) == (False, 2, 2)


def test_equal_tasks_run_once(bench: Bench) -> None:
    results = list(bench.execute(task(number=5), task(number=5), task(number=6)))

    assert [r.evidence.observations["answer"] for r in results if r.evidence] == [5, 6]


def test_an_engine_starts_once_for_all_runs_of_its_config(bench: Bench) -> None:
    list(bench.execute(engine_task("a", 1), engine_task("b", 1), engine_task("a", 2), engine_task("b", 2)))

    assert (bench.workers, bench.events.count("starting")) == (1, 2)


def test_a_worker_that_dies_costs_its_own_run_and_the_rest_goes_on(bench: Bench) -> None:
    results = list(bench.execute(task("killed"), task(number=1), task(number=2)))

    assert sorted(r.evidence.ended for r in results if r.evidence) == ["died", "ok", "ok"]


def test_a_run_that_failed_is_a_record_and_is_tried_again_next_time(bench: Bench) -> None:
    list(bench.execute(task("raise")))
    list(bench.execute(task("raise")))

    assert [e.ended for e in bench.ledger.evidence()] == ["failed", "failed"]


@pytest.mark.parametrize("how", ["gate", "cannot"])
def test_a_run_that_could_not_decide_is_settled_and_not_tried_again(bench: Bench, how: str) -> None:
    list(bench.execute(task(how)))
    (again,) = bench.execute(task(how))

    assert again.reused


def test_when_an_engine_does_not_start_the_other_runs_of_its_config_say_so_without_trying(bench: Bench) -> None:
    results = list(bench.execute(engine_task("no-start", 1), engine_task("no-start", 2), engine_task("good", 1)))

    not_tried = [r for r in results if r.evidence is None]
    assert [("did not start" in r.reason, "no room" in r.reason) for r in not_tried] == [(True, True)]
    assert bench.events.count("starting") == 2


def test_an_interrupt_keeps_what_finished_and_the_next_call_resumes(bench: Bench) -> None:
    tasks = [task(number=n) for n in (1, 2, 3)]
    begun = bench.execute(*tasks)
    next(begun)
    begun.close()  # type: ignore[attr-defined]

    assert len(list(bench.ledger.evidence())) == 1
    assert [r.reused for r in bench.execute(*tasks)].count(True) == 1
    assert len(list(bench.ledger.evidence())) == 3


def test_a_worker_killed_in_the_middle_of_a_verify_loses_that_run_only(bench: Bench) -> None:
    victims: list[int] = []

    def kill_the_first(event: str, fields: Mapping[str, Any]) -> None:
        if event == "ready":
            victims.append(int(fields["pid"]))
        if event == "observing" and victims and len(victims) == 1:
            os.killpg(victims[0], signal.SIGKILL)
            victims.append(0)

    tasks = [engine_task("a", n) for n in (1, 2, 3)]
    results = list(
        execute(
            tasks,
            bench.ledger,
            launcher=bench.launcher,
            identities=IDENTITIES,
            logs=bench.folder / "logs",
            listen=kill_the_first,
        )
    )

    assert sorted(r.evidence.ended for r in results if r.evidence) == ["died", "ok", "ok"]
    assert {r.reused for r in bench.execute(*tasks)} == {True, False}
    assert sorted(e.ended for e in bench.ledger.evidence()) == ["died", "ok", "ok", "ok"]
