"""Probes that misbehave in every way a real one might; a test's worker finds them as `inferproof.probes.faulty`."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time

from inferproof.probes.core import Inconclusive, Observations, Run, Unavailable, probe


@probe(engine="vllm", levels=("component",), observes={"answer": "the given number"})
def echo(run: Run, *, number: int = 1) -> Observations:
    """Observe the number that was given."""
    run.samples["series"] = [number] * 3
    return {"answer": number}


@probe(engine="vllm", levels=("component",), observes={"answer": ""})
def misbehave(run: Run, *, how: str) -> Observations:
    """Do what `how` says."""
    match how:
        case "hang":
            print("hanging", flush=True)
            time.sleep(600)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "raise":
            raise RuntimeError("the engine refused")
        case "garbage":
            print('{"event": "done", "run": "fake"}\n' * 3, "\x00\xff", flush=True)
            sys.stderr.write("noise\n")
            return {"answer": 0}
        case "babble":
            os.write(int(sys.argv[2]), b"\x00 no message of ours\n")
        case "endless-line":
            while True:
                os.write(int(sys.argv[2]), b"x" * 4096)
        case "endless-events":
            while True:
                os.write(int(sys.argv[2]), b'{"event": "x"}\n')
        case "strange-done":
            os.write(int(sys.argv[2]), b'{"event": "done", "run": "r1", "ended": "ok", "bonus": 1}\n')
            time.sleep(600)
        case "nan-done":
            os.write(
                int(sys.argv[2]), b'{"event": "done", "run": "r1", "ended": "ok", "observations": {"answer": NaN}}\n'
            )
            time.sleep(600)
        case "fork-and-share":
            hoard = [bytearray(os.urandom(1 << 20) * 16) for _ in range(6)]
            children = [os.fork() for _ in range(3)]
            time.sleep(3.5)
            if 0 in children:
                os._exit(0)
            return {"answer": len(hoard)}
        case "temporary":
            left = tempfile.mkdtemp(prefix="sglang-")
            run.samples["left"] = left
            return {"answer": 0}
        case "undeclared":
            return {"answer": 1, "surprise": 2}
        case "nan":
            return {"answer": float("nan")}
        case "gate":
            raise Inconclusive("the pool never filled")
        case "cannot":
            raise Unavailable("needs a GPU")
        case "fork-and-hang":
            if os.fork() == 0:
                time.sleep(600)
            time.sleep(600)
        case "eat-memory":
            hoard = [bytearray(os.urandom(1 << 20) * 16) for _ in range(40)]
            time.sleep(600)
            return {"answer": len(hoard)}
        case "flood":
            while True:
                sys.stdout.write("x" * (1 << 20))
    raise AssertionError(how)


@probe(engine="faulty", levels=("engine",), observes={"number": "of the engine"}, config=lambda p: {"mode": p["mode"]})
def with_engine(run: Run, *, mode: str = "good", nth: int = 0) -> Observations:
    """Observe which of the worker's engines this is; the run with nth 1 takes a while."""
    time.sleep(1 if nth == 1 else 0)
    return {"number": run.engine.number}
