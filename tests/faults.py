"""The heavy faults, on the real command line and real workers, none of which starts an engine: `make faults`.

    python tests/faults.py [kill|together|disk|read-only|cards]...

It prints one JSON line a campaign; the exit status is 1 where a promise was broken. See docs/reliability.md.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from inferproof.runners.ledger import Ledger

TOOL = [sys.executable, "-m", "inferproof.cli"]
VERIFY = [*TOOL, "verify", "--build", "host", "--level", "arithmetic"]
KILLS = 100
ROUNDS = 20

_SAYING = """
from inferproof.grading import verify
from inferproof.questions.deck import load_deck
from inferproof.runners import paths, site
from inferproof.runners.ledger import Ledger
deck, here = load_deck(), site.this_site()
plan = verify.plan(verify.select(deck, []), here, builds=["host"], level="arithmetic")
print("planned", len(plan.tasks), flush=True)
with Ledger(paths.ledger_file()) as ledger:
    for verdicts in verify.carry_out(plan, here, ledger):
        print(verdicts[0].evidence, flush=True)
print("end", flush=True)
"""
"""What `verify` does, and says of every record as soon as it claims to have it."""


def environment(folder: Path) -> dict[str, str]:
    """Everything that inferproof writes goes below the folder."""
    names = {"INFERPROOF_DATA": "data", "INFERPROOF_CACHE": "cache", "TMPDIR": "tmp", "HOME": "home"}
    for name in names.values():
        (folder / name).mkdir(exist_ok=True)
    return {**os.environ, **{k: str(folder / v) for k, v in names.items()}, "INFERPROOF_LANG": "en"}


def left_running(folder: Path) -> int:
    """Processes that still run with a temporary folder below this one, after ten seconds at most."""
    for _ in range(100):
        processes = sum(_works_in(p, folder) for p in psutil.process_iter())
        if not processes:
            break
        time.sleep(0.1)
    return processes


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get("TMPDIR", "").startswith(f"{folder}/tmp")
    except psutil.Error:
        return False


def kill(folder: Path) -> dict[str, Any]:
    """SIGKILL at a random point of each of 100 verifies that go on from one another; in half, while probes run."""
    chance, said, lost, twice, processes, points = random.Random(7), 0, 0, 0, 0, Counter[str]()
    env = environment(folder)
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", _SAYING], env=env, check=True, capture_output=True, timeout=120)
    whole = time.monotonic() - started  # how long one takes here, from start to end
    running = whole / 3  # about how much of that it spends after it has planned
    for number in range(KILLS):
        if number % 4 == 0:  # by now the ledger holds everything, and nothing would run
            shutil.rmtree(folder / "data")
            env = environment(folder)
        lines = _killed(env, chance.uniform(0, whole) if number % 2 else 0, chance.uniform(0, running))
        known = [line for line in lines if len(line) == 64]
        points["finished" if "end" in lines else "while running" if lines else "before the first run"] += 1
        with Ledger(folder / "data/ledger.sqlite") as ledger:
            ledger.check()
            kept = list(ledger.evidence())
        said += len(known)
        lost += len(set(known) - {e.id for e in kept})
        twice += len(kept) - len({e.key for e in kept})
        processes += left_running(folder)
    shutil.rmtree(folder / "data")
    subprocess.run([sys.executable, "-c", _SAYING], env=environment(folder), check=True, capture_output=True)
    files = len(list((folder / "tmp").iterdir()))  # the next verify sweeps what a killed one left
    return {"verifies": KILLS, "killed": dict(points), "said to be recorded": said, "lost": lost,
            "recorded twice": twice, "processes left": processes, "temporary files left": files,
            "ok": not (lost or twice or processes or files)}  # fmt: skip


def _killed(env: dict[str, str], after_s: float, after_plan_s: float) -> list[str]:
    """What a verify had said when it was killed, so long after its start or, where that is 0, after it has planned."""
    verify = subprocess.Popen([sys.executable, "-c", _SAYING], env=env, stdout=subprocess.PIPE, text=True)
    assert verify.stdout is not None
    first = "" if after_s else verify.stdout.readline()
    time.sleep(after_s or after_plan_s)
    verify.send_signal(signal.SIGKILL)
    return (first + verify.communicate(timeout=60)[0]).split()


def together(folder: Path) -> dict[str, Any]:
    """In each of 20 rounds two verifies, or four, start at once on an empty ledger; then one more that runs nothing."""
    records, runs, lost, strange, wrong = 0, 0, 0, 0, list[str]()
    for number in range(ROUNDS):
        env = environment(folder)
        verdicts, said = _at_once(4 if number % 2 else 2, env)
        own = [{row["evidence"] for row in of if row["evidence"] and not row["reused"]} for of in verdicts]
        with Ledger(folder / "data/ledger.sqlite") as ledger:
            ledger.check()
            kept = [e.id for e in ledger.evidence()]
        records, runs = records + len(kept), runs + sum(map(len, own))
        lost += len({row["evidence"] for of in verdicts for row in of if row["evidence"]} - set(kept))
        strange += len(set(kept) - set().union(*own)) + len(kept) - len(set(kept))
        (again,), more = _at_once(1, env)
        wrong += [line for line in (*said, *more) if line]
        wrong += [f"{row['claim']} ran again" for row in again if row["evidence"] and not row["reused"]]
        words = {json.dumps([(row["claim"], row["verdict"]) for row in of]) for of in (*verdicts, again)}
        wrong += ["verdicts differ"] * (len(words) - 1)
        shutil.rmtree(folder / "data")
    return {"rounds": ROUNDS, "runs": runs, "records": records, "lost": lost, "recorded but not run, or twice": strange,
            "processes left": left_running(folder), "errors": wrong,
            "ok": runs == records > 0 and not (lost or strange or wrong)}  # fmt: skip


def _at_once(count: int, env: dict[str, str]) -> tuple[list[list[dict[str, Any]]], list[str]]:
    """The verdicts of verifies that run at once, and what went wrong in them."""
    running = [
        subprocess.Popen([*VERIFY, "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    ended = [(*process.communicate(timeout=600), process.returncode) for process in running]
    said = [error if code == 3 and "error" not in error else f"{code}: {error}" for _, error, code in ended]
    return [json.loads(out)["claims"] for out, _, _ in ended], said


def on_tmpfs(script: str, folder: Path, size: str = "1m") -> subprocess.CompletedProcess[str]:
    """Run a shell script with a small file system of its own at $SMALL, in a mount namespace of its own."""
    small = folder / "small"
    small.mkdir(exist_ok=True)
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size={size} none "$SMALL" && {script}'],
        env={**environment(folder), "SMALL": str(small), "PYTHON": sys.executable},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def can_mount() -> bool:
    """Whether this machine lets us mount a small file system of our own."""
    with tempfile.TemporaryDirectory() as name:
        return shutil.which("unshare") is not None and on_tmpfs("true", Path(name)).returncode == 0


CLI = '"$PYTHON" -m inferproof.cli'
FULL = f"""
export INFERPROOF_DATA="$SMALL/data"
{CLI} verify --build host --level arithmetic speculative-contract >/dev/null; echo "first $?"
{CLI} evidence list | wc -l
head -c $(($(df -k --output=avail "$SMALL" | tail -1) - 64))k /dev/zero > "$SMALL/filler"
{CLI} verify --build host --level arithmetic --rerun >/dev/null; echo "fills $?"
head -c 2m /dev/zero > "$SMALL/rest" 2>/dev/null
{CLI} verify --build host --level arithmetic --rerun >/dev/null; echo "full $?"
{CLI} evidence export --out "$SMALL/out.jsonl"; echo "export $?"; ls "$SMALL"
rm "$SMALL/filler" "$SMALL/rest"
{CLI} evidence check; echo "check $?"
{CLI} verify --build host --level arithmetic >/dev/null; echo "again $?"
{CLI} evidence check
"""
READ_ONLY = f"""
unset INFERPROOF_DATA INFERPROOF_CACHE XDG_DATA_HOME XDG_CACHE_HOME; export HOME="$SMALL"; mount -o remount,ro "$SMALL"
for c in --version 'cards list' 'cards lint' 'evidence list' 'drill prefix-cache-ttft' doctor \
    'verify --build host --level arithmetic'; do
  {CLI} $c </dev/null >/dev/null; echo "$c: $?" >&2
