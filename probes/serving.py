"""The experiments of the document over HTTP: lengths, a repeated prompt, concurrency, arrivals.

Question
    How long do requests take at a real server, and what changes with their length, a warm cache, and their number?
Watched
    Streams as a client sees them, with one clock; the server's own metrics before and after; its resolved flags.
Can mislead
    A chunk is not a token: tokens are counted by what the server says of them. A prompt that was sent before is warm:
    each is random, anew in every run, and a run in which a cold prompt hit is inconclusive. TTFT counts from the
    request's writing to the first event with a token. Two servers on one machine share it with the client.
Sources
    vLLM 0.27.1 (`/v1/completions`, `/metrics`), SGLang 0.5.15.post1 (`/generate`, `/metrics`).
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from inferproof.probes import load
from inferproof.probes.core import Inconclusive, Observations, Run, probe
from inferproof.probes.dialects import Ask, Reply
from inferproof.probes.http_server import Server
from inferproof.probes.load import Prompts, figures
from inferproof.probes.prometheus import CounterReset, difference, mean_ms

SETTLE_S = 0.3
"""After the last token the server still writes its metrics."""

Observe = Callable[..., Observations]


def on_both(observes: Mapping[str, str]) -> Callable[[Observe], Observe]:
    """Register a probe of either engine's server; its parameter `server` holds the server's settings."""

    def register(function: Observe) -> Observe:
        for engine in ("vllm", "sglang"):
            probe(engine=engine, levels=("engine", "cuda"), observes=observes, config=_config(engine))(function)
        return function

    return register


def _config(engine: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda params: {"adapter": "http_server", "engine": engine, "settings": params["server"]}


@contextlib.contextmanager
def window(run: Run) -> Iterator[dict[str, float]]:
    """What the server's counters and histograms grew by inside. Raises Inconclusive where it was started anew."""
    grown: dict[str, float] = {}
    before = run.engine.counters()
    yield grown
    time.sleep(SETTLE_S)
    after = run.engine.counters()
    kept = {name: value for name, value in after.items() if value or before.get(name)}
    run.samples.setdefault("metrics", []).append({"before": {k: before.get(k, 0.0) for k in kept}, "after": kept})
    try:
        grown.update(difference(before, after))
    except CounterReset as reset:
        raise Inconclusive(str(reset)) from None


def begin(run: Run, lengths: Sequence[int], max_tokens: int = 2) -> Prompts:
    """Cold prompts for this run, after a warm-up by two of each length that nothing else will repeat."""
    prompts = Prompts()
    run.samples["salt"] = prompts.salt
    server: Server = run.engine
    for length in lengths:
        for _ in range(2):
            server.run(server.ask(Ask(prompts.cold(length), max_tokens)))
    return prompts


def keep(run: Run, name: str, replies: Sequence[Reply]) -> None:
    """Keep the raw samples of these requests."""
    run.samples.setdefault("requests", {})[name] = [reply.raw() for reply in replies]


def expect_cold(replies: Sequence[Reply]) -> None:
    """Raises Inconclusive where the cache knew more of a prompt than a chance first token."""
    for reply in replies:
        if reply.cached_tokens > reply.prompt_tokens // 50:
            raise Inconclusive(f"a cold prompt of {reply.prompt_tokens} tokens hit {reply.cached_tokens} in the cache")


@on_both({
    "ttft_ms": "median time to first token of each length, in milliseconds",
    "fastest_ms": "the smallest of each length",
    "repeats": "prompts of each length",
})  # fmt: skip
def lengths(run: Run, *, server: str, lengths: list[int], repeats: int = 5) -> Observations:  # noqa: ARG001
    """Unique prompts of each length, one request at a time, one output token."""
    prompts, engine = begin(run, lengths), run.engine
    replies: dict[int, list[Reply]] = {length: [] for length in lengths}
    with window(run):
        for _ in range(repeats):
            for length in lengths:  # in turn, so that a slow moment of the machine falls on all of them
                replies[length].append(engine.run(engine.ask(Ask(prompts.cold(length), 1))))
    for length, of_length in replies.items():
        keep(run, str(length), of_length)
        expect_cold(of_length)
    times = [[reply.ttft_s * 1000 for reply in replies[length]] for length in lengths]
    return {
        "ttft_ms": [statistics.median(t) for t in times],
        "fastest_ms": [min(t) for t in times],
        "repeats": repeats,
    }


