"""Which cache features SGLang's own argument check lets stand together, and what it fills in.

Question
    Can HiCache and LMCache be on at once? Which other features does either refuse, and does that depend on the version?
    What does HiCache default to?
Watched
    SGLang's own `ServerArgs`: whether these arguments are taken or refused, in which words, and what settings
    come out.
Can mislead
    An argument that is taken need not work: LMCache itself is not installed here, and nothing is started. A refusal by
    another check than the one meant would look alike, hence the whole text is kept.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/server_args.py`, `srt/mem_cache/registry.py`. SGLang 0.5.23:
    `srt/arg_groups/kv_cache_hook.py`, `srt/arg_groups/hicache_hook.py`.
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import model, sglang_engine
from inferproof.probes.core import Observations, Run, Unavailable, probe

_FEATURES: dict[str, dict[str, Any]] = {
    "": {},
    "no-radix-cache": {"disable_radix_cache": True},
    "speculation": {"speculative_algorithm": "NGRAM"},
    "eagle": {"speculative_algorithm": "EAGLE"},
    "dp-attention": {"tp_size": 2, "dp_size": 2, "enable_dp_attention": True},
    "dcp": {"tp_size": 2, "dcp_size": 2},
    "streaming-session": {"enable_streaming_session": True},
    "pd-prefill": {"disaggregation_mode": "prefill", "disaggregation_transfer_backend": "nixl"},
    "pd-decode": {"disaggregation_mode": "decode", "disaggregation_transfer_backend": "nixl"},
    "storage-mooncake": {"hicache_storage_backend": "mooncake"},
    "pd-mooncake": {"disaggregation_mode": "prefill", "disaggregation_transfer_backend": "mooncake"},
}


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "refused": "what ServerArgs says against these arguments; empty if it takes them",
        "kind": "the refusal's exception class; empty if it takes them",
        "radix_cache": "whether the server keeps its radix cache",
        "hicache": "whether the host tier is on",
        "lmcache": "whether LMCache is on",
        "storage_backend": "the storage behind the host tier; empty if there is none",
        "ratio": "tokens of the host tier for one of the GPU; -1 where the build leaves it open",
        "size_gb": "gigabytes of the host tier, which go before the ratio if above 0",
        "write_policy": "when KV is copied to the host",
        "prefetch_policy": "how long a request waits for the storage",
    },
    covers=("sglang.srt.server_args:ServerArgs",),
)
def sglang_accepted(run: Run, *, hicache: bool = False, lmcache: bool = False, feature: str = "") -> Observations:
    """Resolve the arguments of a server with these caches and one more feature."""
    sglang_engine.prepare()
    from sglang.srt.server_args import ServerArgs

    if run.models is None:
        raise Unavailable("a folder for local model configs is needed")
    given = {
        "model_path": str(model.make(run.models, "tiny")), "device": "cpu", "skip_tokenizer_init": True,
        "enable_hierarchical_cache": hicache, "enable_lmcache": lmcache, **_FEATURES[feature],
    }  # fmt: skip
    try:
        resolved = ServerArgs(**given)
        if hasattr(resolved, "resolve_once"):  # since 0.5.23 at the latest, the constructor only keeps what it is given
            resolved.resolve_once()
    except (AssertionError, NotImplementedError, ValueError) as refusal:
        return _refused(refusal)
    ratio = resolved.hicache_ratio
    return {
        "refused": "",
        "kind": "",
        "radix_cache": not resolved.disable_radix_cache,
        "hicache": bool(resolved.enable_hierarchical_cache),
        "lmcache": bool(resolved.enable_lmcache),
        "storage_backend": resolved.hicache_storage_backend or "",
        "ratio": -1.0 if ratio is None else float(ratio),
        "size_gb": resolved.hicache_size,
        "write_policy": resolved.hicache_write_policy,
        "prefetch_policy": resolved.hicache_storage_prefetch_policy,
    }


def _refused(refusal: Exception) -> Observations:
    nothing = {"radix_cache": False, "hicache": False, "lmcache": False, "ratio": -1.0, "size_gb": 0}
    texts = {"storage_backend": "", "write_policy": "", "prefetch_policy": ""}
    return {"refused": str(refusal), "kind": type(refusal).__name__, **nothing, **texts}
