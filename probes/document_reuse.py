"""A retrieved document in another place of the prompt: whether its KV is found again.

Question
    A document was computed in one prompt. Is its KV used when another prompt holds the same document behind another
    preamble, in another order, or at its very start?
Watched
    The engine's own count of cached prompt tokens for each prompt, sent after the first one on an empty cache.
Can mislead
    Prompts are random token ids cut at block boundaries, so that nothing is missed for want of alignment. Only plain
    prefix caching runs; research that recomputes part of a moved document is no part of these engines.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/single_type_kv_cache_manager.py` (`find_longest_cache_hit`).
    SGLang 0.5.15.post1, 0.5.16: `srt/mem_cache/radix_cache.py` (`match_prefix`).
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens

_SEEN = {
    "first_prompt": "tokens of preamble, documents A and B, and question, in this order, as sent first",
    "cached_tokens": "by what was sent then: its tokens that came from the cache",
}


def _observe(engine: Any) -> Observations:
    sizes = {"preamble": 64, "A": 320, "B": 320, "question": 16, "other_preamble": 64, "other_question": 16}
    part = {name: random_tokens(size, seed=i) for i, (name, size) in enumerate(sizes.items(), start=1)}
    layouts = {
        "other_question": ["preamble", "A", "B", "other_question"],
        "swapped": ["preamble", "B", "A", "question"],
        "other_preamble": ["other_preamble", "A", "B", "question"],
        "no_preamble": ["A", "B", "question"],
        "second_left_out": ["preamble", "A", "other_question"],
    }
    first = Request(sum((part[name] for name in ("preamble", "A", "B", "question")), []))
    cached = {}
    for name, layout in layouts.items():
        engine.flush()
        [cold] = engine.generate([first])
        if cold.cached_tokens:
            raise Inconclusive(f"the cache was not cold: the first prompt hit {cold.cached_tokens} tokens")
        cached[name] = engine.generate([Request(sum((part[p] for p in layout), []))])[0].cached_tokens
    return {"first_prompt": [sizes[name] for name in ("preamble", "A", "B", "question")], "cached_tokens": cached}


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes=_SEEN,
    config=lambda p: vllm_engine.roomy(p["block_size"]),
    covers=(
        "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",
        "vllm.v1.core.single_type_kv_cache_manager:FullAttentionManager.find_longest_cache_hit",
    ),
)
def vllm_moved(run: Run, *, block_size: int = 16) -> Observations:  # noqa: ARG001 - set in the engine's config
    """Send a prompt with two documents, then prompts that hold them elsewhere."""
    return _observe(run.engine)


@probe(
    engine="sglang",
    levels=("engine",),
    observes=_SEEN,
    config=lambda _: {"page_size": 1, "disable_radix_cache": False},
    covers=("sglang.srt.mem_cache.radix_cache:RadixCache.match_prefix",),
)
def sglang_moved(run: Run) -> Observations:
    """Send a prompt with two documents, then prompts that hold them elsewhere."""
    return _observe(run.engine)
