"""Make the model files from what is labelled: `python -m inferproof.grading.train` (see `make model`, labelled.py).

Awards, and what is contrary to a claim, are learned from whole answers, each as it is heard by a model that has not
learned from its segments: the answers are cut into folds, and a model is made without each. The same data gives the
same files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from pathlib import Path
from typing import Any

from inferproof.grading.expected import OTHER, SCALE, blanks, value_of
from inferproof.grading.features import FAMILIES, Facts, Features, facts_of, features, loudness, together
from inferproof.grading.grade import engines_of
from inferproof.grading.labelled import FOLDS, Passage, parts_of, passages, trained_cards
from inferproof.grading.learned import FALSE, MODELS, model_from
from inferproof.grading.lessons import Award, Told, awarding, awards_in, contraries, lessons_of, told_in
from inferproof.grading.reading import Reading, readings
from inferproof.questions.card import Card
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
        for i, weight in _strongest(fitted, _KEPT):
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
        for i, weight in _strongest(fitted, _KEPT_AROUND):
            weights.setdefault(known[i], []).extend((at, weight))
    return {"values": values, "bias": bias, "weights": dict(sorted(weights.items()))}


def _strongest(fitted: Any, most: int) -> Iterator[tuple[int, int]]:
    """(column, integer weight) of so many of the strongest that do not round to nothing, in order of the columns.

    The columns stand for sorted names: of equals the first by name.
    """
    for i in sorted((-abs(fitted)).argsort(kind="stable")[:most].tolist()):
        if weight := round(SCALE * float(fitted[i])):
            yield i, weight


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


@dataclass(frozen=True)
class _Taught:
    """What one card teaches."""

    model: Mapping[str, Any]
    awards: Sequence[Award]
    told: Sequence[Told]


def main() -> None:
    """Write the model file of every card that has training data, then how awards and contraries are decided."""
    MODELS.mkdir(exist_ok=True)
    awards, told = list[Award](), list[Told]()
    with ProcessPoolExecutor() as pool:
        for name, taught in zip(trained_cards(), pool.map(_taught, trained_cards()), strict=True):
            _write(MODELS / f"{name}.json", taught.model)
            awards += taught.awards
            told += taught.told
            sys.stderr.write(f"{name}\n")
    _write(MODELS / "award.json", awarding(awards))
    _write(MODELS / "contrary.json", contraries(told))


def _taught(name: str) -> _Taught:
    """The card's model, and its answers as a model hears them that has been made without their fold."""
    material = _material(load_deck()[name])
    whole = _model(material, None)
    folds = [model_from(_model(material, fold)) for fold in range(FOLDS)]
    lessons = list(lessons_of(material.card, model_from(whole), folds))
    told = [told_in(lesson, lesson.false) for lesson in lessons if lesson.false is not None]
    return _Taught(whole, [award for lesson in lessons for award in awards_in(lesson)], told)


def _write(file: Path, content: Mapping[str, Any]) -> None:
    write_atomically(file, json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
