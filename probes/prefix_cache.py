"""A prompt sent again: what the prefix cache gives back, and what is computed anew.

Question
    When the same prompt is sent twice, how many of its tokens come from the cache the second time?
Watched
    The engine's own count of cached prompt tokens per request, with a cold cache and a warm one. The switches are the
    negative controls: another salt, another first token, a shorter shared prefix, the cache turned off.
    vLLM's counters are read around the second send alone; for eviction and reference counts, its real pool of blocks.
Can mislead
    A warm TTFT also holds what the prefix does not pay for: scheduling, the last token's forward pass, the way
    back. On a CPU with a tiny model the two times say nothing about a GPU; the counts do not depend on either.
    vLLM hashes blocks when they are scheduled: prompts submitted together can hit each other, so sends are one by one.
    A free block in vLLM may still hold cached tokens: free means that no request refers to it.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `v1/core/kv_cache_manager.py`, `v1/core/block_pool.py`, `v1/core/kv_cache_utils.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/radix_cache.py`, `srt/managers/schedule_policy.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Completion, Inconclusive, Observations, Request, Run, probe, random_tokens


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes={
        "prompt_tokens": "tokens of each prompt",
        "cold_cached_tokens": "tokens of the first send that came from the cache",
        "warm_cached_tokens": "tokens of the second send that came from the cache",
        "recomputed_tokens": "tokens of the second send that did not come from the cache",
        "queried_tokens": "prefix_cache_queries counted by the engine over the second send alone (tokens)",
        "hit_tokens": "prefix_cache_hits counted by the engine over the second send alone (tokens)",
        "cold_ttft_ms": "time to first token of the first send, ms, median over the repeats; null at level control",
        "warm_ttft_ms": "time to first token of the second send, ms, median over the repeats; null at level control",
    },
    config=lambda p: vllm_engine.roomy(p["block_size"], prefix_caching=p["prefix_caching"]),
    covers=(
        "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",
        "vllm.v1.core.kv_cache_utils:hash_block_tokens",
        "vllm.v1.core.kv_cache_utils:generate_block_hash_extra_keys",
        "vllm.v1.core.single_type_kv_cache_manager:FullAttentionManager.find_longest_cache_hit",
    ),
)
def vllm_repeat_prompt(
    run: Run,
    *,
    prompt_tokens: int = 2080,
    block_size: int = 16,  # noqa: ARG001 - set in the engine's config
    shared_tokens: int | None = None,
    same_salt: bool = True,
    change_first_token: bool = False,
    prefix_caching: bool = True,  # noqa: ARG001 - set in the engine's config
    repeats: int = 3,
) -> Observations:
    """Send a prompt and send it again; `cache_salt` is vLLM's salt."""
    first = random_tokens(prompt_tokens, seed=1)
    second = _second_prompt(first, shared_tokens, change_first_token)
    run.engine.generate([Request(random_tokens(prompt_tokens, seed=2))])  # first-use costs fall on this one
    cold: list[Completion] = []
    warm: list[Completion] = []
    counted: list[tuple[float, float]] = []
    for _ in range(repeats):
        run.engine.flush()
        cold += run.engine.generate([Request(first)])
        before = run.engine.counters()
        warm += run.engine.generate([Request(second, salt=None if same_salt else "b")])
        after = run.engine.counters()
        counted.append(tuple(after[name] - before[name] for name in ("prefix_cache_queries", "prefix_cache_hits")))
    run.samples["cold_ttft_ms"], run.samples["warm_ttft_ms"] = _ttfts_ms(cold), _ttfts_ms(warm)
    if any(one.cached_tokens for one in cold):
        raise Inconclusive(f"the cache was not cold: the first send hit {[one.cached_tokens for one in cold]} tokens")
    hits = [one.cached_tokens for one in warm]
    if len(set(hits)) > 1 or len(set(counted)) > 1:
        raise Inconclusive(f"the repeats disagree: the second send hit {hits} tokens and counted {counted}")
    return {
        "prompt_tokens": len(second),
        "cold_cached_tokens": cold[0].cached_tokens,
        "warm_cached_tokens": hits[0],
        "recomputed_tokens": len(second) - hits[0],
        "queried_tokens": counted[0][0],
        "hit_tokens": counted[0][1],
        "cold_ttft_ms": median(_ttfts_ms(cold)) if run.level != "control" else None,
        "warm_ttft_ms": median(_ttfts_ms(warm)) if run.level != "control" else None,
    }


def _sglang_config(p: dict[str, Any]) -> dict[str, Any]:
    return {"page_size": p["page_size"], "disable_radix_cache": not p["prefix_caching"]}


