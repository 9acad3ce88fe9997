"""Drilling as a person does it, through a pseudo-terminal: typing, breaking off, interviews, the study plan."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pexpect
import pytest
from rich.cells import cell_len
from test_cli import ANSWER, CARD, TOOL, run

from inferproof.reports.prompt import Piped
from inferproof.runners.ledger import Ledger
from inferproof.runners.paths import ledger_file

_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>])")
WRONG = "In SGLang a repeated prompt hits 100% and prefill is skipped altogether."
COLUMNS = 80


class Terminal:
    """A command at a terminal of 80 columns."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        env = {**os.environ, "INFERPROOF_LANG": "en", "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", **environment}
        self._child = pexpect.spawn(
            TOOL, list(arguments), env=env, encoding="utf-8", timeout=60, dimensions=(50, COLUMNS)
        )
        self.screen = ""
        self._seen = self._editors = 0

    @property
    def plain(self) -> str:
        """What was shown, without what moves and colours it."""
        return _ESCAPE.sub("", self.screen).replace("\r", "")

    @property
    def widest(self) -> int:
        """Columns of the widest line that was printed; the editor between draws over its own lines."""
        printed = re.sub(r"\x1b\[\?2004h.*?\x1b\[\?2004l", "\n", self.screen, flags=re.DOTALL)
        return max(map(cell_len, _ESCAPE.sub("", printed).replace("\r", "").splitlines()))

    def until(self, said: str) -> Terminal:
        """Wait until this is shown, after what was waited for before."""
        while (at := self.plain.find(said, self._seen)) < 0:
            self.screen += self._child.read_nonblocking(4096, 60)
        self._seen = at + len(said)
        return self

    def asked(self) -> Terminal:
        """Wait until the editor has begun, which takes pastes from then on."""
        self._editors += 1
        while self.screen.count("\x1b[?2004h") < self._editors:
            self.screen += self._child.read_nonblocking(4096, 60)
        self._seen = len(self.plain)
        return self

    def type(self, keys: str) -> Terminal:
        self._child.send(keys)
        return self

    def ended(self) -> int:
        """Its exit status."""
        with contextlib.suppress(pexpect.EOF):
            while True:
                self.screen += self._child.read_nonblocking(4096, 60)
        self._child.close()
        assert self._child.exitstatus is not None
        return int(self._child.exitstatus)


def drafts(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.rglob("drafts/*")}


def test_an_answer_of_many_lines_is_typed_edited_and_graded() -> None:
    at = Terminal("drill", CARD).asked().type("vLLM reuses hole blocks only, found by hash.\r")
    at.type("\x1b[A\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[Cw\x1b[B").type(".\r")

    assert at.until("Score").ended() == 0
    assert "vLLM reuses whole blocks only" in " ".join(at.plain.split())


def test_ctrl_c_keeps_what_was_typed_and_the_next_drill_offers_it_again(user_folders: Path) -> None:
    at = (
        Terminal("drill", CARD)
        .asked()
        .type("整块复用，最后一个 token 要重算。\rSecond line")
        .until("Second line")
        .type("\x03")
    )
    assert at.until("kept in").ended() == 130
    assert drafts(user_folders) == {f"{CARD}.txt": "整块复用，最后一个 token 要重算。\nSecond line"}

    at = Terminal("drill", CARD).until("Ctrl-O clears").until("Second line").type(" goes on.\r.\r")
    assert at.until("Score").ended() == 0
    assert drafts(user_folders) == {}


def test_a_draft_can_be_cleared(user_folders: Path) -> None:
    Terminal("drill", CARD).asked().type("old words").until("old words").type("\x03").ended()
    Terminal("drill", CARD).until("old words").type("\x0fnew words\x04").until("Score").ended()

    with Ledger(ledger_file()) as ledger:
        assert [body["answer"] for body in ledger.bodies("attempt")] == ["new words"]


def test_an_earlier_answer_is_one_arrow_key_away() -> None:
    Terminal("drill", CARD).asked().type("an answer of old\r.\r").until("Score").ended()
    at = Terminal("drill", CARD).asked().type("\x1b[A").until("an answer of old").type("\x04")

    assert at.until("Score").ended() == 0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_drill_fits_80_columns_and_no_colour_is_shown_where_none_is_wanted(language: str) -> None:
    at = Terminal("drill", CARD, "--lang", language, NO_COLOR="1").asked().type("整块复用。\x04")

    assert at.ended() == 0
    assert at.widest <= COLUMNS
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3|4|9)[0-7]m", at.screen)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_mock_interview_presses_shows_the_time_and_ends_in_a_debrief(language: str) -> None:
    at = Terminal("drill", CARD, "--mode", "mock", "--minutes", "5", "--lang", language).until("5:00").asked()
    at.type(f"{WRONG}\x04").asked().type(".\r").asked().type("\x04").until("prefix-cache-ttft/")

    assert at.ended() == 0
    assert at.widest <= COLUMNS
    assert "4:5" in at.screen


def test_an_interview_stops_when_the_time_is_up_and_counts_what_was_typed(user_folders: Path) -> None:
    at = Terminal("drill", "--mode", "mock", "--minutes", "0.07", "--questions", "2").asked().type("half an answ")

    assert at.until("Time is up").until("Debrief").ended() == 0
    with Ledger(ledger_file()) as ledger:
        assert [body["answer"] for body in ledger.bodies("attempt")] == ["half an answ"]
    assert drafts(user_folders) == {}


