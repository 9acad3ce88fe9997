"""An abort between plan and commit: what becomes of the result, the KV and the step that was already launched.

Question
    A request is aborted while a step that computes it is in flight. Is the step taken back, who gets its token, when is
    the KV given back and how often, and is the request ever planned again?
Watched
    vLLM: plans in flight, the scheduler, and the block pool with its reference counts just before, just after and at
    the end, and the tokens that the caller received. SGLang: its scheduler's own trace (`scheduler_trace.py`).
Can mislead
    In vLLM the forward pass is left out (level control), and asynchronous scheduling is forced, since the CPU platform
    refuses it: what is shown is bookkeeping, not whether a kernel still reads a block that was given back
    (`in_flight_guards`). An abort reaches SGLang's scheduler as a message, some steps after the client sent it.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/sched/scheduler.py` (`finish_requests`, `update_from_output`).
    SGLang 0.5.15.post1, 0.5.16: `srt/managers/scheduler.py` (`abort_request`).
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import scheduler_trace
from inferproof.probes.core import Completion, Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.overlap import COVERS, WATCHED, Calls, held_blocks, sglang_config, vllm_config


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "in_flight_with_victim": "launched plans at the time of the abort that compute the aborted request",
        "held_blocks": "blocks that the request held just before the abort",
        "free_before": "free blocks before the two requests came",
        "free_at_abort": "free blocks just before the abort",
        "freed_at_once": "free blocks gained by the abort itself, before any further step",
        "freed_by_second": "free blocks gained by aborting it a second time",
        "still_referenced": "blocks of the aborted request whose reference count is above 0 right after the abort",
        "still_known": "whether the scheduler still knows the request after the abort",
        "told_next_plan": "whether the next plan names it among its finished requests",
        "launched_were_committed": "whether the plans in flight at the abort were still executed and committed",
        "planned_again": "later plans that compute the aborted request",
        "tokens_before": "output tokens of the request known at the abort",
        "tokens_delivered": "output tokens that the caller received of it",
        "other_tokens": "output tokens of the request beside it",
        "free_after": "free blocks at the end",
    },
    config=vllm_config,
    covers=COVERS,
)
def vllm_in_flight(
    run: Run,
    *,
    async_scheduling: bool = True,
    prompt_tokens: int = 1000,
    max_tokens: int = 40,
    after_tokens: int = 10,
) -> Observations:
    """Abort one of two running requests between two engine steps, twice."""
    engine = run.engine
    run.modifications.append(WATCHED)
    free_before = engine.block_pool.get_num_free_blocks()
    with Calls(engine) as calls:
        abort = _Abort(engine, calls, after_tokens)
        load = [Request(random_tokens(prompt_tokens + i, seed=20 + i), max_tokens) for i in range(2)]
        other, victim = engine.generate(load, on_step=abort.see)
    seen = abort.seen
    if not seen:
        raise Inconclusive(f"the request never had {after_tokens} tokens")
    if async_scheduling and not seen["in_flight_with_victim"]:
        raise Inconclusive("no step with the aborted request was in flight at the abort")
    later = calls.plans[abort.plans :]
    flying = [calls.plans.index(plan) + 1 for plan in abort.flying]
    return {
        **seen,
        "free_before": free_before,
        "told_next_plan": bool(later) and abort.victim in later[0].finished_req_ids,
        "launched_were_committed": all(number in calls.committed for number in flying),
        "planned_again": sum(abort.victim in plan.num_scheduled_tokens for plan in later),
        "tokens_delivered": len(victim.tokens),
        "other_tokens": len(other.tokens),
        "free_after": engine.block_pool.get_num_free_blocks(),
    }


class _Abort:
    """Aborts the second request once it has so many tokens, and looks at the pool around that."""

    def __init__(self, engine: Any, calls: Calls, after_tokens: int) -> None:
        self.engine, self.calls, self.after_tokens = engine, calls, after_tokens
        self.seen: dict[str, Any] = {}
        self.victim, self.plans = "", 0
        self.flying: list[Any] = []

    def see(self) -> None:
        scheduler = self.engine.scheduler
        request = next((r for r in scheduler.running if self.engine.index(r.request_id) == 1), None)
        if self.seen or request is None or request.num_output_tokens < self.after_tokens:
            return
        self.victim, self.plans, self.flying = request.request_id, len(self.calls.plans), self.calls.in_flight()
        free, blocks = self.engine.block_pool.get_num_free_blocks, held_blocks(scheduler, self.victim)
        at_abort, tokens = free(), request.num_output_tokens
        outside = self.victim.rpartition("-")[0]  # the engine core appends a suffix to the caller's id
        self.engine.llm.llm_engine.abort_request([outside])
        once = free()
        self.engine.llm.llm_engine.abort_request([outside])
        scheduler.finish_requests(self.victim, request.status)  # past the front end, which no longer knows the id
        self.seen = {
            "in_flight_with_victim": sum(self.victim in plan.num_scheduled_tokens for plan in self.flying),
            "held_blocks": len(blocks),
            "free_at_abort": at_abort,
            "freed_at_once": once - at_abort,
            "freed_by_second": free() - once,
            "still_referenced": sum(block.ref_cnt > 0 for block in blocks),
            "still_known": self.victim in scheduler.requests,
            "tokens_before": tokens,
        }


@probe(
    engine="sglang",
    levels=("engine",),
    observes={
        "finish_reason": "how the engine says that the stream ended",
        "in_flight": "batches launched and not yet committed when the scheduler was told of the abort",
        "launched_after": "batches with the request that were launched after that",
        "committed_after": "results with the request that were processed after that",
        "dropped": "of these, results of a batch whose request had already finished",
        "tokens_at_end": "output tokens known of the request at the last commit",
        "tokens_delivered": "output tokens that the caller received of it",
        "max_tokens": "output tokens that it asked for",
        "idle_slots_before": "KV slots free or evictable at the first plan plus what that plan took",
        "idle_slots_after": "KV slots free or evictable after the last commit",
    },
    config=sglang_config,
    covers=(
        "sglang.srt.managers.scheduler:Scheduler.abort_request",
        "sglang.srt.managers.scheduler:Scheduler.event_loop_overlap",
        "sglang.srt.mem_cache.common:release_kv_cache",
    ),
)
def sglang_in_flight(
    run: Run,
    *,
    overlap: bool = True,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 100,
    max_tokens: int = 400,
    after_tokens: int = 10,
) -> Observations:
    """Abort a streaming request and follow what its scheduler still plans, launches and drops for it."""
    offset = run.log_offset()
    done: Completion = run.engine.cancel(
        Request(random_tokens(prompt_tokens, seed=33), max_tokens), after_tokens=after_tokens
    )
    run.engine.counters()  # its answer comes between two iterations: the last commit is in the log by then
    calls = run.samples["calls"] = scheduler_trace.read(run.log_since(offset))
    told = next((i for i, call in enumerate(calls) if call["do"] == "abort"), None)
    if told is None or len(done.tokens) == max_tokens:
        raise Inconclusive("the request finished before the abort reached the scheduler")
    before, after = ([call["do"] for call in part] for part in (calls[:told], calls[told:]))
    commits = [call["requests"][0] for call in calls[told:] if call["do"] == "commit"]
    return {
        "finish_reason": done.meta["finish_reason"]["type"],
        "in_flight": before.count("run") - before.count("commit"),
        "launched_after": after.count("run"),
        "committed_after": len(commits),
        "dropped": sum(request["finished"] for request in commits),
        "tokens_at_end": commits[-1]["output"],
        "tokens_delivered": len(done.tokens),
        "max_tokens": max_tokens,
        "idle_slots_before": calls[0]["idle_slots"] + prompt_tokens,
        "idle_slots_after": [call["idle_slots"] for call in calls if call["do"] == "commit"][-1],
    }
