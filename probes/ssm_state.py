"""The recurrent state of Mamba layers: what a request holds, and what a prefix cache can do with it.

Question
    How does an SSM state differ from KV: in size, at a fork, and when a prefix is to be restored?
Watched
    SGLang's own `MambaPool` and `MambaRadixCache` (nodes, hits, slots and the states' values) and vLLM's `MambaSpec`.
Can mislead
    No model runs: states are numbers that the probe writes. The copy that the engine makes in its forward stream is
    called by hand. `extra_buffer` and int8 checkpoints change where states are kept, not that a node needs one.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/mamba_radix_cache.py`, `srt/mem_cache/memory_pool.py`,
    `srt/configs/mamba_utils.py`. vLLM 0.25.1 to 0.27.1: `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Run, probe

_QWEN3_NEXT = {"layers": 36, "heads": 32, "groups": 16, "head_dim": 128, "state_size": 128, "kernel": 4}
"""Sizes of Qwen3-Next's linear-attention layers: 32 value heads, 16 key heads, convolution over 4 tokens."""
_TINY = {"layers": 3, "heads": 2, "groups": 1, "head_dim": 32, "state_size": 32, "kernel": 4}


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "bytes_per_request": "bytes of the states of one request, all linear layers, as the pool's tensors hold them",
        "formula_bytes": "bytes by the shapes: convolution window in BF16 and recurrent state in FP32",
        "bytes_on_one_of_two_ranks": "the same on one of two tensor-parallel ranks",
        "shapes": "[layers, slots, ...] of the pool's tensors, for 4 requests and the slot for padding",
    },
    covers=("sglang.srt.mem_cache.memory_pool:MambaPool.__init__",),
)
def sglang_request(run: Run) -> Observations:  # noqa: ARG001 - every probe is given its run
    """Make a pool of 4 states in the sizes of Qwen3-Next and weigh one."""
    sglang_engine.prepare()
    from sglang.srt.mem_cache.memory_pool import MambaPool

    slots, params = 4, _params(_QWEN3_NEXT)
    pool = MambaPool(size=slots, spec_state_size=0, cache_params=params, mamba_layer_ids=params.layers, device="cpu")
    tensors = [*pool.mamba_cache.conv, pool.mamba_cache.temporal]
    sizes = _QWEN3_NEXT
    window = (sizes["heads"] * sizes["head_dim"] + 2 * sizes["groups"] * sizes["state_size"]) * (sizes["kernel"] - 1)
    recurrent = sizes["heads"] * sizes["head_dim"] * sizes["state_size"]
    return {
        "bytes_per_request": sum(t.numel() * t.element_size() for t in tensors) // (slots + 1),
        "formula_bytes": sizes["layers"] * (2 * window + 4 * recurrent),
        "bytes_on_one_of_two_ranks": _params(_QWEN3_NEXT, ranks=2).mamba_cache_per_req,
        "shapes": [list(t.shape) for t in tensors],
    }


