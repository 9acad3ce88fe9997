"""What the learned part of the grader sees of a statement: its words, pieces of words, concepts, and numbers.

A feature is a string; features of one family share a weight of one, so that a long sentence is not louder than a short
one. Concepts carry the glossary's knowledge: their pairs are what makes wordings in two languages alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt

from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import Reading, readings
from inferproof.grading.text import CJK
from inferproof.questions.card import Card, Text
from inferproof.questions.recorded import Figure

Features = Mapping[str, frozenset[str]]
"""Family -> features: `w`ords, `b`igrams, `c`haracters, `k` concepts, `p`airs of concepts, `o`thers, `f`acts."""
FAMILIES = "wbckpof"
_LOUDNESS = {"w": 1.0, "b": 0.7, "c": 0.8, "k": 1.0, "p": 1.0}
_EACH = {"o": 0.35, "f": 0.7}
"""Of these families every feature counts by itself: which engine, which stance, a number that nobody measured."""
_TOKEN = re.compile(rf"[a-z][a-z0-9_'.]*[a-z0-9_']|[a-z]|\d[\d,.]*\d|\d|[{CJK}]+")
_SUFFIX = re.compile(r"(?:ations?|ating|ated|ates|ings?|edly|ed|ies|es|s|ly|ers?)$")
_SMALL = 10
"""Numbers up to this are too common to be known or unknown."""

SAID = {
    "ms": ("ms",),
    "s": ("s",),
    "tokens/s": ("tokens/s",),
    "ratio": ("x",),
    "percent": ("percent",),
    "GB": ("GB", "GiB"),
    "GiB": ("GB", "GiB"),
}
"""Unit of a figure that was measured rather than set -> the units in which people say it."""

Fact = tuple[float, str | None, str | None]
"""A number with its unit and the engine it is said of (None: any)."""
Facts = frozenset[Fact]
"""The numbers that a card gives."""
KINDS = ("known", "other-engine", "other-unit", "garbled", "unknown")
"""What a number may be, held against the facts; see `kind_of`."""
_GARBLED = 3
"""Digits from which on a number that differs by one of them is taken for the other one, misremembered."""


def features(reading: Reading, facts: Facts) -> Features:
    """The features of one statement; `facts` are those of its card."""
    concepts = sorted(("!" if denied else "") + concept for concept, denied in reading.concepts_spoken)
    words, bigrams, pieces, denied = _words(reading)
    return {
        "w": frozenset(words),
        "b": frozenset(bigrams),
        "c": frozenset(pieces),
        "k": frozenset(concepts),
        "p": frozenset(f"{a}&{b}" for a, b in combinations(concepts, 2)),
        "o": frozenset([*(f"!{word}" for word in denied), *_circumstances(reading, concepts)]),
        "f": frozenset(_known(reading, facts)),
    }


def loudness(family: str, count: int) -> float:
    """What one feature of the family counts where there are so many of them."""
    return _EACH[family] if family in _EACH else _LOUDNESS[family] / sqrt(count)


def together(some: Sequence[Features]) -> Features:
    """The features of statements that stand one after the other."""
    return some[0] if len(some) == 1 else {f: frozenset().union(*(one[f] for one in some)) for f in FAMILIES}


def _words(reading: Reading) -> tuple[list[str], list[str], list[str], list[str]]:
    """(words, pairs of neighbouring words, pieces of words, words under a negation); Chinese by its characters."""
    statement, plain = reading.statement, reading.text.plain
    scopes = [denial.scope for denial in statement.denials]
    words, bigrams, pieces, denied, before = list[str](), list[str](), list[str](), list[str](), ""
    for at, to, here in (token for stretch in reading.spoken for token in tokens(plain, *stretch)):
        under = any(start <= at < end for start, end in scopes)
        token = plain[at:to]
        if token[0] > "\u2fff":
            pieces += [*token, *(token[i : i + 3] for i in range(len(token) - 2))]
            before = token[-1]
        else:
            bigrams += [f"{before}_{here[0]}"] if before else []
            before = here[0]
            marked = f"<{before}>"
            pieces += [f"#{marked[i : i + 4]}" for i in range(len(marked) - 3)] if len(before) > 4 else []
        words += here
        denied += here if under else []
    return words, bigrams, pieces, denied


def tokens(plain: str, start: int, end: int) -> Iterator[tuple[int, int, list[str]]]:
    """(start, end, words) of every token: a word's stem, a number's digits, of Chinese each pair of characters."""
    for match in _TOKEN.finditer(plain, start, end):
        token = match.group()
        if token[0] > "\u2fff":
            words = [token[i : i + 2] for i in range(len(token) - 1)]
        else:
            words = [token.replace(",", "") if token[0].isdigit() else _stem(token.strip("'."))]
        yield *match.span(), words


def _stem(word: str) -> str:
    stem = _SUFFIX.sub("", word) if len(word) > 4 else word
    return stem if len(stem) >= 3 else word


def _circumstances(reading: Reading, concepts: Sequence[str]) -> Iterator[str]:
    statement = reading.statement
    engines = "+".join(sorted(statement.engines)) or "-"
    yield f"E:{engines}"
    yield f"S:{statement.stance}"
    yield from ("H",) if statement.hedged else ()
    yield from ("N",) if statement.denials else ()
    yield from (f"E:{engine}&{concept}" for engine in statement.engines for concept in concepts)
    for number in reading.numbers:
        yield f"n:{number.value:g}"
        yield f"n:{number.value:g}{number.unit or ''}"
        if len(statement.engines) == 1:
            yield f"n:{number.value:g}@{engines}"


def facts_of(card: Card, figures: Mapping[str, Figure]) -> Facts:
    """Every number in the card's own sentences, and in the published figures that it cites."""
    facts: set[Fact] = set()
    for sentence in (s for text in texts(card) for s in (text.en, text.zh)):
        for reading in readings(sentence):
            engines = reading.statement.engines
            about = next(iter(engines)) if len(engines) == 1 else None
            for number in reading.numbers:
                facts.add((number.value, number.unit, about))
                facts.update({(number.whole, number.unit, None)} if number.whole else ())
    for figure in (figures[f] for claim in card.claims.values() for f in claim.recorded if f in figures):
        facts.update((float(figure.value), unit, figure.engine) for unit in SAID.get(figure.unit, (figure.unit,)))
        settings = (v for v in figure.setting.values() if isinstance(v, int | float) and not isinstance(v, bool))
        facts.update((float(v), None, None) for v in settings)
    return frozenset(facts)


