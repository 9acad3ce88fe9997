"""Two trees of an engine at the terminal: what differs among the symbols that probes cover, and among the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from inferproof.questions.card import Language
from inferproof.reports.words import say
from inferproof.runners.audit import Audit

if TYPE_CHECKING:
    from rich.console import Group

_MOST = 12
"""Files or folders of one list that are shown."""


def audit_view(audit: Audit, language: Language) -> Group:
    """Two counts, the symbols that are not equal, and the files that are not, for many files their folders."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    lines = [Padding(Text(text, overflow="fold"), (0, 0, 0, by)) for by, text in _lines(audit, language)]
    return Group(Text(f"{audit.a} | {audit.b}", style="bold"), *lines)


def _lines(audit: Audit, language: Language) -> Iterator[tuple[int, str]]:
    """(indentation, text) of each line."""
    counts = {state: audit.count(state) for state in ("equal", "differs", "missing")}
    yield 2, say(language, "audit_symbols", **counts)
    yield from _listed(say(language, "audit_differs"), [c.symbol for c in audit.symbols if c.state == "differs"])
    for trees in sorted({c.missing_in for c in audit.symbols if c.missing_in}):
        named = [c.symbol for c in audit.symbols if c.missing_in == trees]
        yield from _listed(say(language, "audit_missing", where=", ".join(trees)), named)
    files = audit.files
    parts = {"differ": files.differ, "only_a": files.only_a, "only_b": files.only_b}
    sizes = {name: len(of) for name, of in parts.items()}
    yield 2, say(language, "audit_files", equal=files.equal, **sizes, a=audit.a, b=audit.b)
    yield from _listed(say(language, "audit_differs"), _in_short(files.differ, language))
    for where, only in ((audit.a, files.only_a), (audit.b, files.only_b)):
        yield from _listed(say(language, "audit_only", where=where), _in_short(only, language))


def _listed(head: str, items: Sequence[str]) -> Iterator[tuple[int, str]]:
    if items:
        yield 4, head
        yield from ((6, item) for item in items)


def _in_short(paths: Sequence[str], language: Language) -> list[str]:
    """A few files by name; of many, the folders that hold the most of them."""
    if len(paths) <= _MOST:
        return list(paths)
    folders = Counter("/".join(path.split("/")[:3][: path.count("/")]) for path in paths).most_common()
    shown = [say(language, "audit_folder", folder=folder, count=count) for folder, count in folders[:_MOST]]
    left = sum(count for _, count in folders[_MOST:])
    return [*shown, say(language, "audit_more", count=left)] if left else shown
