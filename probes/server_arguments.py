"""A server's settings, the same words for both engines, as each engine's own arguments and environment variables.

`model=NAME` what is served; `eager` no CUDA graphs; `chunk=N` tokens of a step (vLLM's budget, SGLang's prefill chunk);
`mixed` SGLang's mixed chunks; `pool=N` KV tokens; `ngram=N` speculation that verifies N tokens. On a CPU random weights
come with them, and what that engine needs to run there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping


def parse_settings(words: str) -> dict[str, str]:
    """`chunk=512 mixed` as {"chunk": "512", "mixed": ""}."""
    return {name: value for name, _, value in (word.partition("=") for word in words.split())}


def _vllm(settings: Mapping[str, str], place: str, gpu: bool) -> tuple[list[str], dict[str, str]]:
    """Arguments of `vllm serve`, and environment variables."""
    arguments = ["-m", "vllm.entrypoints.openai.api_server", "--model", place, "--served-model-name", settings["model"]]
    arguments += ["--enable-prompt-tokens-details", "--block-size", "16"]
    arguments += ["--max-model-len", str(min(8192, int(settings.get("pool", 16384)) - 16))]  # block 0 is never used
    if "eager" in settings or not gpu:
        arguments.append("--enforce-eager")
    if "chunk" in settings:
        arguments += ["--max-num-batched-tokens", settings["chunk"]]
    if "pool" in settings:
        arguments += ["--num-gpu-blocks-override", str(int(settings["pool"]) // 16)]
    if "ngram" in settings:
        ngram = {"method": "ngram", "num_speculative_tokens": int(settings["ngram"]) - 1, "prompt_lookup_max": 4}
        arguments += ["--speculative-config", json.dumps(ngram)]
    variables = {"VLLM_SERVER_DEV_MODE": "1"}  # for /server_info and /reset_prefix_cache
    if not gpu:
        arguments += ["--load-format", "dummy", "--distributed-executor-backend", "uni"]
        variables |= {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
        variables["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the model in the core's process: one import less
    return arguments, variables


def _sglang(settings: Mapping[str, str], place: str, gpu: bool) -> tuple[list[str], dict[str, str]]:
    """Arguments of `sglang.launch_server`, and environment variables."""
    arguments = ["-m", "sglang.launch_server", "--model-path", place, "--served-model-name", settings["model"]]
    arguments += ["--enable-metrics", "--enable-cache-report"]
    if "eager" in settings or not gpu:
        arguments.append("--disable-cuda-graph")
    if "chunk" in settings:
        arguments += ["--chunked-prefill-size", settings["chunk"]]
        arguments += ["--decode-log-interval", "1"]  # the order of batches is read from the log
    if "mixed" in settings:
        arguments.append("--enable-mixed-chunk")
    if "pool" in settings or not gpu:
        arguments += ["--max-total-tokens", settings.get("pool", "16384")]
    if "ngram" in settings:
        arguments += ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", settings["ngram"]]
    if gpu:
        return arguments, {}
    arguments += ["--load-format", "dummy", "--device", "cpu", "--attention-backend", "torch_native"]
    arguments += ["--sampling-backend", "pytorch", "--mem-fraction-static", "0.1", "--max-running-requests", "64"]
    return [*arguments, "--random-seed", "0"], {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}


ARGUMENTS: Mapping[str, Callable[[Mapping[str, str], str, bool], tuple[list[str], dict[str, str]]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
}
