"""The streaming client on the wire: responses and events cut anywhere, and what a stream that goes wrong is called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes.sse import Events, HttpError, Response, Stream, stream

PAYLOADS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1).map(str.encode), min_size=1, max_size=6
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(at)]


@given(PAYLOADS, st.lists(st.integers(0, 10_000), max_size=8), st.sampled_from([b"\n", b"\r\n"]))
def test_events_are_the_same_wherever_they_are_cut(payloads: list[bytes], cuts: list[int], end: bytes) -> None:
    page = b"".join(b": a comment" + end + b"data: " + p + end + end for p in payloads)
    events = Events()

    assert [e for piece in pieces(page, cuts) for e in events.feed(piece)] == payloads


def test_the_lines_of_one_event_are_joined_and_an_unended_one_is_not_told() -> None:
    assert Events().feed(b"event: x\ndata: a\ndata:b\n\ndata: half\n") == [b"a\nb"]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(0, 10_000), max_size=8))
def test_a_chunked_body_is_the_same_wherever_it_is_cut(chunks: list[bytes], cuts: list[int]) -> None:
    body = b"".join(b"%x;note=1\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
    page = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    response = Response()

    assert b"".join(response.feed(piece) for piece in pieces(page, cuts)) == b"".join(chunks)
    assert (response.status, response.ended) == (200, True)


@given(st.binary(max_size=60), st.lists(st.integers(0, 10_000), max_size=5))
def test_a_body_of_told_length_ends_there(body: bytes, cuts: list[int]) -> None:
    page = b"HTTP/1.1 503 Busy\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    response = Response()

    assert b"".join(response.feed(piece) for piece in pieces(page, cuts)) == body
    assert (response.status, response.ended) == (503, True)


@pytest.mark.parametrize("page", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b"x" * 70_000])
def test_what_is_no_response_is_refused(page: bytes) -> None:
    with pytest.raises(HttpError):
        Response().feed(page)


def test_a_chunk_without_a_size_is_refused() -> None:
    with pytest.raises(HttpError, match="not a size"):
        Response().feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def asked(handler: Handler) -> Stream:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        return await stream("127.0.0.1", server.sockets[0].getsockname()[1], "/x", {"a": 1})


def answering(page: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        assert json.loads(await reader.readexactly(length)) == {"a": 1}
        writer.write(page)
        await writer.drain()
        writer.close()

    return handle


def test_each_event_has_its_time_and_done_is_left_out() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"data: 2\n\ndata: [DONE]\n\n")
        writer.close()

    with pytest.raises(HttpError, match="closed before"):  # it told no length and cut no chunks
        asyncio.run(asked(handle))
    chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n"
    seen = asyncio.run(asked(answering(chunk % b"9\r\ndata: 1\n\n\r\nE\r\ndata: [DONE]\n\n\r\n")))
    assert [event for _, event in seen.events] == [b"1"]
    assert all(at > 0 for at, _ in seen.events)


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nno model!", "status 404 from /x: no model!"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n", "without its .DONE."),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1", "closed before the response ended"),
        (b"hello", "closed before the response ended"),
    ],
)
def test_a_stream_that_goes_wrong_says_how(page: bytes, says: str) -> None:
    with pytest.raises(HttpError, match=says):
        asyncio.run(asked(answering(page)))


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(HttpError, match=r"no connection to 127\.0\.0\.1:1"):
        asyncio.run(stream("127.0.0.1", 1, "/x", {}))