@on_both({
    "cold_server_ms": "median of the server's own time for the new prompt: vLLM its prefill, SGLang end to end",
    "warm_server_ms": "the same for its repetition",
    "cold_ttft_ms": "median time to first token of the new prompt, at the client",
    "warm_ttft_ms": "the same for its repetition",
    "cached_tokens": "prompt tokens of the repetition that came from the cache, by the response",
    "counted_hits": "the same by the server's counter, over the repetition alone; None where there is none",
})  # fmt: skip
def prefix(run: Run, *, server: str, prompt_tokens: int = 2080, repeats: int = 5) -> Observations:  # noqa: ARG001
    """A new prompt, and then the same again; several times."""
    prompts, engine = begin(run, [prompt_tokens], 1), run.engine
    turns: dict[str, list[tuple[Reply, float]]] = {"cold": [], "warm": []}
    hits: list[float] = []
    for _ in range(repeats):
        prompt = prompts.cold(prompt_tokens)
        for turn in turns:
            with window(run) as grown:
                reply = engine.run(engine.ask(Ask(prompt, 1)))
            turns[turn].append((reply, _server_ms(reply, grown)))
        hits += _hits(grown)
    for turn, seen in turns.items():
        keep(run, turn, [reply for reply, _ in seen])
    expect_cold([reply for reply, _ in turns["cold"]])
    ttft = {turn: statistics.median(r.ttft_s * 1000 for r, _ in seen) for turn, seen in turns.items()}
    return {
        **{f"{turn}_server_ms": statistics.median(ms for _, ms in seen) for turn, seen in turns.items()},
        **{f"{turn}_ttft_ms": value for turn, value in ttft.items()},
        "cached_tokens": int(statistics.median(r.cached_tokens for r, _ in turns["warm"])),
        "counted_hits": statistics.median(hits) if hits else None,
    }


def _server_ms(reply: Reply, grown: Mapping[str, float]) -> float:
    if "e2e_latency" in reply.meta:
        return float(reply.meta["e2e_latency"]) * 1000
    own = mean_ms(grown, "request_prefill_time_seconds")
    if own is None:
        raise Inconclusive("the server recorded no prefill time for the request")
    return own


def _hits(grown: Mapping[str, float]) -> list[float]:
    return [grown[name] for name in ("prefix_cache_hits_total", "cached_tokens_total") if name in grown][:1]


_LOAD = {
    "requests": "requests sent",
    "throughput": "output tokens a second, from the first sending to the last token",
    "full_batch_throughput": "the same while every request was decoding; None where there was no such time",
    "ttft_mean_ms": "mean time to first token",
    "ttft_p99_ms": "its 99th percentile, of so many values as there are requests",
    "tpot_mean_ms": "mean of each request's mean time per output token after the first event",
    "itl_p99_ms": "99th percentile of the times between two tokens",
    "itl_count": "values that this percentile stands on",
    "e2e_mean_ms": "mean time to the last token",
}


def flat(replies: Sequence[Reply]) -> Observations:
    """The observations that every load has, see `_LOAD`."""
    told = figures(replies)
    return {
        "requests": len(replies),
        "throughput": told["throughput"],
        "full_batch_throughput": load.full_batch_throughput(replies),
        "ttft_mean_ms": told["ttft_ms"]["mean"],
        "ttft_p99_ms": told["ttft_ms"]["p99"],
        "tpot_mean_ms": told["tpot_ms"].get("mean"),
        "itl_p99_ms": told["itl_ms"].get("p99"),
        "itl_count": told["itl_ms"]["count"],
        "e2e_mean_ms": told["e2e_ms"]["mean"],
    }


@on_both(_LOAD)
def concurrency(
    run: Run, *, server: str, places: int, requests: int = 16, prompt_tokens: int = 256, max_tokens: int = 32  # noqa: ARG001
) -> Observations:  # fmt: skip
    """A closed loop: so many requests, so many at a time."""
    prompts = begin(run, [prompt_tokens], max_tokens)
    asks = [Ask(prompts.cold(prompt_tokens), max_tokens) for _ in range(requests)]
    with window(run):
        replies = run.engine.run(load.closed_loop(run.engine.ask, asks, places))
    keep(run, f"concurrency {places}", replies)
    expect_cold(replies)
    return flat(replies)


@on_both({
    **_LOAD,
    "ttft_from_sending_ms": "mean time to first token counted from the sending, which leaves the client's queue out",
    "queue_max_ms": "the longest that a request waited in the client past its time",
    "goodput": "requests a second with a time to first token within the limit",
})  # fmt: skip
def arrivals(
    run: Run, *, server: str, rate: float, places: int, limit_ms: float, requests: int = 16,  # noqa: ARG001
    prompt_tokens: int = 256, max_tokens: int = 32,
) -> Observations:  # fmt: skip
    """An open loop: requests are due at random times, `rate` a second, and wait in the client for a place."""
    prompts = begin(run, [prompt_tokens], max_tokens)
    asks = [Ask(prompts.cold(prompt_tokens), max_tokens) for _ in range(requests)]
    due = load.poisson(requests, rate, seed=5)
    with window(run):
        replies = run.engine.run(load.open_loop(run.engine.ask, asks, due, places))
    keep(run, f"{rate:g} a second", replies)
    expect_cold(replies)
    told = figures(replies)
    return {
        **flat(replies),
        "ttft_from_sending_ms": statistics.fmean(r.times_s[0] * 1000 for r in replies),
        "queue_max_ms": max(r.client_queue_s * 1000 for r in replies),
        "goodput": sum(r.ttft_s * 1000 <= limit_ms for r in replies) / told["duration_s"],
    }
