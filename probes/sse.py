"""A streaming HTTP client that costs an event little: raw HTTP/1.1 on asyncio, a clock reading at every read.

Nothing is decoded while a stream runs, only cut into events, each with the time at which its last byte was read;
`dialects.py` reads them afterwards. The clock starts when the request's bytes are handed to a connection that is
already open, so that connecting is not counted; a request waits for nothing else in this process.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_HEAD_BYTES = 64 << 10


class HttpError(Exception):
    """The server refused, broke off, or does not speak HTTP; the message says which."""


class Response:
    """An HTTP/1.1 response, fed in whatever pieces the network gives."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = False
        self._buffer = b""
        self._left = 0
        """Bytes that are still to come of the body, or of its present chunk."""

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body among what has come. Raises HttpError."""
        self._buffer += data
        if not self.status and not self._read_head():
            return b""
        return self._chunks() if self.headers.get("transfer-encoding", "").lower() == "chunked" else self._plain()

    def _read_head(self) -> bool:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            if len(head) > MAX_HEAD_BYTES:
                raise HttpError(f"more than {MAX_HEAD_BYTES >> 10} KiB and no end of the response's head")
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdigit():
            raise HttpError(f"not an HTTP/1.1 response: {first[:100]!r}")
        self.status, self._buffer = int(status[:3]), rest
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
        self._left = _number(self.headers.get("content-length", "0"), 10)
        self.ended = "content-length" in self.headers and not self._left
        return True

    def _plain(self) -> bytes:
        body, self._buffer = self._buffer, b""
        if "content-length" in self.headers:
            body = body[: self._left]
            self._left -= len(body)
            self.ended = self._left <= 0
        return body

    def _chunks(self) -> bytes:
        body = []
        while self._buffer and not self.ended:
            if self._left:
                piece = self._buffer[: self._left]
                body.append(piece)
                self._left -= len(piece)
                self._buffer = self._buffer[len(piece) :]
                continue
            line, end, rest = self._buffer.partition(b"\r\n")
            if not end:
                if len(line) > MAX_HEAD_BYTES:
                    raise HttpError("no end of the size of a chunk")
                break
            self._buffer = rest
            if line:  # an empty one ends the chunk before
                self._left = _number(line.partition(b";")[0].strip().decode("latin-1"), 16)
                self.ended = self._left == 0
        return b"".join(body)


def _number(digits: str, base: int) -> int:
    """A size as the protocol writes it: `int` also takes signs, underscores and blanks."""
    if not re.fullmatch(r"[0-9a-fA-F]{1,15}", digits) or (base == 10 and not digits.isdecimal()):
        raise HttpError(f"not a size: {digits[:40]!r}")
    return int(digits, base)


class Events:
    """Server-sent events, fed in whatever pieces; lines end in LF or CRLF."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that is complete now."""
        found = []
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found


@dataclass(frozen=True)
class Stream:
    """What one streamed request brought."""

    sent_at: float
    """`time.perf_counter()` when the request was written."""
    events: tuple[tuple[float, bytes], ...]
    """(seconds since then, data) of each event, the closing `[DONE]` left out."""


class _Exchange(asyncio.Protocol):
    def __init__(self, on_event: Callable[[int], None] | None) -> None:
        self.response, self.cut, self.on_event = Response(), Events(), on_event
        self.events: list[tuple[float, bytes]] = []
        self.refusal = b""
        self.sent_at = 0.0
        self.over = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter() - self.sent_at
        try:
            body = self.response.feed(data)
        except HttpError as error:
            self._end(error)
            return
        if self.response.status == 200:
            for event in self.cut.feed(body):
                self.events.append((now, event))
                if self.on_event:
                    self.on_event(len(self.events))
        else:
            self.refusal += body[:2000]
        if self.response.ended:
            self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(HttpError(f"the connection closed before the response ended: {error or 'by the server'}"))

    def _end(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(error) if error else self.over.set_result(None)


async def stream(
    host: str, port: int, path: str, body: Mapping[str, Any], on_event: Callable[[int], None] | None = None
) -> Stream:
    """Post JSON and take the events of the answer; `on_event` gets the number of events so far. Raises HttpError."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    try:
        transport, exchange = await asyncio.get_running_loop().create_connection(
            lambda: _Exchange(on_event), host, port
        )
    except OSError as error:
        raise HttpError(f"no connection to {host}:{port}: {error.strerror or error}") from None
    try:
        exchange.sent_at = time.perf_counter()
        transport.write(head.encode() + content)
        await exchange.over
    finally:
        transport.close()
    if exchange.response.status != 200:
        words = exchange.refusal[:300].decode("utf-8", "replace").strip()
        raise HttpError(f"status {exchange.response.status} from {path}: {words}")
    if not exchange.events or exchange.events[-1][1] != b"[DONE]":
        raise HttpError(f"the stream of {path} ended without its [DONE], after {len(exchange.events)} events")
    return Stream(exchange.sent_at, tuple(exchange.events[:-1]))
