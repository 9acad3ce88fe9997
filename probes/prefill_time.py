"""The time of a prefill against the length of its prompt, and how much of it is quadratic.

Question
    A prompt sixteen times as long has 256 times the attention pairs. How much longer does its first token take, and
    what are the constant, the linear and the quadratic part of that time?
Watched
    The time to first token of unique random prompts, alone in the engine, one output token, empty prefix cache, in one
    prefill step each. Of several sends the fastest counts: whatever else the machine does can only add time.
Can mislead
    On two CPU cores with a tiny model the arithmetic dominates much sooner than on a GPU, where launches and low
    occupancy dominate the short prompts: the order of the ratios carries over, the ratios do not.
    The parts are a fit to five points. Attention's tiles, caches and memory bandwidth make the true curve no parabola.
Sources
    vLLM 0.27.1 and SGLang 0.5.15.post1, run.
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import growth, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens

LENGTHS = (256, 512, 1024, 2048, 4096)

_OBSERVES = {
    "tokens": "prompt lengths",
    "ttft_ms": "time to first token at each length, ms, the fastest of the repeats",
    "length_ratio": "longest prompt over shortest",
    "time_ratio": "time of the longest prompt over the time of the shortest",
    "exponent_short": "growth exponent of the time over the first doubling of the length",
    "exponent_long": "growth exponent of the time over the last doubling of the length",
    "fixed_ms": "constant part of the fitted time, ms",
    "linear_us_per_token": "linear part, microseconds a token",
    "quadratic_ns_per_pair": "quadratic part, nanoseconds for each of N x N pairs",
    "quadratic_share": "the quadratic part's share of the fitted time at each length",
    "fit_error": "largest relative difference between fit and measurement",
}


@probe(engine="vllm", levels=("engine", "cuda"), observes=_OBSERVES, config=lambda _: vllm_engine.roomy(16))
def vllm_by_length(run: Run, *, repeats: int = 3) -> Observations:
    """Time prefills of 256 to 4096 tokens, each in one step of vLLM, and fit a + b N + c N^2."""
    return _by_length(run, repeats)


@probe(
    engine="sglang",
    levels=("engine", "cuda"),
    observes=_OBSERVES,
    config=lambda _: {"page_size": 1, "disable_radix_cache": False, "chunked_prefill_size": 8192},
)
def sglang_by_length(run: Run, *, repeats: int = 2) -> Observations:
    """Time prefills of 256 to 4096 tokens, each in one batch of SGLang, and fit a + b N + c N^2."""
    return _by_length(run, repeats)


def _by_length(run: Run, repeats: int) -> Observations:
    times: dict[int, list[float]] = {n: [] for n in LENGTHS}
    run.engine.generate([Request(random_tokens(max(LENGTHS), seed=999))])  # first-use costs fall on this one
    for repeat in range(repeats):
        for n in LENGTHS:
            for send in range(min(8, max(LENGTHS) // n)):  # a short send is cheap, and more easily disturbed
                run.engine.flush()
                [one] = run.engine.generate([Request(random_tokens(n, seed=1000 * repeat + 10 * send + n))])
                if one.cached_tokens:
                    raise Inconclusive(f"a prompt that should be new hit {one.cached_tokens} tokens in the cache")
                times[n].append(one.ttft_s * 1000)
    run.samples["ttft_ms_by_tokens"] = [[n, *values] for n, values in times.items()]
    return observed(LENGTHS, [min(values) for values in times.values()])


def observed(lengths: tuple[int, ...], ttft_ms: list[float]) -> dict[str, Any]:
    """What the times say: ratios, local exponents, and the three parts of a fit."""
    fixed, linear, quadratic = growth.parts(lengths, ttft_ms)
    fitted = [fixed + linear * n + quadratic * n * n for n in lengths]
    return {
        "tokens": list(lengths),
        "ttft_ms": ttft_ms,
        "length_ratio": lengths[-1] / lengths[0],
        "time_ratio": ttft_ms[-1] / ttft_ms[0],
        "exponent_short": growth.exponent(lengths[:2], ttft_ms[:2]),
        "exponent_long": growth.exponent(lengths[-2:], ttft_ms[-2:]),
        "fixed_ms": fixed,
        "linear_us_per_token": 1e3 * linear,
        "quadratic_ns_per_pair": 1e6 * quadratic,
        "quadratic_share": [quadratic * n * n / f for n, f in zip(lengths, fitted, strict=True)],
        "fit_error": max(abs(f / t - 1) for f, t in zip(fitted, ttft_ms, strict=True)),
    }
