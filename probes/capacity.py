"""What fits on a GPU and what a link can carry: the capacity plan in numbers.

Question
    How many requests fit beside the weights? When is moving the KV to a decode server cheaper than the stall that its
    prefill causes?
Watched
    The arithmetic, on `kv_size` and `transfer_time`; for `gpu_plan` vLLM's own planner, which is asked for the blocks
    that fit into the same memory.
Can mislead
    Weights, workspace and prefill rate are given, not measured. Activations, fragmentation and CUDA graphs belong into
    the workspace. A plan says what fits, not what meets an SLO: compute may run out long before memory.
Sources
    vLLM 0.25.1 to 0.27.1: `v1/core/kv_cache_utils.py` (`get_num_blocks`), `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from inferproof.probes import units, vllm_engine
from inferproof.probes.core import Observations, Run, probe
from inferproof.probes.kv_size import kv_bytes
from inferproof.probes.transfer_time import transfer
from inferproof.probes.units import Quantity

Size = str | Quantity


def plan(
    *, gpu: Size = "80 GiB", weights: Size = "15 GiB", workspace: Size = "5 GiB", layers: int = 32, kv_heads: int = 8,
    head_dim: int = 128, value_bytes: float = 2, latent: int = 0, rope_dim: int = 0, tokens: int = 8192,
    shared_tokens: int = 0, ranks: int = 1,
) -> dict[str, Quantity]:  # fmt: skip
    """How many requests of `tokens` tokens (prompt and output) fit on `ranks` GPUs that share one copy of the weights.

    workspace      on each GPU: activations, CUDA graphs, communication buffers, the runtime's own memory.
    shared_tokens  prefix that all requests share and that is held once.

    Raises ValueError where the weights and the workspace leave nothing for KV.
    """
    model: dict[str, Any] = {
        "layers": layers, "kv_heads": kv_heads, "head_dim": head_dim, "value_bytes": value_bytes, "latent": latent,
        "rope_dim": rope_dim, "ranks": ranks,
    }  # fmt: skip
    one = kv_bytes(tokens=tokens, **model)
    if not 0 <= shared_tokens < tokens:
        raise ValueError(f"shared_tokens is {shared_tokens}, expected 0 to less than the {tokens} tokens of a request")
    memory, held, spent = (units.parse(size, "size") for size in (gpu, weights, workspace))
    pool = memory.base - held.base / ranks - spent.base
    if pool <= 0:
        raise ValueError(
            f"weights of {held} on {ranks} rank(s) and a workspace of {spent} leave nothing of {memory}: "
            "use more ranks, a larger GPU or smaller weights"
        )
    per_token = one["per_token_and_rank"].base
    room = int(pool // per_token)
    return {
        "kv_per_token": Quantity(one["per_token"].base / 2**10, "KiB"),
        "kv_per_request": Quantity(one["total"].value, "GiB"),
        "kv_pool_on_each_gpu": Quantity(pool / 2**30, "GiB"),
        "kv_pool_tokens": Quantity(room, "tokens"),
        "requests": Quantity(max(0, room - shared_tokens) // (tokens - shared_tokens), "requests"),
    }


def break_even(
    *, layers: int = 32, kv_heads: int = 8, head_dim: int = 128, value_bytes: float = 2, latent: int = 0,
    rope_dim: int = 0, tokens: int = 8192, rate: Size = "200 Gb/s", efficiency: float = 1.0,
    prefill_tokens_s: float = 10000.0,
) -> dict[str, Quantity]:  # fmt: skip
    """One prompt, prefilled elsewhere: the stall that running decodes are spared, and what the transfer adds to TTFT.

    prefill_tokens_s  tokens a second that one prefill computes; measure it.
    """
    if prefill_tokens_s <= 0:
        raise ValueError(f"prefill_tokens_s is {prefill_tokens_s}, expected the measured rate, above 0")
    size = kv_bytes(
        layers=layers, kv_heads=kv_heads, head_dim=head_dim, value_bytes=value_bytes, latent=latent, rope_dim=rope_dim,
        tokens=tokens,
    )["total"]  # fmt: skip
    moved = transfer(size=size, rate=rate, efficiency=efficiency)
    prefill_s = tokens / prefill_tokens_s
    return {
        "kv_to_move": size,
        "stall_removed": Quantity(prefill_s * 1e3, "ms"),
        "transfer_added": moved["time"],
        "stall_over_transfer": Quantity(prefill_s * 1e3 / moved["time"].value, ""),
        "break_even_rate": Quantity(size.base / prefill_s / efficiency, "B/s").to("Gb/s"),
        "requests_the_link_carries": Quantity(1e3 / moved["time"].value, "requests/s"),
    }


_PLAN = {
    "kv_kib_per_token": "KiB of KV for one token, all ranks",
    "request_gib": "GiB of KV for one request",
    "pool_gib": "GiB left for KV on each GPU",
    "pool_tokens": "tokens that the KV pool holds",
    "requests": "requests that fit at the same time",
}


@probe(engine="none", levels=("arithmetic",), observes=_PLAN)
def none_gpu_plan(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    gpu: str = "80 GiB",
    weights: str = "15 GiB",
    workspace: str = "5 GiB",
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    value_bytes: float = 2,
    tokens: int = 8192,
    shared_tokens: int = 0,
    ranks: int = 1,
) -> Observations:
    """Compute what fits on a GPU beside the weights."""
    found = plan(
        gpu=gpu, weights=weights, workspace=workspace, layers=layers, kv_heads=kv_heads, head_dim=head_dim,
        value_bytes=value_bytes, tokens=tokens, shared_tokens=shared_tokens, ranks=ranks,
    )  # fmt: skip
    return dict(zip(_PLAN, (quantity.value for quantity in found.values()), strict=True))


@probe(
    engine="vllm",
    levels=("component",),
    observes=_PLAN | {"blocks": "KV blocks of 16 tokens that vLLM makes of that memory"},
    covers=("vllm.v1.core.kv_cache_utils:get_num_blocks",),
)
def vllm_gpu_plan(
    run: Run,
    *,
    pool: str = "60 GiB",
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    tokens: int = 8192,
) -> Observations:
    """Ask vLLM's planner how many blocks of a model's KV fit into so much memory, and divide by a request's."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += [*vllm_engine.force_cpu(), "The planner is asked with a stand-in for the engine's config."]
    import torch
    from vllm.v1.core.kv_cache_utils import get_num_blocks
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    spec = FullAttentionSpec(block_size=16, num_kv_heads=kv_heads, head_size=head_dim, dtype=torch.bfloat16)
    config: Any = SimpleNamespace(cache_config=SimpleNamespace(num_gpu_blocks_override=None))
    memory = units.parse(pool, "size")
    blocks = get_num_blocks(config, layers, int(memory.base), spec.page_size_bytes)
    per_token = layers * spec.page_size_bytes / 16
    return {
        "kv_kib_per_token": per_token / 2**10,
        "request_gib": per_token * tokens / 2**30,
        "pool_gib": memory.to("GiB").value,
        "pool_tokens": blocks * 16,
        "requests": blocks // -(-tokens // 16),
        "blocks": blocks,
    }


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "kv_gib": "GiB of KV to move for one prompt",
        "stall_ms": "milliseconds that the prefill keeps running decodes waiting if it shares their GPU in one piece",
        "transfer_ms": "milliseconds that the KV is on the link",
        "stall_over_transfer": "the one over the other: above 1 the split removes more than it adds",
        "break_even_gbit_s": "rate in Gb/s at which both are equal; it does not depend on the prompt's length",
        "link_requests_s": "prompts a second that the link can carry",
    },
)
def none_pd_break_even(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    value_bytes: float = 2,
    tokens: int = 8192,
    rate: str = "200 Gb/s",
    efficiency: float = 1.0,
    prefill_tokens_s: float = 10000.0,
) -> Observations:
    """Compute the stall that a prefill elsewhere spares running decodes, against the transfer of its KV."""
    found = break_even(
        layers=layers, kv_heads=kv_heads, head_dim=head_dim, value_bytes=value_bytes, tokens=tokens, rate=rate,
        efficiency=efficiency, prefill_tokens_s=prefill_tokens_s,
    )  # fmt: skip
    names = ("kv_gib", "stall_ms", "transfer_ms", "stall_over_transfer", "break_even_gbit_s", "link_requests_s")
    return dict(zip(names, (quantity.value for quantity in found.values()), strict=True))
