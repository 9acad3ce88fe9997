"""The order of SGLang's work as its own scheduler does it: what it plans, launches and commits, a line each in the log.

SGLang's scheduler lives in a child process. `installed()` wraps four of its methods before that process is forked; each
call then writes one JSON line, which `read` finds again. The wrapped methods do what they did before.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

TRACED = (
    "Scheduler.get_next_batch_to_run, run_batch, process_batch_result and abort_request are wrapped: each call writes a"
    " line into the log."
)
_MARK = "scheduler-trace "


def read(log: str) -> list[dict[str, Any]]:
    """The traced calls in order.

    `do`          "plan" (a batch was chosen), "run" (its forward was launched), "commit" (its result was processed),
                  or "abort" (somebody asked for it)
    `batch`       number of the batch, from 1 in this log; a commit bears that of the batch whose result it was given
    `mode`        forward mode: EXTEND, MIXED, DECODE
    `requests`    for each request: `output` (tokens known), `seq` (length that the batch runs with), `allocated` and
                  `committed` (KV slots), `finished`; for a commit as they were before it
    `idle_slots`  KV slots that are free or could be evicted, after the call
    """
    calls = [json.loads(line.partition(_MARK)[2]) for line in log.splitlines() if _MARK in line]
    before = next((call["batch"] - 1 for call in calls if call["batch"]), 0)
    return [call | {"batch": call["batch"] - before if call["batch"] else 0} for call in calls]


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """A scheduler process forked inside writes the trace; this process has its own methods back afterwards."""
    from sglang.srt.managers.scheduler import Scheduler

    names = ("get_next_batch_to_run", "run_batch", "process_batch_result", "abort_request")
    original = {name: getattr(Scheduler, name) for name in names}
    for name, wrapper in zip(names, _Trace(original).wrappers(), strict=True):
        setattr(Scheduler, name, wrapper)
    try:
        yield
    finally:
        for name, method in original.items():
            setattr(Scheduler, name, method)


class _Trace:
    def __init__(self, original: dict[str, Callable[..., Any]]) -> None:
        self._original = original
        self._planned, self._launched = itertools.count(1), itertools.count(1)
        self._numbers: dict[int, int] = {}  # by identity of the result, which lives until it is committed

    def wrappers(self) -> tuple[Callable[..., Any], ...]:
        original = self._original

        def plan(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            made = original["get_next_batch_to_run"](scheduler, *args, **kwargs)
            batch = getattr(made, "batch_to_run", made)  # 0.5.16 wraps the batch in a plan
            if batch is not None:
                _write("plan", next(self._planned), scheduler, batch, _requests(batch))
            return made

        def run(scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
            mode, requests = batch.forward_mode.name, _requests(batch)
            result = original["run_batch"](scheduler, batch, *args, **kwargs)
            self._numbers[id(result)] = number = next(self._launched)
            _write("run", number, scheduler, batch, requests, mode)
            return result

        def commit(scheduler: Any, batch: Any, result: Any, *args: Any, **kwargs: Any) -> Any:
            requests = _requests(batch)
            original["process_batch_result"](scheduler, batch, result, *args, **kwargs)
            _write("commit", self._numbers.pop(id(result), 0), scheduler, batch, requests)

        def abort(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            _write("abort", 0, scheduler, None, [])
            return original["abort_request"](scheduler, *args, **kwargs)

        return plan, run, commit, abort


def _write(do: str, number: int, scheduler: Any, batch: Any, requests: list[dict[str, Any]], mode: str = "") -> None:
    idle = scheduler.token_to_kv_pool_allocator.available_size() + scheduler.tree_cache.evictable_size()
    mode = mode or (batch.forward_mode.name if batch is not None else "")
    entry = {"do": do, "batch": number, "mode": mode, "requests": requests, "idle_slots": int(idle)}
    print(_MARK + json.dumps(entry), flush=True)


def _requests(batch: Any) -> list[dict[str, Any]]:
    lengths = batch.seq_lens_cpu.tolist()
    return [
        {
            "output": len(request.output_ids),
            "seq": lengths[i] if i < len(lengths) else None,
            "allocated": _allocated(request),
            "committed": request.kv_committed_len,
            "finished": request.finished(),
        }
        for i, request in enumerate(batch.reqs)
    ]


def _allocated(request: Any) -> int | None:
    """KV slots that the request holds; 0.5.16 moved the length into a part of its own, absent when all are released."""
    holder = request.kv if hasattr(request, "kv") else request
    return None if holder is None else int(holder.kv_allocated_len)
