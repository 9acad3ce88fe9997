"""Statistics of a person's answers: what is due, strengths and weak points over time; at the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import mean
from typing import TYPE_CHECKING, Any

from inferproof.grading.attempts import Attempt
from inferproof.grading.layers import LAYERS
from inferproof.grading.schedule import Due, Item
from inferproof.questions.card import Language
from inferproof.reports.shapes import table, text
from inferproof.reports.words import say

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

MOST = 6
"""Rows shown of strong and of weak points, and numbers shown of a history."""
LATELY = 5
"""Answers that count as recent."""


@dataclass(frozen=True, kw_only=True)
class Stats:
    """All that the statistics are made of."""

    attempts: Sequence[Attempt]
    """At whole cards, oldest first."""
    items: Sequence[Item]
    """The schedule, of what is still in the deck."""
    due: Sequence[Due]
    cards: int
    """Cards in the deck."""
    now: datetime

    @property
    def weak(self) -> list[Item]:
        """Points that the last answer did not earn in full, least earned and least likely recalled first."""
        found = [i for i in self.items if i.point and i.awards[-1] < 1]
        return sorted(found, key=lambda i: (mean(i.awards[-3:]), i.recall))

    @property
    def strong(self) -> list[Item]:
        """Points that the last answer earned in full, most often earned and best recalled first."""
        found = [i for i in self.items if i.point and i.awards[-1] >= 1]
        return sorted(found, key=lambda i: (-mean(i.awards[-3:]), -len(i.awards), -i.recall))

    @property
    def weeks(self) -> dict[date, list[float]]:
        """Scores by week, under its Monday."""
        weeks: dict[date, list[float]] = {}
        for attempt in self.attempts:
            day = datetime.fromisoformat(attempt.at).astimezone().date()
            weeks.setdefault(day - timedelta(days=day.weekday()), []).append(attempt.grade.score)
        return weeks

    @property
    def layers(self) -> dict[str, tuple[int, int]]:
        """Layer -> (recent answers that cover it, earlier ones)."""
        recent, earlier = self.attempts[-LATELY:], self.attempts[:-LATELY]
        return {n: (_covering(n, recent), _covering(n, earlier)) for n in LAYERS}


def _covering(layer: str, attempts: Sequence[Attempt]) -> int:
    return sum(layer in a.grade.layers for a in attempts)


def stats_json(stats: Stats) -> dict[str, Any]:
    """The statistics, whole."""
    later = [i.due for i in stats.items if not i.is_due(stats.now)]
    return {
        "attempts": len(stats.attempts),
        "cards_tried": len({a.card for a in stats.attempts}),
        "cards": stats.cards,
        "due": [{"card": d.card, "points": list(d.points)} for d in stats.due],
        "next_due": min(later).isoformat() if later else None,
        "items": [_item_json(i, stats.now) for i in stats.items],
        "strong": [f"{i.card}/{i.point}" for i in stats.strong],
        "weak": [f"{i.card}/{i.point}" for i in stats.weak],
        "weeks": [
            {"week": day.isoformat(), "answers": len(s), "mean_score": round(mean(s), 2)}
            for day, s in stats.weeks.items()
        ],
        "layers": {n: {"lately": a, "before": b} for n, (a, b) in stats.layers.items()},
    }


def _item_json(item: Item, now: datetime) -> dict[str, Any]:
    return {
        "card": item.card,
        "point": item.point,
        "due": item.due.isoformat(),
        "due_today": item.is_due(now),
        "recall": round(item.recall, 3),
        "earned": list(item.awards),
    }


def stats_view(stats: Stats, language: Language) -> Group:
    """What is due, then cards, weak and strong points, weeks and layers; reads well at 80 columns."""
    from rich.console import Group

    tried = len({a.card for a in stats.attempts})
    parts: list[RenderableType] = [
        say(language, "stats_opening", attempts=len(stats.attempts), tried=tried, cards=stats.cards)
    ]
    if not stats.items:
        return Group(*parts, say(language, "due_new"))
    parts += _due(stats, language)
    for title, rows in (
        ("scores", _cards(stats, language)),
        ("weak", _points(stats.weak, stats.now, language)),
        ("strong_points", _points(stats.strong, stats.now, language)),
        ("weeks", _weeks(stats, language)),
        ("layers", _layers(stats, language)),
    ):
        if rows.row_count:
            parts += [text(f"\n{say(language, title)}", "bold"), rows]
    return Group(*parts)


def _due(stats: Stats, language: Language) -> list[RenderableType]:
    if not stats.due:
        return [nothing_due(stats.items, language)]
    lines: list[RenderableType] = [text(f"\n{say(language, 'due_today')}", "bold")]
    for due in stats.due:
        what = say(language, "comma").join(due.points) or say(language, "whole_card")
        lines.append(text(f"  {due.card}{say(language, 'colon')}{what}"))
    return lines


def nothing_due(items: Sequence[Item], language: Language) -> str:
    """That nothing is due, what comes up next and when, and what to do instead."""
    lines = [say(language, "due_none"), say(language, "due_new")]
    if items:
        first = min(items, key=lambda i: i.due)
        lines.insert(1, say(language, "due_next", card=first.card, day=first.due.astimezone().date().isoformat()))
    return "\n".join(lines)


def _cards(stats: Stats, language: Language) -> Table:
    rows = table(language, "card", "earned", "recall", "due")
    for item in stats.items:
        if item.point is None:
            rows.add_row(item.card, *_history(item, stats.now, language))
    return rows


def _points(items: Sequence[Item], now: datetime, language: Language) -> Table:
    rows = table(language, "rubric_point", "earned", "recall", "due")
    for item in items[:MOST]:
        rows.add_row(f"{item.card}/{item.point}", *_history(item, now, language))
    return rows


def _history(item: Item, now: datetime, language: Language) -> tuple[str, str, str]:
    earned = " ".join(("½" if a == 0.5 else f"{a:g}") if item.point else f"{a:.1f}" for a in item.awards[-MOST:])
    when = say(language, "today") if item.is_due(now) else item.due.astimezone().date().isoformat()
    return ("… " if len(item.awards) > MOST else "") + earned, f"{item.recall:.0%}", when


def _weeks(stats: Stats, language: Language) -> Table:
    rows = table(language, "week", "answers", "mean_score")
    for day, scores in list(stats.weeks.items())[-MOST:]:
        rows.add_row(day.isoformat(), str(len(scores)), f"{mean(scores):.1f}")
    return rows


def _layers(stats: Stats, language: Language) -> Table:
    recent = len(stats.attempts[-LATELY:])
    earlier = len(stats.attempts) - recent
    rows = table(language, "layer")
    rows.add_column(say(language, "lately", count=recent))
    if earlier:
        rows.add_column(say(language, "before_that"))
    for layer, (now, before) in stats.layers.items():
        counts = [say(language, "of", part=now, whole=recent), say(language, "of", part=before, whole=earlier)]
        rows.add_row(say(language, layer), *counts[: 1 + bool(earlier)])
    return rows
