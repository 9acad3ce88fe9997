"""Cards as an Anki deck: questions, follow-ups and misconceptions, in both languages.

A note's id is made of what it asks about, not of its words: importing a later export updates notes and keeps reviews.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from inferproof.questions.card import Card, Language

if TYPE_CHECKING:
    import genanki

_MODEL = 1_779_350_417
"""Identifies the note type. It must never change, nor may the deck ids, or Anki would make new ones."""
_DECKS = {"en": 1_779_350_500, "zh": 1_779_350_600}
_NAMES = {"en": "inferproof::English", "zh": "inferproof::中文"}
_WRONG = {"en": "What is wrong with this? “{says}”", "zh": "这句话错在哪里？“{says}”"}
_CSS = (
    ".card { font-family: sans-serif; font-size: 18px; text-align: left; max-width: 40em; margin: auto; padding: 1em }"
)


class AnkiError(Exception):
    """The deck cannot be written; the message says what to do."""


class Note(NamedTuple):
    """One note: a question and its answer as HTML."""

    id: str
    card: Card
    front: str
    back: str


def notes(card: Card, language: Language) -> Iterator[Note]:
    """The card's question with its rubric and model answer, each follow-up, each misconception."""
    rubric = "".join(f"<li>{_html(p.criterion.of(language))} ({p.points})</li>" for p in card.rubric)
    answer = "".join(f"<p>{_html(p.text.of(language))}</p>" for p in card.answer)
    title = f"<b>{_html(card.title.of(language))}</b>"
    yield Note("question", card, f"{title}<p>{_html(card.question.of(language))}</p>", f"<ul>{rubric}</ul>{answer}")
    for f in card.followups:
        front = f"{title}<p>{_html(f.question.of(language))}</p>"
        yield Note(f"followup/{f.id}", card, front, f"<p>{_html(f.criterion.of(language))}</p>")
    for m in card.misconceptions:
        wrong = _WRONG[language].format(says=m.says.of(language).strip())
        claims = "".join(f"<br><code>inferproof verify {card.id}/{claim}</code>" for claim in m.refuted_by)
        yield Note(
            f"misconception/{m.id}", card, f"<p>{_html(wrong)}</p>", f"<p>{_html(m.instead.of(language))}</p>{claims}"
        )


def write(file: Path, cards: Iterable[Card], languages: Iterable[Language]) -> int:
    """Write the package, whole or not at all; the number of notes. Raises AnkiError, OSError."""
    try:
        import genanki
    except ImportError:
        raise AnkiError("genanki is not installed; pip install 'inferproof[anki]'") from None
    model = genanki.Model(
        _MODEL,
        "inferproof",
        fields=[{"name": "Front"}, {"name": "Back"}],
        templates=[{"name": "Card", "qfmt": "{{Front}}", "afmt": "{{FrontSide}}<hr id=answer>{{Back}}"}],
        css=_CSS,
    )
    decks = {language: genanki.Deck(_DECKS[language], _NAMES[language]) for language in languages}
    count = 0
    for card in cards:
        for language, deck in decks.items():
            for note in notes(card, language):
                deck.add_note(_genanki(model, note, language))
                count += 1
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        genanki.Package(list(decks.values())).write_to_file(str(partial))
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _genanki(model: genanki.Model, note: Note, language: Language) -> genanki.Note:
    import genanki

    tags = ["inferproof", note.card.collection or "own", note.card.id]
    guid = genanki.guid_for("inferproof", language, note.card.id, note.id)
    return genanki.Note(model=model, fields=[note.front, note.back], tags=tags, guid=guid)


def _html(text: str) -> str:
    return escape(text.strip(), quote=False).replace("\n", "<br>")