done
"""


def disk(folder: Path) -> dict[str, Any]:
    """A disk that is full in the middle of things, then has room again."""
    done = on_tmpfs(FULL, folder)
    said = done.stdout + done.stderr
    words = ("fills 2", "full 2", "export 2", "check 0", "again 3", "the run's result was not recorded")
    return {"said": said.splitlines(), "ok": all(w in said for w in words) and "bug" not in said}


def read_only(folder: Path) -> dict[str, Any]:
    """A home that cannot be written to."""
    done = on_tmpfs(READ_ONLY, folder)
    said = done.stdout + done.stderr
    return {"said": said.splitlines(), "ok": "bug" not in said and "Traceback" not in said and "--version: 0" in said}


def cards(folder: Path) -> dict[str, Any]:
    """A collection of 10,000 cards: seconds of each command, the second time with what the first remembered."""
    from conftest import CARD

    text = "".join(line for line in CARD.splitlines(keepends=True) if "recorded: [hit-tokens]" not in line)
    for number in range(10_000):
        file = folder / f"cards/{number // 100:03}/card-{number:05}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("id: small-card", f"id: card-{number:05}"), encoding="utf-8")
    took, ok = {}, True
    (folder / "answer.txt").write_text("whole blocks")
    for name in ("list", "list again"):
        started = time.monotonic()
        listed = subprocess.run([*TOOL, "cards", "list", "--cards", str(folder / "cards")], env=environment(folder),
                                capture_output=True, text=True, timeout=1200, check=False)  # fmt: skip
        took[name] = round(time.monotonic() - started, 1)
        ok = ok and listed.returncode == 0 and "card-09999" in listed.stdout
    return {"seconds": took, "ok": ok}


CAMPAIGNS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "kill": kill, "together": together, "disk": disk, "read-only": read_only, "cards": cards,
}  # fmt: skip


def main() -> None:
    """Run the campaigns that are named, or all."""
    broken = False
    for name in sys.argv[1:] or list(CAMPAIGNS):
        if name in ("disk", "read-only") and not can_mount():
            print(json.dumps({"campaign": name, "not run": "this machine allows no mount in a namespace of its own"}))
            continue
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            result = CAMPAIGNS[name](Path(folder))
        print(json.dumps({"campaign": name, **result}), flush=True)
        broken |= not result["ok"]
    sys.exit(broken)


if __name__ == "__main__":
    main()
