"""Make the model files from what is labelled: `python -m inferproof.grading.train` (see `make model`, labelled.py).

Awards, and what is contrary to a claim, are learned from whole answers, each as it is heard by a model that has not
learned from its segments: the answers are cut into folds, and a model is made without each. The same data gives the
same files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from pathlib import Path
from typing import Any, get_args

from inferproof.grading.bench import overlap, places
from inferproof.grading.expected import OTHER, SCALE, blanks, value_of
from inferproof.grading.features import FAMILIES, Facts, Features, facts_of, features, loudness, together
from inferproof.grading.grade import engines_of, rule_awards, statements_of
from inferproof.grading.labelled import FOLDS, Passage, answers, fold_of, parts_of, passages, trained_cards
from inferproof.grading.learned import FALSE, MODELS, Model, award_inputs, contrary_inputs, model_from, model_of
from inferproof.grading.reading import Reading, readings
from inferproof.questions.card import Card, Language
from inferproof.questions.deck import load_deck
from inferproof.questions.recorded import load_recorded
from inferproof.runners.paths import write_atomically

_STRENGTH = 5.0
"""Inverse of the regularisation; a quarter or four times of it changes little."""
_KEPT = 1200
"""Strongest features kept for each head: the others are noise, and make the file large."""
_FEWEST = 4
"""Sentences that a claim or misconception needs to get a head of its own."""
_KEPT_AROUND = 300
"""The same for each number of what stands around it."""
_NEVER = -6.0
"""Log-odds of what no sentence says."""
_POINT_WEIGHT = 0.4
AWARDS = ("0", "0.5", "1")


@dataclass(frozen=True)
class _Material:
    """A card's passages with their features, from which its models are made."""

    card: Card
    facts: Facts
    passages: Sequence[Passage]
    known: Sequence[tuple[str, str]]
    """Family and name of every feature."""
    matrix: Any
    """A row of loudness for each passage."""
    blanks: Sequence[tuple[int | None, tuple[str, frozenset[str]]]]
    """Every number in a passage that is true: the passage's fold, the number, and what stands around it."""


def model(card: Card) -> dict[str, Any]:
    """The content of the card's model file."""
    return _model(_material(card), None)


def _material(card: Card) -> _Material:
    facts = facts_of(card, {f.id: f for f in load_recorded().figures})
    labelled = passages(card)
    read = [_read(card, passage) for passage in labelled]
    known, matrix = _matrix([_features(of, facts) for of in read])
    true = [(p.fold, r) for p, of in zip(labelled, read, strict=True) if p.false is None for r in of]
    numbers = [(fold, (value_of(number), around)) for fold, r in true for number, around in blanks(r)]
    return _Material(card, facts, labelled, known, matrix, numbers)


def _model(material: _Material, without: int | None) -> dict[str, Any]:
    card, known, labelled = material.card, material.known, material.passages
    names, bias, weights = list[str](), list[int](), {family: dict[str, list[int]]() for family in FAMILIES}
    learned = [i for i, p in enumerate(labelled) if without is None or p.fold != without]
    for head in _heads(card, labelled):
        rows = [i for i in learned if labelled[i].states is not None or head.startswith(FALSE)]
        said = [_states(labelled[i], head) for i in rows]
        fitted, intercept = _fit(material.matrix[rows], said, [labelled[i].weight for i in rows])
        strongest = (-abs(fitted)).argsort(kind="stable")[:_KEPT]  # `known` is sorted: of equals the first by name
        for i in sorted(strongest.tolist()):
            if weight := round(SCALE * float(fitted[i])):
                family, feature = known[i]
                weights[family].setdefault(feature, []).extend((len(names), weight))
        names.append(head)
        bias.append(round(SCALE * intercept))
    return {
        "card": card.id,
        "points": {point: list(parts) for point, parts in parts_of(card.id).items()},
        "facts": sorted(map(list, material.facts), key=lambda f: (f[0], f[1] or "", f[2] or "")),
        "heads": names,
        "bias": bias,
        "weights": {family: dict(sorted(of.items())) for family, of in weights.items()},
        "expected": _expected(material, without),
    }