@probe(
    engine="sglang",
    levels=("engine",),
    observes={
        "prompt_tokens": "tokens of each prompt",
        "cold_cached_tokens": "tokens of the first send that came from the cache",
        "warm_cached_tokens": "tokens of the second send that came from the cache",
        "recomputed_tokens": "tokens of the second send that did not come from the cache",
        "cold_ttft_ms": "time to first token of the first send, ms, median over the repeats",
        "warm_ttft_ms": "time to first token of the second send, ms, median over the repeats",
    },
    config=_sglang_config,
    covers=(
        "sglang.srt.mem_cache.radix_cache:RadixCache.match_prefix",
        "sglang.srt.mem_cache.radix_cache:RadixCache.cache_finished_req",
        "sglang.srt.mem_cache.radix_cache:RadixKey",
        "sglang.srt.managers.schedule_batch:Req.init_next_round_input",
    ),
)
def sglang_repeat_prompt(
    run: Run,
    *,
    prompt_tokens: int = 2080,
    page_size: int = 1,  # noqa: ARG001 - set in the engine's config
    shared_tokens: int | None = None,
    same_salt: bool = True,
    change_first_token: bool = False,
    prefix_caching: bool = True,  # noqa: ARG001 - set in the engine's config
    repeats: int = 3,
) -> Observations:
    """Send a prompt and send it again; `extra_key` is SGLang's salt."""
    first = random_tokens(prompt_tokens, seed=1)
    second = _second_prompt(first, shared_tokens, change_first_token)
    run.engine.generate([Request(random_tokens(prompt_tokens, seed=2))])  # first-use costs fall on this one
    cold: list[Completion] = []
    warm: list[Completion] = []
    for _ in range(repeats):
        run.engine.flush()
        cold += run.engine.generate([Request(first, salt="a")])
        warm += run.engine.generate([Request(second, salt="a" if same_salt else "b")])
    run.samples["cold_ttft_ms"], run.samples["warm_ttft_ms"] = _ttfts_ms(cold), _ttfts_ms(warm)
    if any(one.cached_tokens for one in cold):
        raise Inconclusive(f"the cache was not cold: the first send hit {[one.cached_tokens for one in cold]} tokens")
    hits = [one.cached_tokens for one in warm]
    if len(set(hits)) > 1:
        raise Inconclusive(f"the repeats disagree: the second send hit {hits} tokens")
    return {
        "prompt_tokens": warm[0].meta["prompt_tokens"],
        "cold_cached_tokens": cold[0].cached_tokens,
        "warm_cached_tokens": hits[0],
        "recomputed_tokens": warm[0].meta["prompt_tokens"] - hits[0],
        "cold_ttft_ms": median(_ttfts_ms(cold)),
        "warm_ttft_ms": median(_ttfts_ms(warm)),
    }


def _second_prompt(first: list[int], shared_tokens: int | None, change_first_token: bool) -> list[int]:
    """`first` again; or only its first `shared_tokens`, then others; or with another first token."""
    second = list(first)
    if shared_tokens is not None:
        second[shared_tokens:] = [_other(token) for token in first[shared_tokens:]]
    if change_first_token:
        second[0] = _other(first[0])
    return second


def _other(token: int) -> int:
    return token + 1 if token < 4095 else token - 1


def _ttfts_ms(completions: list[Completion]) -> list[float]:
    return [one.ttft_s * 1000 for one in completions if one.ttft_s is not None]


BLOCK = 16
"""Tokens a block in the eviction probes, whose workloads are made for 100 usable blocks."""


def _hundred_blocks(_: dict[str, Any]) -> dict[str, Any]:
    return {"block_size": BLOCK, "num_gpu_blocks_override": 101, "max_model_len": 1600, "max_num_batched_tokens": 2048}


def _blocks(count: int, name: str) -> Request:
    return Request(random_tokens(count * BLOCK, seed=ord(name)))


