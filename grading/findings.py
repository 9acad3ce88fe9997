"""Findings: statements of an answer held against the evidence. In doubt a statement is `not checked`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from inferproof.grading.compare import agrees, can_contradict, candidates, given_in
from inferproof.grading.features import Facts, told
from inferproof.grading.figures import against_recorded, figures_of, is_of_that_run, misquoted, rightly_quoted
from inferproof.grading.learned import FALSE, Heard
from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import Reading, example
from inferproof.grading.recompute import is_computed, recomputed
from inferproof.grading.result import Finding
from inferproof.grading.statements import BOTH
from inferproof.grading.text import bare
from inferproof.grading.verdict import Verdict, judge
from inferproof.probes.core import LEVELS, canonical
from inferproof.questions.card import Card, Claim, Language, Misconception, Stated
from inferproof.runners.evidence import Evidence

_Word = Literal["supported", "contradicted", "not checked"]
SURE = 0.4
"""Log-odds from which on the learned model takes a statement for contrary to a claim."""
SURE_OF_RECORDED = 1.6
"""The same where only published figures speak against it, since nothing was run here."""
SURE_OF_NUMBER = 3.5
"""Log-odds of a claim's or misconception's own head that do where the statement has numbers and is rather contrary."""
UNLIKELY = -1.0
"""Log-odds of that below which no wording makes a statement a misconception."""
_SENTENCE = 12
"""Letters from which on words are a sentence that the card says, rather than a stretch of one."""
ALIKE = 0.8
"""Share of concepts that a statement must have in common with an example wording."""
_FEWEST = 3
"""Concepts that an example wording must have to be recognised by them alone."""


@dataclass(frozen=True)
class _Decided:
    evidence: Evidence
    verdict: Verdict


def rerun(card: Card, claim: str, given: Mapping[str, Any] | None = None) -> str:
    """The command that measures a claim again, under the card's own parameters or those given."""
    named = "".join(f" --with {name}={value}" for name, value in (given or {}).items())
    return f"inferproof verify {card.id}/{claim}{named} --rerun"


def case(claim: str, given: Mapping[str, Any]) -> str:
    """The key of evidence about a claim under parameters of the answer's own; with none, the claim itself."""
    return f"{claim} {canonical(given)}" if given else claim


def check_misconceptions(
    card: Card, read: Sequence[Reading], language: Language, evidence: Mapping[str, Sequence[Evidence]]
) -> list[Finding]:
    """One finding for each misconception that the answer asserts."""
    found = []
    for misconception in card.misconceptions:
        mine = (r for r in read if asserts(r, misconception) and r.unequivocal and not _says_itself(card, r))
        reading = next(mine, None)
        if reading is not None:
            found.append(_refuted(card, misconception, reading, language, evidence))
    return found


def check_heard(
    card: Card,
    judged: Iterable[tuple[Heard, float]],
    facts: Facts | None,
    language: Language,
    evidence: Mapping[str, Sequence[Evidence]],
) -> list[Finding]:
    """One finding for each statement that the learned model takes for false and can say against what.

    judged  statements heard alone, each with the log-odds that it is contrary to a claim.
    """
    found = []
    for one, contrary in judged:
        reading, against = one.readings[0], falsehood(one)
        if against is None or not (contrary >= SURE or _misnumbered(one, against, contrary)):
            continue
        if not (reading.asserted and reading.unequivocal) or _says_itself(card, reading):
            continue
        misconception = next((m for m in card.misconceptions if m.id == against), None)
        if misconception is not None:
            found.append(_refuted(card, misconception, reading, language, evidence))
        elif proof := [d for d in _decided(card, against, evidence) if d.verdict.verdict == "holds"]:
            found.append(_contradicted(card, against, reading, language, proof[0]))
        elif (figures := figures_of(card, against)) and (
            misquoted(card, against, reading, facts)
            or (contrary >= SURE_OF_RECORDED and is_of_that_run(reading) and not rightly_quoted(card, reading, facts))
        ):
            found.append(against_recorded(card, against, reading, language, figures))
    return found


def _misnumbered(one: Heard, against: str, contrary: float) -> bool:
    """Whether it has numbers, and the claim's own head is sure: with a wrong one all the rest sounds right."""
    return contrary >= 0 and one.scores[f"{FALSE}:{against}"] >= SURE_OF_NUMBER and bool(one.readings[0].numbers)


def _says_itself(card: Card, reading: Reading) -> bool:
    """Whether the card says it, word for word: what it holds for true is not contradicted."""
    said = bare(reading.span)
    if len(said) < _SENTENCE:
        return False
    own = (sentence for point in card.rubric for of in point.examples.earn.values() for sentence in of)
    says = (text.of(language) for text in told(card) for language in get_args(Language))
    return any(said in bare(sentence) for sentence in (*says, *own))


