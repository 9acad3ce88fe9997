"""Findings: statements of an answer held against the evidence. In doubt a statement is `not checked`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import Reading, example
from inferproof.grading.result import Finding
from inferproof.grading.statements import BOTH
from inferproof.grading.verdict import Verdict, judge
from inferproof.questions.card import Card, Claim, Language, Misconception, Stated
from inferproof.runners.evidence import Evidence

_Word = Literal["supported", "contradicted", "not checked"]
COUNTED = ("tokens", "requests", "blocks", "times", "count", "ratio", "percent")
"""Units of what does not depend on the machine: only these can contradict. A time on other hardware proves nothing."""
ALIKE = 0.8
"""Share of concepts that a statement must have in common with an example wording."""
_FEWEST = 3
"""Concepts that an example wording must have to be recognised by them alone."""
_ROUND = 100
"""Numbers that are multiples of this are taken as rounded."""
_HEADS = {
    "prompt": "prompt|input|提示|输入",
    "block": "block|块",
    "page": "page|页",
    "chunk": "chunk|块",
    "output": "output|generat|输出|生成",
    "requests": "request|concurren|请求|并发",
    "concurrency": "concurren|请求|并发",
    "pool": "pool|capacity|容量|池",
    "kv": "pool|capacity|kv|容量|池",
    "width": "width|beam|束宽|宽",
    "budget": "budget|预算",
}
"""Word of a parameter's name -> how an answer names the parameter beside its number."""


@dataclass(frozen=True)
class _Decided:
    evidence: Evidence
    verdict: Verdict


def rerun(card: Card, claim: str, given: Mapping[str, float] | None = None) -> str:
    """The command that measures a claim again, under the answer's own parameters where it names other ones."""
    return f"inferproof verify {card.id}/{claim} --rerun" + "".join(
        f" --with {name}={value:g}" for name, value in (given or {}).items()
    )


def check_misconceptions(
    card: Card, read: Sequence[Reading], language: Language, evidence: Mapping[str, Sequence[Evidence]]
) -> list[Finding]:
    """One finding for each misconception that the answer asserts."""
    found = []
    for misconception in card.misconceptions:
        reading = next((r for r in read if asserts(r, misconception)), None)
        if reading is not None:
            found.append(_refuted(card, misconception, reading, language, evidence))
    return found


def asserts(reading: Reading, misconception: Misconception) -> bool:
    """Whether the speaker says it himself: by its concepts, or in a wording like one of its examples."""
    stated = misconception.stated
    unnamed = not reading.statement.engines  # no engine named so far: the misconception's own words must do
    if not reading.asserted or not (unnamed or _about(reading, stated.about)) or reading.distinguishes:
        return False
    if any(reading.states(alternative, near=True) for alternative in stated.when):
        return True
    return any(
        _alike(reading, said) for wordings in misconception.examples.values() for w in wordings for said in example(w)
    )


def _about(reading: Reading, engine: str | None) -> bool:
    """Stricter than for points: both engines at once only where they are named here."""
    return reading.speaks_of(engine) and (
        engine is None or reading.statement.engines != BOTH or reading.statement.named
    )


def _alike(reading: Reading, said: Reading) -> bool:
    here, there = reading.concepts, said.concepts
    if len({concept for concept, _ in there}) < _FEWEST or said.statement.stance != "asserted":
        return False
    if {q.value for q in said.numbers} - {q.value for q in reading.numbers}:
        return False
    if said.statement.named and said.statement.engines and not (said.statement.engines & reading.statement.engines):
        return False
    return len(here & there) >= ALIKE * len(here | there)


