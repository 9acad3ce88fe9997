"""The learned part of the grader: which parts of a point a statement states, and whether it says something false.

A linear model for each card, over the features of one statement or two neighbours. `train.py` makes the files in
`model/` from the labelled sentences in `training/`. Weights are integers and are added as such: the sum of a family
does not depend on the order, so that a score is the same everywhere, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations_with_replacement
from math import exp
from pathlib import Path
from struct import unpack
from typing import Any

from inferproof.grading.breaths import COARSE, FINE, Cut, breaths, runs
from inferproof.grading.expected import SCALE, Expected, expected_from
from inferproof.grading.features import FAMILIES, KINDS, Facts, Features, features, loudness, together
from inferproof.grading.reading import Reading, mostly_keywords

MODELS = Path(__file__).with_name("model")
FALSE = "false"
"""Head that says whether something in a statement is false; `false:<id>` says which claim or misconception."""
FEWEST_WORDS = 3
"""Different words that a statement has: two words name something."""
_UNHEARD = -4.0
_MANY_WORDS = 30
_LANE = 32
"""Bits of a head's sum: that of a thousand weights stays far below what fits."""
_HALF = 1 << (_LANE - 1)
_MOST = 4.0
_MOST_SURPRISE = 8.0


@dataclass(frozen=True)
class Heard:
    """How strongly heads answer to a stretch of the answer (log-odds)."""

    readings: tuple[Reading, ...]
    seen: Features
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
class Judged:
    """A statement by itself, as all heads hear it, and how surely something is false in each pair that it is of."""

    alone: Heard
    beside: tuple[float, ...]
    surprise: float | None
    """How much rather another number is expected in it; None where it has none."""


@dataclass(frozen=True)
class Model:
    """The weights for one card."""

    card: str
    points: Mapping[str, Sequence[str]]
    """Point -> its parts: all of them earn all of it."""
    facts: Facts
    heads: tuple[str, ...]
    """The parts of the points, FALSE, and what a statement may be false against."""
    bias: tuple[int, ...]
    weights: Mapping[str, Mapping[str, Sequence[int]]]
    """Family -> feature -> head, weight, head, weight..."""
    expected: Expected
    packed: Mapping[str, dict[str, int]] = field(default_factory=lambda: {f: {} for f in FAMILIES}, compare=False)
    """What has been looked up of the weights, packed."""

    def hear(self, read: Sequence[Reading]) -> list[Heard]:
        """Which parts are stated: every statement, cut finely, by itself and with its neighbours."""
        said = self._said(read, FINE)
        pieces, parts = [one.readings[0] for one in said], self.heads.index(FALSE)
        return [self._together(said[first:last], parts) for first, last in runs(pieces, FINE.neighbours)]

    def judge(self, read: Sequence[Reading]) -> list[Judged]:
        """What may be false: every statement by itself, cut only where it is long."""
        said = self._said(read, COARSE)
        pieces, general = [one.readings[0] for one in said], self.heads.index(FALSE) + 1
        beside: list[list[float]] = [[] for _ in said]
        for first, last in runs(pieces, COARSE.neighbours):
            if last - first > 1:
                score = self._together(said[first:last], general).scores[FALSE]
                for at in range(first, last):
                    beside[at].append(score)
        return [
            Judged(self._together([one], len(self.heads)), tuple(scores), self.expected.surprise(one.readings[0]))
            for one, scores in zip(said, beside, strict=True)
        ]

    def _said(self, read: Sequence[Reading], cut: Cut) -> list[Heard]:
        """The pieces of what the speaker says of his own, not yet scored."""
        keywords = mostly_keywords(read)
        whole = [r for r in read if (r.speaks_plainly if keywords else r.speaks)]
        pieces = [(piece, piece is not r) for r in whole for piece in breaths(r, cut) if piece.speaks or not r.is_list]
        heard = [Heard((piece,), features(piece, self.facts), {}, torn) for piece, torn in pieces]
        return [one for one in heard if len(one.seen["w"]) >= FEWEST_WORDS]

    def _together(self, some: Sequence[Heard], heads: int) -> Heard:
        """What so many of the heads hear in stretches that stand one after the other."""
        seen = together([one.seen for one in some])
        return Heard(tuple(r for one in some for r in one.readings), seen, self.scores(seen, heads), some[0].torn)

    def scores(self, seen: Features, heads: int) -> dict[str, float]:
        """The log-odds of the first heads."""
        totals = [b / SCALE for b in self.bias[:heads]]
        for family in FAMILIES:
            if found := seen[family]:
                packed, total = self.packed[family], 0
                for feature in found & self.weights[family].keys():
                    total += packed[feature] if feature in packed else self._pack(family, feature)
                loud = loudness(family, len(found)) / SCALE
                totals = [a + loud * more for a, more in zip(totals, _unpacked(total, len(self.heads)), strict=False)]
        return dict(zip(self.heads, totals, strict=False))

    def _pack(self, family: str, feature: str) -> int:
        """The feature's weights for all heads in one integer, a lane for each, so that one addition adds them all."""
        pairs = self.weights[family][feature]
        packed = sum(pairs[at + 1] << (_LANE * pairs[at]) for at in range(0, len(pairs), 2))
        self.packed[family][feature] = packed
        return packed

    def strongest(self, heard: Sequence[Heard], point: str) -> dict[str, float]:
        """Part of the point -> its highest log-odds."""
        return {
            part: max((h.scores[f"{point}/{part}"] for h in heard), default=_UNHEARD) for part in self.points[point]
        }


