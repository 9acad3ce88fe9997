"""The drills on what an engine does: predict it, or name what holds it back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inferproof.reports.commands.answers import take_answer
from inferproof.reports.commands.assessment import show
from inferproof.reports.commands.common import (
    COULD_NOT_RUN,
    INTERRUPTED,
    fail,
    open_ledger,
    print_json,
    read_deck,
    t,
)

if TYPE_CHECKING:
    from inferproof.questions.card import Language


def predict(count: int | None, seed: int | None, engine: str | None, as_json: bool, language: Language) -> None:
    """Ask for predictions and run the engine after each one."""
    import random

    from inferproof.grading.predict import chosen_engines
    from inferproof.reports.predict_view import Drill, predictions_json

    chosen = random.randrange(1, 100_000) if seed is None else seed
    session = Drill(chosen, chosen_engines(engine, language), count, language, sys.stderr if as_json else sys.stdout)
    interrupted = False
    try:
        session.hold()
    except KeyboardInterrupt:
        interrupted = True
        typer.echo(t("\ninterrupted; what was answered is recorded", "\n已中断；已作答的都有记录"), err=True)
    if as_json:
        print_json(predictions_json(session.scored))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if not session.scored and not sys.stdin.isatty():
        fail(t("the input ended before a prediction", "输入已结束，没有任何预测"))
    if session.scored and all(one.credit is None for one in session.scored):
        raise typer.Exit(COULD_NOT_RUN)


def diagnose(
    seed: int | None, engine: str | None, file: Path | None, editor: bool, as_json: bool, language: Language
) -> None:
    """Show a recorded run and grade what the person makes of it."""
    from rich.console import Console

    from inferproof.grading.diagnose import CARD, assess, draw, of_point
    from inferproof.grading.predict import check_engine
    from inferproof.reports.diagnose_view import exhibit_json, exhibit_view
    from inferproof.runners.paths import data_dir, logs_dir

    check_engine(engine, language)
    draft = data_dir() / "drafts" / "diagnose.txt"
    with open_ledger() as ledger:
        exhibit = draw(ledger, seed, engine, language)
        Console(highlight=False, stderr=as_json).print(exhibit_view(exhibit, logs_dir(), language))
        text = take_answer(file, editor, language, draft)
        card = read_deck()[CARD]
        grade = assess(card, exhibit, text, language, ledger)
    draft.unlink(missing_ok=True)
    if as_json:
        from inferproof.reports.as_json import grade_json

        print_json({**exhibit_json(exhibit, logs_dir(), language), "grade": grade_json(grade)})
        return
    show(of_point(card, exhibit.case.point), grade, language)