def _params(sizes: dict[str, int], ranks: int = 1) -> Any:
    import torch
    from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape

    shape = Mamba2StateShape.create(
        tp_world_size=ranks, intermediate_size=sizes["heads"] * sizes["head_dim"], n_groups=sizes["groups"],
        num_heads=sizes["heads"], head_dim=sizes["head_dim"], state_size=sizes["state_size"],
        conv_kernel=sizes["kernel"],
    )  # fmt: skip
    dtype = Mamba2StateDType(conv=torch.bfloat16, temporal=torch.float32)
    return Mamba2CacheParams(shape=shape, layers=list(range(sizes["layers"])), dtype=dtype)


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "state_bytes_by_tokens": "bytes that one linear layer may need for a request of 1024 and of 65536 tokens",
        "kv_bytes_by_tokens": "the same for one full-attention layer of 2 KV heads of 256 in BF16",
        "state_bytes_all_checkpoints": "bytes of the linear layer at 65536 tokens if a state is kept for every block",
    },
    covers=("vllm.v1.kv_cache_interface:MambaSpec.max_memory_usage_bytes",),
)
def vllm_request(run: Run) -> Observations:
    """Ask vLLM's specs for the memory of one request, in the sizes of Qwen3-Next."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += [*vllm_engine.force_cpu(), "The specs are asked with a stand-in for the engine's config."]
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec

    def need(spec: Any, tokens: int, mode: str = "none") -> int:
        config: Any = SimpleNamespace(
            cache_config=SimpleNamespace(mamba_cache_mode=mode),
            model_config=SimpleNamespace(max_model_len=tokens),
            parallel_config=SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1),
        )
        return int(spec.max_memory_usage_bytes(config))

    shapes = ((3, 8192), (32, 128, 128))
    state: Any = MambaSpec(block_size=512, shapes=shapes, dtypes=(torch.bfloat16, torch.float32))
    kept: Any = MambaSpec(block_size=512, shapes=shapes, dtypes=(torch.bfloat16, torch.float32), mamba_cache_mode="all")
    kv: Any = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=256, dtype=torch.bfloat16)
    return {
        "state_bytes_by_tokens": [need(state, n) for n in (1024, 65536)],
        "kv_bytes_by_tokens": [need(kv, n) for n in (1024, 65536)],
        "state_bytes_all_checkpoints": need(kept, 65536, "all"),
    }


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "whole_hit_tokens": "tokens of 1..8 and a ninth that hit, with a state at 8",
        "middle_hit_tokens": "tokens of [1 2 3 4 99] that hit after that: KV of 4 is cached, a state at 4 is not",
        "nodes_after_lookup": "[tokens, states] of each node after that lookup, from the root down",
        "kv_tokens_cached": "tokens whose KV the tree holds at that time",
        "hit_tokens_with_checkpoint": "tokens of [1 2 3 4 99] that hit once a state at 4 was inserted",
        "own_slot": "whether a request that hits gets a slot of its own",
        "copied": "whether its slot then holds the cached state",
        "source_kept": "whether the cached state is unchanged after the request wrote to its own",
        "locked_states": "states that a lock on the node of 8 tokens protects",
        "locked_kv_tokens": "KV tokens that the same lock protects",
        "hit_tokens_without_state": "tokens of [1 2 3 4 99] that hit after the state at 4 was evicted",
        "kv_tokens_after_eviction": "tokens whose KV the tree still holds then",
    },
    covers=(
        "sglang.srt.mem_cache.mamba_radix_cache:MambaRadixCache.match_prefix",
        "sglang.srt.mem_cache.mamba_radix_cache:MambaRadixCache._split_node",
        "sglang.srt.mem_cache.mamba_radix_cache:MambaRadixCache.evict_mamba",
        "sglang.srt.mem_cache.memory_pool:MambaPool.copy_from",
    ),
)
def sglang_branch(run: Run) -> Observations:
    """Cache one path with a state at its end, branch off in its middle, copy a state, evict one."""
    sglang_engine.prepare()
    run.modifications.append(
        "The tree stands alone with small pools; states are written and the forward stream's copy is made by hand."
    )
    tree = _Tree()
    seen: Observations = {}
    tree.insert(range(1, 9), state=8.0)
    seen["whole_hit_tokens"] = tree.hit([*range(1, 9), 9])
    fork = [1, 2, 3, 4, 99]
    seen["middle_hit_tokens"] = tree.hit(fork)
    seen["nodes_after_lookup"] = tree.nodes()
    seen["kv_tokens_cached"] = tree.cache.total_size()[0]
    tree.insert(range(1, 5), state=4.0)
    seen["hit_tokens_with_checkpoint"] = tree.hit(fork)
    request = SimpleNamespace(mamba_pool_idx=None)
    node = tree.match(fork, request).last_device_node
    own, source = request.mamba_pool_idx.view(1), request.mamba_cow_src_index
    seen["own_slot"] = bool(own != source) and bool(source == node.mamba_value)
    tree.states.copy_from(source, own)
    seen["copied"] = tree.state(own) == 4.0
    tree.write(own, 5.0)
    seen["source_kept"] = tree.state(source) == 4.0
    tree.cache.inc_lock_ref(leaf := tree.match(range(1, 9)).last_device_node)
    seen["locked_states"], seen["locked_kv_tokens"] = tree.protected()
    tree.evict_state()  # the one at 8 is locked, so it is the one at 4
    seen["hit_tokens_without_state"] = tree.hit(fork)
    seen["kv_tokens_after_eviction"] = tree.cache.total_size()[0]
    tree.cache.dec_lock_ref(leaf)
    return seen


class _Tree:
    """A `MambaRadixCache` over small real pools, spoken to in lists of token ids."""

    def __init__(self) -> None:
        import torch
        from sglang.srt.mem_cache import mamba_radix_cache
        from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
        from sglang.srt.mem_cache.cache_init_params import CacheInitParams
        from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool

        params = _params(_TINY)
        self.requests: Any = HybridReqToTokenPool(
            size=4, mamba_size=8, mamba_spec_state_size=0, max_context_len=64, device="cpu", enable_memory_saver=False,
            cache_params=params, mamba_layer_ids=params.layers, enable_mamba_extra_buffer=False,
            enable_overlap_schedule=False,
        )  # fmt: skip
        self.states: Any = self.requests.mamba_pool
        self.kv: Any = TokenToKVPoolAllocator(64, dtype=torch.bfloat16, device="cpu", kvcache=None, need_sort=False)
        arguments = lambda: SimpleNamespace(mamba_cache_chunk_size=64)  # noqa: E731 - the function that is asked for them
        asked = "get_server_args" if hasattr(mamba_radix_cache, "get_server_args") else "get_global_server_args"
        with mock.patch.object(mamba_radix_cache, asked, arguments):
            self.cache: Any = mamba_radix_cache.MambaRadixCache(
                CacheInitParams(
                    disable=False, req_to_token_pool=self.requests, token_to_kv_pool_allocator=self.kv, page_size=1
                )
            )

    def insert(self, tokens: Sequence[int], state: float) -> None:
        from sglang.srt.mem_cache.base_prefix_cache import InsertParams

        slot = self.requests.mamba_allocator.alloc(1)
        self.write(slot, state)
        kv = self.kv.alloc(len(tokens))
        self.cache.insert(InsertParams(key=_key(tokens), value=kv, mamba_value=slot))

    def write(self, slot: Any, value: float) -> None:
        self.states.mamba_cache.temporal[:, slot] = value

    def state(self, slot: Any) -> float | None:
        """The value of the state in that slot; None if it is not the same everywhere."""
        values = self.states.mamba_cache.temporal[:, slot].unique()
        return float(values) if len(values) == 1 else None

    def match(self, tokens: Sequence[int], request: Any = None) -> Any:
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams

        return self.cache.match_prefix(MatchPrefixParams(key=_key(tokens), cow_mamba=request is not None, req=request))

    def hit(self, tokens: Sequence[int]) -> int:
        return len(self.match(tokens).device_indices)

    def nodes(self) -> list[list[int]]:
        found, waiting = [], list(self.cache.root_node.children.values())
        while waiting:
            node = waiting.pop()
            found.append([len(node.key), int(node.mamba_value is not None)])
            waiting.extend(node.children.values())
        return found

    def protected(self) -> tuple[int, int]:
        """States and KV tokens that locks protect."""
        return int(self.cache.mamba_protected_size()), int(self.cache.full_protected_size())

    def evict_state(self) -> None:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        self.cache.evict(EvictParams(num_tokens=0, mamba_num=1))


def _key(tokens: Sequence[int]) -> Any:
    from sglang.srt.mem_cache.radix_cache import RadixKey

    return RadixKey(array("q", tokens), None)
