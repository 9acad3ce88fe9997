"""The report of one card: what it asks, what the engines gave for its claims, what was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from inferproof.grading.attempts import Attempt
from inferproof.grading.verdict import Verdict
from inferproof.questions.card import Card, Language
from inferproof.questions.recorded import Recorded
from inferproof.reports import markdown, plots, sections
from inferproof.reports.words import say
from inferproof.runners.evidence import Evidence


def write(
    folder: Path,
    *,
    card: Card,
    verdicts: Sequence[Verdict],
    evidence: Mapping[str, Evidence],
    attempts: Sequence[Attempt],
    recorded: Recorded,
    language: Language,
) -> Path:
    """Write `<card>.md` and its PNG files into `folder`, made when missing; return its path. Raises OSError.

    Only pictures that this card's evidence gives are there. `attempts` may hold other cards' too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = [attempt for attempt in attempts if attempt.card == card.id]
    pictures, absent = plots.draw(folder, verdicts, list(evidence.values()), own, language)
    shown = any(picture.section == "engines" for picture in pictures)
    given = {
        "card": sections.card_of(card, verdicts, recorded, language),
        "points": card.rubric,
        "attempts": own[::-1],
        "pictures": pictures,
        "absent": [] if shown else absent if not pictures and len(absent) == 1 else [say(language, "no_pictures")],
        "misconceptions": card.misconceptions,
        "followups": card.followups,
        "answer": card.answer,
    }
    return markdown.write(folder, f"{card.id}.md", "card.md.j2", language, given)
