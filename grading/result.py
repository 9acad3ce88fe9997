"""What grading an answer gives: awards with the words that earned them, and findings against the evidence."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class PointGrade:
    """One rubric point of one answer."""

    point: str
    points: int
    award: float
    """0, 0.5 or 1; the score counts `award * points`."""
    span: str | None
    """The words of the answer that earned it."""
    why: str
    """One sentence, in the answer's language."""
    missing: tuple[str, ...]
    """Ids of the ideas that would earn the rest."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A statement of the answer held against the evidence."""

    span: str
    verdict: Literal["supported", "contradicted", "not checked"]
    claim: str | None
    misconception: str | None
    stated: Any
    """The number in the answer, where the finding is about a number."""
    observed: Any
    """The measured value."""
    build: str | None
    evidence: str | None
    rerun: str
    """The command that measures it again."""
    instead: str
    """What is true instead, in the answer's language; empty where the statement is supported."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Probe parameters that the answer names itself, where they are not the claim's."""
    recorded: tuple[str, ...] = ()
    """Published figures that speak against it, where nothing was run here."""


@dataclass(frozen=True, kw_only=True)
class Grade:
    """The whole verdict on an answer."""

    card: str
    language: str
    score: float
    """0 to 10."""
    points: tuple[PointGrade, ...]
    findings: tuple[Finding, ...]
    followup: str | None
    """Id of the follow-up question that presses where the answer was weakest."""
    layers: tuple[str, ...] = ()
    """Which of `layers.LAYERS` the answer covers, in their order; empty too in records from before there were any."""

    @property
    def contradicted(self) -> tuple[Finding, ...]:
        """The findings that the evidence speaks against."""
        return tuple(f for f in self.findings if f.verdict == "contradicted")

    def about(self, points: Container[str]) -> Grade:
        """The grade of an answer that was asked for these points only: scored on them alone."""
        kept = tuple(p for p in self.points if p.point in points)
        return replace(self, points=kept, score=score(kept), followup=None)


def score(points: Sequence[PointGrade]) -> float:
    """0 to 10: what was earned of these points."""
    total = sum(p.points for p in points)
    return round(10 * sum(p.award * p.points for p in points) / total, 2) if total else 0.0
