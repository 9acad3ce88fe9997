"""What SGLang's host tier keeps of a prefix that the GPU gave up, and for whom.

Question
    Which prefixes can still be loaded after GPU eviction, with HiCache and without? When are they copied to the host,
    and what may be evicted while a copy is under way? Does a second server see them?
Watched
    SGLang's own `HiRadixCache` (or `RadixCache`) with its KV pool and host pool: tokens found on the GPU and on the
    host, tokens given up, and whether the KV that comes back is the KV that went.
Can mislead
    Nothing has a duration, and a copy is finished at once: it counts as under way until the scheduler has taken in its
    acknowledgement. Pages hold one token. Two instances here are two in one process, with nothing set up between them.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/hiradix_cache.py`, `srt/managers/cache_controller.py`,
    `srt/mem_cache/pool_host/base.py`.
"""

from __future__ import annotations

from inferproof.probes import hicache
from inferproof.probes.core import Inconclusive, Observations, Run, probe

_CACHE = "sglang.srt.mem_cache.hiradix_cache:HiRadixCache"
_PROMPT = list(range(100, 140))
_SLOTS = 64


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "prompt_tokens": "tokens of the prompt whose KV is in the cache, in a pool of 64",
        "host_slots": "tokens that the host pool holds; 0 without one",
        "copied_after_first": "tokens copied to the host when the prompt was served once",
        "copied_after_second": "tokens copied to the host when it was served a second time (asked for with `uses` 2)",
        "evicted_tokens": "tokens that the GPU then gives up when it must give up all it can",
        "gpu_hit_tokens": "tokens that a lookup finds on the GPU afterwards",
        "host_hit_tokens": "tokens that it finds on the host",
        "loaded_tokens": "tokens loaded back from there",
        "intact": "whether their KV, back on the GPU, equals the KV before the eviction",
        "other_instance_tokens": "tokens that a second instance, made alike, finds of the same prompt",
    },
    covers=(f"{_CACHE}.evict", f"{_CACHE}.match_prefix", f"{_CACHE}.load_back", f"{_CACHE}._inc_hit_count"),
)
def sglang_evicted_prefix(
    run: Run, *, host: bool = True, write_policy: str = "write_through", uses: int = 1, ratio: float = 2.0
) -> Observations:
    """Serve a prompt, evict all that the GPU can give up, look it up again and load it back."""
    run.modifications.append(hicache.STOOD_IN)
    with hicache.process_groups():
        settings = hicache.Settings(slots=_SLOTS, host=host, write_policy=write_policy, ratio=ratio)
        one, other = hicache.Instance(settings), hicache.Instance(settings)
        copied = []
        for use in (1, 2):
            if use <= uses:
                one.insert(_PROMPT)
            copied.append(one.host_tokens())
            one.settle()
        seen: Observations = {
            "prompt_tokens": len(_PROMPT),
            "host_slots": one.host_slots,
            "copied_after_first": copied[0],
            "copied_after_second": copied[1],
            "evicted_tokens": one.evict(_SLOTS),
        }
        seen["gpu_hit_tokens"], seen["host_hit_tokens"] = one.hit(_PROMPT)
        _scribble(one)
        seen["loaded_tokens"] = one.load(_PROMPT) if host else 0
        seen["intact"] = one.intact(_PROMPT)
        seen["other_instance_tokens"] = sum(other.hit(_PROMPT))
    return seen


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "locked_while_written": "tokens that may not be evicted while their copy to the host is not acknowledged",
        "evicted_while_written": "tokens given up at that time when all are asked for",
        "evicted_after_written": "tokens given up once the acknowledgement has been taken in",
        "locked_while_loaded": "tokens that may not be evicted while they are loaded back",
        "evicted_while_loaded": "tokens given up at that time",
        "evicted_after_loaded": "tokens given up once that has been acknowledged",
    },
    covers=(f"{_CACHE}.write_backup", f"{_CACHE}.writing_check", f"{_CACHE}.loading_check"),
)
def sglang_copy_under_way(run: Run) -> Observations:
    """Ask the GPU for memory while KV is copied to the host, and while it is copied back, and after each."""
    run.modifications.append(hicache.STOOD_IN)
    seen: Observations = {}
    with hicache.process_groups():
        one = hicache.Instance(hicache.Settings(slots=_SLOTS))
        one.insert(_PROMPT)
        for way in ("written", "loaded"):
            seen[f"locked_while_{way}"] = one.cache.protected_size()
            seen[f"evicted_while_{way}"] = one.evict(_SLOTS)
            one.settle()
            seen[f"evicted_after_{way}"] = one.evict(_SLOTS)
            if way == "written" and one.load(_PROMPT) == 0:
                raise Inconclusive("nothing was loaded back, so there was no load under way")
    return seen


def _scribble(instance: hicache.Instance) -> None:
    """Overwrite all KV on the GPU, so that only a true copy can bring the old one back."""
    for buffer in (*instance.pool.k_buffer, *instance.pool.v_buffer):
        buffer.zero_()


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "cache": "class of the prefix cache that SGLang builds; empty if it builds none",
        "failed": "why it builds none",
    },
    covers=("sglang.srt.mem_cache.registry:default_radix_cache_factory",),
)
def sglang_chosen_cache(run: Run, *, host: bool = True, lmcache: bool = True) -> Observations:
    """Let SGLang choose its prefix cache while HiCache, LMCache, both or neither are asked for."""
    run.modifications.append(hicache.STOOD_IN)
    with hicache.process_groups():
        try:
            chosen = hicache.Instance(hicache.Settings(slots=_SLOTS, host=host, lmcache=lmcache)).cache
        except (ImportError, RuntimeError) as failure:
            return {"cache": "", "failed": str(failure)}
    return {"cache": type(chosen).__name__, "failed": ""}
