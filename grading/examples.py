"""Cards test themselves: their example sentences, graded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from inferproof.grading.grade import grade
from inferproof.questions.card import Card, Language
from inferproof.questions.deck import Location, Problem, locate


def misgraded(deck: Mapping[str, Card]) -> list[Problem]:
    """Every example that does not get what it stands under: the point whole, nothing, or the misconception found."""
    found = (
        Problem(card.file, locate(Path(card.file), at), ".".join(map(str, at)), message)
        for card in deck.values()
        for examples in (_points(card), _misconceptions(card))
        for at, message in examples
    )
    return sorted(found)


def count(deck: Mapping[str, Card]) -> int:
    """How many example sentences the cards hold."""
    held = [e for c in deck.values() for p in c.rubric for e in (p.examples.earn, p.examples.earn_nothing)]
    held += [m.examples for c in deck.values() for m in c.misconceptions]
    return sum(len(sentences) for examples in held for sentences in examples.values())


def _points(card: Card) -> Iterator[tuple[Location, str]]:
    for i, point in enumerate(card.rubric):
        for field, due, examples in (
            ("earn", 1.0, point.examples.earn),
            ("earn_nothing", 0.0, point.examples.earn_nothing),
        ):
            for at, language, sentence in _sentences(examples, ("rubric", i, "examples", field)):
                graded = next(p for p in grade(card, sentence, language, {}).points if p.point == point.id)
                if graded.award != due:
                    yield at, f"'{sentence}' earns {graded.award:g} of '{point.id}', not {due:g}: {graded.why}"


def _misconceptions(card: Card) -> Iterator[tuple[Location, str]]:
    for i, misconception in enumerate(card.misconceptions):
        for at, language, sentence in _sentences(misconception.examples, ("misconceptions", i, "examples")):
            if misconception.id not in {f.misconception for f in grade(card, sentence, language, {}).findings}:
                yield at, f"'{sentence}' is not recognised as '{misconception.id}'"


def _sentences(examples: Mapping[Language, tuple[str, ...]], at: Location) -> Iterator[tuple[Location, Language, str]]:
    for language, sentences in examples.items():
        for i, sentence in enumerate(sentences):
            yield (*at, language, i), language, sentence
