"""What the key of cached KV is made of: which differences give another key, and which do not.

Question
    Two requests have the same tokens but another salt, adapter or image; two servers have the same tokens but another
    model, layout or parallel split. Do they get another key?
Watched
    vLLM: the hashes that its own block hasher gives to real `Request` objects which differ in one thing. SGLang: what
    it hands to the hash of its storage tier (HiCache L3), and the name under which its file storage keeps a page. What
    the tree in GPU memory tells apart is seen in `prefix_cache`.
Can mislead
    A key that does not hold a property is no fault where all who share the store agree on it: vLLM's hashes live in one
    process, which has one model and one dtype. SGLang's hash itself (a C++ extension) is not built here: its arguments
    are compared, not its result. Other storage backends may name their pages differently.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/kv_cache_utils.py`.
    SGLang 0.5.15.post1, 0.5.16, 0.5.23: `srt/mem_cache/radix_cache.py`, `srt/mem_cache/utils.py`,
    `srt/mem_cache/hicache_storage.py`.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Run, probe, random_tokens

BLOCK, BLOCKS = 16, 4
IMAGE = 20
"""Where the image's 8 placeholder tokens begin: in the second block."""


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "blocks": "full blocks of each request, all of which have a hash",
        "changed_blocks": "by what differs from the first request: blocks (from 0) whose hash is another one",
        "next_process": "blocks whose hash is another one in the next process, PYTHONHASHSEED not set",
        "next_process_seeded": "the same with PYTHONHASHSEED set to the same number in both",
    },
    covers=(
        "vllm.v1.core.kv_cache_utils:generate_block_hash_extra_keys",
        "vllm.v1.core.kv_cache_utils:hash_block_tokens",
        "vllm.v1.core.kv_cache_utils:init_none_hash",
    ),
)
def vllm_block_hashes(run: Run) -> Observations:
    """Hash the blocks of requests that differ from a first one in one thing each."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += [
        *vllm_engine.force_cpu(),
        "The block hasher stands alone; a process's start is its root hash.",
    ]
    tokens = random_tokens(BLOCK * BLOCKS, seed=1)
    other = [*tokens[:IMAGE], tokens[IMAGE] - 1, *tokens[IMAGE + 1 :]]
    variants: dict[str, dict[str, Any]] = {
        "nothing": {}, "token": {"tokens": other}, "salt": {"salt": "tenant-b"},
        "adapter": {"adapter": "lora-b"}, "adapter_weights": {"adapter_path": "/other/weights"},
        "image": {"image": "cat"}, "image_place": {"image_at": IMAGE + 1},
    }  # fmt: skip
    with _root_hash(seed="0"):
        first = _hashes(tokens)
        changed = {name: _changed(first, _hashes(**{"tokens": tokens, **one})) for name, one in variants.items()}
    with _root_hash(seed="0"):
        seeded = _changed(first, _hashes(tokens))
    with _root_hash(seed=None):
        one_process = _hashes(tokens)
    with _root_hash(seed=None):
        next_process = _changed(one_process, _hashes(tokens))
    return {
        "blocks": len(first), "changed_blocks": changed, "next_process": next_process, "next_process_seeded": seeded,
    }  # fmt: skip


@contextmanager
def _root_hash(seed: str | None) -> Iterator[None]:
    """The root of all hash chains as a process of that PYTHONHASHSEED chooses it when it starts."""
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import init_none_hash

    with patch.dict(os.environ):
        os.environ.pop("PYTHONHASHSEED", None)
        if seed is not None:
            os.environ["PYTHONHASHSEED"] = seed
        init_none_hash(sha256)
    yield


def _hashes(
    tokens: Sequence[int],
    salt: str = "tenant-a",
    adapter: str = "lora-a",
    adapter_path: str = "/weights",
    image: str = "dog",
    image_at: int = IMAGE,
) -> list[Any]:
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher
    from vllm.v1.request import Request

    picture = MultiModalFeatureSpec(
        data=None, modality="image", identifier=image, mm_position=PlaceholderRange(offset=image_at, length=8)
    )
    request = Request(
        "r", list(tokens), SamplingParams(max_tokens=1), None, mm_features=[picture],
        lora_request=LoRARequest(adapter, 1, adapter_path), cache_salt=salt,
        block_hasher=get_request_block_hasher(BLOCK, sha256),
    )  # fmt: skip
    return list(request.block_hashes)


def _changed(first: Sequence[Any], second: Sequence[Any]) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "hash_changed": "by what differs from a first prompt: whether the hash of its pages is given anything else",
        "file_key_holds": "fields of the storage's config that change the name of a page's file, sorted",
        "file_key_lacks": "fields of that config that do not, sorted",
    },
    covers=(
        "sglang.srt.mem_cache.utils:compute_node_hash_values",
        "sglang.srt.mem_cache.hicache_storage:HiCacheFile.__init__",
        "sglang.srt.mem_cache.hicache_storage:HiCacheFile._get_suffixed_key",
    ),
)
def sglang_storage_key(run: Run) -> Observations:
    """Change one thing after another, and see what the storage tier would make a page's key of."""
    sglang_engine.prepare()
    run.modifications.append("The storage tier's C++ hash is not built: what it is given is recorded in its place.")
    tokens = random_tokens(64, seed=1)
    variants: dict[str, tuple[list[int], str | None]] = {
        "nothing": (tokens, "a"),
        "token": ([*tokens[:40], tokens[40] - 1, *tokens[41:]], "a"),
        "first_token": ([tokens[0] - 1, *tokens[1:]], "a"),
        "extra_key": (tokens, "b"),
    }
    first = _hash_arguments(tokens, "a")
    changes = _file_key_changes()
    return {
        "hash_changed": {name: _hash_arguments(*variant) != first for name, variant in variants.items()},
        "file_key_holds": sorted(name for name, changed in changes.items() if changed),
        "file_key_lacks": sorted(name for name, changed in changes.items() if not changed),
    }


