"""A KV pool too small for its load: who is thrown out, what that costs, and what it changes.

Question
    When running requests outgrow the KV pool, what does the engine do, what work is repeated, and does the engine
    become more cautious afterwards?
Watched
    vLLM: the plans that its scheduler returns (whom it preempts, whom it resumes and from where), its queues and its
    pool after each step, and its counters.
    SGLang: its cumulative retraction counters and the gauge beside them (after the run, and read all the while from
    the files that its processes write their metrics to), each request's own count of retractions, and
    its log: the line of a retraction with the new-token ratio before and after, and one line for each prefill batch and
    each tenth decode batch with running and queued requests.
Can mislead
    vLLM 0.25.1 and 0.26.0 count a prefix-cache query at every attempt to admit the blocked head of the queue; 0.27.1
    counts admitted requests only. A hit rate taken under pressure means different things on the two sides.
    A resumed request's own `num_cached_tokens` stays what it was at its first admission.
    The load is built to overflow: lengths are fixed, EOS is ignored, all requests arrive at once. With few
    requests a single chunk more or less decides whether the pool overflows at all, so the counts belong to exactly
    these parameters.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `v1/core/sched/scheduler.py` (`schedule`, `_preempt_request`).
    SGLang 0.5.15.post1 and 0.5.16: `srt/managers/scheduler.py` (`update_running_batch`),
    `srt/managers/schedule_batch.py` (`retract_decode`), `srt/managers/scheduler_components/metrics_reporter.py`,
    `srt/observability/metrics_collector.py`.
"""

from __future__ import annotations

import re
import threading
from itertools import pairwise
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Completion, Inconclusive, Observations, Request, Run, probe, random_tokens


