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
