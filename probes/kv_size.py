"""How many bytes of KV a token, a request and a rank hold: the formula, and the engines' own pools against it.

Question
    How much memory does the KV of so many tokens take, with MHA, GQA, MLA, and in FP8?
Watched
    The formula, as arithmetic; the tensors of SGLang's KV pools; the page sizes that vLLM's KV-cache specs declare.
Can mislead
    A pool is made with a few slots and weighed, not filled. A state that is not KV is weighed in `ssm_state.py`.
    The formula holds for what an engine materialises: a kernel may need a workspace besides.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/memory_pool.py`. vLLM 0.25.1 to 0.27.1: `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

import os
from typing import Any

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Run, Unavailable, probe
from inferproof.probes.units import Quantity


def kv_bytes(
    *, layers: int, kv_heads: int = 1, head_dim: int = 0, value_bytes: float = 2, tokens: int = 1, requests: int = 1,
    shared_tokens: int = 0, page_tokens: int = 1, ranks: int = 1, latent: int = 0, rope_dim: int = 0,
    scale_bytes: float = 0,
) -> dict[str, Quantity]:  # fmt: skip
    """What the KV of `requests` requests of `tokens` tokens weighs, over all ranks and on one.

    kv_heads, head_dim  of MHA and GQA: a layer keeps 2 (K and V) x KV heads x head dimension; query heads do not count.
    latent, rope_dim    of MLA, instead: a layer keeps latent + rope_dim, once, and whole on every rank.
    value_bytes         2 for BF16, 1 for FP8, 0.5 for FP4.
    scale_bytes         of scales that are stored besides, for each token and layer.
    shared_tokens       prefix that all requests share, held once; only its full pages can be.
    page_tokens         tokens that are allocated at once; the last page of a request is rounded up.
    ranks               tensor-parallel ranks; with fewer KV heads than ranks every head is held more than once.

    Raises ValueError for a count that makes no model or no split.
    """
    _check(
        layers=layers, tokens=tokens, requests=requests, page_tokens=page_tokens, ranks=ranks, value_bytes=value_bytes,
        **({"latent": latent} if latent else {"kv_heads": kv_heads, "head_dim": head_dim}),
    )  # fmt: skip
    if not 0 <= shared_tokens <= tokens:
        raise ValueError(f"shared_tokens is {shared_tokens}, expected 0 to the {tokens} tokens of one request")
    if not latent and max(kv_heads, ranks) % min(kv_heads, ranks):
        raise ValueError(f"{kv_heads} KV heads cannot be split evenly over {ranks} ranks; one must divide the other")
    heads = max(1, kv_heads // ranks)
    values, on_rank = (latent + rope_dim,) * 2 if latent else (2 * kv_heads * head_dim, 2 * heads * head_dim)
    shared = shared_tokens // page_tokens * page_tokens if requests > 1 else 0
    held = shared + requests * -(-(tokens - shared) // page_tokens) * page_tokens
    per_token, per_token_rank = (layers * (n * value_bytes + scale_bytes) for n in (values, on_rank))
    return {
        "per_token": Quantity(per_token, "B"),
        "per_token_and_rank": Quantity(per_token_rank, "B"),
        "tokens_held": Quantity(held, "tokens"),
        "total": Quantity(held * per_token / 2**30, "GiB"),
        "on_each_rank": Quantity(held * per_token_rank / 2**30, "GiB"),
        "over_all_ranks": Quantity(held * per_token_rank * ranks / 2**30, "GiB"),
    }


def _check(**counts: float) -> None:
    for name, count in counts.items():
        if not count > 0:
            raise ValueError(f"{name} is {count}, expected more than 0")


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "bytes_per_token": "bytes of KV for one token, all layers and heads",
        "kib_per_token": "the same in KiB (2^10 bytes)",
        "bytes_per_token_and_rank": "of these, on one rank",
        "tokens_held": "tokens that the requests' pages hold, a shared prefix once",
        "total_gib": "GiB (2^30 bytes) for these tokens",
        "over_all_ranks_gib": "the same, summed over the ranks that hold them",
    },
)
def none_formula(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    value_bytes: float = 2.0,
    tokens: int = 8192,
    requests: int = 1,
    shared_tokens: int = 0,
    page_tokens: int = 1,
    ranks: int = 1,
) -> Observations:
    """Compute what the KV of some requests weighs."""
    found = kv_bytes(
        layers=layers, kv_heads=kv_heads, head_dim=head_dim, value_bytes=value_bytes, tokens=tokens, requests=requests,
        shared_tokens=shared_tokens, page_tokens=page_tokens, ranks=ranks,
    )  # fmt: skip
    return {
        "bytes_per_token": found["per_token"].value,
        "kib_per_token": found["per_token"].to("KiB").value,
        "bytes_per_token_and_rank": found["per_token_and_rank"].value,
        "tokens_held": int(found["tokens_held"].value),
        "total_gib": found["total"].value,
        "over_all_ranks_gib": found["over_all_ranks"].value,
    }


_POOL = {
    "bytes_per_token": "bytes for one token, all layers, as the engine's own pool or spec counts them",
    "formula_bytes_per_token": "bytes by the formula, without scales",
    "buffers": "names of the pool's tensors (SGLang), or of the spec's class (vLLM)",
    "values_per_token_and_layer": "stored elements for one token in one layer, without scales",
}
_SLOTS = 64
"""Tokens in the pool that is made to be weighed."""


@probe(
    engine="sglang",
    levels=("component",),
    observes=_POOL,
    covers=(
        "sglang.srt.mem_cache.memory_pool:MHATokenToKVPool._create_buffers",
        "sglang.srt.mem_cache.memory_pool:MLATokenToKVPool._create_buffers",
    ),
)
def sglang_pool(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    latent: int = 0,
    stored_as: str = "bf16",
) -> Observations:
    """Make a KV pool and weigh its tensors; with `latent` above 0 a pool of MLA, whose rope part is `head_dim` wide."""
    sglang_engine.prepare()
    import torch
    from sglang.srt.mem_cache import memory_pool

    dtype, value_bytes = {
        "bf16": (torch.bfloat16, 2.0), "fp8": (torch.float8_e4m3fn, 1.0), "fp4": (torch.float4_e2m1fn_x2, 0.5),
    }.get(stored_as, (None, 0.0))  # fmt: skip
    if dtype is None:
        raise Unavailable(f"SGLang has no KV pool for '{stored_as}'; it has bf16, fp8 and fp4")
    kind = ("MLA" if latent else "MHA") + "TokenToKVPool" + ("FP4" if stored_as == "fp4" else "")
    shape = (
        {"kv_lora_rank": latent, "qk_rope_head_dim": head_dim}
        if latent
        else {"head_num": kv_heads, "head_dim": head_dim}
    )
    pool = getattr(memory_pool, kind)(
        size=_SLOTS - 1, page_size=1, dtype=dtype, layer_num=layers, device="cpu", enable_memory_saver=False, **shape
    )
    tensors = {name: made for name, made in vars(pool).items() if name.endswith("_buffer") and made is not None}
    weights = {name: sum(t.numel() * t.element_size() for t in made) for name, made in tensors.items()}
    stored = sum(weight for name, weight in weights.items() if "scale" not in name)
    return {
        "bytes_per_token": sum(weights.values()) / _SLOTS,
        "formula_bytes_per_token": _formula(layers, kv_heads, head_dim, latent, value_bytes),
        "buffers": sorted(weights),
        "values_per_token_and_layer": int(stored / value_bytes / _SLOTS / layers),
    }


def _formula(layers: int, kv_heads: int, head_dim: int, latent: int, value_bytes: float) -> float:
    shape: dict[str, int] = (
        {"latent": latent, "rope_dim": head_dim} if latent else {"kv_heads": kv_heads, "head_dim": head_dim}
    )
    return kv_bytes(layers=layers, value_bytes=value_bytes, **shape)["per_token"].value


@probe(
    engine="vllm",
    levels=("component",),
    observes=_POOL,
    covers=(
        "vllm.v1.kv_cache_interface:FullAttentionSpec.real_page_size_bytes",
        "vllm.v1.kv_cache_interface:MLAAttentionSpec.real_page_size_bytes",
    ),
)
def vllm_pool(
    run: Run,
    *,
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    latent: int = 0,
    stored_as: str = "bf16",
) -> Observations:
    """Ask a KV-cache spec for the bytes of its page of 64 tokens; with `latent` above 0 the spec of MLA."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += vllm_engine.force_cpu()
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVQuantMode, MLAAttentionSpec

    known: dict[str, tuple[Any, dict[str, Any]]] = {
        "bf16": (torch.bfloat16, {}),
        "fp8": (torch.uint8, {"kv_quant_mode": KVQuantMode.FP8_PER_TENSOR}),
        "fp8_per_token_head": (torch.uint8, {"kv_quant_mode": KVQuantMode.FP8_PER_TOKEN_HEAD}),
        "fp8_ds_mla": (torch.uint8, {"cache_dtype_str": "fp8_ds_mla"}),
    }
    if stored_as not in known or (stored_as == "fp8_ds_mla" and not latent):
        raise Unavailable(f"no such spec here: '{stored_as}'; there are {', '.join(known)} (the last with MLA only)")
    dtype, options = known[stored_as]
    value_bytes = 2.0 if dtype is torch.bfloat16 else 1.0
    heads, dim = (1, latent + head_dim) if latent else (kv_heads, head_dim)
    spec = (MLAAttentionSpec if latent else FullAttentionSpec)(
        block_size=_SLOTS, num_kv_heads=heads, head_size=dim, dtype=dtype, **options
    )
    return {
        "bytes_per_token": layers * spec.page_size_bytes / _SLOTS,
        "formula_bytes_per_token": _formula(layers, kv_heads, head_dim, latent, value_bytes),
        "buffers": [type(spec).__name__],
        "values_per_token_and_layer": int(spec.real_page_size_bytes / value_bytes / _SLOTS),
    }
