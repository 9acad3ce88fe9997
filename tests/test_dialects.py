"""What a stream's events say in tokens: the known ways in which a client miscounts them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes.dialects import REPLIES, Ask, sglang_body, sglang_reply, vllm_body, vllm_reply
from inferproof.probes.sse import HttpError, Stream


def streamed(*events: tuple[float, dict[str, Any]]) -> Stream:
    return Stream(100.0, tuple((at, json.dumps(event).encode()) for at, event in events))


def vllm(text: str, completion: int | None = None, ids: list[int] | None = None) -> dict[str, Any]:
    usage = {} if completion is None else {"usage": {"prompt_tokens": 9, "completion_tokens": completion}}
    return {"choices": [{"text": text, "token_ids": ids}], **usage}


def sglang(completion: int, **meta: Any) -> dict[str, Any]:
    told = {"completion_tokens": completion, "prompt_tokens": 9, "cached_tokens": None, **meta}
    return {"text": "x", "output_ids": [5] * completion, "meta_info": told}


STEPS = st.lists(st.tuples(st.floats(0.001, 1), st.integers(1, 5)), min_size=1, max_size=20)


@given(STEPS, st.sampled_from(["usage", "ids", "sglang"]))
def test_tokens_are_counted_and_never_chunks(steps: list[tuple[float, int]], how: str) -> None:
    at, count, events = 0.0, 0, []
    for gap, tokens in steps:
        at, count = at + gap, count + tokens
        event = {"usage": vllm("x", count), "ids": vllm("x", None, [7] * tokens), "sglang": sglang(count)}[how]
        events.append((at, event))
    reply = (sglang_reply if how == "sglang" else vllm_reply)(streamed(*events))

    assert reply.tokens == count
    assert len(reply.itl_s) == count - steps[0][1]  # the gap before several tokens is spread over them
    assert sum(reply.itl_s) == pytest.approx(reply.times_s[-1] - reply.times_s[0])
    if reply.tpot_s is not None:
        assert reply.tpot_s == pytest.approx(sum(reply.itl_s) / len(reply.itl_s))
    assert len(reply.gaps_s) == len(steps) - 1


def test_the_first_token_is_the_first_event_that_brings_one() -> None:
    reply = vllm_reply(streamed((0.1, vllm("", 0)), (0.5, vllm("", 1)), (0.7, vllm("b", 3)), (0.7, vllm("", 3))))

    assert (reply.ttft_s, reply.times_s, reply.counts) == (0.5, (0.5, 0.7), (1, 3))
    assert reply.itl_s == pytest.approx([0.1, 0.1])
    assert reply.ttft_s not in reply.itl_s


def test_the_closing_usage_gives_what_was_cached() -> None:
    usage = {"prompt_tokens": 64, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 48}}
    reply = vllm_reply(streamed((0.1, vllm("a", 1)), (0.2, {"choices": [], "usage": usage})))

    assert (reply.prompt_tokens, reply.cached_tokens, reply.tokens) == (64, 48, 1)


def test_sglang_tells_null_where_nothing_was_cached() -> None:
    assert sglang_reply(streamed((0.1, sglang(1)))).cached_tokens == 0


@pytest.mark.parametrize(
    ("reply", "event", "says"),
    [
        (vllm_reply, {"choices": [{"text": "two tokens?"}]}, "cannot be counted"),
        (sglang_reply, {"text": "a", "meta_info": {}}, "cannot be counted"),
        (vllm_reply, {"error": {"message": "out of memory"}}, "out of memory"),
        (sglang_reply, {"error": {"message": "aborted"}}, "aborted"),
        (vllm_reply, {"choices": []}, "no token"),
        (vllm_reply, [], "says in its stream"),
    ],
)
def test_a_stream_that_cannot_be_counted_is_refused(reply: Any, event: Any, says: str) -> None:
    with pytest.raises(HttpError, match=says):
        reply(streamed((0.1, event)))


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(HttpError, match="not JSON"):
        vllm_reply(Stream(0.0, ((0.1, b"{"),)))


def test_a_request_forces_its_length_and_sends_token_ids() -> None:
    path, body = vllm_body(Ask([5, 6], 7), "m")
    assert (path, body["prompt"], body["max_tokens"], body["ignore_eos"]) == ("/v1/completions", [5, 6], 7, True)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    path, body = sglang_body(Ask([5, 6], 7), "m")
    assert (path, body["input_ids"]) == ("/generate", [5, 6])
    assert body["sampling_params"] == {"temperature": 0, "max_new_tokens": 7, "ignore_eos": True}
    assert sglang_body(Ask("words", 7), "m")[1]["text"] == "words"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "event",
    [
        {"usage": {"completion_tokens": "2"}, "meta_info": {"completion_tokens": "2"}},
        {"usage": [1], "meta_info": [1]},
        {"choices": 3, "meta_info": {"completion_tokens": None}},
        {
            "usage": {"completion_tokens": 2, "prompt_tokens": "9"},
            "meta_info": {"completion_tokens": 2, "prompt_tokens": "9"},
        },
        {"usage": {"completion_tokens": 1.5}, "meta_info": {"completion_tokens": 1.5}},
    ],
)
def test_an_event_of_another_shape_is_refused(engine: str, event: dict[str, object]) -> None:
    with pytest.raises(HttpError):
        REPLIES[engine](Stream(0.0, ((0.1, json.dumps(event).encode()),)))
