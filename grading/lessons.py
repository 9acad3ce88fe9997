"""Lessons: whole labelled answers, from which awards and what is contrary to a claim are learned (see `train.py`).

Each answer is taken as it is heard by a model that has not learned from its segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from inferproof.grading.bench import overlap, places
from inferproof.grading.expected import SCALE
from inferproof.grading.grade import rule_awards, statements_of
from inferproof.grading.labelled import answers, fold_of
from inferproof.grading.learned import Model, among, award_inputs, contrary_inputs, weighed
from inferproof.grading.reading import Reading
from inferproof.questions.card import Card, Language

_POINT_WEIGHT = 0.4
AWARDS = ("0", "0.5", "1")
_MODEL_ANSWER = 10.0
"""Weight of a card's model answer: it must earn everything."""


@dataclass(frozen=True)
class Lesson:
    """A whole answer, with a model that has not learned from it."""

    card: Card
    model: Model
    answer: str
    points: Mapping[str, float]
    false: tuple[str, ...] | None
    """What is false in it; None where nobody has said so."""
    weight: float = 1.0

    @cached_property
    def read(self) -> Sequence[Reading]:
        """What the answer says, read once for its awards and for what is contrary in it."""
        return statements_of(self.card, self.answer)


@dataclass(frozen=True)
class Award:
    """One point of one answer: what its award is decided by, and what it is."""

    point: str
    """`card/point`."""
    inputs: Sequence[float]
    award: float
    weight: float


@dataclass(frozen=True)
class Told:
    """What one answer asserts: for each statement what it is decided by whether it is contrary, and whether it is."""

    inputs: Sequence[Sequence[float]]
    contrary: Sequence[bool]


def lessons_of(card: Card, whole: Model, folds: Sequence[Model]) -> Iterator[Lesson]:
    """The card's own model answer, which earns everything, and its labelled answers."""
    for language in get_args(Language):
        text = "\n\n".join(paragraph.text.of(language) for paragraph in card.answer)
        yield Lesson(card, whole, text, dict.fromkeys((p.id for p in card.rubric), 1.0), None, _MODEL_ANSWER)
    for a in answers(card.id):
        yield Lesson(card, folds[fold_of(a.id)], a.answer, a.points, a.false)


def awards_in(lesson: Lesson) -> Iterator[Award]:
    """What each point of an answer is decided by, as the lesson's model hears it."""
    heard, by_rule = lesson.model.hear(lesson.read), rule_awards(lesson.card, lesson.read)
    for point in lesson.model.points:
        inputs = award_inputs(list(lesson.model.strongest(heard, point).values()), by_rule[point])
        yield Award(f"{lesson.card.id}/{point}", inputs, lesson.points[point], lesson.weight)


def told_in(lesson: Lesson, false: Sequence[str]) -> Told:
    """Every statement that an answer asserts, as the lesson's model hears it. `false`: the words that are not so."""
    wrong = [place for words in false for place in places(words, lesson.answer)[:1]]
    judged = lesson.model.judge(lesson.read)
    asserted = [one for one in judged if one.alone.readings[0].asserted]
    spans = [places(one.alone.span, lesson.answer)[:1] for one in asserted]
    contrary = [any(overlap(at, place) for at in span for place in wrong) for span in spans]
    return Told([contrary_inputs(one) for one in asserted], contrary)


def awarding(awards: Sequence[Award]) -> dict[str, Any]:
    """The content of `award.json`: how sure parts become 0, half or full."""
    from sklearn.linear_model import LogisticRegression

    points = sorted({award.point for award in awards})
    rows = [[*award.inputs, *(_POINT_WEIGHT * (point == award.point) for point in points)] for award in awards]
    labels, weights = [AWARDS[int(2 * award.award)] for award in awards], [award.weight for award in awards]
    fitted = LogisticRegression(C=10, max_iter=20_000, tol=1e-8).fit(rows, labels, weights)
    width = len(awards[0].inputs)
    return {
        name: {
            "inputs": [round(SCALE * w) for w in fitted.coef_[i][:width]],
            "bias": [round(SCALE * fitted.intercept_[i])],
            **{p: [round(SCALE * _POINT_WEIGHT * w)] for p, w in zip(points, fitted.coef_[i][width:], strict=True)},
        }
        for i, name in enumerate(fitted.classes_)
    }


def contraries(told: Sequence[Told]) -> dict[str, Any]:
    """The content of `contrary.json`: when a statement is contrary to a claim, by itself and among others."""
    said = [(inputs, contrary) for one in told for inputs, contrary in zip(one.inputs, one.contrary, strict=True)]
    alone = _decide([inputs for inputs, _ in said], [contrary for _, contrary in said])
    lights = [
        light
        for one in told
        for light in among([weighed(alone, inputs) for inputs in one.inputs], [True] * len(one.inputs))
    ]
    lit = [([*inputs, *light], contrary) for (inputs, contrary), light in zip(said, lights, strict=True) if light]
    return {"alone": alone, "among": _decide([inputs for inputs, _ in lit], [contrary for _, contrary in lit])}


def _decide(rows: Sequence[Sequence[float]], labels: Sequence[bool]) -> list[int]:
    """The weights of a logistic regression, and its intercept."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=0.3, max_iter=20_000, tol=1e-8).fit(rows, labels)
    return [round(SCALE * w) for w in (*fitted.coef_[0], fitted.intercept_[0])]
