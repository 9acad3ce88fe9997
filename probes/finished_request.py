"""What a request gives back when it ends, and what stays cached.

Question
    When a request ends, which of its KV slots are free at once, which stay as a prefix for later requests, and who
    keeps those from being evicted?
Watched
    SGLang's real allocator, slot table, radix tree and `Req` objects: free, evictable and protected slots after each
    step of two requests with the same prompt that were computed side by side.
Can mislead
    Slots are bookkeeping here, no KV is written: scheduler and forward pass are left out, the probe takes slots and
    grows the requests in their place. A page above 1 is taken whole, as the engine's paged allocator hands it out.
    "Free" counts neither evictable nor protected slots; a new request may use free and evictable ones.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/common.py` (`release_kv_cache`), `srt/mem_cache/radix_cache.py`
    (`cache_unfinished_req`, `cache_finished_req`), `srt/mem_cache/chunk_cache.py`, `srt/mem_cache/allocator/`.
"""

from __future__ import annotations

from array import array
from typing import Any

from inferproof.probes import sglang_engine
from inferproof.probes.core import Observations, Run, probe, random_tokens
from inferproof.probes.draft_kv import settle

SLOTS, PROMPT, OUTPUT = 256, 40, 8
_TREE = "sglang.srt.mem_cache.radix_cache:RadixCache"


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "slots": "KV slots of the empty pool",
        "prefilled": "[free, evictable, protected] slots when both prompts are computed and in the tree",
        "duplicates_freed": "slots that came free when the second prompt met the first one in the tree",
        "running": "the same three counts when both requests have also generated",
        "first_ended": "the same when the first request has ended, the second still runs",
        "freed_by_end": "slots that came free at that end",
        "evicted_beside": "slots given up when everything evictable is asked for at that time",
        "prompt_hit_beside": "prompt tokens that a third request would find after that eviction",
        "both_ended": "the same three counts when the second request has ended too",
        "accounted": "whether free, evictable and protected slots add up to the pool in the end",
        "next_turn_hit": "tokens that the second request's next turn would find then",
    },
    covers=(
        f"{_TREE}.cache_finished_req",
        f"{_TREE}.cache_unfinished_req",
        "sglang.srt.mem_cache.common:release_kv_cache",
    ),
)
def sglang_release(run: Run, *, page_size: int = 1, radix_cache: bool = True) -> Observations:
    """Run two requests with one prompt of 40 tokens and 8 own output tokens each, end one, evict, end the other."""
    sglang_engine.prepare()
    run.modifications.append(
        "Allocator, slot table and tree stand alone: the probe takes slots where a scheduler would."
    )
    pools = _Pools(page_size, radix_cache)
    first, second = pools.request("a", seed=2), pools.request("b", seed=3)
    seen: Observations = {"slots": pools.counts()[0]}
    pools.prefill(first, second)
    seen["duplicates_freed"] = pools.counts()[0] - (seen["slots"] - 2 * pools.whole(PROMPT))
    seen["prefilled"] = pools.counts()
    pools.generate(first)
    pools.generate(second)
    seen["running"] = pools.counts()
    pools.end(first)
    seen["first_ended"] = pools.counts()
    seen["freed_by_end"] = seen["first_ended"][0] - seen["running"][0]
    seen["evicted_beside"] = pools.evict()
    seen["prompt_hit_beside"] = pools.hit([*first.origin_input_ids, 7])
    pools.end(second)
    seen["both_ended"] = pools.counts()
    seen["accounted"] = sum(seen["both_ended"]) == seen["slots"]
    seen["next_turn_hit"] = pools.hit([*second.origin_input_ids, *second.output_ids, 7])
    return seen


class _Pools:
    """A pool's allocator, the requests' slot table and the cache over them, all of them SGLang's own."""

    def __init__(self, page_size: int, radix_cache: bool) -> None:
        import torch
        from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator
        from sglang.srt.mem_cache.cache_init_params import CacheInitParams
        from sglang.srt.mem_cache.chunk_cache import ChunkCache
        from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
        from sglang.srt.mem_cache.radix_cache import RadixCache
        from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

        set_global_server_args_for_scheduler(
            ServerArgs(model_path="dummy", device="cpu", skip_tokenizer_init=True, page_size=page_size)
        )
        self.page_size = page_size
        self.allocator: Any = (
            TokenToKVPoolAllocator(SLOTS, torch.float32, "cpu", None, need_sort=False)
            if page_size == 1
            else PagedTokenToKVPoolAllocator(SLOTS, page_size, torch.float32, "cpu", None, need_sort=False)
        )
        self.rows: Any = ReqToTokenPool(4, SLOTS, "cpu", enable_memory_saver=False)
        parameters = CacheInitParams(not radix_cache, self.rows, self.allocator, page_size)
        self.cache: Any = (RadixCache if radix_cache else ChunkCache)(parameters)

    def whole(self, tokens: int) -> int:
        """Slots that so many tokens take in whole pages."""
        return -(-tokens // self.page_size) * self.page_size

    def counts(self) -> list[int]:
        """[free, evictable, protected] slots; without a tree nothing is evictable or protected."""
        return [self.allocator.available_size(), int(self.cache.evictable_size()), int(self.cache.protected_size())]

    def request(self, name: str, seed: int) -> Any:
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams

        request = Req(name, "", array("q", random_tokens(PROMPT, seed=1)), SamplingParams(max_new_tokens=OUTPUT))
        request.init_next_round_input(self.cache)
        self.rows.alloc([request])
        request.answer = random_tokens(OUTPUT, seed=seed)
        return request

    def prefill(self, *requests: Any) -> None:
        """Give every request slots for its whole prompt, then put each computed prompt into the tree."""
        for request in requests:
            self._take(request, 0, PROMPT)
            request.set_extend_range(0, PROMPT)
        for request in requests:
            self.cache.cache_unfinished_req(request)

    def generate(self, request: Any) -> None:
        """Let it generate 8 tokens; the last one is never fed in and has no KV."""
        self._take(request, PROMPT, PROMPT + OUTPUT - 1)
        request.output_ids.extend(request.answer)

    def end(self, request: Any) -> None:
        from sglang.srt.mem_cache.common import release_kv_cache

        release_kv_cache(request, self.cache)

    def evict(self) -> int:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        before = self.allocator.available_size()
        self.cache.evict(EvictParams(num_tokens=SLOTS))
        return int(self.allocator.available_size() - before)

    def hit(self, tokens: list[int]) -> int:
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
        from sglang.srt.mem_cache.radix_cache import RadixKey

        return len(self.cache.match_prefix(MatchPrefixParams(key=RadixKey(array("q", tokens)))).device_indices)

    def _take(self, request: Any, start: int, end: int) -> None:
        have, need = self.whole(start), self.whole(end)
        if need > have:
            self.rows.write((request.req_pool_idx, slice(have, need)), self.allocator.alloc(need - have).int())
        settle(request, end, end)
