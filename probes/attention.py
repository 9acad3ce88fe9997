"""Causal attention as a mathematical object: which pairs it has, what its FLOPs and its memory do.

Question
    By how much does the causal mask reduce attention's work, what does an IO-aware kernel change about it, and
    what does a FLOP counter make of either?
Watched
    PyTorch's own `scaled_dot_product_attention` on the CPU, its two kernels (plain, and the flash kernel that works
    in tiles), its `FlopCounterMode`, its profiler's allocations, and FlexAttention's block mask.
    The pairs are counted on what the kernel returns: with zero queries and an identity for V, row q of the output is
    the row of weights, and a pair takes part exactly where its weight is not zero.
Can mislead
    This is PyTorch in a vLLM environment, not vLLM's attention backend: what is true of the computation
    itself shows here, what is true of a GPU's memory hierarchy does not.
    `FlopCounterMode` multiplies shapes by a formula. It sees no mask, and a kernel without a formula counts nothing.
    `tiled_softmax` is the recurrence written out, to count its steps; it is no engine's kernel.
Sources
    PyTorch 2.13: `torch/utils/flop_counter.py`, `torch/nn/attention/flex_attention.py`;
    Dao et al. 2022, FlashAttention (arXiv:2205.14135), algorithm 1; Milakov and Gimelshein 2018 (arXiv:1805.02867).
"""

from __future__ import annotations

import math
from typing import Any

from inferproof.probes import growth
from inferproof.probes.core import Observations, Run, probe

LENGTHS = (128, 256, 512, 1024)
TORCH_ALONE = "PyTorch alone, without an engine: the environment lends its torch."


def _qkv(tokens: int, heads: int = 1, dim: int = 64, device: str = "cpu") -> list[Any]:
    import torch

    torch.manual_seed(0)
    return [torch.randn(1, heads, tokens, dim, device=device) for _ in range(3)]


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "tokens": "prompt lengths",
        "pairs": "query-key pairs that take part at each length, counted on the kernel's output",
        "full_pairs": "the same without a mask",
        "exponent": "slope of log(pairs) over log(tokens)",
        "share_of_full": "pairs over full pairs at the longest prompt",
    },
)
def vllm_causal_pairs(run: Run, *, window: int | None = None) -> Observations:
    """Count the pairs that causal attention computes, with all keys visible or with the last `window` only."""
    run.modifications.append(TORCH_ALONE)
    pairs = [_pairs(n, causal=True, window=window) for n in LENGTHS]
    full = [_pairs(n, causal=False, window=None) for n in LENGTHS]
    run.samples["pairs_by_tokens"] = list(zip(LENGTHS, pairs, strict=True))
    return {
        "tokens": list(LENGTHS),
        "pairs": pairs,
        "full_pairs": full,
        "exponent": growth.exponent(LENGTHS, pairs),
        "share_of_full": pairs[-1] / full[-1],
    }


def _pairs(tokens: int, *, causal: bool, window: int | None) -> int:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    mask = None
    if window is not None:
        position = torch.arange(tokens)
        behind = position[:, None] - position[None, :]
        mask = (behind >= 0) & (behind < window)
    weights = scaled_dot_product_attention(
        torch.zeros(1, 1, tokens, 8),
        torch.randn(1, 1, tokens, 8),
        torch.eye(tokens)[None, None],
        attn_mask=mask,
        is_causal=causal and mask is None,
    )
    return int(torch.count_nonzero(weights))


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "tokens": "prompt lengths",
        "causal_flops": "FLOPs that the counter sees in a causal call, plain kernel, at each length",
        "full_flops": "FLOPs of the same call without the mask",
        "exponent": "slope of log(causal FLOPs) over log(tokens)",
        "flash_flops": "FLOPs that the counter sees when the CPU's flash kernel computes the same call",
        "flash_differs_by": "largest difference between what the two kernels return",
    },
)
def vllm_counted_flops(run: Run, *, heads: int = 2, head_dim: int = 64) -> Observations:
    """Run attention under PyTorch's FLOP counter: with and without the mask, with either kernel."""
    import torch
    from torch.nn.attention import SDPBackend

    run.modifications.append(TORCH_ALONE)
    causal, full, flash, differences = [], [], [], []
    for n in LENGTHS:
        qkv = _qkv(n, heads, head_dim)
        plain_result, flops = _counted(qkv, SDPBackend.MATH, causal=True)
        flash_result, flash_count = _counted(qkv, SDPBackend.FLASH_ATTENTION, causal=True)
        causal.append(flops)
        full.append(_counted(qkv, SDPBackend.MATH, causal=False)[1])
        flash.append(flash_count)
        differences.append(float(torch.max(torch.abs(plain_result - flash_result))))
    return {
        "tokens": list(LENGTHS),
        "causal_flops": causal,
        "full_flops": full,
        "exponent": growth.exponent(LENGTHS, causal),
        "flash_flops": flash,
        "flash_differs_by": max(differences),
    }


