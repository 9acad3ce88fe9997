"""Tasks on a Ray cluster: each build and engine config a Ray task, all evidence in the one ledger here.

Ray decides where a task runs, by what it demands. It never retries one: a record is taken once, and a node that dies
costs the run it was on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from inferproof.probes.core import LEVELS
from inferproof.runners import node
from inferproof.runners.attestation import AttestationError, records
from inferproof.runners.evidence import Evidence, Task
from inferproof.runners.execute import Result
from inferproof.runners.ledger import Ledger
from inferproof.runners.worker import Listener, silent

ENGINE_SLOT = "inferproof_engine"
"""Resource of a node, one an engine on CPUs that it may run at once. Where no node declares it, each has one."""
ENGINE_CPUS = 2
ENGINE_MEMORY = 4 << 30
PLAIN_MEMORY = 1 << 30
END_S = 10.0
"""How long an interrupt waits for the nodes to stop what they run."""
_TICK_S = 1.0


@dataclass
class _Group:
    """What one Ray task still owes, in order."""

    tasks: list[Task]
    demand: Mapping[str, Any]
    node: str = ""
    """The machine on which it began."""


class RayTasks:
    """Runs tasks as Ray tasks (an `execute.Executor`)."""

    def __init__(self, ray: Any, digests: Mapping[str, Collection[str]]) -> None:
        self._ray = ray
        self._remote = ray.remote(node.run)
        self._digests = digests
        """Build -> digest of each different installation of it in the cluster."""
        self._waiting: dict[Any, _Group] = {}
        """By the stream in which a Ray task sends its messages."""

    def known(self, tasks: Sequence[Task], ledger: Ledger) -> dict[str, Evidence]:
        """Task key -> settled evidence from any installation of its build in the cluster."""
        found = {}
        for task in tasks:
            for digest in sorted(self._digests.get(task.build, ())):
                if evidence := ledger.newest(replace(task, build_digest=digest).key):
                    found[task.key] = evidence
        return found

    def run(self, tasks: Sequence[Task], ledger: Ledger, listen: Listener) -> Iterator[Result]:
        """Yield a result a task as each comes back. However this ends, nothing runs on any node afterwards."""
        slot = self._engine_slot()
        done = 0
        try:
            for _, group in groupby(tasks, key=_together):
                together = list(group)
                self._submit(_Group(together, demand(together[0], slot)))
            while self._waiting:
                ready, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=_TICK_S)
                for result in self._read(ready[0], ledger, listen) if ready else self._stranded():
                    listen("task", {"task": result.task, "number": done, "of": len(tasks)})
                    done += 1
                    yield result
        finally:
            self._stop(ledger)

    def _submit(self, group: _Group) -> None:
        how = {"num_returns": "streaming", "max_retries": 0, "scheduling_strategy": "SPREAD", **group.demand}
        self._waiting[self._remote.options(**how).remote(group.tasks[0].build, list(group.tasks))] = group

    def _read(self, stream: Any, ledger: Ledger, listen: Listener, *, again: bool = True) -> Iterator[Result]:
        """Take one message of the stream. Where its node died, the run it was on is lost; the rest is sent `again`."""
        group, errors = self._waiting[stream], self._ray.exceptions
        try:
            message: node.Message = self._ray.get(next(stream))
        except StopIteration:
            del self._waiting[stream]
            yield from _without(group.tasks, f"{group.node} sent nothing for it")
        except (errors.NodeDiedError, errors.WorkerCrashedError, errors.ObjectLostError, errors.OutOfMemoryError) as e:
            del self._waiting[stream]
            lost, rest = group.tasks[:1], group.tasks[1:]
            yield from _without(lost, f"{group.node or 'its node'} died while it ran: {_first_line(e)}")
            if rest and again:
                self._submit(replace(group, tasks=rest, node=""))
        except errors.RayError as e:
            del self._waiting[stream]
            yield from _without(group.tasks, f"{group.node or 'its node'}: {_first_line(e)}")
        else:
            if message.kind == "begins":
                group.node = message.text
                listen("node", {"build": group.tasks[0].build, "node": group.node})
            else:
                yield taken(message, group.tasks.pop(0), group.node, ledger)

    def _stranded(self) -> Iterator[Result]:
        """What no node can take (any more) is not waited for."""
        nodes = [n["Resources"] for n in self._ray.nodes() if n["Alive"]]
        for stream, group in list(self._waiting.items()):
            if not group.node and not any(_offers(n, group.demand) for n in nodes):
                del self._waiting[stream]
                self._ray.cancel(stream)
                yield from _without(group.tasks, f"no node of the cluster offers {_words(group.demand)}")

    def _stop(self, ledger: Ledger) -> None:
        """Cancel what runs or waits, until the nodes have let go of it; what is done by then is recorded."""
        for stream in self._waiting:
            self._ray.cancel(stream)
        end = time.monotonic() + END_S
        while self._waiting and time.monotonic() < end:
            ready, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=_TICK_S)
            for stream in ready:
                list(self._read(stream, ledger, silent, again=False))
        self._waiting.clear()

    def _engine_slot(self) -> str:
        declared = any(ENGINE_SLOT in n["Resources"] for n in self._ray.nodes() if n["Alive"])
        undeclared: str = self._ray._raylet.IMPLICIT_RESOURCE_PREFIX  # each node has 1; Ray Serve uses it so
        return ENGINE_SLOT if declared else f"{undeclared}{ENGINE_SLOT}"


def demand(task: Task, slot: str) -> dict[str, Any]:
    """What a node must have free to run the task, as options of a Ray task; `slot` is the resource of an engine."""
    if LEVELS.index(task.level) < LEVELS.index("control"):
        return {"num_cpus": 1, "memory": PLAIN_MEMORY}
    engine = {"num_cpus": ENGINE_CPUS, "memory": ENGINE_MEMORY}
    return engine | ({"num_gpus": 1} if task.level == "cuda" else {"resources": {slot: 1}})


def _together(task: Task) -> tuple[str, str]:
    """Tasks for which this is equal run in one Ray task: those of one engine, or of one probe that shares none."""
    return task.session, task.probe if task.config is None else ""


def _offers(resources: Mapping[str, float], wanted: Mapping[str, Any]) -> bool:
    """Whether a node with these resources could take it once it is idle."""
    named = {"CPU": wanted["num_cpus"], "GPU": wanted.get("num_gpus", 0), "memory": wanted["memory"]}
    named |= {k: v for k, v in wanted.get("resources", {}).items() if k == ENGINE_SLOT}
    return all(resources.get(name, 0) >= amount for name, amount in named.items())


def _words(wanted: Mapping[str, Any]) -> str:
    gpu = f"{wanted['num_gpus']} GPU, " if "num_gpus" in wanted else ""
    slot = f", and 1 {ENGINE_SLOT}" if ENGINE_SLOT in wanted.get("resources", {}) else ""
    return f"{gpu}{wanted['num_cpus']} CPU, {wanted['memory'] >> 30} GiB of memory{slot}"


def taken(message: node.Message, task: Task, sender: str, ledger: Ledger) -> Result:
    """The record in the ledger, if it is one of this very task and matches its id."""
    if message.kind == "reason":
        return Result(task, None, reason=f"{sender}: {message.text}")
    try:
        (body,) = records([message.text.encode()], sender)
    except AttestationError as error:
        return Result(task, None, reason=str(error))
    own = replace(task, build_digest=body["task"]["build_digest"])  # the installation on that node
    if own.key != body["key"]:
        return Result(task, None, reason=f"{sender} sent a record of another task; it was not taken")
    return Result(task, ledger.add_evidence(body))


def _without(tasks: Sequence[Task], reason: str) -> list[Result]:
    return [Result(task, None, reason=reason) for task in tasks]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
