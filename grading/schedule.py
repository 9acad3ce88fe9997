"""When to ask what again: spaced repetition (FSRS) over cards and over their single rubric points.

Nothing of it is stored. The schedule is the attempts in the ledger played back through the scheduler, so that it cannot
be lost or run apart from them, and a better scheduler applies to all that was ever answered.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from inferproof.grading.attempts import Attempt, kept, kept_partial
from inferproof.runners.ledger import Ledger

if TYPE_CHECKING:
    import fsrs


@dataclass(frozen=True, kw_only=True)
class Item:
    """A card, or one rubric point of it, that was answered at least once."""

    card: str
    point: str | None
    """None: the card as a whole."""
    due: datetime
    recall: float
    """Probability that it is recalled now, 0 to 1."""
    awards: tuple[float, ...]
    """What each answer earned, oldest first: a card's score of 10, a point's 0, 0.5 or 1."""

    def is_due(self, now: datetime) -> bool:
        """Whether it comes up on this day, where the person is."""
        return self.due.astimezone().date() <= now.astimezone().date()


@dataclass(frozen=True, kw_only=True)
class Due:
    """A card to ask now."""

    card: str
    points: tuple[str, ...]
    """The points that are due; empty: the whole card is."""


def schedule(whole: Iterable[Attempt], partial: Iterable[Attempt], now: datetime) -> list[Item]:
    """Every card and point that was answered, what is due first at the front.

    whole, partial  attempts at whole cards and at some of their points.
    """
    import fsrs

    # Days, not minutes: an answer of ten minutes is not asked for again in one. No fuzz: same ledger, same days.
    scheduler = fsrs.Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    states: dict[tuple[str, str | None], fsrs.Card] = {}
    awards: dict[tuple[str, str | None], list[float]] = {}
    for card, point, award, at in _reviews(whole, partial):
        key = card, point
        before = states.get(key) or fsrs.Card(card_id=0, due=at)
        rating = _of_point(award) if point else _of_score(award)
        states[key], _ = scheduler.review_card(before, rating, max(at, before.last_review or at))
        awards.setdefault(key, []).append(award)
    items = [
        Item(
            card=card,
            point=point,
            due=state.due,
            recall=scheduler.get_card_retrievability(state, now),
            awards=tuple(awards[card, point]),
        )
        for (card, point), state in states.items()
    ]
    return sorted(items, key=attrgetter("due"))


def scheduled(ledger: Ledger, known: Mapping[str, Container[str]], now: datetime) -> list[Item]:
    """The schedule that the ledger gives. known  card -> its points; what is no longer in the deck is left out."""
    items = schedule(kept(ledger), kept_partial(ledger), now)
    return [i for i in items if i.card in known and (i.point is None or i.point in known[i.card])]


def due(items: Iterable[Item], now: datetime) -> list[Due]:
    """What to ask now, longest due first: a card whole where it is due itself, else its points that are."""
    found: dict[str, list[str | None]] = {}
    for item in items:
        if item.is_due(now):
            found.setdefault(item.card, []).append(item.point)
    return [
        Due(card=card, points=() if None in points else tuple(p for p in points if p)) for card, points in found.items()
    ]


def _reviews(whole: Iterable[Attempt], partial: Iterable[Attempt]) -> Iterator[tuple[str, str | None, float, datetime]]:
    """(card, point or none, award, when) in the order of time; a whole answer comes before what was asked after it."""
    both = [(a.at, order, a) for order, of in enumerate((whole, partial)) for a in of]
    for at, order, attempt in sorted(both, key=lambda row: row[:2]):
        when = datetime.fromisoformat(at)
        if order == 0:
            yield attempt.card, None, attempt.grade.score, when
        for point in attempt.grade.points:
            yield attempt.card, point.point, point.award, when


def _of_score(score: float) -> fsrs.Rating:
    from fsrs import Rating

    return Rating.Again if score < 5 else Rating.Hard if score < 7 else Rating.Good if score < 9 else Rating.Easy


def _of_point(award: float) -> fsrs.Rating:
    from fsrs import Rating

    return Rating.Again if award < 0.5 else Rating.Hard if award < 1 else Rating.Good
