"""A long prefill that meets a running stream: the gap that the stream's user sees, and what the newcomer waits.

Question
    Does cutting a prefill into chunks protect the tokens of those who are already being served?
Watched
    One stream; at one of its events a long prompt is sent. The stream's gaps before and while the prefill runs, the
    long prompt's time to its first token, and in the log of a started SGLang the order of batches.
Can mislead
    An event gap is what a user sees, not a decode step. Without a stream that runs until the prefill ends there is
    nothing to disturb: then the run is inconclusive.
Sources
    vLLM 0.27.1 (`v1/core/sched/scheduler.py`), SGLang 0.5.15.post1 (`srt/managers/scheduler.py`).
"""

from __future__ import annotations

import asyncio
import statistics
from itertools import pairwise

from inferproof.probes.core import Inconclusive, Observations, Run
from inferproof.probes.dialects import Ask, Reply
from inferproof.probes.load import Prompts, percentile
from inferproof.probes.server_log import batches, longest_prefill
from inferproof.probes.serving import begin, expect_cold, keep, on_both, window


@on_both({
    "gap_base_ms": "median gap between two events of the stream before the long prompt came; median of the repeats",
    "gap_max_ms": "largest gap while the prefill ran; median of the repeats",
    "prefill_ms": "the long prompt's latency at the client; median of the repeats",
    "itl_p99_base_ms": "99th percentile of the times between two tokens outside of the prefill, over all repeats",
    "itl_p99_during_ms": "the same while it ran",
    "events_during": "events of the stream while the prefill ran; median of the repeats",
    "prefill_batches": "most prefill batches in a row by the log; None where the engine or an attached one logs none",
    "repeats": "how often the pair was sent",
})  # fmt: skip
def long_prefill(
    run: Run, *, server: str, prefill_tokens: int = 7168, stream_tokens: int = 256, after_events: int = 20,  # noqa: ARG001
    repeats: int = 5,
) -> Observations:  # fmt: skip
    """Stream, send a long prompt at one of its events, and see what becomes of both."""
    prompts, offset = begin(run, [64, prefill_tokens]), run.log_offset()
    with window(run):
        pairs = [
            run.engine.run(_meet(run, prompts, prefill_tokens, stream_tokens, after_events)) for _ in range(repeats)
        ]
    order = batches(run.log_since(offset)) if run.engine.process else []
    run.samples["batches"] = [[b["kind"], b["new_tokens"]] for b in order][:1000]
    keep(run, "stream", [stream for stream, _ in pairs])
    keep(run, "long", [long for _, long in pairs])
    expect_cold([long for _, long in pairs])
    seen = [_gaps(stream, long) for stream, long in pairs]
    base, during = ([g for one in seen for g in one[i]] for i in (0, 1))
    return {
        "gap_base_ms": statistics.median(statistics.median(one[0]) for one in seen),
        "gap_max_ms": statistics.median(max(one[1]) for one in seen),
        "prefill_ms": statistics.median(long.ttft_s * 1000 for _, long in pairs),
        "itl_p99_base_ms": percentile(base, 0.99),
        "itl_p99_during_ms": percentile(during, 0.99),
        "events_during": statistics.median(len(one[1]) for one in seen),
        "prefill_batches": longest_prefill(order) if order else None,
        "repeats": repeats,
    }


async def _meet(run: Run, prompts: Prompts, prefill: int, tokens: int, after: int) -> tuple[Reply, Reply]:
    due = asyncio.Event()

    def see(events: int) -> None:
        if events >= after:
            due.set()

    stream = asyncio.ensure_future(run.engine.ask(Ask(prompts.cold(64), tokens), see))
    waiting = asyncio.ensure_future(due.wait())
    await asyncio.wait([stream, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    long = await run.engine.ask(Ask(prompts.cold(prefill), 1))
    return await stream, long


def _gaps(stream: Reply, long: Reply) -> tuple[list[float], list[float]]:
    """Gaps in milliseconds before the long prompt came, and while its prefill ran. Raises Inconclusive."""
    start, end = long.sent_at, long.sent_at + long.times_s[0]
    times = [stream.sent_at + t for t in stream.times_s]
    if times[-1] < end:
        raise Inconclusive("the stream ended before the long prefill: there was nothing to disturb")
    gaps = [(a, b, (b - a) * 1000) for a, b in pairwise(times)]
    before = [gap for _, b, gap in gaps[1:] if b <= start]
    during = [gap for a, b, gap in gaps if b > start and a < end]
    if not before:
        raise Inconclusive("the long prompt came before the stream had two gaps")
    return before, during
