"""Facts about the machine that evidence records carry."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any


@cache
def host_facts() -> dict[str, Any]:
    """Operating system, processor, usable cores, memory in bytes, GPUs. Never the host's name or paths."""
    import psutil

    return {
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": gpus(),
    }


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs that the driver lists; empty where there is no driver."""
    return sorted(
        line.partition(":")[2].strip()
        for info in Path("/proc/driver/nvidia/gpus").glob("*/information")
        for line in info.read_text().splitlines()
        if line.startswith("Model")
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
