"""An engine's own HTTP server, started by the worker or attached to: ask it, read its metrics and flags, stop it.

A server's config is `{"adapter": "http_server", "settings": ...}`: words such as `model=tiny eager chunk=512 mixed`,
which `server_arguments.py` turns into the engine's own arguments. A server that runs already is found through the
environment variable INFERPROOF_ATTACH, so that its address is in no record; then the settings are what its resolved
flags must say.

A started server stays in the worker's process group, so that whatever ends the worker ends it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from inferproof.probes import model
from inferproof.probes.core import Unavailable
from inferproof.probes.dialects import BODIES, REPLIES, Ask, Reply
from inferproof.probes.prometheus import read_metrics
from inferproof.probes.server_arguments import ARGUMENTS, parse_settings
from inferproof.probes.server_flags import differing, resolved
from inferproof.probes.sse import HttpError, stream

ATTACH = "INFERPROOF_ATTACH"
START_S, STOP_S, REQUEST_S = 280.0, 15.0, 300.0
RANDOM_WEIGHTS = "The model has random weights (load_format=dummy), and nothing is compiled or captured."
ATTACHED = "The server was running already; it was started by somebody else."

T = TypeVar("T")


def start(
    config: Mapping[str, Any], *, level: str, source: Path | None, log: Path | None, models: Path | None
) -> Server:
    """The server of that config, ready. Raises Unavailable for a level without a forward pass."""
    del source
    if level not in ("engine", "cuda"):
        raise Unavailable(f"an HTTP server runs at level engine or cuda, not {level}")
    engine, settings = str(config["engine"]), parse_settings(config["settings"])
    if ATTACH in os.environ:
        return _attached(engine, settings, os.environ[ATTACH])
    assert models is not None and log is not None
    gpu, name, port, offset = level == "cuda", settings["model"], free_port(), log.stat().st_size
    place = name if gpu else str(model.make(models, name))
    arguments, variables = ARGUMENTS[engine](settings, place, gpu)
    process = subprocess.Popen(
        [sys.executable, *arguments, "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
    )  # fmt: skip
    server = Server(engine, "127.0.0.1", port, process)
    server.settings, server.place, server.level = settings, place, level
    try:
        server.wait_until_healthy(START_S)
        server.learn([] if gpu else [RANDOM_WEIGHTS])
        server.start_log = log.read_bytes()[offset:].decode("utf-8", "replace")
    except BaseException:
        server.close()
        raise
    return server


def _attached(engine: str, settings: Mapping[str, str], url: str) -> Server:
    server = connect(engine, url)
    server.settings = settings
    if wrong := differing(engine, settings, server.flags):
        raise Unavailable(f"the attached server is not set up for this: {'; '.join(wrong)}")
    return server


def connect(engine: str, url: str) -> Server:
    """The server that runs at that URL. Raises HttpError."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.username or parts.path.strip("/"):
        raise HttpError(f"expected http://HOST:PORT, found {url.rpartition('@')[2]}")
    server = Server(engine, parts.hostname, parts.port or 80, None)
    server.get("/health")
    server.learn([ATTACHED])
    return server


class Server:
    """A server as a probe sees it."""

    def __init__(self, engine: str, host: str, port: int, process: subprocess.Popen[bytes] | None) -> None:
        self.name, self.host, self.port, self.process = engine, host, port, process
        self.level = "engine"
        self.model = self.place = ""
        """What it serves: the name, and where that was loaded from; the latter only of a started one."""
        self.settings: Mapping[str, str] = {}
        self.start_log = ""
        """What a started one printed until it was healthy."""
        self.flags: dict[str, Any] = {}
        self.modifications: Sequence[str] = ()

    def learn(self, modifications: Sequence[str]) -> None:
        """Read from the server what it serves and how it is set."""
        self.model = str(self.get("/v1/models")["data"][0]["id"])
        self.flags = {
            "model": self.model if self.model[0] != "/" else Path(self.model).name,
            **resolved(self.name, self.get, self.page()),
        }
        self.modifications = modifications

    async def ask(self, ask: Ask, on_event: Callable[[int], None] | None = None) -> Reply:
        """One streamed request. Raises HttpError."""
        path, body = BODIES[self.name](ask, self.model)
        reply = REPLIES[self.name](await stream(self.host, self.port, path, body, on_event))
        if reply.tokens != ask.max_tokens:
            raise HttpError(f"asked for {ask.max_tokens} tokens, got {reply.tokens}")
        return reply

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the client's work to its end, at most so long. Raises HttpError."""
        try:
            return asyncio.run(asyncio.wait_for(work, REQUEST_S))
        except asyncio.TimeoutError:  # noqa: UP041 - not TimeoutError's own name before Python 3.11
            raise HttpError(f"the server did not finish within {REQUEST_S:g} s") from None

    def get(self, path: str) -> Any:
        """The JSON of a page; an empty page gives None. Raises HttpError."""
        text = self._request("GET", path)
        return json.loads(text) if text else None

    def page(self) -> str:
        """The text of `/metrics`. Raises HttpError."""
        return self._request("GET", "/metrics")

    def counters(self) -> dict[str, float]:
        """The server's own metrics by name; take differences."""
        return read_metrics(self.page())

    def flush(self) -> None:
        """Empty the prefix cache, where the server offers it; prompts of a run are unknown to it anyway."""
        path = "/flush_cache" if self.name == "sglang" else "/reset_prefix_cache"
        with contextlib.suppress(HttpError):
            self._request("POST", path)

    def wait_until_healthy(self, seconds: float) -> None:
        """Return when `/health` says 200. Raises RuntimeError when the server ends or takes too long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"the {self.name} server ended with status {self.process.returncode} while starting")
            with contextlib.suppress(HttpError):
                self._request("GET", "/health")
                return
            time.sleep(0.25)
        raise RuntimeError(f"the {self.name} server was not healthy after {seconds:g} s")

    def close(self) -> None:
        """End the server and all its processes; one that was attached is left alone."""
        if self.process is None:
            return
        family = _descendants(self.process.pid)
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        for pid, born in [*family, *_descendants(self.process.pid)]:
            if _birth(pid) == born:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _request(self, method: str, path: str) -> str:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise HttpError(f"no answer from {path}: {error}") from None
        finally:
            connection.close()
        if response.status != 200:
            raise HttpError(f"status {response.status} from {path}: {text[:200]}")
        return text


def free_port() -> int:
    """A free port that SGLang accepts too: it takes port + 10000 for gRPC and refuses one above 65535."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            if (port := int(s.getsockname()[1])) <= 55_535:
                return port


def _descendants(pid: int) -> list[tuple[int, str]]:
    """(pid, time of birth) of the children of a process, their children, ..."""
    born = {int(folder.name): _stat(folder) for folder in Path("/proc").glob("[0-9]*")}
    found: list[tuple[int, str]] = []
    todo = [pid]
    while todo:
        parent = str(todo.pop())
        children = [p for p, stat in born.items() if stat and stat[1] == parent]
        found += [(p, born[p][19]) for p in children]
        todo += children
    return found


def _stat(folder: Path) -> list[str]:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _birth(pid: int) -> str | None:
    stat = _stat(Path(f"/proc/{pid}"))
    return stat[19] if stat else None
