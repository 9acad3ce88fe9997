"""What a started server's log tells and its HTTP pages do not: the order of batches, retractions, the cost of graphs.

Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/managers/scheduler_components/metrics_reporter.py` ("Prefill batch", "Decode
    batch"), `srt/managers/scheduler.py` (retractions), `srt/model_executor/model_runner.py` ("Capture ... graph").
    vLLM 0.25.1 to 0.27.1: `v1/worker/gpu_model_runner.py` ("Graph capturing finished"), `compilation/monitor.py`.
"""

from __future__ import annotations

import re
from typing import Any

_BATCH = re.compile(r"(Prefill|Decode) batch,(.*)")
_FIELD = re.compile(r"(#[\w-]+|token usage): ([\d.]+)")
_RETRACTION = re.compile(r"#new_tokens_gained: (\d+), #new_token_ratio: ([\d.]+) -> ([\d.]+)")
_CAPTURE = re.compile(r"Capture target (prefill|decode|verify) .*?graph begin\..*?(?:bs|num_tokens)=\[([\d, ]*)\]")
_CAPTURED = re.compile(
    r"Capture target (prefill|decode|verify) .*?graph end\. elapsed=([\d.]+) s, mem usage=(-?[\d.]+) GB"
)
_WIDTH = re.compile(r"Capture target verify .*?num_tokens_per_bs=(\d+)")
_VLLM_CAPTURED = re.compile(r"Graph capturing finished in ([\d.]+) secs, took (-?[\d.]+) GiB")
_VLLM_COMPILED = re.compile(r"torch\.compile took ([\d.]+) s in total")


def batches(log: str) -> list[dict[str, Any]]:
    """SGLang's batches in order: prefill or decode, new tokens, running requests, share of the pool in use."""
    found = []
    for kind, line in _BATCH.findall(log):
        numbers = {name: float(value.rstrip(".")) for name, value in _FIELD.findall(line)}
        found.append({
            "kind": kind.lower(),
            "new_tokens": int(numbers.get("#new-token", 0)),
            "running": int(numbers.get("#running-req", 0)),
            "kv_usage": numbers.get("token usage", 0.0),
        })  # fmt: skip
    return found


def longest_prefill(order: list[dict[str, Any]]) -> int:
    """The most prefill batches of more than one token in a row, with no decode between them."""
    most = now = 0
    for batch in order:
        now = now + 1 if batch["kind"] == "prefill" and batch["new_tokens"] > 1 else 0
        most = max(most, now)
    return most


def retraction(log: str) -> dict[str, float | int | None]:
    """SGLang's first retraction: tokens gained, and the ratio of new tokens before and after."""
    found = _RETRACTION.search(log)
    gained, before, after = found.groups() if found else (None, None, None)
    return {
        "tokens_gained": int(gained) if gained else None,
        "ratio_before": float(before) if before else None,
        "ratio_after": float(after.rstrip(".")) if after else None,
    }


def captures(log: str) -> dict[str, Any]:
    """What capturing graphs took, as either engine says at its start; None for what it does not say."""
    sizes = {phase: len(shapes.split(",")) for phase, shapes in _CAPTURE.findall(log)}
    costs = {phase: (float(seconds), float(gigabytes)) for phase, seconds, gigabytes in _CAPTURED.findall(log)}
    prefill, decode = costs.get("prefill", (None, None)), costs.get("decode", (None, None))
    vllm, compiled, width = _VLLM_CAPTURED.search(log), _VLLM_COMPILED.search(log), _WIDTH.search(log)
    return {
        "compile_s": float(compiled[1]) if compiled else None,
        "capture_s": float(vllm[1]) if vllm else None,
        "capture_gib": float(vllm[2]) if vllm else None,
        "prefill_buckets": sizes.get("prefill"), "prefill_capture_s": prefill[0], "prefill_capture_gb": prefill[1],
        "decode_buckets": sizes.get("decode"), "decode_capture_s": decode[0], "decode_capture_gb": decode[1],
        "verify_width": int(width[1]) if width else None,
    }  # fmt: skip
