"""SGLang's prefix cache with its host tier and its storage tier, without a model: what the cache-tier probes share.

`Instance` is one server's cache: SGLang's own `HiRadixCache`, controller, KV pool and host pool, on a CPU and with
pages of one token. What is not SGLang's is listed in `STOOD_IN`: what it would need a GPU or a C++ compiler for.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from inferproof.probes import sglang_engine

STOOD_IN = (
    "Host memory is not pinned, KV is copied between the pools by torch instead of SGLang's CUDA kernel, and pages are"
    " hashed in Python instead of its C++ (to the same names); what is copied, kept and released is SGLang's decision."
)

_LAYERS = 2


@contextlib.contextmanager
def process_groups() -> Iterator[None]:
    """The process groups of a server with one rank, which SGLang's cache asks for; gone again afterwards."""
    sglang_engine.prepare()
    from sglang.srt.distributed import parallel_state

    with tempfile.TemporaryDirectory() as folder:
        parallel_state.init_distributed_environment(
            world_size=1, rank=0, distributed_init_method=f"file://{folder}/group", local_rank=0, backend="gloo"
        )
        parallel_state.initialize_model_parallel()
        try:
            with _stand_ins():
                yield
        finally:
            parallel_state.destroy_model_parallel()
            parallel_state.destroy_distributed_environment()


def _stand_ins() -> contextlib.ExitStack:
    """What `STOOD_IN` says, until the stack is closed."""
    from sglang.srt.mem_cache.cpp_utils import native_hash
    from sglang.srt.mem_cache.pool_host import base, common

    def copy(src_layers: Any, dst_layers: Any, src_indices: Any, dst_indices: Any, **_: Any) -> None:
        for source, target in zip(src_layers, dst_layers, strict=True):
            target[dst_indices] = source[src_indices]

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(common, "_cuda_host_register", lambda _: None))
    stack.enter_context(mock.patch.object(native_hash, "_load_native_hash_module", lambda: _Hash))
    # else a machine with less than 10 GiB of free memory refuses the smallest pool
    stack.enter_context(mock.patch.object(base, "HICACHE_HOST_MEMORY_RESERVE_BYTES", 0))
    for home in ("memory_pool_host", "pool_host.mha"):  # 0.5.15 has the host pool in the first, 0.5.16 in the second
        with contextlib.suppress(ImportError):
            module = importlib.import_module(f"sglang.srt.mem_cache.{home}")
            stack.enter_context(mock.patch.object(module, "transfer_kv_direct", copy, create=True))
    return stack


class _Hash:
    """SGLang's `hash_binding.cpp`: SHA-256 of a page's tokens as 32-bit words, behind the hash of the page before."""

    @staticmethod
    def get_hash(
        tokens: Sequence[int], length: int, width: int, pairs: bool, before: bytes | None, page_size: int | None
    ) -> str | list[str]:
        if width != 1 or pairs:
            raise NotImplementedError("the probes hash pages of single tokens only")
        digest, names = before or b"", []
        for start in range(0, length, page_size or length):
            page = array("I", tokens[start : min(start + (page_size or length), length)])
            digest = hashlib.sha256(digest + page.tobytes()).digest()
            names.append(digest.hex())
        return names if page_size else names[-1]


@dataclass(frozen=True)
class Settings:
    """How a server's cache is set up."""

    slots: int = 64
    """Tokens of GPU memory."""
    host: bool = True
    ratio: float = 2.0
    """Tokens of the host tier for one of the GPU."""
    write_policy: str = "write_through"
    lmcache: bool = False
    folder: str | None = None
    """Of SGLang's file storage; None: no storage."""
    model: str = "model-a"
    prefetch_policy: str = "wait_complete"
    prefetch_threshold: int = 4
    timeout_s: float = 0.2


