"""The gold set: answers with labels, by which the grader is measured; its two parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from inferproof.grading.metrics import AWARDS
from inferproof.questions.card import Card, Language

Part = Literal["tune", "check"]
PARTS: tuple[Part, ...] = get_args(Part)
LANGS = ("en", "zh", "mixed")
KINDS = (
    "strong", "partial", "misconception", "swapped-engines", "wrong-number", "keyword-list", "terse-notes",
    "transcript", "injection", "negation-trap",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GoldAnswer:
    """An answer and what it deserves."""

    id: str
    card: str
    lang: str
    """en, zh, or mixed: Chinese with the English terms that people use."""
    kind: str
    answer: str
    points: Mapping[str, float]
    """Point id -> 0, 0.5 or 1."""
    false: tuple[str, ...]
    """What it states that is false, in its own words."""

    @property
    def language(self) -> Language:
        """Of the explanations."""
        return "en" if self.lang == "en" else "zh"

    @property
    def part(self) -> Part:
        """Tune or check, by the lowest bit of the first byte of the id's SHA-256: fixed, and blind to the content."""
        return PARTS[hashlib.sha256(self.id.encode()).digest()[0] & 1]


class GoldError(ValueError):
    """A gold file that is not what it should be; the message names file, line and remedy."""


def read_gold(folder: Path | None = None, files: str = "*.jsonl") -> list[GoldAnswer]:
    """Every answer of every file of that name, in order. Raises GoldError."""
    answers = []
    for file in sorted((folder or Path(__file__).with_name("gold")).glob(files)):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                answers.append(GoldAnswer(**{**row, "false": tuple(row["false"])}))
            except (ValueError, TypeError, KeyError) as error:
                raise GoldError(
                    f"{file}:{number}: expected an object with id, card, lang, kind, answer, points, false ({error})"
                ) from None
    return answers


def problems(answers: Iterable[GoldAnswer], deck: Mapping[str, Card]) -> list[str]:
    """What is wrong with the answers: ids twice, unknown words, points missing, false statements not in the answer."""
    found, seen = [], set[str]()
    for answer in answers:
        card = deck.get(answer.card)
        checks = {
            "id stands twice": answer.id not in seen,
            f"there is no card '{answer.card}'": card is not None,
            f"lang '{answer.lang}' is none of {', '.join(LANGS)}": answer.lang in LANGS,
            f"kind '{answer.kind}' is none of {', '.join(KINDS)}": answer.kind in KINDS,
            "points are not those of the card": card is None or set(answer.points) == {p.id for p in card.rubric},
            "an award is none of 0, 0.5, 1": set(answer.points.values()) <= set(AWARDS),
            "a false statement does not stand in the answer": all(f and f in answer.answer for f in answer.false),
        }
        found += [f"{answer.id}: {message}" for message, good in checks.items() if not good]
        seen.add(answer.id)
    return found
