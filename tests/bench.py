"""The performance that the design asks for, measured as ratios in one run: `make bench`.

    python tests/bench.py [--full]

`--full` also times a whole CPU verify (minutes) against its engine starts and probe runs. Nothing here asserts:
machines are noisy. It prints medians, the bound asked, and whether this run met it.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROUNDS = 15
CARDS = ("prefix-cache-ttft", "beam-search-kv", "preempt-vs-retract")
TOOL = str(Path(sys.executable).with_name("inferproof"))
SAMPLE = Path(__file__).parent / "samples/prefix-cache-ttft.txt"


def main() -> None:
    """Measure and print."""
    print(f"{'what':<46}{'measured':>12}{'asked':>12}   met")
    bare = median(lambda: wall([sys.executable, "-c", "pass"]))
    row("python -c pass", f"{bare * 1000:.0f} ms", "", None)
    ratio_row("inferproof --help / python -c pass", median(lambda: wall([TOOL, "--help"])) / bare, 10)
    first_prompt()
    ratio_row("first drill prompt / python -c pass", median(first_prompt) / bare, 10)
    grading_row()
    verify = [TOOL, "verify", *CARDS, "--json"]
    wall(verify)
    idle = median(lambda: wall(verify), rounds=5)
    row("verify with nothing to do", f"{idle:.2f} s", "< 1 s", idle < 1)
    streaming_rows()
    if "--full" in sys.argv:
        full_verify_row()


def median(measure: Callable[[], float], rounds: int = ROUNDS) -> float:
    """Median seconds of so many measurements."""
    return statistics.median(measure() for _ in range(rounds))


def wall(argv: Sequence[str], **environment: str) -> float:
    """Seconds that the command takes."""
    started = time.perf_counter()
    subprocess.run(
        argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        check=False,
    )
    return time.perf_counter() - started


def first_prompt() -> float:
    """Seconds until a drill has printed its question and waits for the answer."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as data:
        drill = subprocess.Popen(
            [TOOL, "drill", CARDS[0], "--lang", "en"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "INFERPROOF_DATA": data, "PYTHONUNBUFFERED": "1"},
        )
        assert drill.stdout is not None
        blank = 0
        while blank < 2 and (line := drill.stdout.readline()):
            blank += not line.strip()
        seconds = time.perf_counter() - started
        drill.kill()
        drill.communicate()
    return seconds


def grading_row() -> None:
    """Time per answer of the offline grader, everything loaded."""
    from inferproof.grading.grade import grade
    from inferproof.questions.deck import load_deck

    card, answer = load_deck()[CARDS[0]], SAMPLE.read_text()

    def once() -> float:
        started = time.perf_counter()
        grade(card, answer, "en", {})
        return time.perf_counter() - started

    once()
    seconds = median(once)
    row("offline grading of an answer", f"{seconds * 1000:.1f} ms", "< 50 ms", seconds < 0.05)


def streaming_rows(streams: int = 16, events: int = 200, gap_s: float = 0.01) -> None:
    """What the streaming client adds to an event, from its writing in another process to the client's clock reading."""
    from inferproof.probes.sse import Stream, stream

    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("stamping_server.py")), str(events), str(gap_s)],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    port = int(server.stdout.readline())

    async def all_at_once() -> list[Stream]:
        return await asyncio.gather(*(stream("127.0.0.1", port, "/", {}) for _ in range(streams)))

    used = time.process_time()
    seen = asyncio.run(all_at_once())
    used = time.process_time() - used
    server.kill()
    server.communicate()
    late = [s.sent_at + at - json.loads(event)["at"] for s in seen for at, event in s.events]
    at_16 = f"at {streams} streams"
    row(
        f"an event's way to the client {at_16}, median",
        ms(statistics.median(late)),
        "< 1 ms",
        statistics.median(late) < 1e-3,
    )
    row(f"  its 99th percentile, of {len(late)}", ms(statistics.quantiles(late, n=100)[98]), "", None)
    row("  processor time of the client an event", ms(used / len(late)), "< 1 ms", used / len(late) < 1e-3)


def ms(seconds: float) -> str:
    """Milliseconds, as they are shown."""
    return f"{seconds * 1000:.3f} ms"


def full_verify_row() -> None:
    """A whole verify on a fresh ledger, against the time that its engine starts and probe runs take by themselves."""
    with tempfile.TemporaryDirectory() as data:
        seconds = wall([TOOL, "verify", *CARDS], INFERPROOF_DATA=data)
        listed = subprocess.run(
            [TOOL, "evidence", "list", "--json"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "INFERPROOF_DATA": data},
        )
        by_themselves = sum(
            e["seconds"] + (e["engine_start_s"] or 0) for e in map(json.loads, listed.stdout.splitlines())
        )
    row("full CPU verify", f"{seconds:.0f} s", "", None)
    ratio_row("full CPU verify / engine starts and probe runs", seconds / by_themselves, 1.3)


def ratio_row(what: str, ratio: float, bound: float) -> None:
    """A ratio against its bound."""
    row(what, f"{ratio:.2f}x", f"<= {bound}x", ratio <= bound)


def row(what: str, measured: str, asked: str, met: bool | None) -> None:
    """One line of the table."""
    print(f"{what:<46}{measured:>12}{asked:>12}   {'' if met is None else 'yes' if met else 'no'}", flush=True)


if __name__ == "__main__":
    main()