def _expected(material: _Material, without: int | None) -> dict[str, Any]:
    """Which number is expected where, learned from the numbers in what is true."""
    rows = [row for fold, row in material.blanks if without is None or fold != without]
    counts = Counter(value for value, _ in rows)
    often = sorted(value for value, count in counts.items() if count >= _FEWEST)
    values = [*often, *([OTHER] if len(often) < len(counts) else [])]
    known = sorted({feature for _, around in rows for feature in around})
    column = {feature: i for i, feature in enumerate(known)}
    matrix = _sparse([[(column[f], 1 / sqrt(len(around))) for f in sorted(around)] for _, around in rows], len(known))
    bias, weights = list[int](), dict[str, list[int]]()
    for at, value in enumerate(values):
        said = [(value == OTHER and counts[v] < _FEWEST) or v == value for v, _ in rows]
        fitted, intercept = _fit(matrix, said, [1.0] * len(said), balanced=False)
        bias.append(round(SCALE * intercept))
        for i in sorted((-abs(fitted)).argsort(kind="stable")[:_KEPT_AROUND].tolist()):
            if weight := round(SCALE * float(fitted[i])):
                weights.setdefault(known[i], []).extend((at, weight))
    return {"values": values, "bias": bias, "weights": dict(sorted(weights.items()))}


def _read(card: Card, passage: Passage) -> Sequence[Reading]:
    return readings(passage.text, engines_of(card)) if passage.read is None else passage.read


def _features(read: Sequence[Reading], facts: Facts) -> Features:
    return together([features(r, facts) for r in read]) if read else {family: frozenset() for family in FAMILIES}


def _heads(card: Card, labelled: Sequence[Passage]) -> Iterator[str]:
    yield from (f"{point}/{part}" for point, parts in parts_of(card.id).items() for part in parts)
    yield FALSE
    counts = Counter(p.false for p in labelled if p.false)
    named = [*card.claims, *(m.id for m in card.misconceptions)]
    yield from (f"{FALSE}:{name}" for name in named if counts[name] >= _FEWEST)


def _states(passage: Passage, head: str) -> bool:
    if head == FALSE:
        return passage.false is not None
    return head in (passage.states or ()) or head == f"{FALSE}:{passage.false}"


def _matrix(seen: Sequence[Features]) -> tuple[list[tuple[str, str]], Any]:
    """(the features, sorted; a row of loudness for each passage)."""
    known = sorted({(family, f) for one in seen for family in FAMILIES for f in one[family]})
    column = {feature: i for i, feature in enumerate(known)}
    rows = [
        sorted((column[family, f], loudness(family, len(one[family]))) for family in FAMILIES for f in one[family])
        for one in seen
    ]
    return known, _sparse(rows, len(known))


def _sparse(rows: Sequence[Sequence[tuple[int, float]]], width: int) -> Any:
    """The matrix of those rows of (column, value)."""
    from scipy.sparse import csr_matrix

    ends = [0, *accumulate(len(row) for row in rows)]
    values, columns = [v for row in rows for _, v in row], [c for row in rows for c, _ in row]
    return csr_matrix((values, columns, ends), shape=(len(rows), width))


def _fit(matrix: Any, labels: Sequence[bool], weights: Sequence[float], *, balanced: bool = True) -> tuple[Any, float]:
    """(array of weights, intercept) of a logistic regression."""
    import numpy
    from sklearn.linear_model import LogisticRegression

    if not any(labels):  # all that says it is in the fold that is left out
        return numpy.zeros(matrix.shape[1]), _NEVER
    fitted = LogisticRegression(
        C=_STRENGTH,
        class_weight="balanced" if balanced else None,
        solver="liblinear",
        dual=True,
        max_iter=5000,
        tol=1e-3,
        random_state=0,
    ).fit(matrix, labels, weights)
    return fitted.coef_[0], float(fitted.intercept_[0])


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