def _vllm_config(p: dict[str, Any]) -> dict[str, Any]:
    blocks = p["pool_tokens"] // p["block_size"]
    return {
        "block_size": p["block_size"],
        "num_gpu_blocks_override": blocks,
        # Block 0 is never used, and releases after 0.27 refuse a length that the other blocks cannot hold.
        "max_model_len": min((blocks - 1) * p["block_size"], 8192),
        "max_num_batched_tokens": p["token_budget"],
        "enable_prefix_caching": p["prefix_caching"],
    }


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes={
        "pool_tokens": "tokens that the KV pool holds, the null block included, as the engine reports",
        "usable_tokens": "tokens of the blocks that are free when nothing runs",
        "demanded_tokens": "prompt and output tokens of all requests together",
        "pool_filled": "whether at some step fewer blocks were free than requests ran: not each could have another",
        "finished": "requests that came back with all their output tokens",
        "output_tokens": "output tokens of each request, in order",
        "preemptions": "growth of the counter num_preemptions",
        "victims": "preempted requests by their number, in order of preemption",
        "victim_steps": "scheduler step (from 1) of each preemption",
        "victims_were_last": "whether each victim was the last in the running queue; null without a preemption",
        "resume_steps": "scheduler step at which each of them ran again",
        "resumed_computed_tokens": "computed tokens that each found in the prefix cache when it ran again",
        "steps": "scheduler steps",
        "max_running": "most requests in the running queue",
        "max_waiting": "most requests waiting",
        "prefilled_tokens": "prompt tokens computed, and tokens computed again after a preemption",
        "repeated_prefill_tokens": "tokens computed again at positions that had been computed before a preemption",
        "queried_tokens": "growth of the counter prefix_cache_queries (tokens)",
        "hit_tokens": "growth of the counter prefix_cache_hits (tokens)",
        "free_blocks_before": "free blocks before the run",
        "free_blocks_after": "free blocks after it",
    },
    config=_vllm_config,
    covers=(
        "vllm.v1.core.sched.scheduler:Scheduler.schedule",
        "vllm.v1.core.sched.scheduler:Scheduler._preempt_request",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",
        "vllm.v1.core.block_pool:BlockPool.get_new_blocks",
    ),
)
def vllm_overcommit(
    run: Run,
    *,
    pool_tokens: int = 4096,  # noqa: ARG001 - set in the engine's config
    block_size: int = 16,
    requests: int = 8,
    prompt_tokens: int = 1024,
    max_tokens: int = 512,
    token_budget: int = 8192,  # noqa: ARG001 - set in the engine's config
    prefix_caching: bool = True,  # noqa: ARG001 - set in the engine's config
) -> Observations:
    """Submit more than the pool can hold and see whom vLLM preempts, and what running it again costs."""
    engine = run.engine
    run.modifications.append(vllm_engine.WATCHED)
    before, free_before = engine.counters(), engine.block_pool.get_num_free_blocks()
    load = [Request(random_tokens(prompt_tokens, seed=i), max_tokens) for i in range(requests)]
    with vllm_engine.Plans(engine.scheduler) as plans:
        watch = _Watch(engine, plans, prompt_tokens)
        done: list[Completion] = engine.generate(load, on_step=watch.see)
    after, free_after = engine.counters(), engine.block_pool.get_num_free_blocks()
    usable = free_before * block_size
    demanded = requests * (prompt_tokens + max_tokens)
    filled = any(free < running for free, running in zip(watch.free_blocks, watch.running, strict=True))
    if demanded > usable and not filled:
        raise Inconclusive(f"{demanded} tokens were demanded of {usable}, yet the pool never filled")
    run.samples.update(running=watch.running, waiting=watch.waiting, free_blocks=watch.free_blocks)
    return {
        "pool_tokens": engine.flags["num_gpu_blocks"] * block_size,
        "usable_tokens": usable,
        "demanded_tokens": demanded,
        "pool_filled": filled,
        "finished": sum(len(one.tokens) == max_tokens for one in done),
        "output_tokens": [len(one.tokens) for one in done],
        **{name: after[counter] - before[counter] for name, counter in _VLLM_COUNTERS.items()},
        "victims": [event["request"] for event in watch.preempted],
        "victim_steps": [event["step"] for event in watch.preempted],
        "victims_were_last": all(event["last"] for event in watch.preempted) if watch.preempted else None,
        "resume_steps": [event["step"] for event in watch.resumed],
        "resumed_computed_tokens": [event["computed"] for event in watch.resumed],
        "steps": len(watch.running),
        "max_running": max(watch.running),
        "max_waiting": max(watch.waiting),
        "prefilled_tokens": watch.prompt_tokens + watch.repeated_tokens,
        "repeated_prefill_tokens": watch.repeated_tokens,
        "free_blocks_before": free_before,
        "free_blocks_after": free_after,
    }


_VLLM_COUNTERS = {
    "preemptions": "num_preemptions",
    "queried_tokens": "prefix_cache_queries",
    "hit_tokens": "prefix_cache_hits",
}


class _Watch:
    """What the scheduler did, step by step, from its plans and its queues."""

    def __init__(self, engine: Any, plans: vllm_engine.Plans, prompt_length: int) -> None:
        self.engine, self.plans, self.prompt_length = engine, plans, prompt_length
        self.running: list[int] = []
        self.waiting: list[int] = []
        self.free_blocks: list[int] = []
        self.preempted: list[dict[str, Any]] = []
        self.resumed: list[dict[str, Any]] = []
        self.prompt_tokens = self.repeated_tokens = 0
        self._queue: list[str] = []  # the running queue as the last step left it, which the next plan starts from
        self._reached: dict[str, int] = {}  # request -> tokens that have ever been computed for it

    def see(self) -> None:
        plan, scheduler, step = self.plans.last, self.engine.scheduler, len(self.running) + 1
        self._preemptions(plan, step)
        cached = plan.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for request in cached.req_ids:
            if request in cached.resumed_req_ids:
                number = self.engine.index(request)
                self.resumed.append({"request": number, "step": step, "computed": computed[request]})
        computed |= {new.req_id: new.num_computed_tokens for new in plan.scheduled_new_reqs}
        for request, scheduled in plan.num_scheduled_tokens.items():
            self._computed(request, computed[request], computed[request] + scheduled)
        self._queue = [request.request_id for request in scheduler.running]
        running, waiting = scheduler.get_request_counts()
        self.running.append(running)
        self.waiting.append(waiting)
        self.free_blocks.append(self.engine.block_pool.get_num_free_blocks())

    def _preemptions(self, plan: Any, step: int) -> None:
        """Several victims of one step leave the queue from its end, one after the other."""
        victims = sorted(plan.preempted_req_ids or (), key=self._queue.index, reverse=True)
        for gone, victim in enumerate(victims, start=1):
            last = self._queue[-gone] == victim
            self.preempted.append({"request": self.engine.index(victim), "step": step, "last": last})

    def _computed(self, request: str, start: int, end: int) -> None:
        """Tokens `start` to `end` were computed: the first time as prompt or output, or again."""
        reached = self._reached.get(request, 0)
        self.repeated_tokens += max(0, min(end, reached) - start)
        self.prompt_tokens += max(0, min(end, self.prompt_length) - max(start, reached))
        self._reached[request] = max(end, reached)


