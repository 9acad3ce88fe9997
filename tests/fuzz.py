"""Coverage-guided fuzzing of what reads things from outside, with atheris: `make fuzz`.

    python tests/fuzz.py [--seconds N] [TARGET]...

Each target of fuzz_targets.py runs in a process of its own until its time is over or a promise is broken. It prints
one JSON line a target; the exit status is 1 where one was broken, and the input that did it is kept. See
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TARGETS = ("cards", "builds", "answers", "statements", "numbers", "evidence", "ledger", "replies")
LONGEST = {"cards": 8192, "builds": 16384, "answers": 1000, "ledger": 65536}
ODD_LINES = (
    "a: &a [*a]", "- x", "? x", "<<: *a", "id: ../../x", "points: 1e999", "x: !!binary x", "x: 2026-13-45",
    "x: !!int ''", "[" * 30, "'", "\ud7ff", "levels: []", "full: -1", "states: [['=x', '!y', '/z']]",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, 10**400, "", "\x00", "\x1b[31m", "\ud800", "[/]", "[red]", "命中", [], {}, [[]],
    "x" * 300, {"": 1}, "1" * 5000,
)  # fmt: skip
MARKS = (
    "，", "。", "; ", ". ", "? ", "\n- ", " -> ", " not ", "不", "不是", "而是", "but ", "people think ", "有人说",
    "错", "vLLM ", "SGLang ", "unlike ", "both ", "两者", "百分之", "点", "万", "亿", "零", "9" * 200, "2064/2080",
    "Gb/s", "%", "\u2028", "İ", "ﬁ", "\u0301", "\x00", "👍", "“", "1.", "约", "K",
)  # fmt: skip

Mutator = Callable[[bytes, int, int], bytes]


def cut(units: Sequence[str], odd: Sequence[str], joint: str) -> Mutator:
    """Mutations by whole units of the text: one dropped, a run of them said again elsewhere, an odd one put in."""

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        text = data.decode("utf-8", "replace")
        parts = text.split(joint) if joint else re.findall(r"\w+|\W", text)
        at, to = chance.randint(0, len(parts)), chance.randint(0, len(parts))
        match chance.randrange(5):
            case 0:
                del parts[at : at + chance.randint(1, 3)]
            case 1:
                parts[to:to] = parts[at : at + chance.randint(1, 8)]
            case 2:
                parts[at : at + chance.randrange(2)] = [chance.choice(odd)]
            case 3:
                parts[at : at + 1] = [chance.choice(units)]
            case 4:
                return by_bytes(data, most)
        return joint.join(parts).encode("utf-8", "surrogatepass")[:most]

    return mutate


def by_value(data: bytes, most: int, seed: int) -> bytes:
    """A value somewhere in the JSON replaced, dropped, or put in the place of another."""
    chance = random.Random(seed)
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return by_bytes(data, most)
    places = list(_places(whole))
    if not places or chance.randrange(5) == 0:
        return by_bytes(data, most)
    holder, key = chance.choice(places)
    other, its = chance.choice(places)
    match chance.randrange(3):
        case 0:
            holder[key] = chance.choice(ODD_VALUES)
        case 1:
            del holder[key]
        case 2:
            holder[key] = json.loads(json.dumps(other[its]))
    return json.dumps(whole).encode()[:most]


def _places(value: Any) -> Any:
    """Every (container, key) in the value."""
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(inner)


def by_bytes(data: bytes, most: int) -> bytes:
    """libFuzzer's own mutations."""
    import atheris

    return bytes(atheris.Mutate(data, most))


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["inferproof"]):
        from fuzz_targets import TARGETS as targets

    target = targets[name]
    corpus = Path(options[-1])
    seeds = target.seeds()
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    said = [seed.decode("utf-8", "replace") for seed in seeds]
    mutators: dict[str, Mutator | None] = {
        "lines": cut([line for text in said for line in text.split("\n")], ODD_LINES, "\n"),
        "words": cut([word for text in said for word in re.findall(r"\w+", text)], MARKS, ""),
        "json": by_value,
        "bytes": None,
    }
    mutator = mutators[target.made_of]
    atheris.Setup([sys.argv[0], *options], target.check, **({"custom_mutator": mutator} if mutator else {}))
    atheris.Fuzz()


def run(name: str, seconds: int) -> dict[str, Any]:
    """Fuzz one target in a process of its own; what came of it."""
    kept = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        options = [
            f"-max_total_time={seconds}", f"-max_len={LONGEST.get(name, 4096)}", "-timeout=30", "-rss_limit_mb=4096",
            "-print_final_stats=1", "-seed=7", f"-artifact_prefix={kept}/", str(corpus),
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, __file__, "--child", name, "--", *options],
            env={**os.environ, "TMPDIR": folder}, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    found = sorted(map(str, kept.iterdir()))
    if not found:
        kept.rmdir()
    said = done.stderr + done.stdout
    covered = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", said)
    executed = re.findall(r"number_of_executed_units: (\d+)", said)
    (Path(tempfile.gettempdir()) / f"fuzz-{name}.log").write_text(said)
    return {
        "target": name, "seconds": seconds, "executions": int(executed[-1]) if executed else 0,
        **dict(zip(("edges", "features", "corpus"), map(int, covered[-1] if covered else ()), strict=False)),
        "broken by": found, "ok": done.returncode == 0,
        **({} if done.returncode == 0 else {"said": said[-1500:].splitlines()}),
    }  # fmt: skip


def main() -> None:
    """Fuzz the targets that are named, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=180, help="for each target")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args()
    if given.child:
        return fuzz(given.targets[0], given.targets[1:])
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    broken = False
    for name in given.targets or TARGETS:
        result = run(name, given.seconds)
        print(json.dumps(result), flush=True)
        broken |= not result["ok"]
    sys.exit(broken)


if __name__ == "__main__":
    main()
