"""Values as a reader sees them: numbers, predicates with their numbers put in, text that is safe inside Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from inferproof.grading.verdict import Verdict

_LONGEST_LIST = 6


def short(identity: str) -> str:
    """The first ten digits of a SHA-256: enough to find the record."""
    return identity[:10]


def value(of: Any) -> str:
    """One JSON value, short: four significant digits, long lists cut with their length said."""
    if isinstance(of, bool) or of is None:
        return {True: "true", False: "false", None: "null"}[of]
    if isinstance(of, float):
        return str(int(of)) if of.is_integer() else f"{of:.4g}"
    if isinstance(of, Mapping):
        return "{" + _several([f"{k}: {value(v)}" for k, v in of.items()]) + "}"
    if isinstance(of, list | tuple):
        return "[" + _several([value(v) for v in of]) + "]"
    return str(of)


def _several(parts: list[str]) -> str:
    if len(parts) <= _LONGEST_LIST:
        return ", ".join(parts)
    return ", ".join([*parts[: _LONGEST_LIST - 1], f"… {len(parts)}"])


def observed(observations: Mapping[str, Any]) -> str:
    """`name = value` for each observation."""
    return ", ".join(f"{name} = {value(v)}" for name, v in observations.items())


def filled(expect: str, observations: Mapping[str, Any]) -> str:
    """The predicate with observed numbers, words and truth values in place of their names: `2064 == 2064`."""
    scalars = {name: seen for name, seen in observations.items() if not isinstance(seen, Mapping | list | tuple)}

    def put(match: re.Match[str]) -> str:
        word = match.group()
        return value(scalars[word]) if word in scalars else word

    return re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|(?<![.\w])[A-Za-z_]\w*', put, expect)


def by_claim(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], list[Verdict]]:
    """The verdicts of each (card, claim), one a build."""
    claims: dict[tuple[str, str], list[Verdict]] = {}
    for v in verdicts:
        claims.setdefault((v.card, v.claim), []).append(v)
    return claims


def plain(text: object) -> str:
    """Text that Markdown shows as it stands, on one line: an answer is data, not markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", " ".join(str(text).split()))


def quoted(text: str) -> str:
    """A block quote of somebody's text, line by line as it was written."""
    lines = [re.sub(r"^(\d+)(?=[.)])|^(?=[-+=])", r"\1\\", plain(line)) for line in text.strip().splitlines()]
    breaks = ["\\" if line and after else "" for line, after in zip(lines, [*lines[1:], ""], strict=True)]
    return "\n".join(f"> {line}{end}".rstrip() for line, end in zip(lines, breaks, strict=True))


def cell(markdown: object) -> str:
    """Markdown inside a table cell: one line, no bar that would end the cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(str(markdown).split()))


def code(text: object) -> str:
    """A code span, fenced by more backticks than the text holds in a row."""
    line = " ".join(str(text).split())
    if not line:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def slug(heading: str) -> str:
    """The anchor that code hosts give to a heading: lower case, punctuation dropped, spaces to hyphens."""
    words = re.sub(r"[`*\\]", "", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def contents(body: str) -> str:
    """A nested list of links to the second and third level headings of a Markdown body."""
    seen: dict[str, int] = {}
    lines: list[str] = []
    fenced = False
    for line in body.splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else re.fullmatch(r"(#{1,6}) (.+)", line)
        if heading is None:
            continue
        depth, text = len(heading[1]), heading[2]
        anchor = slug(text)
        count = seen[anchor] = seen.get(anchor, -1) + 1
        if depth in (2, 3):
            lines.append(f"{'  ' * (depth - 2)}- [{text}](#{anchor}{f'-{count}' if count else ''})")
    return "\n".join(lines)