def falsehood(heard: Heard) -> str | None:
    """The claim or misconception that it is false against, if it is false; None where there is none to name."""
    against = {name: score for name, score in heard.scores.items() if name.startswith(f"{FALSE}:")}
    return max(against, key=lambda name: against[name]).removeprefix(f"{FALSE}:") if against else None


def _contradicted(card: Card, claim: str, reading: Reading, language: Language, proof: _Decided) -> Finding:
    return Finding(
        span=reading.span,
        verdict="contradicted",
        claim=claim,
        misconception=None,
        stated=None,
        observed=dict(proof.verdict.observed),
        build=proof.verdict.build,
        evidence=proof.evidence.id,
        rerun=rerun(card, claim),
        instead=card.claims[claim].says.of(language),
    )


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
    spoken_of = reading.statement.engines
    refuting = sorted(misconception.refuted_by, key=lambda c: card.claims[c].engine not in spoken_of)
    decided = [(c, d) for c in refuting for d in _decided(card, c, evidence) if d.verdict.verdict == "holds"]
    claim, proof = decided[0] if decided else (refuting[0] if refuting else None, None)
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


def _decided(
    card: Card, claim: str, evidence: Mapping[str, Sequence[Evidence]], given: Mapping[str, Any] | None = None
) -> list[_Decided]:
    """The evidence that decides the claim, or shows its value under other parameters: highest level first, newest."""
    if claim not in card.claims:
        return []
    judged = [_Decided(e, judge(card, claim, e)) for e in evidence.get(case(claim, given or {}), ())]
    return sorted(
        (d for d in judged if d.verdict.verdict in ("holds", "contradicted")),
        key=lambda d: (LEVELS.index(d.evidence.task["level"]), d.evidence.started_at, d.evidence.id),
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
        if is_computed(claim):
            for computed in recomputed(card, claim_id, read, language):
                found.setdefault((claim_id, computed.span), computed)
            continue
        given: dict[str, float] = {}
        for reading in read:
            given.update(given_in(reading, claim.stated))
            if _stating(reading, claim.stated):
                other = {n: _plain(v) for n, v in sorted(given.items()) if v != claim.params.get(n)}
                # the predicate speaks of the claim's own parameters: under others only a number can be compared
                decided = _decided(card, claim_id, evidence, other) if claim.stated.value or not other else []
                finding = _checked(card, claim_id, claim.stated, reading, other, language, decided)
                if finding is not None:
                    found.setdefault((claim_id, finding.span), finding)
    return list(found.values())


def _stating(reading: Reading, stated: Stated) -> bool:
    return (
        reading.asserted
        and _about(reading, stated.about)
        and any(reading.states(alternative) for alternative in stated.when)
    )


def _checked(
    card: Card,
    claim_id: str,
    stated: Stated,
    reading: Reading,
    given: Mapping[str, Any],
    language: Language,
    decided: Sequence[_Decided],
) -> Finding | None:
    """The finding about one statement of a claim; None where the claim is a number and the statement names none."""
    numbers = candidates(reading, card.claims[claim_id], stated) if stated.value else []
    if stated.value and not numbers:
        return None
    number, verdict, by = _compared(stated, reading, numbers, decided)
    if verdict == "contradicted" and number is not None and number.value in given.values():
        verdict, by = "not checked", None  # "3 preemptions of three users' requests": which number is which?
    observed: Any = None
    if by is not None:
        observed = by.evidence.observations.get(stated.value) if stated.value else dict(by.verdict.observed)
    return Finding(
        span=reading.span,
        verdict=verdict,
        claim=claim_id,
        misconception=None,
        stated=_plain(number.value) if number else None,
        observed=observed,
        build=by.verdict.build if by else None,
        evidence=by.evidence.id if by else None,
        rerun=rerun(card, claim_id, given),
        instead="" if verdict == "supported" else _instead(card.claims[claim_id], given, observed, language),
        given=given,
    )


def _instead(claim: Claim, given: Mapping[str, Any], observed: Any, language: Language) -> str:
    """What is true instead: the claim, or under other parameters what was observed there, if anything."""
    if not given or observed is None or claim.stated is None:
        return claim.says.of(language)
    under = ", ".join(f"{name} = {value}" for name, value in given.items())
    seen = f"{claim.stated.value} = {observed}"
    return f"{under} 时，实测 {seen}。" if language == "zh" else f"With {under}, {seen} was measured."


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
    number = numbers[0]
    sure = len(numbers) == 1 and len(reading.statement.engines) < 2 and not reading.statement.hedged
    against = [
        d for d in decided if can_contradict(number, d.evidence.observations.get(stated.value or ""), stated.unit)
    ]
    if sure and against and len(against) == len(decided):
        return number, "contradicted", against[0]
    return number, "not checked", None


def _plain(number: float) -> float | int:
    """A whole number without its fraction."""
    return int(number) if number.is_integer() else number
