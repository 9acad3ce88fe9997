"""Published figures in an answer: one that was measured on the other engine is told of the wrong one.

Nothing was run here for them, so such a finding says `recorded`. A figure that merely differs from the published one is
let pass, as it may be the speaker's own, unless the learned part is sure that it is contrary to the claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from inferproof.grading import cues
from inferproof.grading.features import SAID, Facts, facts_of, tolerance
from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import Reading
from inferproof.grading.result import Finding
from inferproof.questions.card import Card, Language
from inferproof.questions.recorded import Figure, load_recorded

_OWN_RUN = re.compile(
    r"\b(?:my|our|ours|mine|i|we)\b|(?<![a-z0-9])(?:h[12]00|h20|b200|l[24]0s?|4090|mi300x?)(?![a-z0-9])|我|咱"
)
"""What says that it was another run than the published one."""
_DIGITS = 3
"""Digits that make a number one of its own: 41.66 was measured once, 8 is anywhere."""


def misplaced(card: Card, read: Sequence[Reading], language: Language, facts: Facts | None = None) -> Iterator[Finding]:
    """One finding for each statement that tells a figure of one engine as the other's.

    facts  the numbers that the card gives, where they are at hand (reading them takes a while).
    """
    cited = _cited(card)
    for reading in read:
        if not reading.asserted or not reading.statement.named or len(reading.statement.engines) != 1:
            continue
        (engine,) = reading.statement.engines
        if _names_another(reading, engine):
            continue
        for number in reading.numbers:
            figures = [f for f in cited if f.engine != engine and _is(number, f)]
            if figures and not _fits(facts or _facts(card), number, engine):
                claim = next(c for c, of in card.claims.items() if figures[0].id in of.recorded)
                yield against_recorded(card, claim, reading, language, figures, number.value)
                break


def _names_another(reading: Reading, engine: str) -> bool:
    """Whether it also names the other engine: "unlike vLLM with its 41.66 ms, SGLang ...", and whose is which?"""
    named = cues.ENGINE.finditer(reading.text.plain, reading.statement.start, reading.statement.end)
    return any(engine != other.lastgroup for other in named)


def against_recorded(
    card: Card,
    claim: str,
    reading: Reading,
    language: Language,
    figures: Sequence[Figure],
    stated: float | None = None,
) -> Finding:
    """The finding that published figures speak against a statement."""
    return Finding(
        span=reading.span,
        verdict="contradicted",
        claim=claim,
        misconception=None,
        stated=stated,
        observed=None,
        build=None,
        evidence=None,
        rerun=f"inferproof verify {card.id}/{claim}",
        instead=card.claims[claim].says.of(language),
        recorded=tuple(figure.id for figure in figures),
    )


def misquoted(card: Card, claim: str, reading: Reading, facts: Facts | None) -> bool:
    """Whether it gives another number for what a claim says that only a GPU can repeat.

    Beside a figure of that run, or in the unit of one, where nothing says that it was the speaker's own run.
    """
    if claim not in card.claims or card.claims[claim].level != "cuda" or not is_of_that_run(reading):
        return False
    (engine,) = reading.statement.engines
    known, figures = facts or _facts(card), figures_of(card, claim)
    if any(_is(n, f) for n in reading.numbers for f in figures if f.unit in SAID):
        return not all(_fits(known, n, engine) for n in reading.numbers)
    measured = {said for f in figures for said in SAID.get(f.unit, ())}
    counted = {f.unit for f in figures} - SAID.keys()
    cited = [f for f in _cited(card) if f.engine in (engine, None)]
    return any(
        (n.unit in measured and not any(_is_near(n, f) for f in cited))
        or (n.unit in counted and not _fits(known, n, engine))
        for n in reading.numbers
    )


def rightly_quoted(card: Card, reading: Reading, facts: Facts | None) -> bool:
    """Whether it gives a published figure, and no number that the card does not give of its engine."""
    known, engines = facts or _facts(card), reading.statement.engines
    figures = [f for f in _cited(card) if f.engine is None or f.engine in engines]
    return any(_is(n, f) for n in reading.numbers for f in figures) and all(
        _fits(known, n, engine) for n in reading.numbers for engine in engines
    )


def is_of_that_run(reading: Reading) -> bool:
    """Whether it speaks of one engine alone, and nothing says that it was another run than the published one."""
    if len(reading.statement.engines) != 1 or _OWN_RUN.search(reading.span.lower()):
        return False
    (engine,) = reading.statement.engines
    return not _names_another(reading, engine)


def figures_of(card: Card, claim: str) -> list[Figure]:
    """The published figures that a claim cites; one that there is none of is for `cards lint` to tell."""
    published = _published()
    cited = card.claims[claim].recorded if claim in card.claims else ()
    return [published[name] for name in cited if name in published]


def _cited(card: Card) -> list[Figure]:
    return [f for claim in card.claims for f in figures_of(card, claim) if f.unit in SAID]


def _is(number: Quantity, figure: Figure) -> bool:
    """Whether it is that figure, as people round."""
    digits = f"{number.value:.{number.decimals}f}".replace(".", "").strip("0")
    return (
        len(digits) >= _DIGITS
        and number.unit in (None, *SAID[figure.unit])
        and abs(figure.value - number.value) <= 0.5 * 10.0**-number.decimals
    )


def _is_near(number: Quantity, figure: Figure) -> bool:
    """Whether it is that figure of its unit, however few digits are said."""
    return number.unit in SAID[figure.unit] and abs(figure.value - number.value) <= tolerance(number, figure.value)


def _facts(card: Card) -> Facts:
    return facts_of(card, _published())


@cache
def _published() -> dict[str, Figure]:
    return {figure.id: figure for figure in load_recorded().figures}


def _fits(facts: Facts, number: Quantity, engine: str) -> bool:
    """Whether the card gives such a number for that engine, or for none in particular."""
    return any(
        about in (engine, None)
        and (unit is None or number.unit in (None, unit))
        and abs(value - number.value) <= tolerance(number, value)
        for value, unit, about in facts
    )
