"""The page for people who write cards is right: its card is a card, its predicates are predicates."""

import re
from pathlib import Path

import pytest

from inferproof.grading.glossary import glossary
from inferproof.grading.grade import grade
from inferproof.grading.lint import lint
from inferproof.grading.verdict import compiled
from inferproof.questions.card import Card
from inferproof.questions.deck import read_card

PAGE = (Path(__file__).parents[1] / "docs" / "cards.md").read_text(encoding="utf-8")


@pytest.fixture
def card(tmp_path: Path) -> Card:
    found = re.search(r"```yaml\n(id: (\S+)\n.*?)```", PAGE, re.DOTALL)
    assert found
    file = tmp_path / f"{found[2]}.yaml"
    file.write_text(found[1], encoding="utf-8")
    return read_card(file)


def test_the_small_card_of_the_page_has_no_problem(card: Card) -> None:
    assert lint({card.id: card}, recorded=set(), concepts=set(glossary().concepts)) == []


def test_the_small_card_of_the_page_grades_its_own_examples(card: Card) -> None:
    for wanted, wordings in ((10.0, card.rubric[0].examples.earn), (0.0, card.rubric[0].examples.earn_nothing)):
        for language, sentences in wordings.items():
            for sentence in sentences:
                assert grade(card, sentence, language, {}).score == wanted, sentence


def test_every_predicate_of_the_page_parses() -> None:
    predicates = re.findall(r"^ *expect: (.+?)(?: {2,}#.*)?$", PAGE, re.MULTILINE)

    assert len(predicates) > 5
    for predicate in predicates:
        assert compiled(predicate) is not None


def test_every_field_of_a_claim_is_explained() -> None:
    fields = {"with" if name == "params" else name for name in _fields()}

    assert {name for name in fields if f"| `{name}` |" not in PAGE} == set()


def _fields() -> list[str]:
    from dataclasses import fields

    from inferproof.questions.card import Claim

    return [f.name for f in fields(Claim)]
