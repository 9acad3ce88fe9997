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

Facts = frozenset[tuple[float, str | None]]
"""Numbers that a card gives, each with the engine it is said of (None: any)."""


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
    for match in (m for stretch in reading.spoken for m in _TOKEN.finditer(plain, *stretch)):
        under = any(start <= match.start() < end for start, end in scopes)
        token = match.group()
        if token[0] > "\u2fff":
            here = [token[i : i + 2] for i in range(len(token) - 1)]
            pieces += [*token, *(token[i : i + 3] for i in range(len(token) - 2))]
            before = token[-1]
        else:
            here = [token.replace(",", "") if token[0].isdigit() else _stem(token.strip("'."))]
            bigrams += [f"{before}_{here[0]}"] if before else []
            before = here[0]
            marked = f"<{before}>"
            pieces += [f"#{marked[i : i + 4]}" for i in range(len(marked) - 3)] if len(before) > 4 else []
        words += here
        denied += here if under else []
    return words, bigrams, pieces, denied


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
    facts: set[tuple[float, str | None]] = set()
    for sentence in (s for text in texts(card) for s in (text.en, text.zh)):
        for reading in readings(sentence):
            engines = reading.statement.engines
            about = next(iter(engines)) if len(engines) == 1 else None
            for number in reading.numbers:
                facts.add((number.value, about))
                facts.update({(number.whole, None)} if number.whole else ())
    for figure in (figures[f] for claim in card.claims.values() for f in claim.recorded if f in figures):
        facts.add((float(figure.value), figure.engine))
        settings = (v for v in figure.setting.values() if isinstance(v, int | float) and not isinstance(v, bool))
        facts.update((float(v), None) for v in settings)
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
    """For each number whether the card gives it, gives it for another engine only, or does not know it."""
    engines = reading.statement.engines
    for number in reading.numbers:
        small = "-small" if number.value <= _SMALL and not number.decimals else ""
        about = {engine for value, engine in facts if abs(value - number.value) <= tolerance(number, value)}
        if not about:
            yield f"unknown{small}"
            yield f"unknown:{number.unit or ''}"
        elif len(engines) == 1 and None not in about and not about & engines:
            yield f"other-engine{small}"
        else:
            yield f"known{small}"


def tolerance(number: Quantity, value: float) -> float:
    """As people round: to the last place that is stated, to two percent for what is measured, and 4k may be 4096."""
    rounded = 0.5 * 10.0**-number.decimals if number.value >= _SMALL or number.decimals else 1e-9
    measured = number.approximate or number.unit in ("ms", "s", "percent", "x", "tokens/s")
    return max(rounded, 0.025 * abs(value) if measured else 0.0)
