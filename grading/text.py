"""Text as the grader reads it: lower case, half width, Simplified, with the way back to the answer's own characters."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

LONGEST = 20_000
"""Characters of an answer that are read; nobody says more in an interview, and time stays bounded."""
CJK = "\u3400-\u9fff"
_CJK_CHARACTER = re.compile(f"[{CJK}]")
_WRITTEN = {"²": "^2", "³": "^3", "⇒": "->", "⟶": "->"}


@dataclass(frozen=True)
class Text:
    """Normalised text; `plain`, `cased` and `origin` have equal length."""

    plain: str
    """Lower case: what phrases are looked up in."""
    cased: str
    """The same in the answer's case, since Gb is not GB."""
    origin: tuple[int, ...]
    """Index of each character in the original."""
    original: str

    def span(self, start: int, end: int) -> str:
        """The words of the original behind [start, end)."""
        if start >= end:
            return ""
        return self.original[self.origin[start] : self.origin[end - 1] + 1].strip()

    def position(self, original: int) -> int:
        """Index in the normalised text of a character of the original."""
        return bisect_left(self.origin, original)


def normalise(original: str) -> Text:
    """The text in one form: NFKC, Simplified, runs of blanks as one, control characters as blanks."""
    cased: list[str] = []
    origin: list[int] = []
    wraps = _wraps(original[:LONGEST])
    for index, character in enumerate(original[:LONGEST]):
        apart = character == "，" and original[index + 1 : index + 2].isdigit()  # 补到 4，513 个: two numbers
        for c in _joint(cased) if index in wraps else (*_forms(character), *(" " if apart else "")):
            if c in " \n" and cased and cased[-1] in " \n":
                if c == "\n":
                    cased[-1] = c
                continue
            cased.append(c)
            origin.append(index)
    joined = "".join(cased)
    plain = joined.lower()
    if len(plain) != len(joined):  # a few letters have a longer lower case, and offsets must stay
        plain = "".join(lower if len(lower := c.lower()) == 1 else c for c in cased)
    return Text(plain, joined, tuple(origin), original)


_WRAPPED_AT = 60
"""Columns from which on a line that ends without punctuation was broken by an editor, not by its writer."""
_GOES_ON = re.compile(rf"\s*(?!\d{{1,2}}[.)、])[a-z0-9(\"'`{CJK}]")
"""How a line begins that continues a sentence: no capital, no bullet, no list number."""


def _wraps(original: str) -> set[int]:
    """Places of the line ends that an editor put into a sentence."""
    found: set[int] = set()
    lines = original.split("\n")
    end = -1
    for line, following in pairwise(lines):
        end += len(line) + 1
        kept = line.rstrip()
        columns = len(kept) + len(_CJK_CHARACTER.findall(kept))
        same_script = bool(_CJK_CHARACTER.match(kept[-1:])) == bool(_CJK_CHARACTER.match(following.lstrip()[:1]))
        if columns >= _WRAPPED_AT and kept[-1] not in ".!?:;。！？：；" and same_script and _GOES_ON.match(following):
            found.add(end)
    return found


def _joint(before: list[str]) -> str:
    """What stands for a wrapped line's end: nothing after Chinese, which has no blanks between words."""
    return "" if before and _CJK_CHARACTER.match(before[-1]) else " "


@lru_cache(maxsize=1024)
def bare(words: str) -> str:
    """The letters and digits of some words, to compare wordings by."""
    return "".join(c for c in normalise(words).plain if c.isalnum())


def _forms(character: str) -> str:
    if character < "\x7f" and character >= " ":
        return character
    if character in "\n\r\u2028\u2029":
        return "\n"
    if character in _WRITTEN:
        return _WRITTEN[character]
    if _CJK_CHARACTER.match(character):
        return _simplified().get(character, character)
    return "".join(
        " " if unicodedata.category(c)[0] in "CZ" else _PUNCTUATION.get(c, c)
        for c in unicodedata.normalize("NFKC", character)
    )


_PUNCTUATION = {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "−": "-", "‑": "-", "‐": "-", "×": "x", "⁄": "/"}


@cache
def _simplified() -> dict[str, str]:
    """Traditional character -> Simplified, from OpenCC; read at the first Chinese character."""
    from opencc import OpenCC

    characters = [chr(code) for code in range(0x3400, 0xA000)]
    converted = OpenCC("t2s").convert("\n".join(characters)).split("\n")
    return {a: b for a, b in zip(characters, converted, strict=True) if a != b and len(b) == 1}
