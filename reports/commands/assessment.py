"""A grade of an answer, on the evidence that this machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from inferproof.reports.commands.common import console, print_json, t

if TYPE_CHECKING:
    from inferproof.grading.result import Grade
    from inferproof.questions.card import Card, Language
    from inferproof.runners.evidence import Evidence
    from inferproof.runners.ledger import Ledger

evidence_of: dict[str, dict[str, list[Evidence]]] = {}


def graded(card: Card, answer: str, language: Language, ledger: Ledger, *, run: bool = False) -> Grade:
    """Grade against the newest evidence of each claim; the evidence is looked up once a card and process.

    run  measure what the answer states under parameters of its own, where there is no evidence of it yet.
    """
    from inferproof.grading.grade import grade as grade_answer
    from inferproof.grading.verify import evidence_by_claim

    if card.id not in evidence_of:
        evidence_of[card.id] = evidence_by_claim(card, ledger)
    result = grade_answer(card, answer, language, evidence_of[card.id])
    if not any(finding.given for finding in result.findings):
        return result
    from inferproof.grading.own_parameters import measure, measured

    if run:
        from inferproof.reports.live import Live
        from inferproof.runners.site import this_site

        with Live() as bar:
            for why in measure(card, result, this_site(), ledger, language, bar.event):
                typer.echo(t(f"not run: {why}", f"未运行：{why}"), err=True)
    return grade_answer(card, answer, language, {**evidence_of[card.id], **measured(card, result, ledger)})


def show(card: Card, grade: Grade, language: Language, *, as_json: bool = False) -> None:
    """Print the grade."""
    if as_json:
        from inferproof.reports.as_json import grade_json

        print_json(grade_json(grade))
        return
    from inferproof.reports.terminal import grade_view

    console().print(grade_view(card, grade, language))