def test_an_interview_broken_off_shows_the_debrief_of_what_was_answered(user_folders: Path) -> None:
    at = Terminal("drill", CARD, "--mode", "mock").asked().type("Whole blocks.\x04").until("Follow-up").asked()
    at.type("unfinished").until("unfinished").type("\x03")

    assert at.until("kept in").until("Debrief").ended() == 130
    assert list(drafts(user_folders).values()) == ["unfinished"]


def test_a_piped_interview_gives_questions_followups_and_scores_as_json() -> None:
    done = run(
        "drill", CARD, "--mode", "mock", "--json", stdin=f"{WRONG}\n.\nNo: 2079 of 2080 hit, the last token runs.\n.\n"
    )
    told = json.loads(done.stdout)

    assert done.returncode == 0
    [question] = told["questions"]
    assert [t["id"] for t in question["turns"]] == [CARD, "challenge"]
    assert set(question["turns"][0]) == {"id", "question", "presses_on", "answer", "seconds", "score_so_far"}
    assert told["score"] == question["score"] <= told["with_followups"] == question["with_followups"]
    assert told["topics"] == {"engine-internals": {"first": told["score"], "last": told["with_followups"]}}
    assert {layer["of"] for layer in told["layers"].values()} == {1}


def test_an_interview_without_any_answer_grades_nothing() -> None:
    done = run("drill", "--mode", "mock")

    assert (done.returncode, "there was no answer" in done.stderr) == (2, True)


def days_ago(days: int) -> None:
    """Make the ledger's only attempt an old one (a ledger of its own, since records never change)."""
    with Ledger(ledger_file()) as ledger:
        [body] = ledger.bodies("attempt")
    for file in ledger_file().parent.glob("ledger.sqlite*"):
        file.unlink()
    at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")
    with Ledger(ledger_file()) as ledger:
        ledger.append("attempt", body["card"], {**body, "at": at})


def test_what_was_missed_is_due_the_next_day_and_asked_point_by_point() -> None:
    run("drill", CARD, stdin=ANSWER.read_text())
    assert "Nothing is due today" in run("drill", "--due").stdout
    days_ago(1)
    [due] = json.loads(run("stats", "--json").stdout)["due"]
    assert due["card"] == CARD and due["points"]

    done = run("drill", "--due", stdin="The key is token ids.\n.\n")
    assert "only they are graded" in done.stdout and "Nothing more is due today" in done.stdout
    assert json.loads(run("stats", "--json").stdout)["due"] == []
    assert json.loads(run("stats", "--json").stdout)["attempts"] == 1


def test_a_card_that_is_due_is_asked_whole_and_a_lone_dot_leaves_it_due() -> None:
    run("drill", CARD, stdin="anything")
    days_ago(3)
    skipped = json.loads(run("drill", "--due", "--json", stdin=".\n").stdout)
    answered = json.loads(run("drill", "--due", "--json", stdin=ANSWER.read_text()).stdout)

    assert skipped == {"answers": [], "still_due": 1}
    assert (len(answered["answers"][0]["points"]), answered["still_due"]) == (5, 0)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_statistics_fit_80_columns_with_and_without_answers(language: str) -> None:
    assert "inferproof drill" in run("stats", "--lang", language).stdout
    run("drill", CARD, stdin=ANSWER.read_text())
    shown = run("stats", "--lang", language, COLUMNS="80").stdout

    assert CARD in shown
    assert max(map(cell_len, shown.splitlines())) <= COLUMNS


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("one\n.\ntwo\nlines\n.\n", ["one", "two\nlines"]),
        ("one\n.\n.\n3.\n", ["one", "", "3."]),
        ("no dot", ["no dot"]),
        ("last\n.", ["last"]),
        (".\n", [""]),
        ("\n\n", []),
        ("", []),
    ],
)
def test_answers_in_a_pipe_are_divided_by_lone_dots(tmp_path: Path, text: str, answers: list[str]) -> None:
    (tmp_path / "answers").write_text(text)
    with (tmp_path / "answers").open("rb") as file:
        piped = Piped(file.fileno(), 1 << 20)
        assert list(iter(piped.take, None)) == answers


def test_a_pipe_that_stays_silent_is_left_when_the_time_is_up(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"half")
    piped = Piped(pipe[0], 1 << 20)

    assert (piped.take(0.0), piped.take(0.0)) == ("half", None)


def test_no_slow_import_comes_before_the_first_question() -> None:
    slow = "{'pydantic', 'rich', 'prompt_toolkit', 'fsrs', 'cel', 'asyncio', 'yaml', 'inferproof.grading.grade'}"
    code = f"""
import sys, typer
sys.argv = ["inferproof", "drill", "{CARD}", "--mode", "mock"]
import inferproof.cli as cli
def stop(text=None, **_):
    if "2,080-token" in str(text):
        print(sorted({slow} & set(sys.modules))); sys.exit()
typer.echo = stop
cli.main()
"""
    run("cards", "list")
    run("drill", CARD)  # the cards' titles are remembered from here on
    done = run_python(code)

    assert done == "[]"


def run_python(code: str) -> str:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "INFERPROOF_LANG": "en"},
    )  # fmt: skip
    return done.stdout.strip()