def _cached_after(engine: Any, workload: Sequence[Request], last: Request) -> int:
    """Cached tokens of `last` after the workload, on an empty cache: each send changes what the next one finds."""
    engine.flush()
    for request in workload:
        engine.generate([request])
    return int(engine.generate([last])[0].cached_tokens)


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes={
        "usable_blocks": "free blocks of the empty pool",
        "cached_in_order": "A, B, C of 30 blocks each, then D of 40: cached tokens of A, B or C if sent next",
        "cached_after_reuse": "the same with A sent once more before D",
        "cached_of_large": "E of 80 blocks, then D of 40: cached tokens of E if sent next",
        "leading_blocks_kept": "the same in blocks; a hit is a prefix, so these are E's first",
        "free_blocks_after": "free blocks once all have finished, the cache being full",
    },
    config=_hundred_blocks,
    covers=(
        "vllm.v1.core.block_pool:BlockPool.get_new_blocks",
        "vllm.v1.core.block_pool:BlockPool.free_blocks",
        "vllm.v1.core.block_pool:BlockPool.touch",
        "vllm.v1.core.kv_cache_utils:FreeKVCacheBlockQueue",
        "vllm.v1.core.single_type_kv_cache_manager:SingleTypeKVCacheManager.free",
    ),
)
def vllm_lru_eviction(run: Run) -> Observations:
    """Ask 100 blocks for more than they hold and see whose are gone: the least recently used, the tail first."""
    engine = run.engine
    usable = engine.block_pool.get_num_free_blocks()
    a, b, c, d, e = _blocks(30, "A"), _blocks(30, "B"), _blocks(30, "C"), _blocks(40, "D"), _blocks(80, "E")
    named = {"A": a, "B": b, "C": c}
    in_order = {name: _cached_after(engine, [a, b, c, d], request) for name, request in named.items()}
    after_reuse = {name: _cached_after(engine, [a, b, c, a, d], request) for name, request in named.items()}
    large = _cached_after(engine, [e, d], e)
    if large >= (80 - 1) * BLOCK:
        raise Inconclusive(f"120 blocks were asked of {usable} and nothing was evicted")
    return {
        "usable_blocks": usable,
        "cached_in_order": in_order,
        "cached_after_reuse": after_reuse,
        "cached_of_large": large,
        "leading_blocks_kept": large // BLOCK,
        "free_blocks_after": engine.block_pool.get_num_free_blocks(),
    }


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes={
        "shared_blocks": "blocks that both running requests hold",
        "shared_ref_counts": "distinct reference counts of these blocks while both ran",
        "own_ref_counts": "distinct reference counts of blocks that one of them holds alone",
        "shared_blocks_evicted": "shared blocks that lost their hash while both ran",
        "referenced_cached_tokens": "cached tokens of the shared prompt after a large request ran beside its two users",
        "unreferenced_cached_tokens": "the same after that request ran when nobody used the prompt",
        "free_blocks_before": "free blocks before the requests",
        "free_blocks_running": "fewest free blocks while they ran",
        "free_blocks_after": "free blocks after them",
        "ref_counts_after": "sum of the shared blocks' reference counts after them",
    },
    config=_hundred_blocks,
    covers=(
        "vllm.v1.core.block_pool:BlockPool.get_new_blocks",
        "vllm.v1.core.block_pool:BlockPool.free_blocks",
        "vllm.v1.core.block_pool:BlockPool.touch",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",
        "vllm.v1.core.single_type_kv_cache_manager:SingleTypeKVCacheManager.add_local_computed_blocks",
    ),
)
def vllm_reference_counts(run: Run) -> Observations:
    """Run two requests over one cached prompt beside a large one that needs eviction; read the real blocks."""
    engine = run.engine
    prompt, other, large = _blocks(20, "P"), _blocks(30, "Q"), _blocks(64, "R")
    unreferenced = _cached_after(engine, [prompt, other, large], prompt)
    engine.flush()
    before = engine.block_pool.get_num_free_blocks()
    engine.generate([prompt])
    engine.generate([other])
    users = [Request([*prompt.prompt, *_blocks(1, name).prompt], max_tokens=4) for name in "XY"]
    held = _Held(engine)
    engine.generate([*users, Request(large.prompt, max_tokens=4)], on_step=held)
    after, counts_after = engine.block_pool.get_num_free_blocks(), sum(block.ref_cnt for block in held.shared)
    [again] = engine.generate([prompt])
    if not held.shared or unreferenced >= (20 - 1) * BLOCK:
        raise Inconclusive("the two requests shared no block while both ran, or the large one evicted nothing")
    return {
        "shared_blocks": len(held.shared),
        "shared_ref_counts": sorted(held.shared_counts),
        "own_ref_counts": sorted(held.own_counts),
        "shared_blocks_evicted": held.evicted,
        "referenced_cached_tokens": again.cached_tokens,
        "unreferenced_cached_tokens": unreferenced,
        "free_blocks_before": before,
        "free_blocks_running": held.least_free,
        "free_blocks_after": after,
        "ref_counts_after": counts_after,
    }


class _Held:
    """The blocks that requests 0 and 1 of a `generate` hold, read after each step in which they and a third one run."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.shared: list[Any] = []
        self.shared_counts: set[int] = set()
        self.own_counts: set[int] = set()
        self.evicted = 0
        self.least_free = engine.block_pool.get_num_free_blocks()

    def __call__(self) -> None:
        ids = [request.request_id for request in self.engine.scheduler.running]
        running = {self.engine.index(request_id): request_id for request_id in ids}
        if set(running) != {0, 1, 2}:
            return
        manager = self.engine.scheduler.kv_cache_manager
        first, second = ({block.block_id: block for block in manager.get_blocks(running[i]).blocks[0]} for i in (0, 1))
        self.shared = [first[number] for number in first.keys() & second.keys()]
        self.shared_counts |= {block.ref_cnt for block in self.shared}
        self.own_counts |= {(first | second)[number].ref_cnt for number in first.keys() ^ second.keys()}
        self.evicted = max(self.evicted, sum(block.block_hash is None for block in self.shared))
        self.least_free = min(self.least_free, self.engine.block_pool.get_num_free_blocks())
