"""Carry out tasks: reuse evidence that is up to date, run the rest in workers, record everything that ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from inferproof.runners.evidence import FORMAT, Evidence, Task
from inferproof.runners.host import host_facts
from inferproof.runners.ledger import Ledger
from inferproof.runners.worker import Launch, Listener, Outcome, Worker, silent

Launcher = Callable[[str, Path], Launch]
"""Build name and log file -> how to start its worker."""

Recorder = Callable[[Mapping[str, Any]], Evidence]
"""Keeps the body of a record."""


@dataclass(frozen=True)
class Result:
    """What became of one task."""

    task: Task
    evidence: Evidence | None
    """None where nothing ran."""
    reused: bool = False
    reason: str = ""
    """Why nothing ran."""


class Executor(Protocol):
    """Where tasks run, if not here."""

    def known(self, tasks: Sequence[Task], ledger: Ledger) -> dict[str, Evidence]:
        """Task key -> settled evidence that is there already."""

    def run(self, tasks: Sequence[Task], ledger: Ledger, listen: Listener) -> Iterator[Result]:
        """Yield a result a task as each becomes known; what was yielded is recorded."""


def up_to_date(tasks: Sequence[Task], ledger: Ledger) -> dict[str, Evidence]:
    """Task key -> settled evidence that is there already."""
    found = {task.key: ledger.newest(task.key) for task in tasks}
    return {key: evidence for key, evidence in found.items() if evidence is not None}


def execute(
    tasks: Sequence[Task],
    ledger: Ledger,
    *,
    launcher: Launcher,
    identities: Mapping[str, Mapping[str, Any]],
    logs: Path,
    rerun: bool = False,
    listen: Listener = silent,
    executor: Executor | None = None,
) -> Iterator[Result]:
    """Yield a result a task as each becomes known; what was yielded is recorded. Equal tasks run once.

    executor  runs them elsewhere; None: here, in workers of the launcher.

    Closing the iterator (or an interrupt) kills the running worker's group; nothing recorded is lost.
    """
    unique = list({task.key: task for task in tasks}.values())
    known = {} if rerun else (executor.known if executor else up_to_date)(unique, ledger)
    for task in unique:
        if task.key in known:
            yield Result(task, known[task.key], reused=True)
    order = {task.build: i for i, task in reversed(list(enumerate(unique)))}
    wanted = sorted(
        (t for t in unique if t.key not in known), key=lambda t: (order[t.build], t.session, t.probe, t.key)
    )
    if executor is not None:
        yield from executor.run(wanted, ledger, listen)
        return
    for build, group in groupby(wanted, key=lambda t: t.build):
        yield from run_build(build, list(group), ledger.add_evidence, launcher, identities[build], logs, listen)


def run_build(
    build: str,
    tasks: Sequence[Task],
    record: Recorder,
    launcher: Launcher,
    identity: Mapping[str, Any],
    logs: Path,
    listen: Listener,
) -> Iterator[Result]:
    """Run tasks of one build, those of a session after each other, in one worker as long as it lives."""
    worker: Worker | None = None
    no_start: dict[str, str] = {}
    """Sessions whose engine did not start, with the reason."""
    try:
        for number, task in enumerate(tasks):
            if task.session in no_start:
                yield Result(task, None, reason=f"its engine did not start: {no_start[task.session]}")
                continue
            if worker is None or not worker.alive:
                if worker is not None:
                    worker.kill()
                listen("worker", {"build": build})
                worker = Worker(launcher(build, log_file(logs, build)))
            listen("task", {"task": task, "number": number, "of": len(tasks)})
            started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
            begun: list[str] = []
            outcome = worker.run(task.key[:12], task, _noting(begun, listen))
            evidence = record(record_of(task, outcome, identity, started_at, worker.launch.log.name))
            if not evidence.settled and "observing" not in begun and task.config is not None:
                no_start[task.session] = evidence.reason
            yield Result(task, evidence)
    except BaseException:  # an interrupt, a closed iterator: the worker's group goes at once
        if worker is not None:
            worker.kill()
        raise
    if worker is not None:
        worker.stop()


def _noting(begun: list[str], listen: Listener) -> Listener:
    def note(event: str, fields: Mapping[str, Any]) -> None:
        begun.append(event)
        listen(event, fields)

    return note


def log_file(logs: Path, build: str) -> Path:
    """Where a new worker of the build writes what its engine prints."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return logs / f"{build}-{now}-{os.getpid()}.log"


def record_of(task: Task, outcome: Outcome, identity: Mapping[str, Any], started_at: str, log: str) -> dict[str, Any]:
    """The body of the evidence record of one run."""
    from dataclasses import asdict

    inputs = {k: v for k, v in asdict(task).items() if k != "timeout_s"}
    return {
        "format": FORMAT,
        "key": task.key,
        "task": inputs,
        "build": dict(identity),
        "host": host_facts(),
        "started_at": started_at,
        "seconds": outcome.seconds,
        "engine_start_s": outcome.engine_start_s,
        "ended": outcome.ended,
        "reason": outcome.reason,
        "observations": outcome.observations or {},
        "samples": outcome.samples or {},
        "flags": outcome.flags or {},
        "modifications": list(outcome.modifications),
        "log": log,
    }
