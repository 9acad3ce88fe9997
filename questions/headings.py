"""What a drill needs to ask its first question at once: every card's title and question, remembered from the last time.

Nothing slow is imported here unless a card file has changed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from inferproof.questions.files import card_files

_FIELDS = {"stamp", "id", "title", "question", "points", "prompts"}


class Heading(NamedTuple):
    """What is needed to ask a card's question, without validating the whole card."""

    id: str
    title: dict[str, str]
    question: dict[str, str]
    points: list[str]
    """Ids of its rubric points."""
    prompts: list[dict[str, str]]
    """One for each step of a card that is asked step by step, else none."""
    file: str

    @property
    def collection(self) -> str:
        """The folder that the card's file is in."""
        return Path(self.file).parent.name


def headings(remembered: Path, extra: Iterable[Path] = ()) -> dict[str, Heading]:
    """Every card's heading by id, in deck order; read from `remembered` where the card file has not changed since.

    This is what lets a drill ask its first question at once. Raises DeckError for a changed file that is no valid card.
    """
    try:
        known: dict[str, Any] = dict(json.loads(remembered.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        known = {}
    now: dict[str, Any] = {}
    for file in card_files(extra):
        stat = file.stat()
        stamp = [stat.st_mtime_ns, stat.st_size]
        entry = known.get(str(file))
        if not isinstance(entry, dict) or set(entry) != _FIELDS or entry["stamp"] != stamp:
            from inferproof.questions.deck import read_card

            card = read_card(file)
            entry = {
                "stamp": stamp,
                "id": card.id,
                "title": vars_of(card.title),
                "question": vars_of(card.question),
                "points": [point.id for point in card.rubric],
                "prompts": [vars_of(point.prompt) for point in card.rubric if point.prompt],
            }
        now[str(file)] = entry
    if now != known:
        partial = remembered.with_suffix(f".{os.getpid()}.partial")
        with contextlib.suppress(OSError):  # only a memory: where it cannot be written, the cards are read again
            partial.write_text(json.dumps(now), encoding="utf-8")
            partial.replace(remembered)
    return {
        e["id"]: Heading(e["id"], e["title"], e["question"], e["points"], e["prompts"], file) for file, e in now.items()
    }


def least_answered(among: Iterable[Heading], attempts: Mapping[str, int], count: int) -> list[Heading]:
    """So many of the cards answered least, from each collection in turn."""
    by_collection: dict[str, list[Heading]] = {}
    for heading in sorted(among, key=lambda h: attempts.get(h.id, 0)):
        by_collection.setdefault(heading.collection, []).append(heading)
    chosen: list[Heading] = []
    while by_collection and len(chosen) < count:
        for name in list(by_collection):
            chosen.append(by_collection[name].pop(0))
            if not by_collection[name]:
                del by_collection[name]
    return chosen[:count]


def vars_of(text: Any) -> dict[str, str]:
    """Both languages of a Text as a plain mapping."""
    return {"en": text.en, "zh": text.zh}
