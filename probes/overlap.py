"""Plan, execute, commit: the order in which an engine schedules a step, launches it and takes its result in.

Question
    When the next step is planned while the last one still runs, which state is only planned, which is in flight and
    which is committed, and what does the planner know of the token that is being computed?
Watched
    vLLM: calls of `Scheduler.schedule`, `Executor.execute_model` and `Scheduler.update_from_output`, in order, and the
    request's counters after each engine step. SGLang: its scheduler's own trace (`scheduler_trace.py`): batches as they
    are planned, launched and committed, and what is allocated, committed and known of the request at each moment.
Can mislead
    On a CPU a forward pass has ended when its launch returns: the ORDER is the engine's own, the time saved cannot be
    seen. vLLM's CPU platform refuses asynchronous scheduling; the adapter switches it on behind its back.
    SGLang's `kv_committed_len` grows when a decode step is planned, one step before the token is known: the
    name says "belongs to the sequence", not "shown to the user".
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/sched/scheduler.py`, `async_scheduler.py`, `v1/engine/core.py`
    (`step`, `step_with_batch_queue`).
    SGLang 0.5.15.post1, 0.5.16: `srt/managers/scheduler.py` (`event_loop_overlap`, `event_loop_normal`),
    `srt/managers/schedule_batch.py` (`prepare_for_decode`).
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import scheduler_trace, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens

_SCHEDULER = "vllm.v1.core.sched.scheduler:Scheduler"
COVERS = (
    f"{_SCHEDULER}.schedule",
    f"{_SCHEDULER}.update_from_output",
    f"{_SCHEDULER}.finish_requests",
    "vllm.v1.core.sched.async_scheduler:AsyncScheduler",
    "vllm.v1.engine.core:EngineCore.step_with_batch_queue",
    "vllm.v1.core.kv_cache_manager:KVCacheManager.free",
)
WATCHED = (
    "Scheduler.schedule and update_from_output and the executor's execute_model are wrapped to record their order."
)


def vllm_config(p: dict[str, Any]) -> dict[str, Any]:
    """An engine with room for 8192 tokens, scheduling asynchronously or not; probes of equal choice share it."""
    return vllm_engine.roomy(16) | ({"async_scheduling": True} if p["async_scheduling"] else {})


class Calls:
    """While open, the order of plans, launches and commits, each by the number of its plan."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine.llm.llm_engine
        self.scheduler, self.executor = engine.scheduler, self.engine.model_executor
        self.order: list[str] = []
        self.plans: list[Any] = []
        self.committed: list[int] = []
        self.rows_moved = 0
        """Commits at whose time the running list was no longer that of the plan."""

    def __enter__(self) -> Calls:
        self._drain()
        schedule, execute = self.scheduler.schedule, self.executor.execute_model
        commit = self.scheduler.update_from_output

        def record_plan(*args: Any, **kwargs: Any) -> Any:
            self.plans.append(schedule(*args, **kwargs))
            self.order.append(f"plan {len(self.plans)}")
            return self.plans[-1]

        def record_launch(plan: Any, *args: Any, **kwargs: Any) -> Any:
            self.order.append(f"execute {self._number(plan)}")
            return execute(plan, *args, **kwargs)

        def record_commit(plan: Any, *args: Any, **kwargs: Any) -> Any:
            self.order.append(f"commit {self._number(plan)}")
            self.committed.append(self._number(plan))
            running = [request.request_id for request in self.scheduler.running]
            self.rows_moved += running != list(plan.num_scheduled_tokens)
            return commit(plan, *args, **kwargs)

        self.scheduler.schedule, self.scheduler.update_from_output = record_plan, record_commit
        self.executor.execute_model = record_launch
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._drain()
        finally:
            del self.scheduler.schedule, self.scheduler.update_from_output, self.executor.execute_model

    def _drain(self) -> None:
        """Commit what is in flight: the last step of an asynchronous engine outlives the last request."""
        while self.engine.engine_core.engine_core.batch_queue:
            self.engine.step()

    def _number(self, plan: Any) -> int:
        return next(i for i, known in enumerate(self.plans, start=1) if known is plan)

    def in_flight(self) -> list[Any]:
        """Plans that were launched and not yet committed."""
        return [plan for i, plan in enumerate(self.plans, start=1) if i not in self.committed]