def awarding(lessons: Iterable[Lesson]) -> dict[str, Any]:
    """The content of `award.json`: how sure parts become 0, half or full."""
    from sklearn.linear_model import LogisticRegression

    rows, labels, names, weights = [], [], [], []
    for lesson in lessons:
        for point, inputs in point_inputs(lesson.card, lesson.model, lesson.answer).items():
            rows.append(inputs)
            labels.append(AWARDS[int(2 * lesson.points[point])])
            names.append(f"{lesson.card.id}/{point}")
            weights.append(lesson.weight)
    points = sorted(set(names))
    one_hot = [[_POINT_WEIGHT * (point == name) for point in points] for name in names]
    fitted = LogisticRegression(C=10, max_iter=20_000, tol=1e-8).fit(
        [[*row, *hot] for row, hot in zip(rows, one_hot, strict=True)], labels, weights
    )
    width = len(rows[0])
    return {
        name: {
            "inputs": [round(SCALE * w) for w in fitted.coef_[i][:width]],
            "bias": [round(SCALE * fitted.intercept_[i])],
            **{p: [round(SCALE * _POINT_WEIGHT * w)] for p, w in zip(points, fitted.coef_[i][width:], strict=True)},
        }
        for i, name in enumerate(fitted.classes_)
    }


def point_inputs(card: Card, learned: Model, answer: str) -> dict[str, list[float]]:
    """Point -> what its award is decided by, in this answer."""
    read = statements_of(card, answer)
    heard, by_rule = learned.hear(read), rule_awards(card, read)
    return {
        point: award_inputs(list(learned.strongest(heard, point).values()), by_rule[point]) for point in learned.points
    }


def contraries(lessons: Iterable[Lesson]) -> dict[str, Any]:
    """The content of `contrary.json`: when a statement is contrary to a claim."""
    from sklearn.linear_model import LogisticRegression

    rows, labels = [], []
    for lesson in (lesson for lesson in lessons if lesson.false is not None):
        false = [place for words in lesson.false or () for place in places(words, lesson.answer)[:1]]
        for one in lesson.model.judge(statements_of(lesson.card, lesson.answer)):
            if one.alone.readings[0].asserted:
                rows.append(contrary_inputs(one))
                labels.append(any(overlap(at, f) for at in places(one.alone.span, lesson.answer)[:1] for f in false))
    fitted = LogisticRegression(C=0.3, max_iter=20_000, tol=1e-8).fit(rows, labels)
    return {"weights": [round(SCALE * w) for w in (*fitted.coef_[0], fitted.intercept_[0])]}


def main() -> None:
    """Write the model file of every card that has training data, then how awards and contraries are decided."""
    deck = load_deck()
    MODELS.mkdir(exist_ok=True)
    lessons = list[Lesson]()
    with ProcessPoolExecutor() as pool:
        for name, (whole, folds) in zip(trained_cards(), pool.map(_taught, trained_cards()), strict=True):
            _write(MODELS / f"{name}.json", whole)
            lessons += _lessons(deck[name], model_from(whole), [model_from(fold) for fold in folds])
            sys.stderr.write(f"{name}\n")
    model_of.cache_clear()
    _write(MODELS / "award.json", awarding(lessons))
    _write(MODELS / "contrary.json", contraries(lessons))


def _taught(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(the card's model, a model without each fold of its answers)."""
    material = _material(load_deck()[name])
    return _model(material, None), [_model(material, fold) for fold in range(FOLDS)]


def _lessons(card: Card, whole: Model, folds: Sequence[Model]) -> Iterator[Lesson]:
    """The card's own model answer, which earns everything, and its labelled answers."""
    for language in get_args(Language):
        text = "\n\n".join(paragraph.text.of(language) for paragraph in card.answer)
        yield Lesson(card, whole, text, dict.fromkeys((p.id for p in card.rubric), 1.0), None, _MODEL_ANSWER)
    for a in answers(card.id):
        yield Lesson(card, folds[fold_of(a.id)], a.answer, a.points, a.false)


def _write(file: Path, content: Mapping[str, Any]) -> None:
    write_atomically(file, json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
