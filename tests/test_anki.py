"""The Anki package: both languages, and notes that a later export updates instead of adding."""

from __future__ import annotations

import sqlite3
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from inferproof.questions.card import Card, Text
from inferproof.reports.anki import AnkiError, notes, write


def rows(package: Path) -> dict[str, tuple[str, str]]:
    """guid -> (tags, fields) of a package's notes."""
    with zipfile.ZipFile(package) as archive:
        archive.extract("collection.anki2", package.parent)
    database = sqlite3.connect(package.parent / "collection.anki2")
    try:
        return {guid: (tags, fields) for guid, tags, fields in database.execute("SELECT guid, tags, flds FROM notes")}
    finally:
        database.close()


@pytest.mark.filterwarnings("ignore")
def test_a_card_gives_its_question_followups_and_misconceptions_in_both_languages(card: Card, tmp_path: Path) -> None:
    count = write(tmp_path / "deck.apkg", [card], ["en", "zh"])
    written = rows(tmp_path / "deck.apkg")

    assert count == len(written) == 2 * (1 + len(card.followups) + len(card.misconceptions))
    fields = " ".join(fields for _, fields in written.values())
    assert "And a prompt shorter than a block?" in fields and "比一块还短呢？" in fields
    assert all(f" {card.id} " in tags for tags, _ in written.values())


@pytest.mark.filterwarnings("ignore")
def test_changed_words_keep_the_note_ids(card: Card, tmp_path: Path) -> None:
    write(tmp_path / "a.apkg", [card], ["en", "zh"])
    reworded = replace(card, question=Text(en="Other <words> & signs?", zh="换了说法？"))
    write(tmp_path / "b.apkg", [reworded], ["en", "zh"])
    before, after = rows(tmp_path / "a.apkg"), rows(tmp_path / "b.apkg")

    assert before.keys() == after.keys()
    assert before != after
    assert any("Other &lt;words&gt; &amp; signs?" in fields for _, fields in after.values())


def test_every_note_asks_something_of_its_own(card: Card) -> None:
    fronts = [note.front for language in ("en", "zh") for note in notes(card, language)]

    assert len(set(fronts)) == len(fronts)


def test_without_genanki_the_remedy_is_named(card: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genanki", None)

    with pytest.raises(AnkiError, match="inferproof\\[anki\\]"):
        write(tmp_path / "deck.apkg", [card], ["en"])
    assert list(tmp_path.glob("*.apkg*")) == []
