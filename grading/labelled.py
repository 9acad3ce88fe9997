"""What the learned part of the grader is made from: labelled passages, and whole answers with labelled segments.

`training/<card>.parts.yaml` says what each point consists of; `<card>.jsonl` holds passages with the parts that they
state and what in them is false; `<card>.answers.jsonl` whole answers, cut into segments with the same labels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferproof.grading.breaths import FINE, between, breaths
from inferproof.grading.cues import SENTENCE
from inferproof.grading.features import texts
from inferproof.grading.gold import GoldAnswer
from inferproof.grading.grade import engines_of
from inferproof.grading.reading import Reading, readings
from inferproof.questions.card import Card

TRAINING = Path(__file__).with_name("training")
FOLDS = 3
"""Parts of the answers: how surely a part is stated is learned from answers whose segments were not learned from."""
_OWN = 4.0
"""Weight of the card's own sentences: the grader must get these right."""


@dataclass(frozen=True)
class Passage:
    """A labelled sentence or two."""

    text: str
    states: frozenset[str] | None
    """`point/part` of all parts that it states; None where nobody has said which."""
    false: str | None
    """The claim or misconception that tells what is false in it, or `other`."""
    weight: float = 1.0
    fold: int | None = None
    """Of the answer that it is a segment of."""
    read: tuple[Reading, ...] | None = None
    """A segment as it is read where it stands in its answer; None: it stands by itself."""


def trained_cards() -> list[str]:
    """Cards that have training data."""
    return sorted(file.name.removesuffix(".parts.yaml") for file in TRAINING.glob("*.parts.yaml"))


def parts_of(card: str) -> dict[str, dict[str, str]]:
    """Point -> its parts, each with what it says."""
    import yaml

    parts: dict[str, dict[str, str]] = yaml.safe_load((TRAINING / f"{card}.parts.yaml").read_text(encoding="utf-8"))
    return parts


def passages(card: Card) -> list[Passage]:
    """The labelled passages of a card, the segments of its answers, and its own example sentences."""
    found = [_passage(row) for row in _rows(f"{card.id}.jsonl")]
    for row in _rows(f"{card.id}.answers.jsonl"):
        found += _segments(card, row)
    parts = {point: [f"{point}/{part}" for part in of] for point, of in parts_of(card.id).items()}
    for point in card.rubric:
        for states, examples in ((parts[point.id], point.examples.earn), ((), point.examples.earn_nothing)):
            found += [Passage(s, frozenset(states), None, _OWN) for of in examples.values() for s in of]
        torn = [piece for of in point.examples.earn_nothing.values() for s in of for piece in _pieces(s)]
        found += [Passage(piece, frozenset(), None, _OWN) for piece in torn]
    for misconception in card.misconceptions:
        for sentences in misconception.examples.values():
            found += [Passage(s, frozenset(), misconception.id, _OWN) for s in sentences]
    own = {text: None for of in texts(card) for text in (of.en, of.zh)}
    own.update((sentence.group().strip(), None) for text in list(own) for sentence in SENTENCE.finditer(text))
    return [*found, *(Passage(sentence, None, None, _OWN) for sentence in own if sentence)]


def _segments(card: Card, row: Mapping[str, Any]) -> Iterator[Passage]:
    """The segments of an answer that are heard at all, each as it is read there: who is "it" was said before."""
    read = readings("".join(segment["text"] for segment in row["segments"]), engines_of(card))
    fold, start = fold_of(row["id"]), 0
    for segment in row["segments"]:
        end = start + len(segment["text"])
        if read:
            a, b = read[0].text.position(start), read[0].text.position(end)
            ends = [(r, max(a, r.statement.start), min(b, r.statement.end)) for r in read if r.speaks]
            pieces = tuple(between(r, first, last) for r, first, last in ends if last - first > 1)
            if pieces:
                yield replace(_passage(segment, fold), read=pieces)
        start = end


def _pieces(sentence: str) -> list[str]:
    """A sentence in the pieces in which it will be heard, if they are several."""
    pieces = [piece.span.strip() for reading in readings(sentence) for piece in breaths(reading, FINE)]
    return pieces if len(pieces) > 1 else []


def answers(card: str) -> list[GoldAnswer]:
    """The whole answers: their segments joined, what is false in them marked."""
    return [
        GoldAnswer(
            id=row["id"],
            card=row["card"],
            lang=row["lang"],
            kind=row["kind"],
            answer="".join(s["text"] for s in row["segments"]),
            points=row["points"],
            false=tuple(row.get("false") or (s["text"].strip() for s in row["segments"] if s["false"])),
        )
        for row in _rows(f"{card}.answers.jsonl")
    ]


def fold_of(answer: str) -> int:
    """Which part of the answers it belongs to, by its id: fixed, and blind to the content."""
    return hashlib.sha256(answer.encode()).digest()[1] % FOLDS


def _rows(file: str) -> Iterator[Any]:
    yield from map(json.loads, (TRAINING / file).read_text(encoding="utf-8").splitlines())


def _passage(row: Mapping[str, Any], fold: int | None = None) -> Passage:
    return Passage(row["text"], frozenset(row["states"]), row["false"] or None, fold=fold)
