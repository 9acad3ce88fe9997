"""Verdicts: what evidence says about a claim, and how far that reaches. Functions of values; nothing is stored."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from inferproof.questions.card import Card, Claim
from inferproof.runners.evidence import Evidence

MAX_PREDICATE = 2000
"""Characters; the CEL parser recurses, and a predicate of some 100,000 characters overflows its stack."""

VERDICTS = ("holds", "contradicted", "inconclusive", "not run", "error")
REACHES = ("pinned", "same code", "bracketed", "other build", "recorded")
"""From the strongest to the weakest. A claim that nothing stands behind has no reach."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim on one build."""

    card: str
    claim: str
    kind: str
    build: str | None
    """None where no build came into question."""
    level: str | None
    """Level that the probe ran at on that build."""
    verdict: str
    reach: str | None
    expect: str | None
    observed: Mapping[str, Any]
    """The observations that the predicate names."""
    evidence: str | None
    """Id of the evidence record."""
    seconds: float | None
    reason: str
    """Why, where the verdict is not `holds`."""
    reused: bool = False
    """True where up-to-date evidence answered and nothing ran."""


def judge(card: Card, claim_id: str, evidence: Evidence, *, reused: bool = False) -> Verdict:
    """The verdict of a claim on the build that the evidence is from."""
    claim = card.claims[claim_id]
    verdict, reason = _decide(claim, evidence)
    reach = "recorded" if verdict == "not run" and claim.recorded else None
    return Verdict(
        card=card.id, claim=claim_id, kind=claim.kind, build=str(evidence.task["build"]),
        level=str(evidence.task["level"]), verdict=verdict, reach=reach, expect=claim.expect,
        observed=named_in(claim.expect or "", evidence.observations), evidence=evidence.id,
        seconds=evidence.seconds, reason=reason, reused=reused,
    )  # fmt: skip


def not_run(card: Card, claim_id: str, build: str | None, reason: str) -> Verdict:
    """The verdict of a claim that nothing ran for."""
    claim = card.claims[claim_id]
    return Verdict(
        card=card.id, claim=claim_id, kind=claim.kind, build=build, level=None, verdict="not run",
        reach="recorded" if claim.recorded else None, expect=claim.expect, observed={}, evidence=None,
        seconds=None, reason=reason,
    )  # fmt: skip


def _decide(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    match evidence.ended:
        case "ok":
            pass
        case "inconclusive":
            return "inconclusive", evidence.reason
        case "unavailable":
            return "not run", evidence.reason
        case ended:
            return "error", f"{ended}: {evidence.reason}"
    try:
        holds = evaluate(claim.expect or "", evidence.observations)
    except PredicateError as error:
        return "error", str(error)
    return ("holds", "") if holds else ("contradicted", "the observations do not satisfy the predicate")


class PredicateError(ValueError):
    """A predicate that does not parse, names what is not observed, or is not true-or-false."""


_TYPE_NAMES = {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
_MACRO_VARIABLE = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")


@lru_cache(maxsize=4096)
def compiled(predicate: str) -> Any:
    """The compiled CEL predicate. Raises PredicateError where it does not parse."""
    # The package imports its own command line, and a terminal library with it: 0.08 s that no predicate needs.
    sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
    import cel

    if len(predicate) > MAX_PREDICATE:
        raise PredicateError(f"the predicate is longer than {MAX_PREDICATE} characters")
    try:
        return cel.compile(predicate)
    except ValueError as error:
        where = str(error).partition("ERROR: <input>:")[2] or str(error)
        raise PredicateError(f"the predicate does not parse: {where.partition(chr(10))[0]}") from None


def evaluate(predicate: str, observations: Mapping[str, Any]) -> bool:
    """Whether the observations satisfy the CEL predicate. Raises PredicateError."""
    try:
        value = compiled(predicate).execute(dict(observations))
    except PredicateError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise PredicateError(f"'{predicate}' cannot be decided: {type(error).__name__}: {error}") from None
    if not isinstance(value, bool):
        raise PredicateError(f"'{predicate}' gives {value!r}, expected true or false")
    return value


def named_in(predicate: str, observations: Mapping[str, Any]) -> dict[str, Any]:
    """The observations that a predicate names, in the order it names them; none where it does not parse."""
    try:
        names = free_names(predicate)
    except PredicateError:
        return {}
    return {name: observations[name] for name in names if name in observations}


def free_names(predicate: str) -> list[str]:
    """The names that a predicate reads from the observations, in its order. Raises PredicateError.

    Not fields, functions, types, or variables of macros (`xs.all(x, x > 0)` reads xs).
    """
    read = set(compiled(predicate).variables()) - _TYPE_NAMES
    bound = set(_MACRO_VARIABLE.findall(predicate))
    return sorted(read - bound, key=predicate.find)


def with_reach(
    verdicts: Iterable[Verdict],
    stands: Mapping[str, str | None],
    same_code: Collection[tuple[str, str, str]] = frozenset(),
) -> list[Verdict]:
    """The same verdicts, each with how far it reaches.

    stands     build name -> how it stands to the pinned commit: "pinned", "before", "after", or None.
    same_code  (card, claim, build) of those whose build has the code that they rest on as the pinned commit has it.
    """
    from dataclasses import replace

    verdicts = list(verdicts)
    bracket: dict[tuple[str, str], set[str | None]] = {}
    for v in verdicts:
        if v.verdict == "holds" and v.build:
            bracket.setdefault((v.card, v.claim), set()).add(stands.get(v.build))

    def reach(v: Verdict) -> str | None:
        if v.verdict not in ("holds", "contradicted") or v.build is None:
            return v.reach
        where = stands.get(v.build)
        if where == "pinned":
            return "pinned"
        if (v.card, v.claim, v.build) in same_code:
            return "same code"
        both = {"before", "after"} <= bracket.get((v.card, v.claim), set())
        return "bracketed" if v.verdict == "holds" and both and where in ("before", "after") else "other build"

    return [replace(v, reach=reach(v)) for v in verdicts]


def best_reach(verdicts: Sequence[Verdict]) -> str | None:
    """The strongest reach among verdicts of one claim."""
    reaches = [v.reach for v in verdicts if v.reach is not None]
    return min(reaches, key=REACHES.index) if reaches else None


def of_claim(verdicts: Sequence[Verdict]) -> str:
    """One word for a claim over several builds: the worst that happened; `holds` where nothing spoke against it."""
    words = {v.verdict for v in verdicts}
    for word in ("contradicted", "error", "inconclusive"):
        if word in words:
            return word
    return "holds" if "holds" in words else "not run"


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts by verdict and by reach, over claims and over rows."""
    claims: dict[tuple[str, str], list[Verdict]] = {}
    for v in verdicts:
        claims.setdefault((v.card, v.claim), []).append(v)
    words = [of_claim(rows) for rows in claims.values()]
    reaches = [best_reach(rows) for rows in claims.values()]
    return {
        "claims": len(claims),
        "rows": len(verdicts),
        "verdicts": {word: words.count(word) for word in VERDICTS},
        "reach": {reach: reaches.count(reach) for reach in REACHES},
        "judgement": sum(rows[0].kind == "judgement" for rows in claims.values()),
        "reused": sum(v.reused for v in verdicts),
    }
