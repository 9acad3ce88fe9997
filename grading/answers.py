"""Answers as they come in: a line of a file of many, and the language of one."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import NamedTuple

from inferproof.questions.card import Language


class Answer(NamedTuple):
    """An answer to a card."""

    id: str | int
    """Whatever name it came with."""
    card: str
    language: Language
    text: str


def answer_of(line: str | bytes, cards: Container[str]) -> Answer:
    """The answer in a JSON line `{"id", "card", "lang", "answer"}`. Raises ValueError that says what is wrong."""
    try:
        row = json.loads(line)
        json.dumps(row, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a surrogate pair, which is no character") from error
    if not isinstance(row, dict):
        raise ValueError('expected an object {"id", "card", "lang", "answer"}')
    for name in ("id", "card", "answer"):
        if not isinstance(row.get(name), str | int):
            raise ValueError(f"field '{name}' is missing or no string")
    if row["card"] not in cards:
        raise ValueError(f"there is no card '{row['card']}'")
    text = str(row["answer"])
    language = row.get("lang") or language_of(text)
    if language not in ("en", "zh"):
        raise ValueError(f"field 'lang' is {language!r}, expected en or zh")
    return Answer(row["id"], row["card"], language, text)


def language_of(text: str) -> Language:
    """The language an answer is written in: Chinese where at least a tenth of its characters are."""
    return "zh" if sum("\u4e00" <= c <= "\u9fff" for c in text) * 10 >= len(text) > 0 else "en"
