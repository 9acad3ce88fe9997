"""What was answered well comes back later, what was missed comes back tomorrow, and the ledger alone says when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.attempts import Attempt, keep, kept, kept_partial
from inferproof.grading.result import Grade, PointGrade
from inferproof.grading.schedule import Due, Item, due, schedule, scheduled
from inferproof.reports.stats import Stats
from inferproof.runners.ledger import Ledger

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
POINTS = ("granularity", "cost")
AWARDS = st.sampled_from([0.0, 0.5, 1.0])
ANSWERS = st.lists(st.tuples(st.integers(0, 90 * 24), st.tuples(AWARDS, AWARDS)), min_size=1, max_size=12)


def attempt(hours: float, *awards: float, points: tuple[str, ...] = POINTS, card: str = "small-card") -> Attempt:
    grades = tuple(
        PointGrade(point=p, points=5, award=a, span=None, why="", missing=())
        for p, a in zip(points, awards, strict=True)
    )
    score = 10 * sum(awards) / len(awards)
    grade = Grade(card=card, language="en", score=score, points=grades, findings=(), followup=None)
    return Attempt(
        card=card, answer="a", at=(START + timedelta(hours=hours)).isoformat(timespec="seconds"), grade=grade
    )


def item(items: list[Item], point: str | None) -> Item:
    return next(i for i in items if i.point == point)


@given(answers=ANSWERS)
def test_any_history_gives_each_card_and_point_once_due_a_day_or_more_after_its_last_answer(
    answers: list[tuple[int, tuple[float, float]]],
) -> None:
    whole = [attempt(hours, *awards) for hours, awards in sorted(answers)]
    items = schedule(whole, [], START + timedelta(days=100))

    assert {(i.card, i.point) for i in items} == {("small-card", None), *(("small-card", p) for p in POINTS)}
    last = datetime.fromisoformat(whole[-1].at)
    for i in items:
        assert i.due >= last + timedelta(days=1)
        assert 0 <= i.recall <= 1
        assert len(i.awards) == len(answers)
    assert [i.due for i in items] == sorted(i.due for i in items)


@given(answers=ANSWERS)
def test_the_order_in_which_records_are_read_does_not_matter(answers: list[tuple[int, tuple[float, float]]]) -> None:
    whole = [
        attempt(hours, *awards) for hours, awards in {hours: (hours, awards) for hours, awards in answers}.values()
    ]

    assert schedule(whole, [], START) == schedule(whole[::-1], [], START)


@given(before=st.lists(st.tuples(AWARDS, AWARDS), max_size=5))
def test_the_better_the_last_answer_the_later_it_comes_back(before: list[tuple[float, float]]) -> None:
    past = [attempt(48.0 * n, *awards) for n, awards in enumerate(before)]
    days = [
        item(schedule([*past, attempt(48.0 * len(past), award, award)], [], START), "cost").due
        for award in (0.0, 0.5, 1.0)
    ]

    assert days == sorted(days)


def test_a_missed_point_is_due_alone_before_its_card_is() -> None:
    items = schedule([attempt(0, 1.0, 0.5)], [], START)
    tomorrow, later = START + timedelta(days=1), START + timedelta(days=3)

    assert due(items, START) == []
    assert due(items, tomorrow) == [Due(card="small-card", points=("cost",))]
    assert due(items, later) == [Due(card="small-card", points=())]


def test_an_answer_to_some_points_moves_only_these() -> None:
    whole, partial = [attempt(0, 1.0, 0.0)], [attempt(24, 1.0, points=("cost",))]
    before, after = schedule(whole, [], START), schedule(whole, partial, START)

    assert item(after, "cost").due > item(before, "cost").due
    assert item(after, "cost").awards == (0.0, 1.0)
    assert [item(after, p) for p in (None, "granularity")] == [item(before, p) for p in (None, "granularity")]


def test_the_schedule_is_what_the_ledger_holds_less_what_left_the_deck(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        keep(ledger, "small-card", "a", attempt(0, 1.0, 0.0).grade)
        keep(ledger, "small-card", "b", attempt(0, 1.0, points=("cost",)).grade, partial=True)
        keep(ledger, "gone", "c", replace(attempt(0, 1.0, 0.0).grade, card="gone"))
        items = scheduled(ledger, {"small-card": ["cost"]}, datetime.now(UTC))

        assert {(i.card, i.point) for i in items} == {("small-card", None), ("small-card", "cost")}
        assert (len(kept(ledger)), len(kept_partial(ledger))) == (2, 1)


def test_statistics_tell_weak_from_strong_points_and_weeks_apart() -> None:
    attempts = [attempt(0, 1.0, 0.0), attempt(24 * 7, 1.0, 0.5)]
    now = START + timedelta(days=7)
    stats = Stats(attempts=attempts, items=schedule(attempts, [], now), due=[], cards=1, now=now)

    assert [i.point for i in stats.weak] == ["cost"]
    assert [i.point for i in stats.strong] == ["granularity"]
    assert list(stats.weeks.values()) == [[5.0], [7.5]]
