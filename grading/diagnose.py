"""Diagnoses: a case drawn from the ledger's evidence, and a person's answer graded by the point that it is about."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from inferproof.grading.cases import CASES, Case
from inferproof.grading.result import Grade
from inferproof.grading.workload import Values
from inferproof.probes.core import canonical
from inferproof.questions.card import Card, Language, RubricPoint
from inferproof.runners.evidence import Evidence
from inferproof.runners.ledger import Ledger

CARD = "diagnose-bottleneck"
KIND = "diagnosis"
"""Kind of the ledger's records of diagnoses; their key is the case's id."""


SUBJECTS = {
    "graph-short-decode": "cuda-graph|decode|cpu",
    "graph-long-prefill": "prefill",
    "prefix-hit-flat": "hit|hit-rate|prefix-cache|cache|ttft",
    "small-chunk-worse": "chunk|smaller-chunk",
    "zero-retractions-slow": "retract|!retract|zero-retractions",
    "tail-not-mean": "tail-latency|itl",
}
"""Concepts, as the card writes them, that a case has already named: an answer to it need not say them again."""


class NoCase(LookupError):
    """No recorded run shows a symptom; the message says which command makes some."""


@dataclass(frozen=True)
class Exhibit:
    """A case and the run that it is made of."""

    case: Case
    evidence: Evidence

    @property
    def values(self) -> Values:
        """The run's parameters and observations."""
        return {**self.evidence.task["params"], **self.evidence.observations}


def exhibits(ledger: Ledger, engine: str | None = None) -> list[Exhibit]:
    """Every case that the ledger has evidence for: of equal runs the newest."""
    cases = [case for case in CASES if engine in (None, case.engine)]
    runs: dict[str, dict[str, Evidence]] = {}
    for probe in {case.probe for case in cases}:
        ok = [e for e in ledger.of_probe(probe) if e.ended == "ok"]
        runs[probe] = {canonical([e.task["build"], e.task["level"], e.task["params"]]): e for e in ok}
    return [
        exhibit
        for case in cases
        for evidence in runs[case.probe].values()
        if evidence.task["engine"] == case.engine and _shows(exhibit := Exhibit(case, evidence))
    ]


def _shows(exhibit: Exhibit) -> bool:
    try:
        return exhibit.case.when(exhibit.values)
    except (KeyError, TypeError, ZeroDivisionError):  # a record of an older probe, which observed other things
        return False


_NO_CASE = {
    "en": f"no recorded run makes a case; run: inferproof verify {CARD}",
    "zh": f"还没有可用作案例的运行记录；请运行：inferproof verify {CARD}",
}


def draw(ledger: Ledger, seed: int | None, engine: str | None = None, language: Language = "en") -> Exhibit:
    """A case: with a seed always the same, without one of those diagnosed least so far. Raises NoCase."""
    found = exhibits(ledger, engine)
    if not found:
        raise NoCase(_NO_CASE[language])
    times = ledger.counts(KIND) if seed is None else {}
    ids = sorted({exhibit.case.id for exhibit in found}, key=lambda case: (times.get(case, 0), case))
    chance = random.Random(seed)
    chosen = chance.choice([case for case in ids if times.get(case, 0) == times.get(ids[0], 0)])
    return chance.choice([exhibit for exhibit in found if exhibit.case.id == chosen])


def assess(card: Card, exhibit: Exhibit, answer: str, language: Language, ledger: Ledger) -> Grade:
    """Grade the answer by the case's point alone, against all evidence of the card, and keep it in the ledger."""
    from inferproof.grading.grade import grade
    from inferproof.grading.verify import evidence_by_claim

    result = grade(of_point(card, exhibit.case.point), answer, language, evidence_by_claim(card, ledger))
    body = {
        "case": exhibit.case.id,
        "point": exhibit.case.point,
        "evidence": exhibit.evidence.id,
        "answer": answer,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "grade": asdict(result),
    }
    ledger.append(KIND, exhibit.case.id, body)
    return result


def of_point(card: Card, point: str) -> Card:
    """The card with one point of its rubric, its subject taken as said, and the follow-ups that press on it."""
    return replace(
        card,
        rubric=tuple(_subject_given(p) for p in card.rubric if p.id == point),
        followups=tuple(f for f in card.followups if point in f.after),
    )


def _subject_given(point: RubricPoint) -> RubricPoint:
    subject = SUBJECTS.get(point.id)
    ideas = tuple(
        replace(idea, states=tuple(tuple(c for c in wanted if c != subject) for wanted in idea.states))
        for idea in point.evidence_of.ideas
    )
    return replace(point, evidence_of=replace(point.evidence_of, ideas=ideas))