def _counted(qkv: list[Any], backend: Any, *, causal: bool) -> tuple[Any, int]:
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    from torch.utils.flop_counter import FlopCounterMode

    with sdpa_kernel(backend), FlopCounterMode(display=False) as counter:
        result = scaled_dot_product_attention(*qkv, is_causal=causal)
    return result, int(counter.get_total_flops())


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "tokens": "prompt lengths",
        "attention_flops": "FLOPs of the layer's attention at each length, mask not considered",
        "linear_flops": "FLOPs of its QKV, output and MLP projections at each length",
        "attention_exponent": "slope of log(attention FLOPs) over log(tokens)",
        "linear_exponent": "slope of log(linear FLOPs) over log(tokens)",
        "attention_share": "attention's share of both at each length",
        "growth": "FLOPs at the longest prompt over FLOPs at the shortest",
        "crossover_tokens": "prompt length at which attention equals the projections",
    },
)
def vllm_layer_flops(
    run: Run,
    *,
    hidden: int = 1024,
    heads: int = 16,
    kv_heads: int = 8,
    head_dim: int = 128,
    intermediate: int = 3072,
) -> Observations:
    """Count one decoder layer's FLOPs, projections apart from attention; the defaults are Qwen3-0.6B's sizes."""
    run.modifications.append(TORCH_ALONE)
    run.modifications.append(
        "Tensors are on the meta device: shapes without data, which is all that the counter reads."
    )
    from torch.nn.attention import SDPBackend

    lengths = (256, 1024, 4096)
    query, kv = heads * head_dim, kv_heads * head_dim
    shapes = [(hidden, query + 2 * kv), (query, hidden), (hidden, 2 * intermediate), (intermediate, hidden)]
    linear = [sum(_projection_flops(n, i, o) for i, o in shapes) for n in lengths]
    attention = [_counted(_qkv(n, heads, head_dim, "meta"), SDPBackend.MATH, causal=True)[1] for n in lengths]
    totals = [a + b for a, b in zip(attention, linear, strict=True)]
    return {
        "tokens": list(lengths),
        "attention_flops": attention,
        "linear_flops": linear,
        "attention_exponent": growth.exponent(lengths, attention),
        "linear_exponent": growth.exponent(lengths, linear),
        "attention_share": [a / t for a, t in zip(attention, totals, strict=True)],
        "growth": totals[-1] / totals[0],
        "crossover_tokens": linear[0] / lengths[0] / (attention[0] / lengths[0] ** 2),
    }


def _projection_flops(tokens: int, inputs: int, outputs: int) -> int:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    layer = torch.nn.Linear(inputs, outputs, bias=False, device="meta")
    with FlopCounterMode(display=False) as counter:
        layer(torch.empty(tokens, inputs, device="meta"))
    return int(counter.get_total_flops())


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "tokens": "prompt lengths",
        "plain_bytes": "bytes that the plain kernel's operators allocate in one causal call, at each length",
        "flash_bytes": "the same for the flash kernel",
        "score_matrix_bytes": "bytes of one N x N matrix of scores at each length",
        "plain_exponent": "slope of log(plain bytes) over log(tokens)",
        "flash_exponent": "slope of log(flash bytes) over log(tokens)",
    },
)
def vllm_kernel_memory(run: Run) -> Observations:
    """Let PyTorch's profiler count what a plain and a tiled attention kernel allocate for the same call."""
    from torch.nn.attention import SDPBackend

    run.modifications.append(TORCH_ALONE)
    lengths = (1024, 2048, 4096)
    plain = [_allocated(n, SDPBackend.MATH) for n in lengths]
    flash = [_allocated(n, SDPBackend.FLASH_ATTENTION) for n in lengths]
    return {
        "tokens": list(lengths),
        "plain_bytes": plain,
        "flash_bytes": flash,
        "score_matrix_bytes": [4 * n * n for n in lengths],
        "plain_exponent": growth.exponent(lengths, plain),
        "flash_exponent": growth.exponent(lengths, flash),
    }


