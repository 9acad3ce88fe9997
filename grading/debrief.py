"""What an interview showed: scores by question, by topic and by layer, and what to work on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from inferproof.grading.interview import Asked, Interview, Question, is_wrong
from inferproof.grading.layers import LAYERS
from inferproof.grading.result import Finding, Grade
from inferproof.questions.card import Card, RubricPoint


@dataclass(frozen=True)
class Score:
    """A mean of scores of 10."""

    first: float
    """Before any follow-up."""
    last: float
    """With all that the follow-ups brought out."""


@dataclass(frozen=True)
class Touched:
    """In how many questions a layer was spoken of."""

    first: int
    last: int


@dataclass(frozen=True)
class Missed:
    """A rubric point that is not earned in full even with the follow-ups."""

    card: Card
    point: RubricPoint
    award: float


@dataclass(frozen=True, kw_only=True)
class Debrief:
    """The whole of it."""

    score: Score
    topics: dict[str, Score]
    """By collection of cards."""
    layers: dict[str, Touched]
    missed: tuple[Missed, ...]
    """What costs most first."""
    wrong: tuple[tuple[Card, Finding], ...]
    """Wrong statements that were not taken back."""
    followups: tuple[Asked, ...]
    """Follow-ups that were asked and for which the card tells a good answer."""


def debrief(interview: Interview) -> Debrief:
    """Sum up what was answered so far, which must be something."""
    questions = interview.questions
    topics = dict.fromkeys(q.card.collection for q in questions)
    missed = [
        Missed(q.card, point, award)
        for q in questions
        for point in q.card.rubric
        if (award := next(p.award for p in q.last.points if p.point == point.id)) < 1
    ]
    return Debrief(
        score=_score(questions),
        topics={topic: _score([q for q in questions if q.card.collection == topic]) for topic in topics},
        layers={layer: Touched(*(_touching(questions, layer, of) for of in (_first, _last))) for layer in LAYERS},
        missed=tuple(sorted(missed, key=lambda m: -m.point.points * (1 - m.award))),
        wrong=tuple((q.card, f) for q in questions for f in q.last.findings if is_wrong(f)),
        followups=tuple(turn.asked for q in questions for turn in q.turns if turn.asked.good),
    )


def _first(question: Question) -> Grade:
    return question.first


def _last(question: Question) -> Grade:
    return question.last


def _score(questions: Sequence[Question]) -> Score:
    return Score(*(round(mean(of(q).score for q in questions), 2) for of in (_first, _last)))


def _touching(questions: Iterable[Question], layer: str, of: Callable[[Question], Grade]) -> int:
    return sum(layer in of(q).layers for q in questions)
