"""Text broken at a width in terminal cells, without rich: a drill's first question must not wait for its import."""

from __future__ import annotations

import re
import shutil
from unicodedata import east_asian_width

WIDEST = 80
_PIECE = re.compile(r"(?:[!-~]+|.)[，。；：、？！）」”]*\s?")
"""What stays together: a run of ASCII, or one character, with the punctuation that may not begin a line."""


def cells(text: str) -> int:
    """Columns that the text takes: two for a wide character."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def folded(text: str, indent: int = 0, width: int | None = None) -> str:
    """The text in lines of at most `width` cells (default: the terminal's, up to 80), each indented."""
    room = (width or min(WIDEST, shutil.get_terminal_size().columns)) - indent
    lines = [""]
    for piece in _PIECE.findall(text):
        if lines[-1] and cells(lines[-1]) + cells(piece.rstrip()) > room:
            lines.append("")
        lines[-1] += piece
    return "\n".join(" " * indent + line.rstrip() for line in lines)
