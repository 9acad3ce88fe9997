"""Diagnoses: cases are recorded runs, log excerpts the engine's own lines; the card's points grade the answer."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from inferproof.grading.cases import CASES
from inferproof.grading.diagnose import CARD, KIND, SUBJECTS, Exhibit, NoCase, assess, draw, exhibits, of_point
from inferproof.grading.grade import grade
from inferproof.probes.core import find_probe
from inferproof.questions.card import Card
from inferproof.questions.deck import load_deck
from inferproof.reports.diagnose_view import exhibit_json, exhibit_view
from inferproof.runners.evidence import Evidence
from inferproof.runners.excerpt import abridged, batch_lines, run_in
from inferproof.runners.ledger import Ledger

PREFILL = "[2026-11-29 17:50:30] Prefill batch, #new-token: {}, token usage: 0.25, #running-req: 1, #queue-req: 6"
DECODE = "[2026-11-29 17:50:30] Decode batch, #running-req: 2, #token: 160, token usage: 0.51, #queue-req: 6"
ZERO: dict[str, Any] = {
    "retractions": 0, "max_waiting": 6, "max_running": 2, "demanded_tokens": 12288, "pool_tokens": 4096,
    "kv_usage_peak": 0.75,
}  # fmt: skip


@pytest.fixture(scope="module")
def card() -> Card:
    return load_deck([])[CARD]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def record(
    make: Any, probe: str, engine: str, params: dict[str, Any], observations: dict[str, Any], **other: Any
) -> Any:
    task = {"probe": probe, "engine": engine, "level": "engine", "params": params, "build": f"{engine}-cpu"}
    return make(task=task, observations=observations, **other)


@pytest.fixture
def zero(make_evidence: Any, ledger: Ledger) -> Evidence:
    params = find_probe("kv_pressure.overcommit", "sglang").resolve({})
    batches = [{"kind": "prefill", "new_tokens": 512}] + [{"kind": "decode", "new_tokens": 0}] * 5
    evidence: Evidence = record(
        make_evidence, "kv_pressure.overcommit", "sglang", params, ZERO, samples={"batches": batches}, log="w.log"
    )
    return ledger.add_evidence(evidence.body())


def test_without_evidence_the_error_says_which_verify_makes_some(ledger: Ledger) -> None:
    with pytest.raises(NoCase, match="inferproof verify diagnose-bottleneck"):
        draw(ledger, 1)


def test_a_case_is_a_recorded_run_that_shows_the_symptom(ledger: Ledger, zero: Evidence) -> None:
    found = exhibits(ledger)

    assert [(e.case.id, e.evidence.id) for e in found] == [("sglang-zero", zero.id)]
    assert exhibits(ledger, "vllm") == []


def test_runs_that_do_not_show_it_or_observed_other_things_make_no_case(ledger: Ledger, make_evidence: Any) -> None:
    for observations in (ZERO | {"max_waiting": 0}, {"retractions": 0}):
        body = record(make_evidence, "kv_pressure.overcommit", "sglang", {}, observations).body()
        ledger.add_evidence(body)

    assert exhibits(ledger) == []


def test_every_case_names_a_probe_and_a_point_that_there_is(card: Card) -> None:
    points = {point.id for point in card.rubric}

    assert len({case.id for case in CASES}) == len(CASES)
    assert {case.point for case in CASES} == points
    for case in CASES:
        find_probe(case.probe, case.engine)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_view_shows_the_engines_own_lines_and_not_the_symptoms_name(
    ledger: Ledger, zero: Evidence, tmp_path: Path, language: Any
) -> None:
    (tmp_path / "w.log").write_text("\n".join(["noise", DECODE, PREFILL.format(512), *[DECODE] * 5]), encoding="utf-8")
    console = Console(width=80, record=True, file=StringIO())
    console.print(exhibit_view(exhibits(ledger)[0], tmp_path, language))
    shown = console.export_text()

    assert "Prefill batch #new-token: 512 token usage: 0.25 #running-req: 1 #queue-req: 6" in shown
    assert "(2 more)" in shown
    assert "zero-retractions" not in shown
    assert zero.id[:10] in shown


def test_without_the_log_the_table_stands_alone(ledger: Ledger, zero: Evidence, tmp_path: Path) -> None:
    assert batch_lines(zero, tmp_path) == []
    assert exhibit_json(exhibits(ledger)[0], tmp_path, "en")["table"][0]["value"] == 0


batches = st.lists(st.tuples(st.sampled_from(["prefill", "decode"]), st.integers(1, 9)), min_size=1, max_size=8)


def lines_of(order: list[tuple[str, int]]) -> list[str]:
    return [PREFILL.format(tokens) if kind == "prefill" else DECODE for kind, tokens in order]


@given(batches, batches, batches)
def test_a_runs_lines_are_found_among_those_of_other_runs(before: Any, order: Any, after: Any) -> None:
    order = [(kind, tokens if kind == "prefill" else 0) for kind, tokens in order]
    found = run_in(lines_of(before) + lines_of(order) + lines_of(after), order)

    assert found == lines_of(order)
    assert len(abridged(found)) <= len(found)


def test_lines_that_no_run_gave_are_not_found() -> None:
    assert run_in([DECODE, PREFILL.format(8)], [("prefill", 9)]) == []
    assert run_in([DECODE], []) == []


def test_a_subject_that_a_case_names_stands_in_the_card_as_it_is_written_here(card: Card) -> None:
    for point in card.rubric:
        if point.id in SUBJECTS:
            assert any(SUBJECTS[point.id] in wanted for idea in point.evidence_of.ideas for wanted in idea.states)


def test_the_cards_own_examples_earn_and_fail_a_single_case_too(card: Card) -> None:
    for point in card.rubric:
        alone = of_point(card, point.id)
        for examples, wanted in ((point.examples.earn, 10.0), (point.examples.earn_nothing, 0.0)):
            for language, sentences in examples.items():
                assert [grade(alone, text, language, {}).score for text in sentences] == [wanted] * len(sentences)


def test_an_answer_need_not_repeat_the_subject_and_is_kept(card: Card, ledger: Ledger, zero: Evidence) -> None:
    exhibit = Exhibit(next(case for case in CASES if case.id == "sglang-zero"), zero)
    answer = "Requests are kept waiting outside. Next I would look at how many are running and waiting, and KV usage."
    graded = assess(card, exhibit, answer, "en", ledger)

    assert graded.score == 10
    [body] = ledger.bodies(KIND)
    assert (body["point"], body["evidence"], body["answer"]) == ("zero-retractions-slow", zero.id, answer)


def test_a_seed_draws_the_same_case_and_without_one_the_least_diagnosed_comes(
    card: Card, ledger: Ledger, zero: Evidence, make_evidence: Any
) -> None:
    seen = ZERO | {"retractions": 1}
    ledger.add_evidence(record(make_evidence, "kv_pressure.overcommit", "sglang", {"requests": 9}, seen).body())
    assert {draw(ledger, 5).case.id for _ in range(5)} == {draw(ledger, 5).case.id}
    exhibit = draw(ledger, None)
    assess(card, exhibit, "No idea.", "en", ledger)

    assert draw(ledger, None).case.id != exhibit.case.id
