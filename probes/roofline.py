"""What one forward step computes against what it must read: the roofline of a decoder, by arithmetic.

Question
    How many FLOPs does a step do for each byte it moves, and is that above or below what the GPU can feed?
Watched
    Nothing runs. FLOPs are two for each parameter and token, and four for each query-key pair, head and dimension;
    bytes are the weights once a step, each request's KV once, and the KV written. The ridge is the GPU's FLOPs a
    second over its bytes a second: a step below it waits for memory, a step above it for arithmetic.
Can mislead
    Activations, launches, communication, padding and the kernels' real efficiency are left out, and peak rates are
    never reached: the ridge is where to start measuring, not a measurement.
    Attention that splits a long prompt into tiles reads its KV more than once; here each byte counts once.
Sources
    Williams et al. 2009, Roofline (doi 10.1145/1498765.1498785). Default sizes: Llama-3-8B; rates: A100 40 GB data
    sheet (312 TFLOP/s BF16, 1555 GB/s).
"""

from __future__ import annotations

from inferproof.probes.core import Observations, Run, probe


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "tokens": "tokens that the step computes, over all requests",
        "flops": "floating-point operations of the step",
        "weight_bytes": "bytes of the weights that it reads",
        "kv_bytes": "bytes of KV that it reads and writes",
        "kv_share": "KV's share of all these bytes, 0 to 1",
        "flops_per_byte": "arithmetic intensity of the step",
        "ridge": "FLOPs a byte at which the GPU's arithmetic and its memory take equally long",
        "memory_bound": "whether the step lies below the ridge",
        "batch_at_ridge": "requests with which the same step would reach the ridge; 0: no batch does",
    },
)
def step(
    run: Run,  # noqa: ARG001
    *,
    batch: int = 1,
    new_tokens: int = 1,
    context: int = 1024,
    weight_bits: int = 16,
    kv_bits: int = 16,
    tflops: float = 312.0,
    gb_s: float = 1555.0,
    layers: int = 32,
    hidden: int = 4096,
    intermediate: int = 14336,
    heads: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    vocabulary: int = 128256,
) -> Observations:
    """Work out the arithmetic intensity of one step.

    new_tokens  tokens of each request in this step: 1 for decode, a chunk's size for prefill
    context     tokens of each request whose KV is there before the step
    tflops, gb_s  peak rates of the GPU, in 10^12 FLOP/s and 10^9 bytes/s
    """
    attention = hidden * head_dim * (heads + 2 * kv_heads) + heads * head_dim * hidden
    body = layers * (attention + 3 * hidden * intermediate)
    head = hidden * vocabulary  # the last token's logits only
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) // 2
    flops = 2 * (body * new_tokens + head) + 4 * layers * heads * head_dim * pairs
    weights = (body + head) * weight_bits // 8
    kv = 2 * layers * kv_heads * head_dim * (context + 2 * new_tokens) * kv_bits // 8
    ridge = 1000 * tflops / gb_s
    intensity = batch * flops / (weights + batch * kv)
    gain = flops - ridge * kv  # what one more request adds beyond what its own KV costs
    return {
        "tokens": batch * new_tokens,
        "flops": batch * flops,
        "weight_bytes": weights,
        "kv_bytes": batch * kv,
        "kv_share": batch * kv / (weights + batch * kv),
        "flops_per_byte": intensity,
        "ridge": ridge,
        "memory_bound": intensity < ridge,
        "batch_at_ridge": int(-(-ridge * weights // gain)) if gain > 0 else 0,
    }
