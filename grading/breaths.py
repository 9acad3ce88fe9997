"""Breaths: a long statement in the pieces in which it is spoken, since speech has no punctuation to cut it at.

Each piece is a reading of its own, with the engine and stance of the whole, and only the negations that reach it. One
thought in a hundred words is heard badly; in ten it is heard well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from inferproof.grading.reading import Reading
from inferproof.grading.statements import breath_edges, words_in


@dataclass(frozen=True)
class Cut:
    """How finely statements are cut."""

    long: int
    """Words from which on a statement is taken in pieces (two Chinese characters are one word)."""
    shortest: int
    """Words of a piece at the least; shorter ones go with what follows."""
    neighbours: int
    """Pieces that may make a thought together."""


FINE = Cut(long=16, shortest=5, neighbours=2)
"""To hear what an answer states: thoughts are stated in clauses."""
COARSE = Cut(long=26, shortest=7, neighbours=2)
"""To tell what is false in it: that takes the whole sentence, as far as people listen."""


def breaths(reading: Reading, cut: Cut) -> list[Reading]:
    """The pieces of a long statement, in order; a short one as it is."""
    statement, plain = reading.statement, reading.text.plain
    if words_in(plain[statement.start : statement.end]) < cut.long:
        return [reading]
    edges = breath_edges(plain, statement.start, statement.end, cut.shortest)
    return [between(reading, start, end) for start, end in pairwise(edges)]


def between(reading: Reading, start: int, end: int) -> Reading:
    """What of a reading stands there, with the engine and stance of the whole."""
    denials = tuple(d for d in reading.statement.denials if d.scope[0] < end and d.scope[1] > start)
    return Reading(
        reading.text,
        replace(reading.statement, start=start, end=end, denials=denials),
        tuple(m for m in reading.mentions if start <= m.start and m.end <= end),
        tuple(q for q in reading.numbers if start <= q.start < end),
    )


def runs(pieces: list[Reading], longest: int) -> Iterator[tuple[int, int]]:
    """[first, last) of every run of neighbours of up to that many pieces."""
    for first in range(len(pieces)):
        for last in range(first + 1, min(first + longest, len(pieces)) + 1):
            if last - first > 1 and pieces[last - 2].statement.end > pieces[last - 1].statement.start:
                break
            yield first, last