_SCHEDULER = "sglang.srt.managers.scheduler:Scheduler"
_BATCH = "sglang.srt.managers.schedule_batch:ScheduleBatch"


def _sglang_config(p: dict[str, Any]) -> dict[str, Any]:
    return {
        "max_total_tokens": p["pool_tokens"],
        "chunked_prefill_size": p["chunk_tokens"],
        "enable_mixed_chunk": p["mixed_chunk"],
        "schedule_conservativeness": p["schedule_conservativeness"],
        "decode_log_interval": 10,
    }


@probe(
    engine="sglang",
    levels=("engine",),
    observes={
        "pool_tokens": "tokens that the KV pool holds, as the engine reports",
        "demanded_tokens": "prompt and output tokens of all requests together",
        "finished": "requests that came back with all their output tokens",
        "output_tokens": "output tokens of each request, in order",
        "retractions": "growth of the counter num_retracted_requests_total",
        "retracted_input_tokens": "growth of the counter num_retracted_input_tokens_total",
        "retracted_output_tokens": "growth of the counter num_retracted_output_tokens_total",
        "retracted_gauge_after": "the gauge num_retracted_reqs after the run",
        "retracted_gauge_seen": "the values that the gauge took while the requests ran, each as often as it changed",
        "retractions_seen": "the same of the counter num_retracted_requests_total, from 0 at the start of the run",
        "polls": "how often gauge and counter were read meanwhile",
        "polls_above_zero": "how many of these readings found the gauge above 0",
        "retractions_by_request": "retractions of each request, in order, from its own answer",
        "new_token_ratio_before": "new-token ratio just before the first retraction, from the log; null without one",
        "new_token_ratio_after": "new-token ratio that the first retraction set, from the log; null without one",
        "tokens_gained": "KV tokens that each retraction freed, from the log",
        "prefilled_tokens": "prompt tokens computed, over all prefill batches in the log",
        "repeated_prefill_tokens": "of these, tokens beyond each prompt once",
        "max_running": "most requests in a decode batch",
        "max_waiting": "most requests in the queue",
        "kv_usage_peak": "largest used share of the pool, 0 to 1, as the log rounds it",
    },
    config=_sglang_config,
    covers=(
        f"{_SCHEDULER}.update_running_batch",
        f"{_BATCH}.retract_decode",
        f"{_BATCH}.check_decode_mem",
        f"{_BATCH}.release_req",
        "sglang.srt.managers.scheduler_components.new_token_ratio_tracker:NewTokenRatioTracker",
        "sglang.srt.managers.schedule_policy:PrefillAdder.add_one_req",
    ),
)
def sglang_overcommit(
    run: Run,
    *,
    pool_tokens: int = 4096,  # noqa: ARG001 - set in the engine's config
    requests: int = 8,
    prompt_tokens: int = 1024,
    max_tokens: int = 512,
    chunk_tokens: int = 512,  # noqa: ARG001 - set in the engine's config
    mixed_chunk: bool = False,  # noqa: ARG001 - set in the engine's config
    schedule_conservativeness: float = 1.0,  # noqa: ARG001 - set in the engine's config
) -> Observations:
    """Submit more than the pool can hold and see whom SGLang retracts."""
    before, offset = run.engine.counters(), run.log_offset()
    load = [Request(random_tokens(prompt_tokens, seed=i), max_tokens) for i in range(requests)]
    with _Poll(run.engine) as poll:
        done: list[Completion] = run.engine.generate(load, stream=False)
    after = run.engine.counters()
    log = run.log_since(offset)
    run.samples["batches"] = batches = _batches(log)
    demanded, waiting = requests * (prompt_tokens + max_tokens), max(one["waiting"] for one in batches)
    if demanded > run.engine.flags["max_total_num_tokens"] and not waiting:
        raise Inconclusive(f"{demanded} tokens were demanded, more than the pool has, yet no request ever waited")
    prefilled = sum(one["new_tokens"] for one in batches)
    return {
        "pool_tokens": run.engine.flags["max_total_num_tokens"],
        "demanded_tokens": demanded,
        "finished": sum(len(one.tokens) == max_tokens for one in done),
        "output_tokens": [len(one.tokens) for one in done],
        **{name: int(after.get(counter, 0) - before.get(counter, 0)) for name, counter in _COUNTERS.items()},
        "retracted_gauge_after": int(after["num_retracted_reqs"]),
        "retracted_gauge_seen": _changes(poll.gauge),
        "retractions_seen": _changes([value - poll.counter[0] for value in poll.counter]),
        "polls": len(poll.gauge),
        "polls_above_zero": sum(value > 0 for value in poll.gauge),
        "retractions_by_request": [one.meta["num_retractions"] for one in done],
        **_retractions(log),
        "prefilled_tokens": prefilled,
        "repeated_prefill_tokens": prefilled - requests * prompt_tokens,
        "max_running": max(one["running"] for one in batches),
        "max_waiting": waiting,
        "kv_usage_peak": max(one["kv_usage"] for one in batches),
    }