def _hash_arguments(tokens: list[int], extra_key: str | None) -> list[Any]:
    """All that the C++ hash is given for a tree node of two pages of 32 tokens, as SGLang calls it."""
    from sglang.srt.mem_cache import utils
    from sglang.srt.mem_cache.cpp_utils import native_hash
    from sglang.srt.mem_cache.radix_cache import RadixKey, TreeNode

    def recorded(*arguments: Any) -> list[str]:
        given.extend(arguments)
        return ["", ""]  # one hash a page; nobody looks at them here

    given: list[Any] = []
    node = TreeNode()
    node.key = RadixKey(array("q", tokens), extra_key)
    with patch.object(native_hash, "_load_native_hash_module", lambda: SimpleNamespace(get_hash=recorded)):
        utils.compute_node_hash_values(node, 32)
    return given


def _file_key_changes() -> Mapping[str, bool]:
    """Field of the storage's config -> whether a page's file gets another name when that field alone is changed."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig

    base: dict[str, Any] = {
        "tp_rank": 0, "tp_size": 4, "pp_rank": 0, "pp_size": 2, "attn_cp_rank": 0, "attn_cp_size": 2,
        "is_mla_model": False, "enable_storage_metrics": False, "is_page_first_layout": False, "model_name": "m",
    }  # fmt: skip
    others = {
        name: (not old) if isinstance(old, bool) else "n" if name == "model_name" else old + 1
        for name, old in base.items()
    }
    assert set(base) <= {field.name for field in fields(HiCacheStorageConfig)}
    with tempfile.TemporaryDirectory() as folder:
        names = {
            changed: HiCacheFile(HiCacheStorageConfig(**{**base, **change}), folder)._get_suffixed_key("page")
            for changed, change in [("", {}), *((name, {name: other}) for name, other in others.items())]
        }
    return {changed: names[changed] != names[""] for changed in base}
