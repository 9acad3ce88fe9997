"""How each engine's HTTP server is asked for a stream, and what its events say, in tokens and never in chunks.

vLLM is asked through `/v1/completions` with `continuous_usage_stats`, so that every event tells how many tokens there
are by now; SGLang through `/generate`, whose events tell it too, and which reports its own times and its speculation.
An event may carry several tokens, or none (an empty first chunk): the first token is the first event with a count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from inferproof.probes.sse import HttpError, Stream


@dataclass(frozen=True)
class Ask:
    """One request. A prompt is token ids, or text where the words matter."""

    prompt: Sequence[int] | str
    max_tokens: int


@dataclass(frozen=True)
class Reply:
    """What came back for one request, in seconds from its writing."""

    sent_at: float
    """`time.perf_counter()` when it was written."""
    times_s: tuple[float, ...]
    """Of each event that brought tokens."""
    counts: tuple[int, ...]
    """Tokens of the answer at each of them."""
    prompt_tokens: int
    cached_tokens: int
    due_at: float | None = None
    """When it should have been sent, in an open loop."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The server's last words on it."""

    @property
    def tokens(self) -> int:
        """Tokens of the answer."""
        return self.counts[-1]

    @property
    def ttft_s(self) -> float:
        """Seconds to the first event that brought a token; in an open loop from the time at which it was due."""
        return self.times_s[0] + self.client_queue_s

    @property
    def e2e_s(self) -> float:
        """Seconds to the last token, counted as `ttft_s`."""
        return self.times_s[-1] + self.client_queue_s

    @property
    def client_queue_s(self) -> float:
        """Seconds for which the request waited in the client, past the time at which it was due."""
        return 0.0 if self.due_at is None else self.sent_at - self.due_at

    @property
    def tpot_s(self) -> float | None:
        """Mean seconds a token after the first event; None where all came in one."""
        later = self.counts[-1] - self.counts[0]
        return (self.times_s[-1] - self.times_s[0]) / later if later else None

    @property
    def gaps_s(self) -> list[float]:
        """Between two events, as a user sees them."""
        return [b - a for a, b in pairwise(self.times_s)]

    @property
    def itl_s(self) -> list[float]:
        """Between two tokens: the gap before an event that brought several is spread over them."""
        spread: list[float] = []
        for gap, (before, after) in zip(self.gaps_s, pairwise(self.counts), strict=True):
            spread += [gap / (after - before)] * (after - before)
        return spread

    def raw(self) -> dict[str, Any]:
        """The sample that is kept: milliseconds from the sending, and what each event brought."""
        return {
            "events_ms": [round(t * 1000, 3) for t in self.times_s],
            "tokens": list(self.counts),
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            **({} if self.due_at is None else {"client_queue_ms": round(self.client_queue_s * 1000, 3)}),
        }


def vllm_body(ask: Ask, model: str) -> tuple[str, dict[str, Any]]:
    """(path, JSON) of a streamed completion whose length is forced."""
    prompt = ask.prompt if isinstance(ask.prompt, str) else list(ask.prompt)
    return "/v1/completions", {
        "model": model, "prompt": prompt, "max_tokens": ask.max_tokens, "temperature": 0, "ignore_eos": True,
        "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }  # fmt: skip


def sglang_body(ask: Ask, model: str) -> tuple[str, dict[str, Any]]:
    """(path, JSON) of a streamed generation whose length is forced."""
    del model  # a server has one
    prompt = {"text": ask.prompt} if isinstance(ask.prompt, str) else {"input_ids": list(ask.prompt)}
    sampling = {"temperature": 0, "max_new_tokens": ask.max_tokens, "ignore_eos": True}
    return "/generate", {**prompt, "sampling_params": sampling, "stream": True}


def vllm_reply(stream: Stream) -> Reply:
    """Read the events of `/v1/completions`. Raises HttpError where they cannot be counted in tokens."""
    total = 0
    usage: dict[str, Any] = {}
    details: dict[str, Any] = {}
    seen: list[tuple[float, int]] = []
    for at, event in _read(stream):
        told = event.get("usage") or {}
        ids = sum(len(choice.get("token_ids") or ()) for choice in event.get("choices") or ())
        if not told and not ids and event.get("choices") and event["choices"][0].get("text"):
            raise HttpError("an event has text, but neither usage nor token ids: its tokens cannot be counted")
        now = told.get("completion_tokens", total + ids)
        usage, details = told or usage, told.get("prompt_tokens_details") or details
        if now > total:
            seen.append((at, now))
            total = now
    return _reply(stream, seen, usage.get("prompt_tokens", 0), details.get("cached_tokens") or 0, {})


def sglang_reply(stream: Stream) -> Reply:
    """Read the events of `/generate`."""
    meta: Mapping[str, Any] = {}
    seen: list[tuple[float, int]] = []
    for at, event in _read(stream):
        meta = event.get("meta_info") or {}
        if "completion_tokens" not in meta:
            raise HttpError("an event has no meta_info.completion_tokens: its tokens cannot be counted")
        if meta["completion_tokens"] > (seen[-1][1] if seen else 0):
            seen.append((at, meta["completion_tokens"]))
    return _reply(stream, seen, meta.get("prompt_tokens", 0), meta.get("cached_tokens") or 0, meta)


def _read(stream: Stream) -> list[tuple[float, dict[str, Any]]]:
    try:
        read = [(at, json.loads(event)) for at, event in stream.events]
    except ValueError:
        raise HttpError("an event is not JSON") from None
    for _, event in read:
        if not isinstance(event, dict) or event.get("error"):
            raise HttpError(f"the server says in its stream: {str(event)[:300]}")
    return read


def _reply(
    stream: Stream, seen: Sequence[tuple[float, int]], prompt: int, cached: int, meta: Mapping[str, Any]
) -> Reply:
    if not seen:
        raise HttpError(f"the stream brought no token in {len(stream.events)} events")
    times, counts = zip(*seen, strict=True)
    if not all(type(n) is int for n in (*counts, prompt, cached)):
        raise HttpError(f"a count of tokens is no whole number: {(counts[-1], prompt, cached)!r:.100}")
    return Reply(stream.sent_at, times, counts, prompt, cached, meta=meta)


BODIES: Mapping[str, Callable[[Ask, str], tuple[str, dict[str, Any]]]] = {"vllm": vllm_body, "sglang": sglang_body}


def _checked(read: Callable[[Stream], Reply]) -> Callable[[Stream], Reply]:
    """An attached server may be anything: what has another shape is refused, and is no fault of ours."""

    def reply(stream: Stream) -> Reply:
        try:
            return read(stream)
        except (AttributeError, LookupError, TypeError) as error:
            raise HttpError(f"an event has an unknown shape: {type(error).__name__}: {error}") from None

    return reply


REPLIES: Mapping[str, Callable[[Stream], Reply]] = {"vllm": _checked(vllm_reply), "sglang": _checked(sglang_reply)}
