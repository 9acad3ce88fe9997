"""A sitting: one question after another, at a terminal or over a pipe. A mock interview, or what is due.

The first question is on the screen before anything slow is imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inferproof.reports.words import say

if TYPE_CHECKING:
    from inferproof.grading.interview import Asked, Interview, Times, Turn
    from inferproof.grading.result import Grade
    from inferproof.grading.schedule import Due
    from inferproof.questions.card import Card, Language
    from inferproof.questions.headings import Heading

Take = Callable[[str, float | None, Callable[[], str] | None], str | None]
"""(name of the draft, when to stop, a line about the time) -> the answer; None where there will be none."""


class Desk(NamedTuple):
    """What a sitting needs of the command that holds it."""

    language: Language
    show: Callable[[str], None]
    take: Take
    card: Callable[[str], Card]
    grade: Callable[[Card, str], Grade]
    keep: Callable[[str, str, str, Grade, bool], None]
    """(draft, card, answer, grade, whether of some points only)."""


def clock(seconds: float) -> str:
    """Minutes and seconds, as on a kitchen clock."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02}"


class Mock:
    """A mock interview; `interview` is what came of it, also where it was broken off."""

    interview: Interview | None = None

    def __init__(self, desk: Desk, headings: Sequence[Heading], minutes: float) -> None:
        self._desk = desk
        self._headings = headings
        self._minutes = minutes
        self._put: list[str] = []

    def hold(self) -> None:
        """Ask all of it."""
        desk, first = self._desk, self._headings[0]
        desk.show(say(desk.language, "mock_begin", minutes=self._minutes, questions=len(self._headings)))
        self._question(first.id, first.question[desk.language], 60 * self._minutes)
        from inferproof.grading.interview import Interview

        self.interview = Interview(
            headings=self._headings, card=desk.card, grade=desk.grade, keep=self._keep, minutes=self._minutes
        )
        self.interview.hold(self._ask)

    def _question(self, card: str, question: str, left: float) -> None:
        self._put.append(card)
        place = {"number": len(self._put), "of": len(self._headings), "left": clock(left)}
        self._desk.show(f"\n{say(self._desk.language, 'mock_question', **place)}\n\n{question}\n")

    def _ask(self, asked: Asked, times: Times) -> str | None:
        desk, begun = self._desk, time.monotonic()
        question = asked.question[desk.language]
        if asked.id != asked.card:
            head = say(desk.language, "mock_followup", left=clock(times.end - begun))
            desk.show(f"\n{head}\n\n{question}\n")
        elif asked.card not in self._put:
            self._question(asked.card, question, times.end - begun)

        def status() -> str:
            now = time.monotonic()
            return say(desk.language, "mock_status", taken=clock(now - times.question), left=clock(times.end - now))

        answer = desk.take(_draft(asked), times.end, status)
        up = time.monotonic() >= times.end
        if answer is None or (up and not answer.strip()):
            return None
        took = say(desk.language, "mock_took", seconds=clock(time.monotonic() - begun))
        desk.show(f"{took} {say(desk.language, 'mock_up')}" if up else took)
        return answer

    def _keep(self, turn: Turn) -> None:
        asked, partial = turn.asked, turn.asked.id != turn.asked.card
        grade = turn.grade.about(asked.points) if partial else turn.grade
        self._desk.keep(_draft(asked), asked.card, turn.answer, grade, partial)


def _draft(asked: Asked) -> str:
    return asked.card if asked.id == asked.card else f"{asked.card}.{asked.id.replace(' ', '-')}"


def ask_due(desk: Desk, dues: Sequence[Due], headings: Mapping[str, Heading]) -> Iterator[tuple[Card, Grade]]:
    """Ask what is due, and grade each answer as far as it was asked for; a lone dot skips a question."""
    for due in dues:
        heading = headings[due.card]
        desk.show(f"{heading.title[desk.language]}  [{due.card}]\n\n{heading.question[desk.language]}\n")
        if due.points:
            points = say(desk.language, "comma").join(due.points)
            desk.show(say(desk.language, "due_points", points=points) + "\n")
        answer = desk.take(due.card, None, None)
        if answer is None:
            return
        if answer.strip():
            card = desk.card(due.card)
            grade = desk.grade(card, answer)
            grade = grade.about(due.points) if due.points else grade
            desk.keep(due.card, due.card, answer, grade, bool(due.points))
            yield card, grade
