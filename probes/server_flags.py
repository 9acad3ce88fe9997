"""How a server is really set: its resolved flags as it tells them over HTTP, never the words it was started with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from inferproof.probes.prometheus import labels_of
from inferproof.probes.sse import HttpError

_VLLM = {
    "model_config": ("dtype", "max_model_len", "enforce_eager", "seed"),
    "cache_config": ("block_size", "enable_prefix_caching"),
    "scheduler_config": (
        "max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "policy", "async_scheduling",
    ),
    "parallel_config": ("tensor_parallel_size",),
    "compilation_config": ("cudagraph_mode",),
    "device_config": ("device_type",),
}  # fmt: skip
_SGLANG = (
    "version", "device", "dtype", "kv_cache_dtype", "attention_backend", "sampling_backend", "load_format", "page_size",
    "max_total_num_tokens", "max_running_requests", "chunked_prefill_size", "enable_mixed_chunk", "max_prefill_tokens",
    "schedule_policy", "schedule_conservativeness", "disable_radix_cache", "disable_overlap_schedule",
    "disable_cuda_graph", "speculative_algorithm", "speculative_num_draft_tokens", "random_seed", "tp_size",
)  # fmt: skip

Get = Callable[[str], Any]
"""A page's path -> its JSON."""


def resolved(engine: str, get: Get, metrics: str) -> dict[str, Any]:
    """The server's settings; of vLLM without its development mode, only what its metrics tell."""
    return _sglang(get) if engine == "sglang" else _vllm(get, metrics)


def _sglang(get: Get) -> dict[str, Any]:
    info = get("/server_info")
    return {name: info[name] for name in _SGLANG if name in info}


def _vllm(get: Get, metrics: str) -> dict[str, Any]:
    flags: dict[str, Any] = {"version": get("/version")["version"]}
    with contextlib.suppress(HttpError):
        config = get("/server_info?config_format=json")["vllm_config"]
        flags |= {name: config[part][name] for part, names in _VLLM.items() for name in names if name in config[part]}
        flags["speculative_method"] = (config.get("speculative_config") or {}).get("method")
    cache = labels_of(metrics, "vllm:cache_config_info")
    if cache.get("num_gpu_blocks", "").isdigit():
        flags["num_gpu_blocks"] = int(cache["num_gpu_blocks"])
        flags["block_size"] = int(cache["block_size"])
        flags["max_total_num_tokens"] = flags["num_gpu_blocks"] * flags["block_size"]
    return flags


_SWITCHES = {
    "vllm": {"eager": "enforce_eager", "ngram": "speculative_method"},
    "sglang": {"eager": "disable_cuda_graph", "ngram": "speculative_algorithm", "mixed": "enable_mixed_chunk"},
}
_SIZES = {
    "vllm": {"chunk": "max_num_batched_tokens", "pool": "max_total_num_tokens"},
    "sglang": {"chunk": "chunked_prefill_size", "pool": "max_total_num_tokens"},
}
"""Setting -> the flag that tells it: on or off by being there or not, and sizes that only matter where they are set."""


def differing(engine: str, settings: Mapping[str, str], flags: Mapping[str, Any]) -> list[str]:
    """Where a server that runs is not set as wanted, or does not tell; one sentence each."""
    wanted: dict[str, Any] = {flag: name in settings for name, flag in _SWITCHES[engine].items()}
    wanted |= {flag: int(settings[name]) for name, flag in _SIZES[engine].items() if name in settings}
    wrong = []
    for flag, value in wanted.items():
        if flag not in flags:
            hint = " (vLLM does when started with VLLM_SERVER_DEV_MODE=1)" if engine == "vllm" else ""
            wrong.append(f"it does not tell its {flag}{hint}")
        elif (bool(flags[flag]) if isinstance(value, bool) else flags[flag]) != value:
            wrong.append(f"its {flag} is {flags[flag]}, wanted is {value}")
    return wrong
