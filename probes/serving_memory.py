"""A server whose KV pool is too small for its load, and what a server said of its pool and its graphs at its start.

Question
    What does an engine do when its requests outgrow the pool, and what does that cost them?
Watched
    Eight streams that end at 1536 tokens each over a pool of 4096; the server's counters of preemptions and retractions
    before and after; in a started SGLang's log the running requests, the pool's use and the ratio of new tokens.
Can mislead
    SGLang's gauge `num_retracted_reqs` tells of the last iteration and is 0 again at the end: the counters are read.
    Where the pool was not outgrown, 0 preemptions say nothing about how the engine preempts.
Sources
    vLLM 0.27.1 (`v1/core/sched/scheduler.py`), SGLang 0.5.15.post1 (`srt/managers/scheduler.py`).
"""

from __future__ import annotations

from inferproof.probes import load
from inferproof.probes.core import Inconclusive, Observations, Run
from inferproof.probes.dialects import Ask
from inferproof.probes.server_log import batches, captures, retraction
from inferproof.probes.serving import _LOAD, begin, expect_cold, flat, keep, on_both, window

_COUNTERS = {
    "preemptions": ("num_preemptions_total", "num_retracted_requests_total"),
    "retracted_input_tokens": ("num_retracted_input_tokens_total",),
    "retracted_output_tokens": ("num_retracted_output_tokens_total",),
}
"""Observation -> the server's counter, vLLM's or SGLang's; SGLang's appear with the first retraction."""


@on_both({
    **_LOAD,
    "preemptions": "vLLM: preemptions; SGLang: retracted requests; by the server's counter",
    "retracted_input_tokens": "SGLang: prompt tokens of the retracted requests",
    "retracted_output_tokens": "SGLang: output tokens that they had",
    "gauge_after": "SGLang: the gauge num_retracted_reqs at the end; None for vLLM",
    "streaming": "most requests that had their first token and not their last, at one time",
    "running": "most running requests by SGLang's log; None where there is none",
    "kv_usage": "largest share of the pool in use, likewise",
    "ratio_before": "SGLang: ratio of new tokens before the first retraction, by its log; None without one",
    "ratio_after": "the same after it",
})  # fmt: skip
def pressure(
    run: Run, *, server: str, requests: int = 8, prompt_tokens: int = 1024, max_tokens: int = 512  # noqa: ARG001
) -> Observations:  # fmt: skip
    """All requests at once, in a pool that cannot hold them all to their end."""
    pool = run.engine.flags.get("max_total_num_tokens")
    if pool is None or pool >= requests * (prompt_tokens + max_tokens):
        raise Inconclusive(f"the pool of {pool} tokens holds all {requests} requests to their end")
    prompts = begin(run, [prompt_tokens], 1)
    run.engine.flush()
    asks = [Ask(prompts.cold(prompt_tokens), max_tokens) for _ in range(requests)]
    offset = run.log_offset()
    with window(run) as grown:
        replies = run.engine.run(load.closed_loop(run.engine.ask, asks, requests))
    keep(run, "all at once", replies)
    expect_cold(replies)
    log = run.log_since(offset) if run.engine.process else ""
    order, ratios = batches(log), retraction(log)
    return {
        **flat(replies),
        **{name: int(sum(grown.get(c, 0) for c in counters)) for name, counters in _COUNTERS.items()},
        "gauge_after": run.engine.counters().get("num_retracted_reqs"),
        "streaming": load.most_under_way(replies),
        "running": max((b["running"] for b in order), default=None),
        "kv_usage": max((b["kv_usage"] for b in order), default=None),
        "ratio_before": ratios["ratio_before"],
        "ratio_after": ratios["ratio_after"],
    }


@on_both({
    "kv_capacity": "tokens that the KV pool holds",
    "compile_s": "seconds of vLLM's first compilation; None where it did not say",
    "capture_s": "seconds that vLLM captured graphs",
    "capture_gib": "GiB that they took",
    "prefill_buckets": "sizes of prefill that SGLang captured a graph for",
    "prefill_capture_s": "seconds for them",
    "prefill_capture_gb": "GB for them",
    "decode_buckets": "batch sizes of decode that SGLang captured a graph for",
    "decode_capture_s": "seconds for them",
    "decode_capture_gb": "GB for them",
    "verify_width": "tokens a request in SGLang's graph for verification",
})  # fmt: skip
def start(run: Run, *, server: str) -> Observations:  # noqa: ARG001
    """What the server says of its pool, and its log of compiling and capturing; an attached one has no log."""
    return {
        "kv_capacity": run.engine.flags.get("max_total_num_tokens"),
        **captures(run.engine.start_log),
    }