def _refuted(
    card: Card,
    misconception: Misconception,
    reading: Reading,
    language: Language,
    evidence: Mapping[str, Sequence[Evidence]],
) -> Finding:
    decided = [
        (c, d) for c in misconception.refuted_by for d in _decided(card, c, evidence) if d.verdict.verdict == "holds"
    ]
    claim, proof = decided[0] if decided else (misconception.refuted_by[0] if misconception.refuted_by else None, None)
    return Finding(
        span=reading.span,
        verdict="contradicted" if proof else "not checked",
        claim=claim,
        misconception=misconception.id,
        stated=None,
        observed=dict(proof.verdict.observed) if proof else None,
        build=proof.verdict.build if proof else None,
        evidence=proof.evidence.id if proof else None,
        rerun=rerun(card, claim) if claim else "",
        instead=misconception.instead.of(language),
    )


def _decided(card: Card, claim: str, evidence: Mapping[str, Sequence[Evidence]]) -> list[_Decided]:
    """The evidence that decides the claim, newest first."""
    if claim not in card.claims:
        return []
    judged = [_Decided(e, judge(card, claim, e)) for e in evidence.get(claim, ())]
    return sorted(
        (d for d in judged if d.verdict.verdict in ("holds", "contradicted")),
        key=lambda d: (d.evidence.started_at, d.evidence.id),
        reverse=True,
    )


def check_claims(
    card: Card, read: Sequence[Reading], language: Language, evidence: Mapping[str, Sequence[Evidence]]
) -> list[Finding]:
    """A finding for each statement that states a claim which a probe can decide."""
    found: dict[tuple[str, str], Finding] = {}
    for claim_id, claim in card.claims.items():
        if claim.stated is None or claim.probe is None:
            continue
        given: dict[str, float] = {}
        for reading in read:
            given.update(_given(claim.stated, reading))
            if _stating(reading, claim.stated):
                other = {name: value for name, value in given.items() if value != claim.params.get(name)}
                finding = _checked(
                    card, claim_id, claim.stated, reading, other, language, _decided(card, claim_id, evidence)
                )
                if finding is not None:
                    found.setdefault((claim_id, finding.span), finding)
    return list(found.values())


def _stating(reading: Reading, stated: Stated) -> bool:
    return (
        reading.asserted
        and _about(reading, stated.about)
        and any(reading.states(alternative) for alternative in stated.when)
    )


def _given(stated: Stated, reading: Reading) -> Iterator[tuple[str, float]]:
    """Parameters of the claim's probe that the statement sets: a number of the unit beside the parameter's name."""
    for name, unit in stated.given.items():
        for quantity in reading.numbers:
            if quantity.whole is not None and unit == "tokens" and name.startswith("prompt"):
                yield name, quantity.whole
            elif quantity.unit in (unit, None) and _beside(reading, quantity, name):
                yield name, quantity.value


def _beside(reading: Reading, quantity: Quantity, name: str) -> bool:
    heads = [_HEADS[word] for word in name.split("_") if word in _HEADS] or [re.escape(name.replace("_", " "))]
    words = "|".join(heads)
    plain = reading.text.plain
    before, after = (
        plain[max(reading.statement.start, quantity.start - 24) : quantity.start],
        plain[quantity.end : quantity.end + 16],
    )
    return bool(
        re.search(rf"(?:{words})[^\d,，。;]{{0,10}}$", before) or re.match(rf"[^\d,，。;]{{0,14}}(?:{words})", after)
    )


def _checked(
    card: Card,
    claim_id: str,
    stated: Stated,
    reading: Reading,
    given: Mapping[str, float],
    language: Language,
    decided: Sequence[_Decided],
) -> Finding | None:
    """The finding about one statement of a claim; None where the claim is a number and the statement names none."""
    numbers = _candidates(card.claims[claim_id], stated, reading) if stated.value else []
    if stated.value and not numbers:
        return None
    number, verdict, by = (
        _compared(stated, reading, numbers, decided)
        if not given
        else (numbers[0] if numbers else None, "not checked", None)
    )
    observed = (
        by.evidence.observations.get(stated.value) if by and stated.value else dict(by.verdict.observed) if by else None
    )
    return Finding(
        span=reading.span,
        verdict=verdict,
        claim=claim_id,
        misconception=None,
        stated=_as_stated(number),
        observed=observed,
        build=by.verdict.build if by else None,
        evidence=by.evidence.id if by else None,
        rerun=rerun(card, claim_id, given),
        instead="" if verdict == "supported" else card.claims[claim_id].says.of(language),
    )


