"""How many bytes a prompt's KV weighs, and how long that is on a link.

Question
    What must a prefill server send to a decode server for one prompt, and how does it compare with what decode adds?
Watched
    Bytes for a token as SGLang's own KV pools and vLLM's own KV-cache specs count them; the rest is arithmetic on them.
Can mislead
    No KV is moved: a link's rate is a parameter, without protocol overhead, handshake, congestion or overlap with
    prefill. A rate in Gb/s counts bits (10^9), memory in GiB counts bytes (2^30).
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/memory_pool.py`. vLLM 0.25.1 to 0.27.1: `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from inferproof.probes import kv_size
from inferproof.probes.core import Observations, Run, probe

_SIZES = {
    "bytes_per_token": "bytes of KV for one token, all layers",
    "prompt_bytes": "bytes of KV for the prompt",
    "prompt_gib": "the same in GiB (2^30 bytes)",
    "transfer_ms": "milliseconds that these bytes are on a link of `link_gbit_s` (10^9 bits a second)",
    "transfer_ms_if_bytes": "milliseconds if the same figure is misread as GB/s (10^9 bytes a second)",
    "decode_step_bytes": "bytes of KV that one decode step adds for one request",
}


def sizes(bytes_per_token: int, prompt_tokens: int, link_gbit_s: float) -> Observations:
    """The observations of `_SIZES`."""
    prompt_bytes = bytes_per_token * prompt_tokens
    return {
        "bytes_per_token": bytes_per_token,
        "prompt_bytes": prompt_bytes,
        "prompt_gib": prompt_bytes / 2**30,
        "transfer_ms": prompt_bytes * 8 / (link_gbit_s * 1e9) * 1e3,
        "transfer_ms_if_bytes": prompt_bytes / (link_gbit_s * 1e9) * 1e3,
        "decode_step_bytes": bytes_per_token,
    }


_STORED_AS = {"bfloat16": "bf16", "float8_e4m3fn": "fp8"}


@probe(
    engine="sglang",
    levels=("component",),
    observes=_SIZES,
    covers=(
        "sglang.srt.mem_cache.memory_pool:MHATokenToKVPool.get_kv_size_bytes",
        "sglang.srt.mem_cache.memory_pool:MLATokenToKVPool.get_kv_size_bytes",
    ),
)
def sglang_prompt_kv(
    run: Run,
    *,
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    latent: int = 0,
    dtype: str = "bfloat16",
    prompt_tokens: int = 8192,
    link_gbit_s: float = 100.0,
) -> Observations:
    """Make a small KV pool and weigh it; with `latent` above 0 a pool of MLA (`latent` and `head_dim` a token)."""
    weighed = kv_size.sglang_pool(
        run, layers=layers, kv_heads=kv_heads, head_dim=head_dim, latent=latent, stored_as=_STORED_AS[dtype]
    )
    return sizes(int(weighed["bytes_per_token"]), prompt_tokens, link_gbit_s)


@probe(
    engine="vllm",
    levels=("component",),
    observes=_SIZES,
    covers=(
        "vllm.v1.kv_cache_interface:FullAttentionSpec.real_page_size_bytes",
        "vllm.v1.kv_cache_interface:MLAAttentionSpec.real_page_size_bytes",
    ),
)
def vllm_prompt_kv(
    run: Run,
    *,
    layers: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    latent: int = 0,
    dtype: str = "bfloat16",
    prompt_tokens: int = 8192,
    link_gbit_s: float = 100.0,
) -> Observations:
    """Ask a KV-cache spec for the bytes of its page; with `latent` above 0 the spec of MLA."""
    declared = kv_size.vllm_pool(
        run, layers=layers, kv_heads=kv_heads, head_dim=head_dim, latent=latent, stored_as=_STORED_AS[dtype]
    )
    return sizes(int(declared["bytes_per_token"]), prompt_tokens, link_gbit_s)
