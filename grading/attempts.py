"""Attempts: answers a person gave and how they were graded, kept in the same ledger as the evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from inferproof.grading.result import Finding, Grade, PointGrade
from inferproof.runners.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One graded answer."""

    card: str
    answer: str
    at: str
    """UTC, ISO 8601."""
    grade: Grade
    """Of the whole card, or only of the points that were asked for."""


def keep(ledger: Ledger, card: str, answer: str, grade: Grade, *, partial: bool = False) -> Attempt:
    """Append the attempt to the ledger; it is on disk when this returns.

    partial  the answer was asked for some points of the card only (a follow-up, points that were due).
    """
    attempt = Attempt(card=card, answer=answer, at=datetime.now(UTC).isoformat(timespec="seconds"), grade=grade)
    ledger.append("partial attempt" if partial else "attempt", card, asdict(attempt))
    return attempt


def kept(ledger: Ledger) -> list[Attempt]:
    """All attempts at whole cards, oldest first."""
    return [_attempt(body) for body in ledger.bodies("attempt")]


def kept_partial(ledger: Ledger) -> list[Attempt]:
    """All attempts at some points of a card, oldest first."""
    return [_attempt(body) for body in ledger.bodies("partial attempt")]


def _attempt(body: dict[str, Any]) -> Attempt:
    g = body["grade"]
    grade = Grade(
        **{
            **g,
            "points": tuple(PointGrade(**{**p, "missing": tuple(p["missing"])}) for p in g["points"]),
            "findings": tuple(Finding(**{**f, "recorded": tuple(f.get("recorded", ()))}) for f in g["findings"]),
            "layers": tuple(g.get("layers", ())),
        }
    )
    return Attempt(card=body["card"], answer=body["answer"], at=body["at"], grade=grade)
