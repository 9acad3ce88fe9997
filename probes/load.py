"""Load on a server: closed and open loops, prompts that no cache can know, and figures with their counts.

In a closed loop a request is sent as soon as fewer than so many are under way: what it waited for a place is not
latency, it was not asked yet. In an open loop a request is due at its time whether or not the server keeps up, and
the wait for a place in the client counts from then (else a slow server would be asked less, and look faster).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import secrets
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from inferproof.probes.core import random_tokens
from inferproof.probes.dialects import Ask, Reply

Send = Callable[[Ask], Awaitable[Reply]]


class Prompts:
    """Prompts of random token ids that differ in every run, since a server may still know those of an earlier one."""

    def __init__(self, salt: str | None = None) -> None:
        self.salt = salt or secrets.token_hex(8)
        """Kept with the samples: with it the same prompts come again."""
        self._made = 0

    def cold(self, tokens: int) -> list[int]:
        """A prompt that shares no first block with any other."""
        self._made += 1
        seed = hashlib.sha256(f"{self.salt}/{self._made}".encode()).digest()
        return random_tokens(tokens, int.from_bytes(seed[:8], "big"))


async def closed_loop(send: Send, asks: Sequence[Ask], places: int) -> list[Reply]:
    """All requests, in order, never more than `places` under way."""
    free = asyncio.Semaphore(places)

    async def one(ask: Ask) -> Reply:
        async with free:
            return await send(ask)

    return await asyncio.gather(*map(one, asks))


async def open_loop(send: Send, asks: Sequence[Ask], due_s: Sequence[float], places: int | None = None) -> list[Reply]:
    """Each request at its time after the start; with `places`, at most so many under way, the rest waiting here."""
    free = asyncio.Semaphore(places or len(asks))
    start = time.perf_counter()

    async def one(ask: Ask, due: float) -> Reply:
        await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
        async with free:
            return replace(await send(ask), due_at=start + due)

    return await asyncio.gather(*map(one, asks, due_s))


def poisson(count: int, rate: float, seed: int) -> list[float]:
    """Arrival times in seconds of a Poisson process of so many a second."""
    gaps, now, times = random.Random(seed), 0.0, []
    for _ in range(count):
        now += gaps.expovariate(rate)
        times.append(now)
    return times


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies, interpolated between the two nearest (as NumPy does)."""
    if not values or not 0 <= share <= 1:
        raise ValueError("a percentile needs values, and a share from 0 to 1")
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary_ms(values_s: Sequence[float]) -> dict[str, float]:
    """Mean, median, 99th percentile and largest in milliseconds, with the number of values they stand on."""
    if not values_s:
        return {"count": 0}
    ms = [value * 1000 for value in values_s]
    return {
        "count": len(ms),
        "mean": statistics.fmean(ms),
        "p50": percentile(ms, 0.5),
        "p99": percentile(ms, 0.99),
        "max": max(ms),
    }


def figures(replies: Sequence[Reply]) -> dict[str, Any]:
    """What a load test reports: tokens a second from the first sending to the last token, and the times of requests."""
    began = min(r.sent_at if r.due_at is None else r.due_at for r in replies)
    ended = max(r.sent_at + r.times_s[-1] for r in replies)
    tpot = [r.tpot_s for r in replies if r.tpot_s is not None]
    return {
        "output_tokens": sum(r.tokens for r in replies),
        "duration_s": ended - began,
        "throughput": sum(r.tokens for r in replies) / (ended - began),
        "ttft_ms": summary_ms([r.ttft_s for r in replies]),
        "tpot_ms": summary_ms(tpot),
        "itl_ms": summary_ms([gap for r in replies for gap in r.itl_s]),
        "e2e_ms": summary_ms([r.e2e_s for r in replies]),
    }


def full_batch_throughput(replies: Sequence[Reply]) -> float | None:
    """Output tokens a second while every request was decoding: from the last first token to the first last one.

    None where there was no such time. Before and after it the batch is smaller than the load.
    """
    start = max(r.sent_at + r.times_s[0] for r in replies)
    end = min(r.sent_at + r.times_s[-1] for r in replies)
    if end <= start:
        return None
    steps = [(r, pairwise((0, *r.counts))) for r in replies]
    tokens = sum(
        b - a
        for r, counts in steps
        for t, (a, b) in zip(r.times_s, counts, strict=True)
        if start < r.sent_at + t <= end
    )
    return tokens / (end - start)


def most_under_way(replies: Sequence[Reply]) -> int:
    """The most requests that had their first token and not yet their last, at one time."""
    steps = [(r.sent_at + r.times_s[0], 1) for r in replies] + [(r.sent_at + r.times_s[-1], -1) for r in replies]
    now = most = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most