class _Poll:
    """Gauge and counter as a scraper would see them that came by every 20 ms."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._over = engine, threading.Event()
        self._thread = threading.Thread(target=self._read)
        self.gauge: list[int] = []
        self.counter: list[int] = []

    def __enter__(self) -> _Poll:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _read(self) -> None:
        while True:
            seen = self._engine.metrics()
            self.gauge.append(int(seen.get("num_retracted_reqs", 0)))
            self.counter.append(int(seen.get("num_retracted_requests_total", 0)))
            if self._over.wait(0.02):
                return


def _changes(values: list[int]) -> list[int]:
    """The values without those that equal the one before."""
    return values[:1] + [now for before, now in pairwise(values) if now != before]


_COUNTERS = {
    "retractions": "num_retracted_requests_total",
    "retracted_input_tokens": "num_retracted_input_tokens_total",
    "retracted_output_tokens": "num_retracted_output_tokens_total",
}

_RETRACTION = re.compile(r"#new_tokens_gained: (\d+), #new_token_ratio: ([\d.]+) -> ([\d.]+)")


def _retractions(log: str) -> dict[str, Any]:
    lines = [(int(gained), float(old), float(new)) for gained, old, new in _RETRACTION.findall(log)]
    _, old, new = lines[0] if lines else (0, None, None)
    return {"new_token_ratio_before": old, "new_token_ratio_after": new, "tokens_gained": [one[0] for one in lines]}


_BATCH_LINE = re.compile(r"(Prefill|Decode) batch, (.*)")


def _batches(log: str) -> list[dict[str, Any]]:
    """One entry per batch that the log tells of, in order."""
    found = []
    for kind, line in _BATCH_LINE.findall(log):
        numbers = {name.strip(): value for name, _, value in (part.partition(": ") for part in line.split(","))}
        found.append({
            "kind": kind.lower(),
            "new_tokens": int(numbers.get("#new-token", 0)),
            "running": int(numbers["#running-req"]),
            "waiting": int(numbers["#queue-req"]),
            "kv_usage": float(numbers["token usage"]),
        })  # fmt: skip
    return found
