"""What is wrong with a deck beyond its form: missing probes, predicates that cannot be decided, unread concepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from inferproof import probes
from inferproof.grading.verdict import PredicateError, free_names
from inferproof.probes.core import LEVELS, Probe, all_probes
from inferproof.questions.card import Card, Claim
from inferproof.questions.deck import Location, Problem, locate
from inferproof.runners.memory import Memory, key_of


def lint(deck: Mapping[str, Card], recorded: set[str], concepts: set[str]) -> list[Problem]:
    """Every problem of every card, sorted by file and line.

    recorded  ids of the published figures; concepts  ids of the glossary.
    """
    found = (
        Problem(card.file, locate(Path(card.file), at), ".".join(map(str, at)), message)
        for card in deck.values()
        for at, message in _card(card, recorded, concepts)
    )
    return sorted(found)


def claim_problems(deck: Mapping[str, Card]) -> list[Problem]:
    """What keeps claims from being decided: a missing probe or parameter, a predicate that cannot be decided.

    A card that was found right is remembered with the probes it was held against, and not checked again.
    """
    found = []
    for card in deck.values():
        key = key_of(_checked_against(), Path(card.file).read_bytes())
        if _RIGHT.recall(key):
            continue
        problems = [
            Problem(card.file, locate(Path(card.file), at), ".".join(map(str, at)), message)
            for claim_id, claim in card.claims.items()
            for tail, message in _claim(claim)
            for at in [("claims", claim_id, *tail)]
        ]
        if not problems:
            _RIGHT.keep(key, True)
        found += problems
    return found


_RIGHT = Memory("checked-claims")


@cache
def _checked_against() -> bytes:
    """The code that decides whether a claim is right: all probes, what reads predicates and numbers, this module."""
    here = [Path(__file__).with_name(name) for name in ("verdict.py", "recompute.py", "lint.py")]
    files = [*sorted(Path(probes.__path__[0]).glob("*.py")), *here]
    return key_of(*(file.read_bytes() for file in files)).encode()


def _card(card: Card, recorded: set[str], concepts: set[str]) -> Iterator[tuple[Location, str]]:
    for claim_id, claim in card.claims.items():
        at: Location = ("claims", claim_id)
        yield from ((at + tail, message) for tail, message in _claim(claim))
        yield from (
            ((*at, "recorded"), f"there is no recorded figure '{figure}'")
            for figure in claim.recorded
            if figure not in recorded
        )
        if claim.stated:
            yield from _concepts(claim.stated.when, (*at, "stated", "when"), concepts)
    for i, point in enumerate(card.rubric):
        for j, idea in enumerate(point.evidence_of.ideas):
            yield from _concepts(idea.states, ("rubric", i, "evidence_of", "ideas", j, "states"), concepts)
        for language in ("en", "zh"):
            if not point.examples.earn.get(language) or not point.examples.earn_nothing.get(language):
                yield (
                    ("rubric", i, "examples"),
                    f"needs sentences that earn the point and sentences that earn nothing, in {language}",
                )
    for i, misconception in enumerate(card.misconceptions):
        yield from _concepts(misconception.stated.when, ("misconceptions", i, "stated", "when"), concepts)


def _concepts(
    alternatives: tuple[tuple[str, ...], ...], at: Location, concepts: set[str]
) -> Iterator[tuple[Location, str]]:
    for i, alternative in enumerate(alternatives):
        for word in (w for item in alternative for w in item.split("|")):
            if not word.startswith("=") and word.removeprefix("!") not in concepts:
                yield (*at, i), f"there is no concept '{word}' in the glossary (write '={word}' for the literal word)"


def _claim(claim: Claim) -> Iterator[tuple[Location, str]]:
    if claim.level and claim.level not in LEVELS:
        yield ("level",), f"'{claim.level}' is not a level; levels are {', '.join(LEVELS)}"
    if claim.versions is not None:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            SpecifierSet(claim.versions)
        except InvalidSpecifier:
            yield ("versions",), f"'{claim.versions}' is not a version specifier such as '<0.27'"
    if claim.probe is None:
        return
    known = _probes()
    probe = known.get((claim.probe, claim.engine))
    if probe is None:
        engines = [engine for name, engine in known if name == claim.probe]
        if engines:
            yield ("with", "engine"), f"{claim.probe} has no '{claim.engine}' side; its engines: {', '.join(engines)}"
        else:
            names = sorted({name for name, _ in known})
            near = get_close_matches(claim.probe, names, n=3, cutoff=0.4) or names
            yield ("probe",), f"there is no probe '{claim.probe}'; did you mean {', '.join(near)}?"
        return
    try:
        probe.resolve(claim.probe_params)
    except ValueError as error:
        yield ("with",), str(error)
    try:
        for name in free_names(claim.expect or ""):
            if name not in probe.observes:
                yield ("expect",), f"{claim.probe} does not observe '{name}'; it observes: {', '.join(probe.observes)}"
    except PredicateError as error:
        yield ("expect",), str(error)
    if claim.stated and claim.stated.value and claim.stated.value not in probe.observes:
        yield ("stated", "value"), f"{claim.probe} does not observe '{claim.stated.value}'"
    for message in _given(claim, probe):
        yield ("stated", "given"), message


def _given(claim: Claim, probe: Probe) -> Iterator[str]:
    # Imported here: it reads every cue word, and a deck that is known to be right needs none.
    from inferproof.grading.recompute import KINDS, is_computed

    for name, kind in claim.stated.given.items() if claim.stated else ():
        if name not in probe.parameters():
            yield f"{claim.probe} has no parameter '{name}'; it has: {', '.join(probe.parameters())}"
        elif is_computed(claim) and kind not in KINDS:
            yield f"'{name}' is of kind '{kind}'; what an answer may give is {', '.join(KINDS)}"


@cache
def _probes() -> dict[tuple[str, str], Probe]:
    return all_probes()
