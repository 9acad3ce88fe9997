"""A retrieved document in another place of the prompt: whether its KV is found again.

Question
    A document was computed in one prompt. Is its KV used when another prompt holds the same document behind another
    preamble, in another order, or at its very start? And would it be the same KV?
Watched
    The engine's own count of cached prompt tokens for each prompt, sent after the first one on an empty cache; in vLLM
    also the document's keys and values themselves, layer by layer, read from the engine's KV tensors.
Can mislead
    Prompts are random token ids cut at block boundaries, so that nothing is missed for want of alignment. Only plain
    prefix caching runs; research that recomputes part of a moved document is no part of these engines. How far the KV
    of a moved document is off depends on the model: here one of two layers with random weights, in bfloat16.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/single_type_kv_cache_manager.py` (`find_longest_cache_hit`).
    SGLang 0.5.15.post1, 0.5.16: `srt/mem_cache/radix_cache.py` (`match_prefix`).
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.cached_output import BLOCK, WEIGHTED, blocks_of, kv_tensors
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
    first = Request([token for name in ("preamble", "A", "B", "question") for token in part[name]])
    cached = {}
    for name, layout in layouts.items():
        engine.flush()
        [cold] = engine.generate([first])
        if cold.cached_tokens:
            raise Inconclusive(f"the cache was not cold: the first prompt hit {cold.cached_tokens} tokens")
        cached[name] = engine.generate([Request([token for p in layout for token in part[p]])])[0].cached_tokens
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


@probe(
    engine="vllm",
    levels=("engine",),
    observes={
        "cached_tokens": "cached tokens of each prompt: 0, or nothing was computed anew",
        "key_difference": "by prompt and layer: norm of the difference of the document's keys over that of the first",
        "value_difference": "the same for its values",
    },
    config=lambda _: {**vllm_engine.roomy(BLOCK), **WEIGHTED},
)
def vllm_moved_kv(run: Run) -> Observations:
    """Compute a document of 64 tokens behind a preamble of 32, again, behind another one of 32, and one of 48."""
    engine, document = run.engine, random_tokens(64, seed=1)
    preambles = {
        "first": random_tokens(32, seed=2),
        "again": random_tokens(32, seed=2),
        "other_preamble": random_tokens(32, seed=3),
        "moved": random_tokens(48, seed=4),
    }
    kv, cached = {}, []
    for name, preamble in preambles.items():
        engine.flush()
        before = engine.counters()["prefix_cache_hits"]
        blocks = blocks_of(engine, Request([*preamble, *document, 16], max_tokens=2))
        start = len(preamble) // BLOCK
        kv[name] = [
            _keys_and_values(layer, blocks[start : start + len(document) // BLOCK]) for layer in kv_tensors(engine)
        ]
        cached.append(int(engine.counters()["prefix_cache_hits"] - before))
    differences = {
        part: {name: [_difference(a[i], b[i]) for a, b in zip(kv["first"], kv[name], strict=True)] for name in kv}
        for i, part in enumerate(("key_difference", "value_difference"))
    }
    return {"cached_tokens": cached, **differences}


def _keys_and_values(layer: Any, blocks: list[int]) -> tuple[Any, Any]:
    """Keys and values in these blocks, in the order in which the CPU's attention backend lays them out."""
    taken = layer[blocks].float()
    count, heads, size, _ = taken.shape
    keys, values = taken.view(count, heads, 2 * size, -1).chunk(2, dim=2)
    return keys.clone(), values.clone()


def _difference(first: Any, second: Any) -> float:
    return float((first - second).norm() / first.norm())
