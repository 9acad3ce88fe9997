"""N-gram speculation at a server, on a prompt that repeats itself and on one that does not.

Question
    How many drafts are accepted, and how much of the saved iterations reaches the user?
Watched
    Streams of a forced length, greedy, with an emptied prefix cache before each; the engine's own count of drafts and
    accepted tokens: vLLM's counters, SGLang's words about each request.
Can mislead
    `accept_rate` leaves the token out that the target adds itself, `accept_length` counts it. A model with random
    weights soon repeats itself whatever the prompt, and then both prompts are accepted alike.
Sources
    vLLM 0.27.1 (`v1/spec_decode/metrics.py`), SGLang 0.5.15.post1 (`srt/managers/tokenizer_manager.py`).
"""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from inferproof.probes.core import Inconclusive, Observations, Run
from inferproof.probes.dialects import Ask, Reply
from inferproof.probes.model import SIZES
from inferproof.probes.serving import begin, keep, on_both, window

PROMPTS = {
    "repetitive": "alpha beta gamma delta " * 32,
    "ordinary": (
        "Explain how an optimizing compiler turns source code into machine code. Cover lexical analysis, parsing, the "
        "intermediate representation, data flow analysis, register allocation and instruction scheduling, and say for "
        "each stage which information it consumes and which invariants the next stage relies on."
    ),
}


@on_both({
    "e2e_ms": "median time to the last token",
    "accept_rate": "accepted drafts of those proposed, in percent; None without speculation",
    "accept_length": "tokens committed at each verification, the target's own included",
    "verify_count": "verifications of one request",
    "repeats": "requests",
})  # fmt: skip
def ngram(
    run: Run, *, server: str, prompt: str, max_tokens: int = 256, repeats: int = 3  # noqa: ARG001
) -> Observations:  # fmt: skip
    """One of the two prompts, several times, one at a time."""
    begin(run, [64], 16)
    text = PROMPTS[prompt]
    # the tiny model has no words: each becomes the same token wherever it stands
    asked = [16 + zlib.crc32(w.encode()) % 4000 for w in text.split()] if run.engine.flags["model"] in SIZES else text
    replies = []
    with window(run) as grown:
        for _ in range(repeats):
            run.engine.flush()
            replies.append(run.engine.run(run.engine.ask(Ask(asked, max_tokens))))
    keep(run, prompt, replies)
    return {
        "e2e_ms": statistics.median(reply.e2e_s * 1000 for reply in replies),
        **_accepted(replies, grown, speculates="ngram" in run.engine.settings),
        "repeats": repeats,
    }


def _accepted(replies: Sequence[Reply], grown: Mapping[str, float], *, speculates: bool) -> dict[str, Any]:
    told = [r.meta for r in replies if "spec_verify_ct" in r.meta]
    if not speculates:
        return dict.fromkeys(("accept_rate", "accept_length", "verify_count"))
    if told:
        rate, length, count = (
            statistics.fmean(m[f"spec_{k}"] for m in told) for k in ("accept_rate", "accept_length", "verify_ct")
        )
        return {"accept_rate": 100 * rate, "accept_length": length, "verify_count": count}
    drafts = grown.get("spec_decode_num_drafts_total", 0.0)
    if not drafts:
        raise Inconclusive("the engine speculates and proposed no draft")
    accepted, proposed = (grown[f"spec_decode_num_{k}_tokens_total"] for k in ("accepted", "draft"))
    return {
        "accept_rate": 100 * accepted / proposed,
        "accept_length": 1 + accepted / drafts,
        "verify_count": drafts / len(replies),
    }
