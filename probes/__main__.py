"""The worker: runs probes inside an engine's environment, one at a time, as a runner tells it.

    python -m inferproof.probes READ_FD WRITE_FD SCRATCH

It talks JSON lines over two inherited pipes of its own, since engines print on stdout. In:
`{"run", "probe", "engine", "level", "params", "config"}`. Out: `{"event": "ready" | "starting" |
"started" | "running" | "done", ...}`. With `"prepare": true` nothing is observed and nothing is "done": what the run
would need is started or imported, so that the same command without it answers at once.
An engine lives as long as consecutive runs ask for the same config.
When the runner's end of the pipe closes, the worker removes SCRATCH, its folder for temporary files, and kills its
own process group: no engine outlives its runner.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from inferproof.probes import core


def main(read_fd: int, write_fd: int, scratch: str) -> None:
    """Serve runs until told to stop."""
    out = os.fdopen(write_fd, "w", encoding="utf-8", buffering=1)
    commands: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_listen, args=(read_fd, commands, scratch), daemon=True).start()

    def tell(event: str, **fields: Any) -> None:
        out.write(json.dumps({"event": event, **fields}, allow_nan=False, default=str) + "\n")

    hello = commands.get()
    if hello is None:
        return
    about = {
        "source": Path(hello["source"]) if hello["source"] else None,
        "log": Path(hello["log"]),
        "models": Path(hello["models"]),
    }
    tell("ready", pid=os.getpid())
    session = _Session(hello, tell)
    while (command := commands.get()) is not None:
        if command.get("prepare"):
            session.prepare(command, about)
            continue
        tell("running", run=command["run"])
        tell("done", run=command["run"], **session.execute(command, about))
    session.close()


class _Session:
    """The engine that is up now, if any, and the runs that share it."""

    def __init__(self, hello: dict[str, Any], tell: Any) -> None:
        self.hello, self.tell = hello, tell
        self.engine: core.Engine | None = None
        self.key = ""

    def execute(self, command: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
        """One run, whatever happens to it: how it ended, and what was observed."""
        run = core.Run(level=command["level"], engine_name=command["engine"], version=self.hello["version"], **about)
        result: dict[str, Any] = {"ended": "ok", "reason": "", "observations": {}, "flags": {}, "engine_start_s": None}
        started = time.perf_counter()
        try:
            probe = core.find_probe(command["probe"], command["engine"])
            if command["config"] is None and command["level"] in ("control", "engine", "cuda"):
                self.close()  # such a probe starts engines of its own, and two in one process disturb each other
            if command["config"] is not None:
                result["engine_start_s"] = self._open(command, about)
                run.engine = self.engine
                assert self.engine is not None
                result["flags"] = dict(self.engine.flags)
                self.engine.flush()
            self.tell("observing", run=command["run"])
            started = time.perf_counter()
            observations = json.loads(core.canonical(probe.function(run, **command["params"])))
            if differing := sorted(set(probe.observes) ^ set(observations)):
                raise ValueError(f"the probe's declared and returned observations differ: {', '.join(differing)}")
            result["observations"] = observations
        except core.Inconclusive as gate:
            result |= {"ended": "inconclusive", "reason": str(gate)}
        except core.Unavailable as cannot:
            result |= {"ended": "unavailable", "reason": str(cannot)}
        except Exception as error:
            self.close()  # an engine that failed once is not trusted with the next run
            traceback.print_exc()  # into the kept log
            result |= {"ended": "failed", "reason": f"{type(error).__name__}: {error}"}
        result["seconds"] = time.perf_counter() - started
        result["samples"] = json.loads(json.dumps(run.samples, default=str))
        result["modifications"] = [
            *(self.engine.modifications if run.engine and self.engine else ()),
            *run.modifications,
        ]
        return result

    def prepare(self, command: dict[str, Any], about: dict[str, Any]) -> None:
        """Start the command's engine, or import what its probe drives. What fails here will fail in the run."""
        try:
            probe = core.find_probe(command["probe"], command["engine"])
            if command["config"] is not None:
                self._open(command, about)
                return
            os.environ.update(importlib.import_module(f"inferproof.probes.{command['engine']}_engine").ENVIRONMENT)
            for symbol in probe.covers:
                importlib.import_module(symbol.partition(":")[0])
        except Exception:
            self.close()
            traceback.print_exc()

    def _open(self, command: dict[str, Any], about: dict[str, Any]) -> float | None:
        key = core.canonical([command["engine"], command["level"], command["config"]])
        if self.engine is not None and key == self.key:
            return None
        self.close()
        self.tell("starting", run=command["run"], config=command["config"])
        started = time.perf_counter()
        named = command["config"].get("adapter", f"{command['engine']}_engine")
        adapter = importlib.import_module(f"inferproof.probes.{named}")
        self.engine = adapter.start(command["config"], level=command["level"], **about)
        self.key = key
        seconds = time.perf_counter() - started
        self.tell("started", run=command["run"], seconds=seconds)
        return seconds

    def close(self) -> None:
        """Stop the engine that is up, if any."""
        engine, self.engine = self.engine, None
        if engine is not None:
            try:
                engine.close()
            except Exception:
                traceback.print_exc()


def _listen(fd: int, commands: queue.Queue[dict[str, Any] | None], scratch: str) -> None:
    with os.fdopen(fd, encoding="utf-8") as lines:
        for line in lines:
            command = json.loads(line)
            if command.get("stop"):
                commands.put(None)
                return
            commands.put(command)
    shutil.rmtree(scratch, ignore_errors=True)  # which the runner would have done
    os.killpg(os.getpgid(0), signal.SIGKILL)  # the runner is gone without a word


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
