"""A mock interview at the terminal: how a question is put, the time, and the debrief; the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inferproof.grading.debrief import Debrief, debrief
from inferproof.grading.interview import Interview, Question, Turn
from inferproof.grading.result import Finding
from inferproof.questions.card import Language
from inferproof.reports.as_json import grade_json
from inferproof.reports.shapes import indented, table, text
from inferproof.reports.sitting import clock
from inferproof.reports.words import say

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

MOST = 6
"""Points shown of those to work on."""


def debrief_json(interview: Interview, language: Language) -> dict[str, Any]:
    """The interview and its debrief, whole."""
    result = debrief(interview)
    return {
        "minutes": interview.minutes,
        "seconds": round(interview.seconds, 1),
        "score": result.score.first,
        "with_followups": result.score.last,
        "topics": {topic: asdict(score) for topic, score in result.topics.items()},
        "layers": {layer: {**asdict(n), "of": len(interview.questions)} for layer, n in result.layers.items()},
        "questions": [_question_json(q, language) for q in interview.questions],
        "to_work_on": [{"card": m.card.id, "point": m.point.id, "award": m.award} for m in result.missed],
        "wrong": [{"card": card.id, **asdict(finding)} for card, finding in result.wrong],
    }


def _question_json(q: Question, language: Language) -> dict[str, Any]:
    return {
        "card": q.card.id,
        "collection": q.card.collection,
        "seconds": round(q.seconds, 1),
        "score": q.first.score,
        "with_followups": q.last.score,
        "turns": [_turn_json(turn, language) for turn in q.turns],
        "grade": grade_json(q.last),
    }


def _turn_json(turn: Turn, language: Language) -> dict[str, Any]:
    asked = turn.asked
    return {
        "id": asked.id,
        "question": asked.question[language],
        "presses_on": list(asked.points),
        "answer": turn.answer,
        "seconds": round(turn.seconds, 1),
        "score_so_far": turn.grade.score,
    }


def debrief_view(interview: Interview, language: Language) -> Group:
    """Scores by question, topic and layer, then what to work on; something must have been answered."""
    from rich.console import Group
    from rich.panel import Panel

    result = debrief(interview)
    answers = sum(len(q.turns) for q in interview.questions)
    taken = clock(interview.seconds)
    head = (
        say(language, "debrief_score", first=f"{result.score.first:.1f}", last=f"{result.score.last:.1f}"),
        say(language, "debrief_time", answers=answers, taken=taken, minutes=interview.minutes),
    )
    parts: list[RenderableType] = [
        Panel(text("\n".join(head), "bold"), title=say(language, "debrief"), title_align="left"),
        _questions(interview.questions, language),
        "",
        _topics(result, language),
        "",
        _layers(result, len(interview.questions), language),
    ]
    return Group(*parts, *_to_work_on(result, language))


def _questions(questions: list[Question], language: Language) -> Table:
    rows = _numbers(language, "question", "score_short", "with_followups", "time")
    for q in questions:
        rows.add_row(q.card.id, f"{q.first.score:.1f}", f"{q.last.score:.1f}", clock(q.seconds))
        for turn in q.turns[1:]:
            what = text(f"  + {turn.asked.question[language]}")
            what.no_wrap, what.overflow = True, "ellipsis"
            rows.add_row(what, "", f"{turn.grade.score:.1f}", clock(turn.seconds), style="dim")
    return rows


def _topics(result: Debrief, language: Language) -> Table:
    rows = _numbers(language, "topic", "score_short", "with_followups")
    for topic, score in result.topics.items():
        rows.add_row(topic or "-", f"{score.first:.1f}", f"{score.last:.1f}")
    return rows


def _layers(result: Debrief, of: int, language: Language) -> Table:
    rows = _numbers(language, "layer", "answers_covering", "with_followups")
    for layer, touched in result.layers.items():
        counts = (say(language, "of", part=n, whole=of) for n in (touched.first, touched.last))
        rows.add_row(say(language, layer), *counts)
    return rows


def _to_work_on(result: Debrief, language: Language) -> Iterator[RenderableType]:
    def title(key: str) -> RenderableType:
        return text(f"\n{say(language, key)}", "bold")

    if result.missed:
        yield title("to_work_on")
    for m in result.missed[:MOST]:
        yield text(f"  {m.card.id}/{m.point.id} ({say(language, 'half' if m.award else 'none')})")
        yield indented(say(language, "full_point", text=m.point.criterion.of(language)), 4)
    if result.wrong:
        yield title("wrong_said")
    for _, finding in result.wrong:
        yield indented(_wrong(finding, language), 2)
    if result.followups:
        yield title("followups_open")
    for asked in result.followups:
        yield indented(asked.question[language], 2)
        yield indented(f"→ {asked.good.of(language) if asked.good else ''}", 4)
    yield text(f"\n{say(language, 'debrief_next')}")


def _wrong(finding: Finding, language: Language) -> str:
    """The statement, what is true instead, and what says so."""
    lines = [say(language, "quote", text=" ".join(finding.span.split()))]
    if finding.instead:
        lines.append("  " + say(language, "instead", text=finding.instead))
    if finding.verdict == "contradicted":
        lines.append(f"  {finding.rerun}")
    else:
        lines.append("  " + say(language, "misconception_instead"))
    return "\n".join(lines)


def _numbers(language: Language, *columns: str) -> Table:
    """A table whose first column is words and whose others are numbers."""
    made = table(language, *columns)
    for column in made.columns[1:]:
        column.justify, column.no_wrap = "right", True
    return made