def held_blocks(scheduler: Any, request_id: str) -> list[Any]:
    """The KV blocks in a request's block table."""
    return list(scheduler.kv_cache_manager.get_blocks(request_id).blocks[0])


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "scheduler": "class of the engine's scheduler",
        "order": "the first calls in order: `plan n`, `execute n`, `commit n`, n the number of the plan",
        "plans_ahead": "most plans that were launched and not yet committed when a further one was made",
        "executed_steps": "launches that had tokens to compute",
        "steps": "launches, with those that only report finished requests",
        "own_plan": "whether every commit was given the very plan object that had been launched, in launch order",
        "first_step_tokens": "output tokens known after the first engine step",
        "computed": "computed tokens of the request after each of the first six engine steps",
        "output": "output tokens of the request after each of them",
        "placeholders": "output placeholders of the request after each of them",
        "output_tokens": "output tokens that came back",
        "most_ahead": "largest count, over all steps, of computed tokens beyond the known ones (prompt and output)",
    },
    config=vllm_config,
    covers=COVERS,
)
def vllm_schedule_trace(
    run: Run,
    *,
    async_scheduling: bool = True,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 100,
    max_tokens: int = 40,
) -> Observations:
    """Follow one request from plan to commit, step by step."""
    engine = run.engine
    run.modifications.append(WATCHED)
    states: list[tuple[int, int, int]] = []

    def see() -> None:
        for request in engine.scheduler.requests.values():
            states.append((request.num_computed_tokens, request.num_output_tokens, request.num_output_placeholders))

    with Calls(engine) as calls:
        [done] = engine.generate([Request(random_tokens(prompt_tokens, seed=11), max_tokens)], on_step=see)
    run.samples.update(order=calls.order, states=states)
    return {
        "scheduler": engine.flags["scheduler"],
        "order": calls.order[:9],
        "plans_ahead": plans_ahead(calls.order),
        "executed_steps": sum(plan.total_num_scheduled_tokens > 0 for plan in calls.plans),
        "steps": len(calls.plans),
        "own_plan": calls.committed == list(range(1, len(calls.plans) + 1)),
        "first_step_tokens": states[0][1],
        "computed": [computed for computed, _, _ in states[:6]],
        "output": [output for _, output, _ in states[:6]],
        "placeholders": [placeholders for _, _, placeholders in states[:6]],
        "output_tokens": len(done.tokens),
        "most_ahead": max(computed - prompt_tokens - output for computed, output, _ in states),
    }


def plans_ahead(order: list[str]) -> int:
    """Most steps launched and not committed at the moment a plan was made, from calls such as `plan 1`, `commit 1`."""
    waiting = most = 0
    for call in order:
        verb = call.partition(" ")[0]
        if verb == "plan":
            most = max(most, waiting)
        waiting += {"execute": 1, "commit": -1}.get(verb, 0)
    return most


def sglang_config(p: dict[str, Any]) -> dict[str, Any]:
    """An engine whose scheduler is traced, with the overlapping loop or without; probes of equal choice share it."""
    return {"disable_overlap_schedule": not p["overlap"], "trace_scheduler": True}


@probe(
    engine="sglang",
    levels=("engine",),
    observes={
        "overlap": "whether the engine runs its overlapping loop",
        "order": "the calls in order: `plan n`, `run n`, `commit n`, n the number of the batch",
        "plans_ahead": "most batches launched and not yet committed when a further one was planned",
        "forwards": "batches launched",
        "output_tokens": "output tokens that came back",
        "known_at_plan": "output tokens known of the request when each batch was planned",
        "seq_at_plan": "length with which each planned batch runs",
        "committed_at_plan": "the request's kv_committed_len when each batch was planned",
        "allocated_ge_committed": "whether kv_allocated_len was at least kv_committed_len at every call",
        "commits_of_finished": "commits of a batch whose request had already finished",
        "commits_in_order": "whether results were committed in the order of their launches",
        "idle_slots_before": "KV slots free or evictable at the first plan plus what that plan took",
        "idle_slots_after": "KV slots free or evictable after the last commit",
    },
    config=sglang_config,
    covers=(
        "sglang.srt.managers.scheduler:Scheduler.event_loop_overlap",
        "sglang.srt.managers.scheduler:Scheduler.event_loop_normal",
        "sglang.srt.managers.scheduler:Scheduler.run_batch",
        "sglang.srt.managers.schedule_batch:ScheduleBatch.prepare_for_decode",
    ),
)
def sglang_loop_trace(
    run: Run,
    *,
    overlap: bool = True,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 100,
    max_tokens: int = 6,
) -> Observations:
    """Follow one request through SGLang's event loop: planned, launched, committed."""
    offset = run.log_offset()
    [done] = run.engine.generate([Request(random_tokens(prompt_tokens, seed=31), max_tokens)])
    run.engine.counters()  # its answer comes between two iterations: the last commit is in the log by then
    calls = run.samples["calls"] = scheduler_trace.read(run.log_since(offset))
    order = [f"{call['do']} {call['batch']}" for call in calls]
    if not order:
        raise Inconclusive("the scheduler's trace is empty")
    plans, commits = ([c for c in calls if c["do"] == do] for do in ("plan", "commit"))
    one = [call["requests"][0] for call in calls]
    return {
        "overlap": not run.engine.flags["disable_overlap_schedule"],
        "order": order,
        "plans_ahead": plans_ahead([call.replace("run", "execute") for call in order]),
        "forwards": sum(call["do"] == "run" for call in calls),
        "output_tokens": len(done.tokens),
        "known_at_plan": [plan["requests"][0]["output"] for plan in plans],
        "seq_at_plan": [plan["requests"][0]["seq"] for plan in plans],
        "committed_at_plan": [plan["requests"][0]["committed"] for plan in plans],
        "allocated_ge_committed": all(r["allocated"] >= r["committed"] for r in one if r["allocated"] is not None),
        "commits_of_finished": sum(commit["requests"][0]["finished"] for commit in commits),
        "commits_in_order": [commit["batch"] for commit in commits] == list(range(1, len(commits) + 1)),
        "idle_slots_before": plans[0]["idle_slots"] + prompt_tokens,
        "idle_slots_after": commits[-1]["idle_slots"],
    }
