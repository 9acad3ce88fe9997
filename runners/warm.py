"""Workers that stay up between runs: what an interactive session needs to have an engine's answer at once."""

from __future__ import annotations

from datetime import UTC, datetime
from types import TracebackType

from inferproof.runners.evidence import Evidence, Task
from inferproof.runners.execute import log_file, record_of
from inferproof.runners.ledger import Ledger
from inferproof.runners.site import Site
from inferproof.runners.worker import Listener, Worker, silent


class WarmWorkers:
    """One worker a build, started when first needed; every run is recorded. Use as a context manager."""

    def __init__(self, site: Site, ledger: Ledger) -> None:
        self._site, self._ledger = site, ledger
        self._workers: dict[str, Worker] = {}

    def __enter__(self) -> WarmWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            if kind:  # an interrupt or an error: the worker's group goes at once
                worker.kill()
            else:
                worker.stop()

    def prepare(self, task: Task) -> None:
        """Start what the task will need, in the background: this returns at once."""
        self._worker(task.build).prepare(task)

    def run(self, task: Task, listen: Listener = silent) -> Evidence:
        """Run the task now, whatever evidence there is already, and record it."""
        worker = self._worker(task.build)
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        outcome = worker.run(task.key[:12], task, listen)
        identity = self._site.identities[task.build]
        return self._ledger.add_evidence(record_of(task, outcome, identity, started_at, worker.launch.log.name))

    def _worker(self, build: str) -> Worker:
        worker = self._workers.get(build)
        if worker is None or not worker.alive:
            if worker is not None:
                worker.kill()
            log = log_file(self._site.logs, build)
            worker = self._workers[build] = Worker(self._site.launch(build, log))
        return worker
