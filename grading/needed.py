"""What a text must hold for a regular expression to match in it: to look for that first is much cheaper.

Only what is certain counts; where nothing is, the expression is simply tried.
"""

from __future__ import annotations

from collections.abc import Iterator

_OPTIONAL = ("?", "*", "{")


def needed(pattern: str) -> frozenset[str]:
    """Words of which every match holds one; empty where no such words are certain."""
    found = [_needed_by_one(alternative) for alternative in _alternatives(pattern)]
    return frozenset().union(*found) if all(found) else frozenset()


def _alternatives(pattern: str) -> Iterator[str]:
    """The pattern cut at the `|` that stand in no group."""
    start = 0
    for at, end in _pieces(pattern):
        if pattern[at] == "|":
            yield pattern[start:at]
            start = end
    yield pattern[start:]


def _needed_by_one(sequence: str) -> frozenset[str]:
    """Of all that certainly stands in a match, what is longest."""
    certain, run = list[frozenset[str]](), ""
    for at, end in _pieces(sequence):
        piece, after = sequence[at:end], sequence[end : end + 1]
        optional = after in _OPTIONAL and after != ""
        literal = len(piece) == 1 and (piece.isalnum() or piece == " ")
        if literal and not optional:
            run += piece
        if run and (not literal or optional or after == "+"):
            certain.append(frozenset((run,)))
            run = ""
        if piece[0] == "(" and not optional and not piece.startswith("?", 1):
            certain.append(needed(piece[1:-1]))
        elif piece.startswith("(?:") and not optional:
            certain.append(needed(piece[3:-1]))
    certain.append(frozenset((run,)) if run else frozenset())
    return max(certain, key=lambda words: min(map(len, words), default=0))


def _pieces(pattern: str) -> Iterator[tuple[int, int]]:
    """[start, end) of every character, escape, class, group and count that stands in no other."""
    at = 0
    while at < len(pattern):
        end = at + 1
        if pattern[at] == "\\":
            end = at + 2
        elif pattern[at] == "[":
            end = _end_of_class(pattern, at)
        elif pattern[at] == "(":
            end = _end_of_group(pattern, at)
        elif pattern[at] == "{":
            end = max(pattern.find("}", at), at) + 1
        yield at, end
        at = end


def _end_of_class(pattern: str, at: int) -> int:
    at += 2 if pattern[at + 1] == "^" else 1
    at += pattern[at] == "]"
    while pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _end_of_group(pattern: str, at: int) -> int:
    at += 1
    while pattern[at] != ")":
        at = next(_pieces(pattern[at:]))[1] + at
    return at + 1