def _compared(
    stated: Stated, reading: Reading, numbers: Sequence[Quantity], decided: Sequence[_Decided]
) -> tuple[Quantity | None, _Word, _Decided | None]:
    """(the number compared, the finding's verdict, the evidence that decided)."""
    holding = [d for d in decided if d.verdict.verdict == "holds"]
    if not numbers:
        return None, *(("supported", holding[0]) if holding else ("not checked", None))
    for number in numbers:
        for d in decided:
            if agrees(number, d.evidence.observations.get(stated.value or ""), stated.unit):
                return number, "supported", d
    sure = (
        len(numbers) == 1
        and len(reading.statement.engines) < 2
        and not reading.statement.hedged
        and _is_exact(numbers[0], stated)
    )
    observed = [d for d in decided if isinstance(d.evidence.observations.get(stated.value or ""), int | float)]
    if sure and observed and len(observed) == len(decided):
        return numbers[0], "contradicted", observed[0]
    return numbers[0], "not checked", None


def _candidates(claim: Claim, stated: Stated, reading: Reading) -> list[Quantity]:
    """The numbers of the statement that can be the claim's value: of its unit, and no parameter of the probe."""
    settings = {float(v) for v in claim.params.values() if isinstance(v, int | float) and not isinstance(v, bool)}
    beside = {
        id(q)
        for q in reading.numbers
        for name in stated.given
        if q.unit in (stated.given[name], None) and _beside(reading, q, name)
    }
    fits = [
        q
        for q in reading.numbers
        if _fits(q, stated.unit) and (q.whole is not None or (q.value not in settings and id(q) not in beside))
    ]
    return sorted(fits, key=lambda q: q.unit is None and q.whole is None)


def _fits(quantity: Quantity, unit: str | None) -> bool:
    if unit in ("ratio", "percent"):
        return (
            quantity.whole is not None
            or quantity.unit == "percent"
            or (quantity.unit is None and unit == "ratio" and quantity.value < 1)
        )
    if unit in ("count", "times", None):
        return quantity.unit in (None, "times")
    return quantity.unit in (unit, None)


def agrees(number: Quantity, observed: Any, unit: str | None) -> bool:
    """Whether the number is the observed one: exact for counts, as the speaker rounds for what is measured."""
    if isinstance(observed, bool) or not isinstance(observed, int | float):
        return False
    value, step = number.value, 10.0**-number.decimals
    if unit in ("ratio", "percent"):
        scale = 100.0 if unit == "percent" else 1.0
        if number.whole:
            value, step = scale * number.value / number.whole, scale * 5e-4
        elif number.unit == "percent" and unit == "ratio":
            value, step = value / 100, step / 100
        return abs(value - observed) <= step  # rounded or cut off
    if number.approximate or _is_rounded(number, observed):
        return abs(value - observed) <= 0.1 * abs(observed)
    if isinstance(observed, int) or float(observed).is_integer():
        return value == observed
    return abs(value - observed) <= step


def _is_rounded(number: Quantity, observed: float) -> bool:
    return number.value >= 10 * _ROUND and number.value % _ROUND == 0 and observed % _ROUND != 0


def _is_exact(number: Quantity, stated: Stated) -> bool:
    return (
        stated.unit in COUNTED
        and not number.approximate
        and not (number.value >= 10 * _ROUND and number.value % _ROUND == 0)
    )


def _as_stated(number: Quantity | None) -> float | int | None:
    if number is None:
        return None
    return int(number.value) if number.value.is_integer() else number.value
