"""The runner's side of a worker process: start it, send it runs, watch it, and kill its whole group when it must go."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from inferproof.runners.evidence import Task

ENGINE_START_TIMEOUT_S = 300.0
CLOSE_TIMEOUT_S = 5.0
MAX_LOG_BYTES = 256 << 20
_TICK_S = 0.25
_MEMORY_EVERY_S = 2.0

Listener = Callable[[str, Mapping[str, Any]], None]
"""Called with an event's name and fields: starting, started, observing, ..."""


def silent(event: str, fields: Mapping[str, Any]) -> None:
    """The listener that does nothing."""


@dataclass(frozen=True)
class Launch:
    """How to start a worker in a build's environment."""

    python: Sequence[str]
    environment: Mapping[str, str]
    """The worker's whole environment; nothing else is passed on."""
    source: Path | None
    """The engine's package folder."""
    version: str
    models: Path
    log: Path
    memory_bytes: int
    """Memory of the whole process group above which it is killed."""


@dataclass(frozen=True)
class Outcome:
    """How one run ended, in the worker's words, or in ours where the worker cannot speak any more."""

    ended: str
    reason: str = ""
    seconds: float = 0.0
    engine_start_s: float | None = None
    observations: Mapping[str, Any] | None = None
    samples: Mapping[str, Any] | None = None
    flags: Mapping[str, Any] | None = None
    modifications: Sequence[str] = ()


class Worker:
    """One worker process in its own process group, with pipes and a folder for temporary files of its own."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        launch.log.parent.mkdir(parents=True, exist_ok=True)
        to_worker_r, to_worker_w = os.pipe()
        from_worker_r, from_worker_w = os.pipe()
        self._log: IO[bytes] = launch.log.open("ab")
        # a short path, since engines make sockets in it; killed ones leave them behind
        self._scratch = tempfile.TemporaryDirectory(prefix="ip-", ignore_cleanup_errors=True)
        argv = [*launch.python, "-m", "inferproof.probes", str(to_worker_r), str(from_worker_w)]
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env={**launch.environment, "TMPDIR": self._scratch.name},
                pass_fds=(to_worker_r, from_worker_w),
                start_new_session=True,
                cwd=launch.log.parent,
            )
        finally:
            os.close(to_worker_r)
            os.close(from_worker_w)
        self._out = os.fdopen(to_worker_w, "w", encoding="utf-8", buffering=1)
        self._in = from_worker_r
        self._selector = selectors.DefaultSelector()
        self._selector.register(from_worker_r, selectors.EVENT_READ)
        self._buffer = b""
        self._weighed = time.monotonic()
        self._send(
            {
                "source": str(launch.source) if launch.source else None,
                "version": launch.version,
                "models": str(launch.models),
                "log": str(launch.log),
            }
        )

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def run(self, name: str, task: Task, listen: Listener) -> Outcome:
        """One run. Never raises for what the worker does: a dead, hung or babbling worker is an outcome."""
        started = time.monotonic()
        log_start = self.launch.log.stat().st_size
        self._send(_command(name, task))
        deadline, phase = started + ENGINE_START_TIMEOUT_S, "starting the engine"
        while True:
            event = self._event()
            now = time.monotonic()
            if event is None:
                trouble = self._trouble(now, deadline, phase, log_start)
                if trouble is None:
                    continue
                self.kill()
                return Outcome(trouble[0], f"{trouble[1]}{self._last_words(log_start)}", seconds=now - started)
            if event["event"] == "babble":
                self.kill()
                return Outcome("died", f"no message of ours came from the worker: {event['line']}", now - started)
            if event["event"] == "done":
                fields = {k: v for k, v in event.items() if k not in ("event", "run")}
                return Outcome(**fields)
            if event["event"] == "observing":
                deadline, phase = now + task.timeout_s, "observing"
            listen(event["event"], event)

    def prepare(self, task: Task) -> None:
        """Have the worker start what a run of the task will need, meanwhile; this returns at once."""
        self._send({**_command("prepare", task), "prepare": True})

    def stop(self) -> None:
        """Let the worker close its engine and end; kill what is left of its group, also on an interrupt."""
        self._send({"stop": True})
        try:
            self.process.wait(timeout=CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole process group, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # its children hold memory until they are gone
            for _ in range(200):
                os.killpg(self.process.pid, 0)
                time.sleep(0.01)
        with contextlib.suppress(OSError):
            self._out.close()
        if self._in >= 0:
            self._selector.close()
            os.close(self._in)
            self._in = -1
        self._log.close()
        self._scratch.cleanup()

    def _send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # a dead worker is found by reading
            self._out.write(json.dumps(message) + "\n")

    def _event(self) -> dict[str, Any] | None:
        """The next event, or None after a tick without one."""
        while b"\n" not in self._buffer:
            if self._in < 0 or not self._selector.select(timeout=_TICK_S):
                return None
            chunk = os.read(self._in, 1 << 16)
            if not chunk:
                time.sleep(_TICK_S)
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            event: dict[str, Any] = json.loads(line)
            event["event"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return {"event": "babble", "line": line[:300].decode("utf-8", "replace")}
        return event

    def _trouble(self, now: float, deadline: float, phase: str, log_start: int) -> tuple[str, str] | None:
        """What is wrong with the worker now, as (how the run ended, why)."""
        code = self.process.poll()
        if code is not None:
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
            return "died", f"the worker ended {how} while {phase}"
        if now > deadline:
            return "timed out", f"still {phase} after its time limit"
        if now > self._weighed + _MEMORY_EVERY_S:
            self._weighed = now
            used, allowed = _group_memory(self.process.pid), self.launch.memory_bytes
            if used > allowed:
                return "died", f"out of memory: the worker used {used >> 20} MiB, allowed are {allowed >> 20} MiB"
        if self.launch.log.stat().st_size - log_start > MAX_LOG_BYTES:
            return "died", f"the engine wrote more than {MAX_LOG_BYTES >> 20} MiB of log"
        return None

    def _last_words(self, log_start: int) -> str:
        with self.launch.log.open("rb") as f:
            f.seek(max(log_start, self.launch.log.stat().st_size - 4096))
            lines = f.read().decode("utf-8", "replace").strip().splitlines()
        return f"; last line of its log: {lines[-1][:300]}" if lines else ""


def _command(name: str, task: Task) -> dict[str, Any]:
    return {
        "run": name,
        "probe": task.probe,
        "engine": task.engine,
        "level": task.level,
        "params": task.params,
        "config": task.config,
    }


def _group_memory(group: int) -> int:
    """Bytes that the processes of the group hold; a page that forked ones share counts once (Linux)."""
    import psutil

    total = 0
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getpgid(pid) == group:
                held = psutil.Process(pid).memory_full_info()
                total += getattr(held, "pss", held.rss)
    return total
