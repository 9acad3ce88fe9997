"""A worker that dies, hangs, babbles or eats memory is an outcome, never an exception, and leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import inferproof
from inferproof.runners import worker as worker_module
from inferproof.runners.evidence import Task
from inferproof.runners.worker import Launch, Worker

HERE = Path(__file__).parent


def quiet(event: str, fields: object) -> None:
    """Listen to nothing."""


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probes of the project and, beside them, the faulty ones."""
    folder = tmp_path_factory.mktemp("shelf")
    package = Path(inferproof.__file__).parent
    shutil.copytree(package / "probes", folder / "inferproof/probes", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(package / "__init__.py", folder / "inferproof/__init__.py")
    for name in ("faulty.py", "faulty_engine.py"):
        shutil.copy(HERE / name, folder / "inferproof/probes" / name)
    return folder


@pytest.fixture
def launch(shelf: Path, tmp_path: Path) -> Launch:
    return Launch(
        python=[sys.executable],
        environment={"PYTHONPATH": str(shelf), "PATH": os.defpath},
        source=None,
        version="0",
        models=tmp_path / "models",
        log=tmp_path / "worker.log",
        memory_bytes=1 << 30,
    )


@pytest.fixture
def start(launch: Launch) -> Iterator[Callable[[], Worker]]:
    workers: list[Worker] = []

    def begin() -> Worker:
        workers.append(Worker(launch))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.kill()


def task(how: str | None = None, *, timeout_s: float = 30, **params: object) -> Task:
    probe = "faulty.misbehave" if how else "faulty.echo"
    return Task(
        probe=probe,
        engine="vllm",
        level="component",
        params={"how": how} if how else params,
        build="test",
        config=None,
        probe_code="c",
        build_digest="b",
        timeout_s=timeout_s,
    )


def engine_task(mode: str, nth: int = 0) -> Task:
    return Task(
        probe="faulty.with_engine",
        engine="faulty",
        level="engine",
        params={"mode": mode, "nth": nth},
        build="test",
        config={"mode": mode},
        probe_code="c",
        build_digest="b",
    )


def group_members(group: int) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass
    return found


def test_a_run_gives_observations_and_raw_samples(start: Callable[[], Worker]) -> None:
    outcome = start().run("r1", task(number=7), quiet)

    assert (outcome.ended, outcome.observations, outcome.samples) == ("ok", {"answer": 7}, {"series": [7, 7, 7]})


@pytest.mark.parametrize(
    ("how", "ended", "reason"),
    [
        ("raise", "failed", "the engine refused"),
        ("undeclared", "failed", "surprise"),
        ("nan", "failed", "ValueError"),
        ("gate", "inconclusive", "the pool never filled"),
        ("cannot", "unavailable", "needs a GPU"),
        ("killed", "died", "SIGKILL"),
        ("exit", "died", "exit status 7"),
    ],
)
def test_how_a_run_ends_badly_is_told(start: Callable[[], Worker], how: str, ended: str, reason: str) -> None:
    outcome = start().run("r1", task(how), quiet)

    assert outcome.ended == ended
    assert reason in outcome.reason
    assert not outcome.observations


def test_what_an_engine_prints_on_stdout_is_kept_in_the_log_and_never_taken_for_a_result(
    start: Callable[[], Worker], launch: Launch
) -> None:
    outcome = start().run("r1", task("garbage"), quiet)

    assert (outcome.ended, outcome.observations) == ("ok", {"answer": 0})
    assert b'"run": "fake"' in launch.log.read_bytes()


def test_a_failed_run_leaves_its_traceback_in_the_log(start: Callable[[], Worker], launch: Launch) -> None:
    start().run("r1", task("raise"), quiet)

    assert "RuntimeError: the engine refused" in launch.log.read_text()


def test_after_a_failed_run_the_worker_serves_the_next(start: Callable[[], Worker]) -> None:
    worker = start()
    worker.run("r1", task("raise"), quiet)

    assert worker.run("r2", task(number=2), quiet).observations == {"answer": 2}


@pytest.mark.parametrize("how", ["hang", "fork-and-hang"])
def test_a_hung_run_is_killed_with_all_its_children(start: Callable[[], Worker], how: str) -> None:
    worker = start()

    outcome = worker.run("r1", task(how, timeout_s=1), quiet)

    assert outcome.ended == "timed out"
    assert group_members(worker.process.pid) == []


def test_a_run_that_eats_memory_is_killed(start: Callable[[], Worker], launch: Launch) -> None:
    worker = Worker(Launch(**{**launch.__dict__, "memory_bytes": 200 << 20}))

    outcome = worker.run("r1", task("eat-memory"), quiet)

    assert (outcome.ended, "out of memory" in outcome.reason) == ("died", True)
    assert group_members(worker.process.pid) == []


def test_memory_that_forked_processes_share_counts_once(start: Callable[[], Worker], launch: Launch) -> None:
    worker = Worker(Launch(**{**launch.__dict__, "memory_bytes": 250 << 20}))

    outcome = worker.run("r1", task("fork-and-share"), quiet)
    worker.stop()

    assert (outcome.ended, outcome.observations) == ("ok", {"answer": 6})


def test_what_an_engine_leaves_in_the_temporary_folder_goes_with_its_worker(start: Callable[[], Worker]) -> None:
    worker = start()
    outcome = worker.run("r1", task("temporary"), quiet)
    assert outcome.samples is not None
    left = Path(outcome.samples["left"])
    assert left.is_dir()

    worker.kill()

    assert not left.parent.exists()
    assert left.parent.name.startswith("ip-")


def test_a_worker_whose_pipe_carries_garbage_is_killed(start: Callable[[], Worker]) -> None:
    worker = start()

    outcome = worker.run("r1", task("babble"), quiet)

    assert (outcome.ended, "no message of ours" in outcome.reason) == ("died", True)
    assert group_members(worker.process.pid) == []


def test_a_flooded_log_ends_the_run(start: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MAX_LOG_BYTES", 8 << 20)

    outcome = start().run("r1", task("flood"), quiet)

    assert (outcome.ended, "of log" in outcome.reason) == ("died", True)


def test_runs_of_one_config_share_an_engine_and_another_config_starts_another(start: Callable[[], Worker]) -> None:
    worker = start()
    runs = [worker.run(f"r{i}", engine_task(mode, i), quiet) for i, mode in enumerate(["a", "a", "b"])]

    assert [r.observations for r in runs] == [{"number": 1}, {"number": 1}, {"number": 2}]
    assert [r.engine_start_s is None for r in runs] == [False, True, False]
    assert runs[0].modifications == ["is not an engine at all"]


@pytest.mark.parametrize(
    ("mode", "ended", "reason"), [("no-start", "failed", "no room"), ("start-dies", "died", "starting the engine")]
)
def test_an_engine_that_does_not_start_is_told_with_the_reason(
    start: Callable[[], Worker], mode: str, ended: str, reason: str
) -> None:
    outcome = start().run("r1", engine_task(mode), quiet)

    assert outcome.ended == ended
    assert reason in outcome.reason


def test_an_engine_whose_start_hangs_is_killed(start: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "ENGINE_START_TIMEOUT_S", 1.0)

    outcome = start().run("r1", engine_task("start-hangs"), quiet)

    assert (outcome.ended, "starting the engine" in outcome.reason) == ("timed out", True)


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_engine_whose_close_hangs_is_killed(
    start: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    monkeypatch.setattr(worker_module, "CLOSE_TIMEOUT_S", 0.5)
    worker = start()
    assert worker.run("r1", engine_task("close-hangs"), quiet).ended == "ok"
    wait = worker.process.wait

    def interrupt(timeout: float | None = None) -> int:
        monkeypatch.setattr(worker.process, "wait", wait)
        raise KeyboardInterrupt

    if interrupted:
        monkeypatch.setattr(worker.process, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt) if interrupted else contextlib.nullcontext():
        worker.stop()

    assert group_members(worker.process.pid) == []


def test_a_worker_killed_from_outside_is_an_outcome(start: Callable[[], Worker]) -> None:
    worker = start()

    def kill(event: str, fields: object) -> None:
        if event == "observing":
            os.killpg(worker.process.pid, signal.SIGKILL)

    assert worker.run("r1", task("hang"), kill).ended == "died"


def test_when_the_runner_is_killed_its_worker_goes_too(launch: Launch, tmp_path: Path) -> None:
    runner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"""
import sys, time
from pathlib import Path
from inferproof.runners.worker import Launch, Worker
worker = Worker(Launch(python=[sys.executable], environment={dict(launch.environment)!r}, source=None, version="0",
                       models=Path("."), log=Path({str(launch.log)!r}), memory_bytes=1 << 30))
print(worker.process.pid, flush=True)
time.sleep(600)
""",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert runner.stdout is not None
    group = int(runner.stdout.readline())
    time.sleep(0.5)
    runner.kill()
    runner.wait()
    runner.stdout.close()

    deadline = time.monotonic() + 10
    while group_members(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert group_members(group) == []