def texts(card: Card) -> Iterator[Text]:
    """What the card itself says, and what its question gives."""
    yield card.question
    yield from told(card)


def told(card: Card) -> Iterator[Text]:
    """What the card itself says, all of it true."""
    for claim in card.claims.values():
        yield claim.says
        yield from (claim.note,) if claim.note else ()
    yield from (point.criterion for point in card.rubric)
    yield from (misconception.instead for misconception in card.misconceptions)
    yield from (paragraph.text for paragraph in card.answer)
    yield from (text for followup in card.followups for text in (followup.question, followup.criterion))


def _known(reading: Reading, facts: Facts) -> Iterator[str]:
    """For each number what it is, held against the facts."""
    for number in reading.numbers:
        kind = kind_of(number, reading.statement.engines, facts)
        yield f"{kind}-small" if number.value <= _SMALL and not number.decimals else kind
        if kind in ("garbled", "unknown"):
            yield f"unknown:{number.unit or ''}"


def kind_of(number: Quantity, engines: frozenset[str], facts: Facts) -> str:
    """Whether the card gives the number, gives it of the other engine only, in another unit only, or nearly."""
    same = [(unit, engine) for value, unit, engine in facts if abs(value - number.value) <= tolerance(number, value)]
    about = {engine for unit, engine in same if unit is None or number.unit in (None, unit)}
    if about:
        return "known" if None in about or len(engines) != 1 or about & engines else "other-engine"
    if same:
        return "other-unit"
    return "garbled" if any(_is_garbled(number, value) for value, _, _ in facts) else "unknown"


def _is_garbled(number: Quantity, value: float) -> bool:
    """Whether it is that value with a digit changed, two exchanged, or the point elsewhere."""
    said, right = _digits(f"{number.value:.{number.decimals}f}"), _digits(f"{value:.{number.decimals}f}")
    if len(right) == len(said) >= _GARBLED:
        return sum(a != b for a, b in zip(said, right, strict=True)) < 2 or sorted(said) == sorted(right)
    said = said.rstrip("0")
    return len(said) >= _GARBLED and said == _digits(f"{value:g}").rstrip("0")


def _digits(number: str) -> str:
    return number.replace(".", "").lstrip("0")


def tolerance(number: Quantity, value: float) -> float:
    """As people round: to the last place that is stated, to two percent for what is measured, and 4k may be 4096."""
    rounded = 0.5 * 10.0**-number.decimals if number.value >= _SMALL or number.decimals else 1e-9
    measured = number.approximate or number.unit in ("ms", "s", "percent", "x", "tokens/s")
    return max(rounded, 0.025 * abs(value) if measured else 0.0)
