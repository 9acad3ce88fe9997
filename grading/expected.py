"""Which number is expected where one stands: learned from what is said truly around numbers.

A wrong figure changes one word of a sentence; all the rest sounds right. So the words around a number are asked which
number belongs there, and the answer is held against the one that stands there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from inferproof.grading.features import tokens, tolerance
from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import COUNT, Reading

OTHER = "other"
"""What stands for every number that is said too seldom to be expected."""
SCALE = 100
"""Of integer weights, here and in `learned.py`."""
_AROUND = 45
"""Characters before and behind a number that are asked."""
_NEXT = 14
"""Characters within which it counts on which side of the number a word stands."""


def blanks(reading: Reading) -> Iterator[tuple[Quantity, frozenset[str]]]:
    """Every number of a statement, with what stands around it."""
    concepts = [f"k:{concept}" for concept, _ in reading.concepts]
    engines = "E:" + "+".join(sorted(reading.statement.engines))
    for number in reading.numbers:
        if number.value > COUNT or number.decimals or number.unit is not None:
            whole = [f"/{number.whole:g}"] if number.whole else []
            yield number, frozenset([*_words(reading, number), *concepts, engines, f"u:{number.unit}", *whole])


def _words(reading: Reading, number: Quantity) -> Iterator[str]:
    plain, statement = reading.text.plain, reading.statement
    start, end = max(statement.start, number.start - _AROUND), min(statement.end, number.end + _AROUND)
    for at, to, words in tokens(plain, start, end):
        if at >= number.start and to <= number.end:
            continue
        side, away = ("L", number.start - to) if to <= number.end else ("R", at - number.end)
        for word in words:
            yield word
            if away < _NEXT or word[0].isdigit():
                yield f"{side}:{word}"


def value_of(number: Quantity) -> str:
    """The name of a number among those that may be expected."""
    return f"{number.value:g}"


@dataclass(frozen=True)
class Expected:
    """The weights for one card."""

    values: tuple[str, ...]
    """The numbers that may be expected, and OTHER."""
    bias: tuple[int, ...]
    weights: Mapping[str, Sequence[int]]
    """What stands around -> value, weight, value, weight..."""

    def surprise(self, reading: Reading) -> float | None:
        """How much rather another number would be expected than one that stands here (log-odds); None without any."""
        return max((self._surprise(number, around) for number, around in blanks(reading)), default=None)

    def _surprise(self, number: Quantity, around: frozenset[str]) -> float:
        totals = [0] * len(self.values)
        for pairs in (self.weights[feature] for feature in around & self.weights.keys()):
            for at in range(0, len(pairs), 2):
                totals[pairs[at]] += pairs[at + 1]
        loud = 1 / sqrt(len(around))
        scores = {value: (b + loud * t) / SCALE for value, b, t in zip(self.values, self.bias, totals, strict=True)}
        said = value_of(number)
        if said in scores:
            alike = {said}
        else:
            known = [v for v in self.values if v != OTHER]
            alike = {OTHER, *(v for v in known if abs(float(v) - number.value) <= tolerance(number, float(v)))}
        own = max((scores[value] for value in alike if value in scores), default=min(scores.values(), default=0.0))
        return max((s for value, s in scores.items() if value not in alike), default=own) - own


def expected_from(data: Mapping[str, Any]) -> Expected:
    """What a model file holds of it."""
    return Expected(tuple(data["values"]), tuple(data["bias"]), data["weights"])
