"""What attempts say about a learner: points missed, statements contradicted, what to learn next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferproof.grading.attempts import Attempt
from inferproof.grading.result import Finding
from inferproof.questions.card import Card, RubricPoint


@dataclass(frozen=True, kw_only=True)
class Missed:
    """A rubric point that some attempt did not earn in full."""

    card: Card
    point: RubricPoint
    asked: int
    """Attempts at the card."""
    missed: int
    """Attempts that did not earn the point in full."""
    latest_award: float
    """0, 0.5 or 1, in the latest attempt."""

    @property
    def open(self) -> float:
        """Points still to be had, going by the latest attempt."""
        return self.point.points * (1 - self.latest_award)


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A wrong statement, however often it was made."""

    card: str
    finding: Finding
    """As it was said last."""
    times: int
    last: str
    """UTC, ISO 8601."""


def missed_points(attempts: Sequence[Attempt], deck: Mapping[str, Card]) -> list[Missed]:
    """Points missed at least once, most often missed first; points and cards no longer in the deck are left out."""
    awards: dict[tuple[str, str], list[float]] = {}
    for attempt in attempts:
        for grade in attempt.grade.points:
            awards.setdefault((attempt.card, grade.point), []).append(grade.award)
    rows = [
        Missed(card=card, point=point, asked=len(got), missed=sum(a < 1 for a in got), latest_award=got[-1])
        for card in deck.values()
        for point in card.rubric
        if (got := awards.get((card.id, point.id))) and min(got) < 1
    ]
    return sorted(rows, key=lambda row: (-row.missed, -row.open))


def next_to_learn(missed: Sequence[Missed], count: int = 3) -> list[Missed]:
    """The points with most to gain, going by the latest attempts."""
    still_open = [row for row in missed if row.open > 0]
    return sorted(still_open, key=lambda row: (-row.open, -row.missed))[:count]


def contradictions(attempts: Sequence[Attempt]) -> list[Contradiction]:
    """Statements that the evidence speaks against, each mistake once, the latest first."""
    found: dict[tuple[str, str | None], Contradiction] = {}
    for attempt in attempts:
        for finding in attempt.grade.contradicted:
            key = (attempt.card, finding.misconception or finding.claim)
            before = found.pop(key, None)
            times = before.times + 1 if before else 1
            found[key] = Contradiction(card=attempt.card, finding=finding, times=times, last=attempt.at)
    return list(reversed(found.values()))
