"""KV memory under speculation: what is allocated for drafts, and what becomes of the rejected ones.

Question
    Drafts need KV slots before anybody knows which will be accepted. What is committed afterwards, what is given back?
Watched
    vLLM's real scheduler and block pool over a drafter whose acceptance is dictated; SGLang's real KV pool, allocator,
    radix tree and request through two rounds of verification and the request's end.
Can mislead
    vLLM keeps no list of rejected slots: it sets the computed position back, and the next step writes over them. SGLang
    moves the accepted KV together with a kernel's help; here the same pool method runs its plain PyTorch branch.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `v1/core/sched/scheduler.py` (`update_from_output`), `v1/core/kv_cache_manager.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/speculative/spec_utils.py`, `srt/mem_cache/memory_pool.py`,
    `srt/mem_cache/common.py` (`release_kv_cache`), `srt/managers/schedule_batch.py`.
"""

from __future__ import annotations

import os
from array import array
from typing import Any

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.speculation import ngram

DICTATED = "The null executor also plays the drafter: drafts are made up, and how many are accepted is dictated."


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "steps": "engine steps that made the output",
        "scheduled_tokens": "distinct numbers of tokens that a decode step scheduled",
        "committed_by_step": "distinct numbers of tokens that a step with drafts committed",
        "computed_is_committed": "whether after each step the computed position stood at the last committed token",
        "slots_cover_committed": "whether the request's blocks always held all its committed tokens",
        "scheduled_ahead": "most tokens by which a step ran past what was committed after it",
        "draft_tokens": "draft tokens counted by the engine",
        "accepted_tokens": "accepted draft tokens counted by the engine",
        "free_blocks_before": "free blocks before the request",
        "free_blocks_after": "free blocks after it",
    },
    config=lambda p: {**vllm_engine.roomy(16), "speculative_config": ngram(p["width"])},
    covers=(
        "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        "vllm.v1.core.sched.scheduler:Scheduler.update_draft_token_ids",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",
    ),
)
def vllm_rollback(
    run: Run,
    *,
    accepted: int,
    width: int = 5,  # noqa: ARG001 - set in the engine's config
    max_tokens: int = 40,
) -> Observations:
    """Decode with drafts of which a dictated number is accepted; watch position and blocks after every step."""
    run.modifications += [DICTATED, vllm_engine.WATCHED]
    engine = run.engine
    engine.llm.llm_engine.model_executor.accepted_drafts = accepted
    engine.flush()
    free, before = engine.block_pool.get_num_free_blocks(), engine.counters()
    with vllm_engine.Plans(engine.scheduler) as plans:
        watch = _Watch(engine, plans)
        engine.generate([Request(random_tokens(100, seed=1), max_tokens=max_tokens)], on_step=watch)
    after = engine.counters()
    if not watch.committed:
        raise Inconclusive("no step verified a draft")
    return {
        "steps": watch.steps,
        "scheduled_tokens": sorted(watch.scheduled),
        "committed_by_step": sorted(watch.committed),
        "computed_is_committed": watch.rolled_back,
        "slots_cover_committed": watch.covered,
        "scheduled_ahead": watch.ahead,
        "draft_tokens": after["spec_decode_num_draft_tokens"] - before["spec_decode_num_draft_tokens"],
        "accepted_tokens": after["spec_decode_num_accepted_tokens"] - before["spec_decode_num_accepted_tokens"],
        "free_blocks_before": free,
        "free_blocks_after": engine.block_pool.get_num_free_blocks(),
    }


class _Watch:
    """The one running request's position and blocks, read after each step that left it running."""

    def __init__(self, engine: Any, plans: vllm_engine.Plans) -> None:
        self.engine, self.plans = engine, plans
        self.steps, self.known, self.ahead = 0, 0, 0
        self.scheduled: set[int] = set()
        self.committed: set[int] = set()
        self.rolled_back = self.covered = True

    def __call__(self) -> None:
        self.steps += 1
        for request in self.engine.scheduler.running:
            if self.plans.last.scheduled_spec_decode_tokens:
                planned = self.plans.last.total_num_scheduled_tokens
                self.scheduled.add(planned)
                self.committed.add(request.num_tokens - self.known)
                self.ahead = max(self.ahead, planned - (request.num_tokens - self.known))
            self.known = request.num_tokens
            self.rolled_back &= request.num_computed_tokens == request.num_tokens - 1
            blocks = self.engine.scheduler.kv_cache_manager.get_blocks(request.request_id).blocks[0]
            self.covered &= 16 * len(blocks) >= request.num_computed_tokens


