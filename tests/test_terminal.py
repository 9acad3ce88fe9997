"""What the terminal shows: readable at 80 columns, without colour, in both languages."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from inferproof.grading.result import Finding, Grade, PointGrade
from inferproof.grading.verdict import REACHES, VERDICTS, Verdict
from inferproof.questions.card import (
    Card,
    Claim,
    EvidenceOf,
    Examples,
    Followup,
    Idea,
    Language,
    RubricPoint,
    Source,
    Text,
)
from inferproof.reports import terminal
from inferproof.reports.words import say
from inferproof.runners import doctor
from inferproof.runners.builds import Bilingual, load_builds

LANGUAGES: tuple[Language, ...] = ("en", "zh")
EXPECT = "warm_cached_tokens == 2064 && cold_cached_tokens == 0"
SEEN = {"warm_cached_tokens": 2064, "cold_cached_tokens": 0}


def _point(name: str, criterion: Text) -> RubricPoint:
    ideas = EvidenceOf(ideas=(Idea(id="one", states=(("x",),)),))
    return RubricPoint(
        id=name, points=2, criterion=criterion, evidence_of=ideas, examples=Examples(earn={}, earn_nothing={})
    )


CARD = Card(
    id="prefix-cache-ttft",
    title=Text(en="A 99% prefix hit, and TTFT barely moves", zh="前缀命中 99%，TTFT 为什么几乎不变"),
    question=Text(en="q", zh="问"),
    claims={
        name: Claim(says=Text(en=f"What {name} says.", zh=f"{name} 的内容。"), kind="mechanism")
        for name in ("vllm-repeat-hit", "another-salt-shares-nothing-at-all", "gpu-warm-ttft", "second-gpu-claim")
    },
    rubric=(
        _point("key-identity", Text(en="Names the salt too", zh="也要提到 salt")),
        _point("match-granularity", Text(en="Block 16, page 1", zh="块 16，页 1")),
    ),
    misconceptions=(),
    answer=(),
    followups=(
        Followup(
            id="first-token",
            question=Text(en="What if the first token changes?", zh="如果第一个 token 变了呢？"),
            criterion=Text(en="no hit", zh="不命中"),
        ),
    ),
    source=Source(document="d", section=3),
)


def _verdict(claim: str, build: str | None, verdict: str = "holds", **other: Any) -> Verdict:
    fields: dict[str, Any] = {
        "card": CARD.id, "kind": "mechanism", "level": "engine", "reach": "other build", "expect": EXPECT,
        "observed": SEEN, "evidence": "3fa9c1d2e4b5", "seconds": 0.4, "reason": "",
    }  # fmt: skip
    return Verdict(**{**fields, "claim": claim, "build": build, "verdict": verdict, **other})


NOT_RUN: dict[str, Any] = {
    "level": None, "reach": "recorded", "observed": {}, "evidence": None, "seconds": None,
    "reason": "needs level [cuda], and no build here offers it",
}  # fmt: skip
VERDICTS_GIVEN = [
    _verdict("vllm-repeat-hit", "vllm-cpu"),
    _verdict("vllm-repeat-hit", "vllm-before-pin", reach="bracketed", reused=True),
    _verdict(
        "another-salt-shares-nothing-at-all", "sglang-cpu", "contradicted",
        expect="warm_cached_tokens == 0", observed={"warm_cached_tokens": 16}, seconds=12.3,
    ),
    _verdict("gpu-warm-ttft", None, "not run", **NOT_RUN),
    _verdict("second-gpu-claim", None, "not run", **NOT_RUN),
]  # fmt: skip
GRADE = Grade(
    card=CARD.id,
    language="en",
    score=6.5,
    points=(
        PointGrade(
            point="key-identity",
            points=2,
            award=0.5,
            span="a hash [bold]of[/bold] tokens",
            why="no salt",
            missing=("salt",),
        ),
        PointGrade(
            point="match-granularity", points=2, award=1, span="block 16 vs page 1", why="states both", missing=()
        ),
    ),
    findings=(
        Finding(
            span="it hits 100%",
            verdict="contradicted",
            claim="vllm-repeat-hit",
            misconception="full-hit",
            stated=2080,
            observed=2064,
            build="vllm-cpu",
            evidence="3fa9c1d2e4b5",
            rerun="inferproof verify prefix-cache-ttft/vllm-repeat-hit --build vllm-before-pin --rerun",
            instead="Whole blocks only.",
        ),
        Finding(
            span="SGLang gives 2079",
            verdict="supported",
            claim="sglang-repeat-hit",
            misconception=None,
            stated=2079,
            observed=2079,
            build="sglang-cpu",
            evidence="aabbccddeeff",
            rerun="",
            instead="",
        ),
    ),
    followup="first-token",
)


def _shown(renderable: Any) -> str:
    out = StringIO()
    Console(width=80, file=out, color_system=None).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("verbose", [False, True])
def test_claims_fit_80_columns_and_say_their_verdict_in_words(language: Language, verbose: bool) -> None:
    shown = _shown(terminal.claims_table(VERDICTS_GIVEN, {CARD.id: CARD}, language, verbose=verbose))
    assert all(cell_len(line) <= 80 for line in shown.splitlines())
    for word in ("holds", "contradicted", "not run"):
        assert say(language, word) in shown


def test_a_claim_is_one_line_with_the_worst_verdict_the_best_reach_and_seen_against_expected() -> None:
    shown = _shown(terminal.claims_table(VERDICTS_GIVEN, {CARD.id: CARD}, "en"))
    [line] = [line for line in shown.splitlines() if line.startswith("vllm-repeat-hit ")]
    assert line.split()[:3] == ["vllm-repeat-hit", "holds", "bracketed"]
    assert "2064 == 2064" in line
    assert line.split()[-1] == "0.8"


def test_a_column_lines_up_under_wide_characters() -> None:
    shown = _shown(terminal.claims_table(VERDICTS_GIVEN, {CARD.id: CARD}, "zh"))
    rows = [line for line in shown.splitlines() if line.startswith(("vllm-repeat-hit", "gpu-warm-ttft"))]
    ends = {cell_len(line[: line.index(word)]) for line, word in zip(rows, ("成立", "未运行"), strict=True)}
    assert len(ends) == 1


def test_claims_that_do_not_hold_say_why_once_for_all_that_share_the_reason() -> None:
    shown = " ".join(_shown(terminal.claims_table(VERDICTS_GIVEN, {CARD.id: CARD}, "en")).split())
    assert "not run (gpu-warm-ttft, second-gpu-claim): needs level [cuda], and no build here offers it" in shown
    assert "expected warm_cached_tokens == 0; observed warm_cached_tokens = 16 on sglang-cpu" in shown


def test_verbose_shows_the_sentence_and_each_build_with_its_evidence() -> None:
    shown = _shown(terminal.claims_table(VERDICTS_GIVEN, {CARD.id: CARD}, "en", verbose=True))
    assert "What vllm-repeat-hit says." in shown
    assert f"expected: {EXPECT}" in shown
    assert "vllm-before-pin: holds, bracketed, engine, 0.4 s, 3fa9c1d2e4" in shown


def test_the_count_says_how_many_hold_and_how_far_they_reach() -> None:
    shown = _shown(terminal.claims_table(VERDICTS_GIVEN, {CARD.id: CARD}, "en"))
    assert "4 claims: holds 1, contradicted 1, not run 2" in shown
    assert "reach: bracketed 1, other build 1, recorded 2" in shown
    assert "1 of 5 rows from kept evidence" in shown


def test_nothing_to_show_is_shown_as_nothing() -> None:
    assert _shown(terminal.claims_table([], {}, "en")).split() == ["0", "claims:"]


def test_a_grade_shows_score_points_spans_and_what_the_full_point_asks() -> None:
    shown = _shown(terminal.grade_view(CARD, GRADE, "en"))
    assert "Score 6.5 / 10" in shown
    assert "1 / 2  key-identity (half)" in shown
    assert "“a hash [bold]of[/bold] tokens”" in shown
    assert "for the full point: Names the salt too" in shown
    assert "2 / 2  match-granularity (full)" in shown
    assert "Block 16, page 1" not in shown
    assert "What if the first token changes?" in shown


def test_a_contradicted_statement_shows_the_measured_value_and_a_command_to_copy() -> None:
    shown = _shown(terminal.grade_view(CARD, GRADE, "en"))
    assert "you said 2080; measured 2064 (vllm-cpu, evidence 3fa9c1d2e4)" in shown
    assert GRADE.findings[0].rerun in " ".join(shown.replace("\\", " ").split())
    first = next(line for line in shown.splitlines() if "inferproof verify" in line)
    assert first.endswith("\\")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_grade_reads_in_either_language_at_80_columns(language: Language) -> None:
    shown = _shown(terminal.grade_view(CARD, GRADE, language))
    assert CARD.rubric[0].criterion.of(language) in shown
    assert all(cell_len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("language", LANGUAGES)
def test_builds_show_version_levels_and_whether_they_are_there(language: Language) -> None:
    shown = _shown(
        terminal.builds_table(load_builds().values(), {"vllm-cpu": "ready", "sglang-cpu": "broken"}, language)
    )
    lines = {line.split()[0]: line for line in shown.splitlines()[2:] if not line.startswith(" ")}
    assert set(lines) == set(load_builds())
    assert "0.27.1" in lines["vllm-cpu"] and say(language, "ready") in lines["vllm-cpu"]
    assert say(language, "broken") in lines["sglang-cpu"]
    assert say(language, "by hand") in lines["vllm-pinned"]
    assert all(cell_len(line) <= 80 for line in shown.splitlines())


def test_doctor_shows_the_remedy_below_what_was_found() -> None:
    findings = [
        doctor.Finding("python", "ok", Bilingual("Python 3.11", "Python 3.11")),
        doctor.Finding("gpu", "no", Bilingual("no [GPU]", "没有 GPU"), Bilingual("use a server", "用服务器")),
    ]
    lines = [line.split() for line in _shown(terminal.doctor_table(findings, "en")).splitlines()]
    assert ["gpu", "no", "no", "[GPU]"] in lines
    assert ["to", "do:", "use", "a", "server"] in lines


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_verdict_and_reach_has_a_word(language: Language) -> None:
    for words in (VERDICTS, REACHES):
        assert len({say(language, word) for word in words}) == len(words)


def test_the_module_is_imported_without_rich() -> None:
    code = "import sys, inferproof.reports.terminal as t; sys.exit('rich' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
