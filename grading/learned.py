"""The learned part of the grader: which parts of a point a statement states, and whether it says something false.

A linear model for each card, over the features of one statement or two neighbours. `train.py` makes the files in
`model/` from the labelled sentences in `training/`. Weights are integers and are added as such: the sum of a family
does not depend on the order, so that a score is the same everywhere, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path
from typing import Any

from inferproof.grading.breaths import breaths, runs
from inferproof.grading.features import FAMILIES, Facts, Features, features, loudness, together
from inferproof.grading.reading import Reading, mostly_keywords

MODELS = Path(__file__).with_name("model")
SCALE = 100
"""Of the integer weights."""
FALSE = "false"
"""Head that says whether something in a statement is false; `false:<id>` says which claim or misconception."""
NEIGHBOURS = 2
"""Statements, or pieces of one, that may make a thought together."""
FEWEST_WORDS = 3
"""Different words that a statement has: two words name something."""
_UNHEARD = -4.0
_MOST = 4.0


@dataclass(frozen=True)
class Points:
    """What a point consists of."""

    full: int
    """Parts that earn all of it; half as many earn half."""
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Heard:
    """How strongly each head answers to a stretch of the answer (log-odds)."""

    readings: tuple[Reading, ...]
    scores: Mapping[str, float]
    torn: bool = False
    """Whether it is a piece of a longer statement."""

    @property
    def span(self) -> str:
        """The words of the answer, as they stand there where nothing is between them."""
        first, last = self.readings[0], self.readings[-1]
        if first.statement.end == last.statement.start:
            return first.text.span(first.statement.start, last.statement.end)
        return " ".join(reading.span for reading in self.readings)


@dataclass(frozen=True)
class Model:
    """The weights for one card."""

    card: str
    points: Mapping[str, Points]
    facts: Facts
    heads: tuple[str, ...]
    bias: tuple[int, ...]
    weights: Mapping[str, Mapping[str, Sequence[int]]]
    """Family -> feature -> head, weight, head, weight..."""

    def hear(self, read: Sequence[Reading]) -> list[Heard]:
        """Every statement by itself, a long one in its pieces, and every few neighbours."""
        keywords = mostly_keywords(read)
        whole = [r for r in read if (r.speaks_plainly if keywords else r.speaks)]
        pieces = [(piece, piece is not r) for r in whole for piece in breaths(r) if piece.speaks or not r.is_list]
        heard = [(piece, torn, features(piece, self.facts)) for piece, torn in pieces]
        heard = [one for one in heard if len(one[2]["w"]) >= FEWEST_WORDS]
        said, seen = [piece for piece, _, _ in heard], [found for _, _, found in heard]
        return [
            Heard(tuple(said[first:last]), self.scores(together(seen[first:last])), torn=heard[first][1])
            for first, last in runs(said, NEIGHBOURS)
        ]

    def scores(self, seen: Features) -> dict[str, float]:
        """The log-odds of each head."""
        totals = [b / SCALE for b in self.bias]
        for family in FAMILIES:
            known, found = self.weights[family], seen[family]
            sums = [0] * len(totals)
            for feature in found:
                pairs = known.get(feature, ())
                for at in range(0, len(pairs), 2):
                    sums[pairs[at]] += pairs[at + 1]
            loud = loudness(family, len(found)) / SCALE if found else 0.0
            totals = [total + loud * added for total, added in zip(totals, sums, strict=True)]
        return dict(zip(self.heads, totals, strict=True))

    def strongest(self, heard: Sequence[Heard], point: str) -> dict[str, tuple[float, Heard | None]]:
        """Part of the point -> its highest log-odds, and where."""
        best: dict[str, tuple[float, Heard | None]] = {}
        for part in self.points[point].parts:
            head = f"{point}/{part}"
            top = max(heard, key=lambda h: h.scores[head], default=None)
            best[part] = (top.scores[head] if top else _UNHEARD, top)
        return best


@cache
def model_of(card: str, points: frozenset[str]) -> Model | None:
    """The model of that card; None where there is none, or it was made for other points."""
    file = MODELS / f"{card}.json"
    if not file.exists():
        return None
    data = json.loads(file.read_bytes())
    if set(data["points"]) != points:
        return None
    return Model(
        card=card,
        points={p: Points(of["full"], tuple(of["parts"])) for p, of in data["points"].items()},
        facts=frozenset((value, engine) for value, engine in data["facts"]),
        heads=tuple(data["heads"]),
        bias=tuple(data["bias"]),
        weights=data["weights"],
    )


def award_inputs(log_odds: Sequence[float], full: int, by_rule: float) -> list[float]:
    """What an award is decided by: how surely its parts are stated, and what the rules of the card give."""
    heard = sorted(log_odds, reverse=True)
    sure = [1 / (1 + exp(-x)) for x in heard]
    half = max(1, (full + 1) // 2)
    whole, some = sum(sure[:full]) / full, sum(sure[:half]) / half
    last = sure[full - 1] if len(sure) >= full else 0.0
    rest = [sum(sure) / full, sure[full] if len(sure) > full else 0.0]
    clipped = [max(-_MOST, min(_MOST, x)) / _MOST for x in heard]
    ends = [clipped[0], clipped[full - 1] if len(clipped) >= full else -1.0]
    return [whole, some, last, *rest, *ends, whole**2, some**2, last**2, float(by_rule > 0), float(by_rule == 1)]


def contrary_inputs(one: Heard, heard: Sequence[Heard]) -> list[float]:
    """What it is decided by whether a statement is contrary to a claim: how it is heard alone, and among neighbours."""
    beside = [h.scores[FALSE] for h in heard if len(h.readings) > 1 and any(r is one.readings[0] for r in h.readings)]
    against = max((score for name, score in one.scores.items() if name.startswith(f"{FALSE}:")), default=_UNHEARD)
    stated = max((score for name, score in one.scores.items() if not name.startswith(FALSE)), default=_UNHEARD)
    alone = one.scores[FALSE]
    looked_at = (against, alone, max(beside, default=alone), min(beside, default=alone), stated)
    return [*(max(-_MOST, min(_MOST, x)) for x in looked_at), float(one.torn)]


def contrary(one: Heard, heard: Sequence[Heard]) -> float:
    """The log-odds that a statement is contrary to a claim."""
    weights: Sequence[int] = _made("contrary")["weights"]
    *inputs, bias = weights
    return (sum(w * x for w, x in zip(inputs, contrary_inputs(one, heard), strict=True)) + bias) / SCALE


@cache
def _made(name: str) -> Any:
    return json.loads((MODELS / f"{name}.json").read_bytes())


def award(card: str, point: str, inputs: Sequence[float]) -> float:
    """0, half or full, whichever is likeliest."""
    scores = []
    for name, weights in _made("award").items():
        of_point = weights.get(f"{card}/{point}", (0,))
        linear = sum(w * x for w, x in zip(weights["inputs"], inputs, strict=True))
        scores.append((linear + weights["bias"][0] + of_point[0], float(name)))
    return max(scores)[1]