SLOTS, PROMPT = 64, 10


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "accepted_kv": "marks of the KV at the committed positions behind the prompt, in order",
        "accepted_marks": "marks that the accepted nodes of the draft trees had written",
        "committed_tokens": "tokens committed at the request's end",
        "allocated_tokens": "slots allocated for it then",
        "free_before": "free slots before the request",
        "free_running": "free slots just before its end",
        "free_after": "free slots after it",
        "cached_after": "its tokens that the radix tree holds after it",
    },
    covers=(
        "sglang.srt.mem_cache.memory_pool:MHATokenToKVPool.move_kv_cache",
        "sglang.srt.mem_cache.common:release_kv_cache",
        "sglang.srt.mem_cache.radix_cache:RadixCache.cache_finished_req",
    ),
)
def sglang_rollback(run: Run, *, width: int = 8) -> Observations:
    """Verify two draft trees, keep the accepted path's KV, end the request, and account for every slot."""
    os.environ["SGLANG_NATIVE_MOVE_KV_CACHE"] = "1"
    run.modifications += [
        "SGLANG_NATIVE_MOVE_KV_CACHE=1: the pool moves KV in PyTorch instead of a Triton kernel.",
        "The pools stand alone: the rounds of verification and their accepted paths are given by the probe.",
    ]
    pool, allocator, rows, tree = _pools()
    request = _request(rows)
    free_before = allocator.available_size()
    slots = allocator.alloc(PROMPT)
    rows.write((request.req_pool_idx, slice(0, PROMPT)), slots.int())
    committed = allocated = PROMPT
    marks: list[float] = []
    for path in ([0, 2, 5], [0]):  # accepted nodes of a tree of `width`; the first is the last committed token
        need = max(0, committed + width - allocated)
        if need:
            extra = allocator.alloc(need)
            rows.write((request.req_pool_idx, slice(allocated, allocated + need)), extra.int())
            allocated += need
        nodes = rows.req_to_token[request.req_pool_idx, committed : committed + width].long()
        for layer in (*pool.k_buffer, *pool.v_buffer):
            layer[nodes] = nodes.float().view(-1, 1, 1) + 0.5 * committed
        marks += [float(nodes[node]) + 0.5 * committed for node in path]
        pool.move_kv_cache(nodes[: len(path)], nodes[path])
        committed += len(path)
    kept = rows.req_to_token[request.req_pool_idx, PROMPT:committed].long()
    found = [float(mark) for mark in pool.k_buffer[0][kept, 0, 0]]
    settle(request, committed, allocated)
    free_running = allocator.available_size()
    from sglang.srt.mem_cache.common import release_kv_cache

    release_kv_cache(request, tree)
    return {
        "accepted_kv": found,
        "accepted_marks": marks,
        "committed_tokens": committed,
        "allocated_tokens": allocated,
        "free_before": free_before,
        "free_running": free_running,
        "free_after": allocator.available_size(),
        "cached_after": tree.evictable_size(),
    }


def _pools() -> tuple[Any, Any, Any, Any]:
    """(KV pool, its allocator, the requests' slot table, a radix tree over them), all on the CPU."""
    sglang_engine.prepare()
    import torch
    from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
    from sglang.srt.mem_cache.radix_cache import RadixCache
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    arguments = ServerArgs(model_path="dummy", device="cpu", skip_tokenizer_init=True, page_size=1)
    arguments.speculative_algorithm = "NGRAM"  # set afterwards: 0.5.15.post1 refuses it for a CPU
    set_global_server_args_for_scheduler(arguments)
    pool = MHATokenToKVPool(
        SLOTS, page_size=1, dtype=torch.float32, head_num=1, head_dim=4, layer_num=2, device="cpu",
        enable_memory_saver=False, enable_alt_stream=False,
    )  # fmt: skip
    allocator = TokenToKVPoolAllocator(SLOTS, torch.float32, "cpu", pool, need_sort=False)
    rows = ReqToTokenPool(4, SLOTS, "cpu", enable_memory_saver=False)
    tree = RadixCache.create_simulated(mock_allocator=allocator, page_size=1)
    tree.req_to_token_pool = rows
    return pool, allocator, rows, tree


def _request(rows: Any) -> Any:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    prompt = array("q", random_tokens(PROMPT, seed=1))
    request = Req("r", "", prompt, SamplingParams(max_new_tokens=8, temperature=0))
    request.output_ids.extend(random_tokens(8, seed=2))
    rows.alloc([request])
    return request


def settle(request: Any, committed: int, allocated: int) -> None:
    """Tell the request how far its KV goes; 0.5.16 keeps the allocated length in an object of its own."""
    request.kv_committed_len = committed
    if hasattr(request, "kv_allocated_len"):
        request.kv_allocated_len = allocated
        return
    from sglang.srt.managers.schedule_batch import ReqKvInfo

    request.kv = ReqKvInfo(kv_allocated_len=allocated, swa_evicted_seqlen=0)