def _allocated(tokens: int, backend: Any) -> int:
    import torch
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    from torch.profiler import ProfilerActivity, profile

    qkv = _qkv(tokens)
    with torch.no_grad(), sdpa_kernel(backend), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        scaled_dot_product_attention(*qkv, is_causal=True)
    return sum(max(0, event.self_cpu_memory_usage) for event in seen.key_averages())


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "differs_by": "largest difference from plain softmax attention in float64",
        "scale": "largest value of the result",
        "tiles": "tiles of the N x N score matrix",
        "computed_tiles": "tiles for which scores were computed",
        "skipped_tiles": "tiles above the diagonal, for which nothing was computed",
        "masked_tiles": "computed tiles on the diagonal, which need the mask inside",
        "peak_scores": "score elements held at one time",
        "matrix_scores": "score elements that plain attention holds",
    },
)
def vllm_tiled_softmax(run: Run, *, tokens: int = 1024, tile: int = 128) -> Observations:
    """Compute causal attention tile by tile with the online softmax and count what is held and what is skipped."""
    import torch

    run.modifications.append("The recurrence of the online softmax is written out here; it is no engine's kernel.")
    q, k, v = (t[0, 0] for t in _qkv(tokens))
    exact = torch.softmax(
        (q.double() @ k.double().T / math.sqrt(q.shape[1])).masked_fill(_above(tokens, 0, tokens, 0), -math.inf), dim=1
    ) @ v.double()  # fmt: skip
    result, computed, masked, peak = torch.empty_like(q), 0, 0, 0
    for row in range(0, tokens, tile):
        queries = q[row : row + tile]
        maximum = torch.full((len(queries), 1), -math.inf)
        total, output = torch.zeros(len(queries), 1), torch.zeros_like(queries)
        for column in range(0, row + tile, tile):  # beyond that every tile is above the diagonal
            scores = queries @ k[column : column + tile].T / math.sqrt(q.shape[1])
            if column == row:
                scores, masked = scores.masked_fill(_above(len(scores), row, tile, column), -math.inf), masked + 1
            computed, peak = computed + 1, max(peak, scores.numel())
            higher = torch.maximum(maximum, scores.amax(dim=1, keepdim=True))
            weights, correction = torch.exp(scores - higher), torch.exp(maximum - higher)
            total = total * correction + weights.sum(dim=1, keepdim=True)
            output = output * correction + weights @ v[column : column + tile]
            maximum = higher
        result[row : row + tile] = output / total
    return {
        "differs_by": float(torch.max(torch.abs(result.double() - exact))),
        "scale": float(torch.max(torch.abs(exact))),
        "tiles": (tokens // tile) ** 2,
        "computed_tiles": computed,
        "skipped_tiles": (tokens // tile) ** 2 - computed,
        "masked_tiles": masked,
        "peak_scores": peak,
        "matrix_scores": tokens * tokens,
    }


def _above(rows: int, first_row: int, columns: int, first_column: int) -> Any:
    """True where a key comes after the query."""
    import torch

    queries = torch.arange(first_row, first_row + rows)
    keys = torch.arange(first_column, first_column + columns)
    return keys[None, :] > queries[:, None]


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "tokens": "prompt lengths",
        "tiles": "tiles of the score matrix at each length",
        "full_tiles": "tiles that FlexAttention computes without a mask",
        "boundary_tiles": "tiles that it computes with the mask applied inside",
        "skipped_tiles": "tiles that it never visits",
        "computed_pairs": "pairs inside the visited tiles, at each length",
        "valid_pairs": "pairs that the mask lets through, at each length",
        "computed_share": "computed pairs over all N x N pairs, at each length",
        "exponent": "slope of log(computed pairs) over log(tokens)",
    },
)
def vllm_mask_tiles(run: Run, *, tile: int = 128, window: int | None = None) -> Observations:
    """Ask FlexAttention's block mask which tiles of a causal (and windowed) mask a kernel has to visit."""
    from torch.nn.attention.flex_attention import create_block_mask

    def visible(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return query >= key if window is None else (query >= key) & (query - key < window)

    run.modifications.append(TORCH_ALONE)
    lengths = (1024, 2048, 4096)
    boundary, full, valid = [], [], []
    for n in lengths:
        mask = create_block_mask(visible, None, None, n, n, device="cpu", BLOCK_SIZE=tile)
        boundary.append(int(mask.kv_num_blocks.sum()))
        full.append(int(mask.full_kv_num_blocks.sum()))
        valid.append(sum(min(q + 1, window or n) for q in range(n)))
    tiles = [(n // tile) ** 2 for n in lengths]
    computed = [(b + f) * tile * tile for b, f in zip(boundary, full, strict=True)]
    return {
        "tokens": list(lengths),
        "tiles": tiles,
        "full_tiles": full,
        "boundary_tiles": boundary,
        "skipped_tiles": [t - b - f for t, b, f in zip(tiles, boundary, full, strict=True)],
        "computed_pairs": computed,
        "valid_pairs": valid,
        "computed_share": [c / n**2 for c, n in zip(computed, lengths, strict=True)],
        "exponent": growth.exponent(lengths, computed),
    }
