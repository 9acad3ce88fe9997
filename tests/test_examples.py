"""`cards lint --examples`: a card's own sentences through the grader."""

from __future__ import annotations

from dataclasses import replace

from small_cards import CARD
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.grading.examples import count, misgraded
from inferproof.questions.card import Card, Examples
from inferproof.questions.deck import load_deck

REAL = load_deck()["prefix-cache-ttft"]


def with_examples(earn: str, nothing: str) -> Card:
    examples = Examples(earn={"en": (earn,)}, earn_nothing={"en": (nothing,)})
    return replace(REAL, rubric=(replace(REAL.rubric[0], examples=examples),), misconceptions=())


def test_a_card_whose_examples_hold_has_no_problem() -> None:
    assert misgraded({REAL.id: REAL}) == []


def test_a_sentence_that_earns_too_little_is_named_with_field_and_award() -> None:
    good = REAL.rubric[0].examples.earn["en"][0]
    (problem,) = misgraded({REAL.id: with_examples("I do not know.", "Nor this.")})
    assert problem.field == "rubric.0.examples.earn.en.0"
    assert "'I do not know.' earns 0 of" in problem.message
    (problem,) = misgraded({REAL.id: with_examples(good, good)})
    assert problem.field == "rubric.0.examples.earn_nothing.en.0" and "earns 1 of" in problem.message


def test_a_misconception_that_is_not_recognised_is_named() -> None:
    odd = replace(REAL.misconceptions[0], examples={"en": ("Something else.",)})
    (problem,) = misgraded({REAL.id: replace(REAL, misconceptions=(odd,))})
    assert problem.field == "misconceptions.0.examples.en.0" and odd.id in problem.message


def test_examples_are_counted() -> None:
    assert count({}) == 0 < count({CARD.id: CARD}) + count({REAL.id: REAL})


def test_the_command_runs_them_all() -> None:
    shown = CliRunner().invoke(app, ["cards", "lint", "--examples"])
    assert shown.exit_code == 0, shown.output
    assert "examples, no problems" in shown.output or "个例句" in shown.output