class Instance:
    """The prefix cache of one server; prompts are lists of token ids, each of which names its own KV."""

    def __init__(self, settings: Settings) -> None:
        import torch
        from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        size, kind = settings.slots, torch.float32
        self.pool = MHATokenToKVPool(
            size=size, page_size=1, dtype=kind, head_num=1, head_dim=4, layer_num=_LAYERS, device="cpu",
            enable_memory_saver=False,
        )  # fmt: skip
        self.slots = TokenToKVPoolAllocator(size, dtype=kind, device="cpu", kvcache=self.pool, need_sort=False)
        self.cache = _tree(settings, self.slots)
        self.host_slots = int(self.cache.token_to_kv_pool_host.size) if settings.host else 0
        if settings.folder is not None:
            extra = {"prefetch_threshold": settings.prefetch_threshold, "prefetch_timeout_base": settings.timeout_s}
            with mock.patch.dict(os.environ, {"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": settings.folder}):
                attached, why = self.cache.attach_storage_backend("file", json.dumps(extra), settings.model)
            if not attached:
                raise RuntimeError(why)

    def insert(self, prompt: Sequence[int], salt: str | None = None) -> None:
        """What a finished request leaves behind: KV in fresh slots, and its prefix in the tree."""
        import torch
        from sglang.srt.mem_cache.base_prefix_cache import InsertParams

        known = self._match(prompt, salt).device_indices
        fresh = self.slots.alloc(len(prompt) - len(known))
        for layer in range(_LAYERS):
            self.pool.k_buffer[layer][fresh] = _kv(prompt[len(known) :], layer)
            self.pool.v_buffer[layer][fresh] = -_kv(prompt[len(known) :], layer)
        self.cache.insert(InsertParams(key=_key(prompt, salt), value=torch.cat([known, fresh])))

    def hit(self, prompt: Sequence[int], salt: str | None = None) -> tuple[int, int]:
        """Tokens of the prompt that a lookup finds: on the GPU, and after them on the host."""
        found = self._match(prompt, salt)
        return len(found.device_indices), int(found.host_hit_length)

    def evict(self, tokens: int) -> int:
        """Ask for this many tokens of GPU memory; the number that is given up."""
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        return int(self.cache.evict(EvictParams(num_tokens=tokens)).num_tokens_evicted)

    def host_tokens(self) -> int:
        """Tokens for which the host tier holds memory, whether or not the GPU holds them too."""
        return int(self.host_slots - self.cache.token_to_kv_pool_host.available_size()) if self.host_slots else 0

    def load(self, prompt: Sequence[int], salt: str | None = None) -> int:
        """Load what the host has of the prompt; tokens for which GPU memory was taken. Settled by `settle`."""
        from sglang.srt.mem_cache.base_prefix_cache import InitLoadBackParams

        found = self._match(prompt, salt)
        wanted = InitLoadBackParams(best_match_node=found.best_match_node, host_hit_length=found.host_hit_length)
        loaded, _ = self.cache.init_load_back(wanted)
        self.cache.ready_to_load_host_cache()
        return len(loaded)

    def intact(self, prompt: Sequence[int], salt: str | None = None) -> bool:
        """Whether the KV that a lookup finds on the GPU is the one that these tokens once had."""
        import torch

        slots = self._match(prompt, salt).device_indices
        expected = [_kv(prompt[: len(slots)], layer) for layer in range(_LAYERS)]
        keys = [torch.equal(self.pool.k_buffer[layer][slots], kv) for layer, kv in enumerate(expected)]
        values = [torch.equal(self.pool.v_buffer[layer][slots], -kv) for layer, kv in enumerate(expected)]
        return len(slots) > 0 and all(keys + values)

    def prefetch(self, prompt: Sequence[int], name: str = "request", salt: str | None = None) -> None:
        """Ask the storage for what GPU and host lack, as the scheduler does when a request arrives."""
        found = self._match(prompt, salt)
        have = len(found.device_indices) + found.host_hit_length
        last = found.last_host_node
        self.cache.prefetch_from_storage(name, last, array("q", prompt[have:]), last.get_last_hash_value())

    def released(self, name: str = "request") -> bool:
        """Whether the scheduler may go on with the request, as of now."""
        self.settle()
        return bool(self.cache.check_prefetch_progress(name))

    def settle(self) -> None:
        """What the scheduler does between two steps: take in what was acknowledged."""
        if self.host_slots:
            self.cache.check_hicache_events()

    def settle_until(self, condition: Callable[[], bool], *, limit_s: float = 20.0) -> bool:
        """Settle until the condition holds; whether it came to hold in time."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                return condition()
            time.sleep(0.005)
            self.settle()
        return True

    def close(self) -> None:
        """Stop the storage threads."""
        if getattr(self.cache, "enable_storage", False):
            self.cache.detach_storage_backend()

    def _match(self, prompt: Sequence[int], salt: str | None) -> Any:
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams

        return self.cache.match_prefix(MatchPrefixParams(key=_key(prompt, salt)))


def _tree(settings: Settings, slots: Any) -> Any:
    """The cache that SGLang itself chooses for these settings."""
    import torch
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext, default_radix_cache_factory

    params = CacheInitParams(
        disable=False, req_to_token_pool=None, token_to_kv_pool_allocator=slots, page_size=1,
        tp_cache_group=torch.distributed.group.WORLD,
    )  # fmt: skip
    arguments = SimpleNamespace(
        hicache_ratio=settings.ratio, hicache_size=0, hicache_mem_layout="layer_first", hicache_io_backend="direct",
        hicache_write_policy=settings.write_policy, hicache_storage_backend=None,
        hicache_storage_backend_extra_config=None, hicache_storage_prefetch_policy=settings.prefetch_policy,
        extra_metric_labels=None, served_model_name=settings.model, enable_lmcache=settings.lmcache,
        enable_flexkv=False,
    )  # fmt: skip
    context = TreeCacheBuildContext(
        server_args=arguments, params=params, enable_hierarchical_cache=settings.host, disable_radix_cache=False,
        is_hybrid_swa=False, is_hybrid_ssm=False, effective_chunked_prefill_size=None, tp_worker=mock.Mock(),
        model_config=None, tp_size=1, tp_rank=0, tp_group=params.tp_cache_group,
    )  # fmt: skip
    tree = default_radix_cache_factory(context)
    if settings.host:
        tree.token_to_kv_pool_host.pin_memory = False
    return tree


def _key(prompt: Sequence[int], salt: str | None) -> Any:
    from sglang.srt.mem_cache.radix_cache import RadixKey

    return RadixKey(array("q", prompt), salt)


def _kv(prompt: Sequence[int], layer: int) -> Any:
    """The keys of these tokens in this layer, (tokens, 1, 4): their ids, by layer; the values are their negatives."""
    import torch

    return (torch.tensor(list(prompt), dtype=torch.float32) + 10_000 * layer)[:, None, None].expand(-1, 1, 4)
