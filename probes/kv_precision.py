"""What comes back from a KV pool in FP8: rounding, and what is too large to be stored.

Question
    FP8 halves the bytes. What does it do to the values, and what is a scale for?
Watched
    Keys written to and read from SGLang's own `MHATokenToKVPool`, in BF16 and in both FP8 formats, with and without a
    scale.
Can mislead
    Keys are random numbers of a normal distribution, not a model's. How much of an error an answer tolerates, and
    whether a kernel gains time from FP8, only the real model on the real GPU can say.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/memory_pool.py` (`set_kv_buffer`). OCP 8-bit floating point
    specification 1.0: E4M3 has 3 bits of mantissa and ends at 448, E5M2 has 2 and ends at 57,344.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from inferproof.probes import sglang_engine
from inferproof.probes.core import Observations, Run, probe


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "relative_error": "root of mean squared error over root of mean square of the keys",
        "largest_written": "largest magnitude written",
        "largest_read": "largest magnitude read back, scale undone",
        "lost_to_zero": "keys other than 0 that are read back as 0",
    },
    covers=("sglang.srt.mem_cache.memory_pool:MHATokenToKVPool.set_kv_buffer",),
)
def sglang_round_trip(
    run: Run, *, stored_as: str = "float8_e4m3fn", magnitude: float = 1.0, scale: float = 1.0
) -> Observations:
    """Write 32 tokens' keys of that standard deviation and read them back; `scale` divides them on the way in."""
    sglang_engine.prepare()
    run.modifications.append("The attention layer is a stand-in that says which layer of the pool it is.")
    import torch
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

    pool = MHATokenToKVPool(
        size=63, page_size=1, dtype=getattr(torch, stored_as), head_num=8, head_dim=128, layer_num=1, device="cpu",
        enable_memory_saver=False,
    )  # fmt: skip
    torch.manual_seed(0)
    keys = (torch.randn(32, 8, 128) * magnitude).to(torch.bfloat16)
    slots, layer = torch.arange(1, 33), SimpleNamespace(layer_id=0)
    scales: tuple[Any, ...] = () if scale == 1.0 else (scale, scale)
    pool.set_kv_buffer(layer, slots, keys.clone(), keys.clone(), *scales)
    written, read = keys.double(), pool.get_key_buffer(0)[slots].double() * scale
    return {
        "relative_error": float((read - written).square().mean().sqrt() / written.square().mean().sqrt()),
        "largest_written": float(written.abs().max()),
        "largest_read": float(read.abs().max()),
        "lost_to_zero": int(((read == 0) & (written != 0)).sum()),
    }
