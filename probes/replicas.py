"""So many GPUs as one tensor-parallel engine, or as replicas: what they hold, and what the ranks exchange.

Question
    What does a model's copy on every replica cost, and what the all-reduces of tensor parallelism?
Watched
    The arithmetic, on `capacity.plan` and `tensor_parallel.collective`.
Can mislead
    Memory and bytes only: kernels, latencies of collectives and the router are not in it. KV heads that run out (more
    ranks than heads) are, as held more than once.
Sources
    `tensor_parallel` counts the all-reduces that vLLM really makes; `routed_prefixes` what replicas do to a cache.
"""

from __future__ import annotations

from inferproof.probes import tensor_parallel, units
from inferproof.probes.capacity import Size, plan
from inferproof.probes.core import Observations, Run, probe
from inferproof.probes.units import Quantity


def split_or_copy(
    *, gpus: int = 8, ranks: int = 4, hidden_size: int = 4096, gpu: Size = "80 GiB", weights: Size = "15 GiB",
    workspace: Size = "5 GiB", layers: int = 32, kv_heads: int = 8, head_dim: int = 128, value_bytes: float = 2,
    tokens: int = 8192,
) -> dict[str, Quantity]:  # fmt: skip
    """`gpus` GPUs as replicas of `ranks` tensor-parallel ranks each: what they hold together, and what ranks exchange.

    `ranks` 1 is pure replication, `ranks` = `gpus` one engine over all. Raises ValueError where it does not divide.
    """
    if ranks < 1 or gpus % ranks:
        raise ValueError(f"{gpus} GPUs cannot be divided into engines of {ranks}; ranks must divide gpus")
    replicas = gpus // ranks
    one = plan(
        gpu=gpu, weights=weights, workspace=workspace, layers=layers, kv_heads=kv_heads, head_dim=head_dim,
        value_bytes=value_bytes, tokens=tokens, ranks=ranks,
    )  # fmt: skip
    exchanged = tensor_parallel.collective(layers=layers, hidden_size=hidden_size, tokens=1, ranks=ranks)
    return {
        "replicas": Quantity(replicas, ""),
        "weights_held": Quantity(replicas * units.parse(weights, "size").base / 2**30, "GiB"),
        "weights_read_a_step": Quantity(units.parse(weights, "size").base / ranks / 2**30, "GiB"),
        "kv_pool_tokens": Quantity(replicas * one["kv_pool_tokens"].value, "tokens"),
        "largest_cache_tokens": one["kv_pool_tokens"],
        "requests": Quantity(replicas * one["requests"].value, "requests"),
        "all_reduces_a_step": Quantity(exchanged["all_reduces"] if ranks > 1 else 0, ""),
        "sent_a_token_and_rank": Quantity(exchanged["wire_bytes_per_rank"] / 2**10, "KiB"),
    }


_LAYOUT = {
    "replicas": "engines that the GPUs are divided into",
    "weights_gib": "GiB of weights on all GPUs together",
    "weights_read_gib": "GiB of weights that each GPU reads in a step",
    "pool_tokens": "tokens of KV that all GPUs hold together",
    "cache_tokens": "tokens of KV that one engine holds: the largest cache that a request can hit",
    "requests": "requests that fit at the same time, all engines together",
    "all_reduces": "all-reduces of one forward pass",
    "sent_kib": "KiB that a rank sends for one token",
}


@probe(
    engine="none",
    levels=("arithmetic",),
    observes=_LAYOUT,
)
def none_of_ranks(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    gpus: int = 8,
    ranks: int = 1,
    weights: str = "15 GiB",
    gpu: str = "80 GiB",
    workspace: str = "5 GiB",
    layers: int = 32,
    hidden_size: int = 4096,
    kv_heads: int = 8,
    head_dim: int = 128,
    tokens: int = 8192,
) -> Observations:
    """Compute what GPUs hold as replicas of so many ranks each."""
    found = split_or_copy(
        gpus=gpus, ranks=ranks, weights=weights, gpu=gpu, workspace=workspace, layers=layers, hidden_size=hidden_size,
        kv_heads=kv_heads, head_dim=head_dim, tokens=tokens,
    )  # fmt: skip
    return dict(zip(_LAYOUT, (quantity.value for quantity in found.values()), strict=True))