def words_for(head: str, heard: Sequence[Heard]) -> str | None:
    """The fewest pieces of the answer that state a part by themselves, as they stand there."""
    stating = [one for one in heard if one.scores[head] >= 0]
    fewest = min(stating, key=lambda one: (len(one.readings), -one.scores[head]), default=None)
    return fewest.span if fewest else None


def _unpacked(total: int, heads: int) -> Sequence[int]:
    """The sum of each lane."""
    lanes = unpack(f"<{heads}I", (total + _halves(heads)).to_bytes(heads * _LANE // 8, "little"))
    return [lane - _HALF for lane in lanes]


@cache
def _halves(heads: int) -> int:
    """What makes every lane positive, so that none borrows of the next."""
    return sum(_HALF << (_LANE * head) for head in range(heads))


@cache
def model_of(card: str, points: frozenset[str]) -> Model | None:
    """The model of that card; None where there is none, or it was made for other points."""
    file = MODELS / f"{card}.json"
    if not file.exists():
        return None
    data = json.loads(file.read_bytes())
    return model_from(data) if set(data["points"]) == points else None


def model_from(data: Mapping[str, Any]) -> Model:
    """A model as its file holds it."""
    return Model(
        card=data["card"],
        points=data["points"],
        facts=frozenset((value, unit, engine) for value, unit, engine in data["facts"]),
        heads=tuple(data["heads"]),
        bias=tuple(data["bias"]),
        weights=data["weights"],
        expected=expected_from(data["expected"]),
    )


def award_inputs(log_odds: Sequence[float], by_rule: float) -> list[float]:
    """What an award is decided by: how surely its parts are stated, and what the rules of the card give."""
    heard = sorted(log_odds, reverse=True)
    sure = [_share(x) for x in heard]
    half = (len(sure) + 1) // 2
    whole, some, last = sum(sure) / len(sure), sum(sure[:half]) / half, sure[-1]
    ends = [max(-_MOST, min(_MOST, x)) / _MOST for x in (heard[0], heard[-1])]
    return [whole, some, last, *ends, whole**2, some**2, last**2, float(by_rule > 0), float(by_rule == 1)]


def contrary_inputs(one: Judged) -> list[float]:
    """What it is decided by whether a statement is contrary to a claim: how it is heard alone, and among neighbours.

    How far each can be relied on depends on the others, so that all pairs of them count: a statement of few words is
    easily taken for another one, a number that the card knows is hardly wrong, a denial looks like what it denies.
    """
    scores, seen, statement = one.alone.scores, one.alone.seen, one.alone.readings[0].statement
    named = sorted((score for name, score in scores.items() if name.startswith(f"{FALSE}:")), reverse=True)
    against, second = (*named, _UNHEARD, _UNHEARD)[:2]
    stated = max((score for name, score in scores.items() if not name.startswith(FALSE)), default=_UNHEARD)
    general = scores[FALSE]
    looked_at = (against, second, general, max(one.beside, default=general), min(one.beside, default=general), stated)
    numbers = {fact.removesuffix("-small") for fact in seen["f"]}
    inputs = [
        *(max(-_MOST, min(_MOST, x)) / _MOST for x in looked_at),
        max(-_MOST, min(_MOST_SURPRISE, one.surprise or 0.0)) / _MOST,
        min(len(seen["w"]), _MANY_WORDS) / _MANY_WORDS,
        *(float(x) for x in (one.alone.torn, bool(statement.denials), statement.hedged, one.surprise is not None)),
        *(float(kind in numbers) for kind in KINDS),
    ]
    return [*inputs, *(a * b for a, b in combinations_with_replacement(inputs, 2))]


def contrary(judged: Sequence[Judged]) -> list[float]:
    """The log-odds that each statement of an answer is contrary to a claim, in the light of the others if there are."""
    weights, inputs = _made("contrary"), [contrary_inputs(one) for one in judged]
    alone = [weighed(weights["alone"], one) for one in inputs]
    lights = among(alone, [one.alone.readings[0].asserted for one in judged])
    return [
        weighed(weights["among"], [*one, *light]) if light else by_itself
        for one, by_itself, light in zip(inputs, alone, lights, strict=True)
    ]


def among(alone: Sequence[float], asserted: Sequence[bool]) -> list[list[float]]:
    """How surely other statements of the same answer are contrary: the surest, and on average; nothing without others.

    Whoever errs once errs more easily again; a doubtful sentence of somebody who is right elsewhere is let pass.
    """
    lights = []
    for at in range(len(alone)):
        others = [x for i, x in enumerate(alone) if i != at and asserted[i]]
        surest = max(-_MOST, min(_MOST, max(others, default=0.0))) / _MOST
        lights.append([surest, sum(_share(x) for x in others) / len(others)] if others else [])
    return lights


def weighed(weights: Sequence[int], inputs: Sequence[float]) -> float:
    """The log-odds that the weights, of which the last is the intercept, make of the inputs."""
    *each, bias = weights
    return (sum(w * x for w, x in zip(each, inputs, strict=True)) + bias) / SCALE


def _share(log_odds: float) -> float:
    return 1 / (1 + exp(-log_odds))


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
