"""The drills of several questions: a mock interview, and what is due."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from inferproof.reports.commands.assessment import graded, show
from inferproof.reports.commands.common import (
    HOLDS,
    INTERRUPTED,
    console,
    fail,
    open_ledger,
    print_json,
    read_deck,
    t,
    tell,
)

if TYPE_CHECKING:
    from inferproof.grading.result import Grade
    from inferproof.questions.card import Card, Language
    from inferproof.questions.headings import Heading
    from inferproof.reports.sitting import Desk, Take


def new_desk(take: Take, language: Language, cards: list[Path] | None, *, quiet: bool) -> Desk:
    """What a sitting works with; the deck is read once the first question is on the screen."""
    from inferproof.reports.sitting import Desk

    deck: dict[str, Card] = {}

    def card(name: str) -> Card:
        deck.update({} if deck else read_deck(cards))
        return deck[name]

    def grade(card: Card, answer: str) -> Grade:
        with open_ledger() as ledger:
            return graded(card, answer, language, ledger)

    def keep(draft: str, card: str, answer: str, grade: Grade, partial: bool) -> None:
        from inferproof.grading.attempts import keep
        from inferproof.runners.paths import data_dir

        with open_ledger() as ledger:
            keep(ledger, card, answer, grade, partial=partial)
        (data_dir() / "drafts" / f"{draft}.txt").unlink(missing_ok=True)

    return Desk(language, (lambda _: None) if quiet else tell, take, card, grade, keep)


def hold_mock(
    desk: Desk, asked: Mapping[str, Heading], minutes: float, questions: int | None, as_json: bool
) -> NoReturn:
    """Hold an interview and show its debrief, also where it is broken off."""
    from inferproof.questions.headings import least_answered
    from inferproof.reports.sitting import Mock

    with open_ledger() as ledger:
        counts = ledger.counts("attempt")
    mock = Mock(desk, least_answered(asked.values(), counts, questions or max(1, round(minutes / 10))), minutes)
    status = HOLDS
    try:
        mock.hold()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except typer.Exit as stopped:  # while an answer was typed
        status = stopped.exit_code
    if mock.interview is None or not mock.interview.questions:
        if status != HOLDS:
            raise typer.Exit(status)
        fail(t("there was no answer; nothing was graded", "没有回答，未评分"))
    from inferproof.reports.debrief import debrief_json, debrief_view

    if as_json:
        print_json(debrief_json(mock.interview, desk.language))
    else:
        typer.echo()
        console().print(debrief_view(mock.interview, desk.language))
    raise typer.Exit(status)


def ask_due(desk: Desk, asked: Mapping[str, Heading], questions: int | None, as_json: bool) -> NoReturn:
    """Ask what is due and show each grade."""
    from datetime import UTC, datetime

    from inferproof.grading.schedule import due, scheduled
    from inferproof.reports.sitting import ask_due as answered
    from inferproof.reports.words import say

    now = datetime.now(UTC)
    points = {name: heading.points for name, heading in asked.items()}
    with open_ledger() as ledger:
        items = scheduled(ledger, points, now)
    dues = due(items, now)
    grades = []
    for card, grade in answered(desk, dues[:questions], asked):
        grades.append(grade)
        if not as_json:
            show(card, grade, desk.language)
            typer.echo()
    left = len(dues) - len(grades)
    if as_json:
        from inferproof.reports.as_json import grade_json

        print_json({"answers": [grade_json(g) for g in grades], "still_due": left})
    elif dues:
        typer.echo(say(desk.language, "due_left", count=left) if left else say(desk.language, "due_done"))
    else:
        from inferproof.reports.stats import nothing_due

        typer.echo(nothing_due(items, desk.language))
    raise typer.Exit
