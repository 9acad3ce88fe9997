"""What terminal screens are built of: text that is safe to show, indentation, plain tables."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from inferproof.questions.card import Language
from inferproof.reports.words import say
from inferproof.reports.wrap import wrapped

if TYPE_CHECKING:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Escape sequences and control characters other than line breaks and tabs."""


def text(of: str, style: str = "") -> Text:
    """Text that is read neither as markup nor by the terminal: answers and logs may hold brackets and escapes."""
    return _prose()(_CONTROL.sub("", of), style=style)


@cache
def _prose() -> type[Text]:
    """Text that breaks its lines as `wrapped` does, since rich would break Chinese at blanks only."""
    from rich.text import Text

    class Prose(Text):
        def wrap(self, console: Any, width: int, *, no_wrap: bool | None = None, **how: Any) -> Any:
            lines = self if no_wrap or self.no_wrap else Text(wrapped(self.plain, width), style=self.style)
            return Text.wrap(lines, console, width, no_wrap=no_wrap, **how)

    return Prose


def indented(of: str, by: int, style: str = "") -> Padding:
    """The text, its every line so far to the right."""
    from rich.padding import Padding

    return Padding(text(of, style), (0, 0, 0, by))


def table(language: Language, *columns: str) -> Table:
    """A table with a line below its header and no other; columns are keys of `words`."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    for column in columns:
        made.add_column(say(language, column))
    return made
