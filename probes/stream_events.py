"""What a client of a stream sees: events, the gaps between them, and how many tokens an event holds.

Question
    Is a stream event a token, and is the gap between two events the time of a decode step?
Watched
    vLLM's own collector between engine and consumer, fed by hand: what a consumer gets who fetches late, and one who
    fetches at once. `gaps` reads the times at which events reached the caller of either engine.
Can mislead
    A consumer in the engine's own process is rarely late; an HTTP client behind a detokenizer is.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/engine/output_processor.py` (`RequestOutputCollector`).
"""

from __future__ import annotations

import os
import statistics
from itertools import pairwise
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Completion, Observations, Run, probe


def gaps(stream: Completion, long: Completion, after_tokens: int) -> dict[str, float]:
    """Milliseconds: usual gap before the long prompt came, largest gap until it had its first token, its latency.

    The stream's times count from its own submission, the long prompt's from the stream's `after_tokens`-th token.
    """
    assert long.ttft_s is not None
    counts = stream.meta.get("token_counts") or range(1, len(stream.event_times_s) + 1)
    came = next(i for i, count in enumerate(counts) if count >= after_tokens)
    times = stream.event_times_s
    end = times[came] + long.ttft_s
    gap = [(b - a) * 1000 for a, b in pairwise(times)]
    # the event in whose step the prefill ended arrives together with, or just after, the long prompt's first token
    last = next((i for i, t in enumerate(times) if t >= end), len(times) - 1)
    return {
        "base_gap_ms": statistics.median(gap[1:came]),
        "gap_ms": max(gap[came : last + 1], default=0.0),
        "prefill_ms": long.ttft_s * 1000,
    }


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "put": "outputs of one token each that the engine handed over",
        "events": "outputs that the consumer got, having come late",
        "tokens_in_event": "tokens in the first of them",
        "events_when_prompt": "outputs that a consumer got who fetched each one at once",
    },
    covers=("vllm.v1.engine.output_processor:RequestOutputCollector",),
)
def vllm_merged(run: Run, *, tokens: int = 5) -> Observations:
    """Hand one-token outputs to vLLM's collector faster than the consumer fetches them."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += vllm_engine.force_cpu()
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.output_processor import RequestOutputCollector

    late, prompt = (RequestOutputCollector(RequestOutputKind.DELTA, name) for name in ("late", "prompt"))
    fetched = 0
    for token in range(tokens):
        late.put(_one_token(token))
        prompt.put(_one_token(token))
        fetched += prompt.get_nowait() is not None
    got = []
    while (output := late.get_nowait()) is not None:
        got.append(output)
    return {
        "put": tokens,
        "events": len(got),
        "tokens_in_event": len(got[0].outputs[0].token_ids),
        "events_when_prompt": fetched,
    }


def _one_token(token: int) -> Any:
    from vllm.outputs import CompletionOutput, RequestOutput

    part = CompletionOutput(index=0, text="", token_ids=[token], cumulative_logprob=None, logprobs=None)
    return RequestOutput(
        request_id="r", prompt=None, prompt_token_ids=[1], prompt_logprobs=None, outputs=[part], finished=False
    )
