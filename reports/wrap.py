"""Lines for a terminal: Latin words whole, Chinese broken anywhere but before closing punctuation."""

from __future__ import annotations

import re
import shutil
from unicodedata import east_asian_width

WIDEST = 80
_WIDE = "\u2e80-\u9fff\uf900-\ufaff"
_OPEN, _CLOSE = "（「『《〈【“‘", "，。；：？！、）」』》〉】”’…"
_PIECE = re.compile(rf"\s+|[{_OPEN}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPEN}{_CLOSE}]+)?[{_CLOSE}]*")


def cells(text: str) -> int:
    """How many columns the text takes."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most `width` columns, but for a word that is longer."""
    return "\n".join(_paragraph(line, width) for line in text.split("\n"))


def folded(text: str, indent: int = 0, width: int | None = None) -> str:
    """The text in lines of at most `width` columns (default: the terminal's, up to 80), each indented."""
    room = (width or min(WIDEST, shutil.get_terminal_size().columns)) - indent
    return "\n".join(" " * indent + line for line in wrapped(text, room).split("\n"))


def _paragraph(text: str, width: int) -> str:
    lines, line = [], ""
    for piece in _PIECE.findall(text):
        if line and cells(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    return "\n".join([*lines, line.rstrip()])
