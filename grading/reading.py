"""Readings: a statement with the concepts it mentions and the numbers it names, and whether it states an idea."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

from inferproof.grading import cues
from inferproof.grading.glossary import Mention, glossary
from inferproof.grading.numbers import Quantity, quantities
from inferproof.grading.statements import QUOTED, Denial, Statement, statements, words_in
from inferproof.grading.text import Text, normalise

NEAR = 16
"""Words (two Chinese characters are one) within which a misconception must be said: long true sentences name much."""
LONGEST_LIST = 5
"""More bare list items than this in one statement are a list of keywords, whatever stands before them."""

MOST_BARE = 0.7
"""Share of bare items from which on a long list is one of keywords; notes have more that say something."""

SHORTEST_CLAUSE = 3
"""Words from which on what has no known verb is a clause all the same, and no keyword."""

FEW_ITEMS = 3
"""Items up to which a statement of long ones is no list."""

LONGEST_KEYWORD = 6
"""Words from which on an item says something; with a measured number SHORTEST_CLAUSE of them do."""

FEWEST_PARTICLES = 3
"""Small words from which on Chinese between blanks is speech."""

COUNT = 2
"""Numbers up to this are words: one of them, two engines, "one token at a time"."""

LONGEST_CHAIN = 3
"""More arrows than this in one statement make a list of what they separate."""
SHORT_WORD = 7
"""Characters without a blank up to which Chinese between blanks is a list of words, rather than spoken clauses."""


@dataclass(frozen=True)
class Reading:
    """One statement, read."""

    text: Text
    statement: Statement
    mentions: tuple[Mention, ...]
    numbers: tuple[Quantity, ...]

    @property
    def span(self) -> str:
        """The statement in the answer's own words."""
        return self.text.span(self.statement.start, self.statement.end)

    @property
    def asserted(self) -> bool:
        """Whether the speaker says it, rather than asks, reports or rejects it."""
        return self.statement.stance == "asserted"

    @property
    def unequivocal(self) -> bool:
        """Whether it is plain that the speaker means all of it: he neither corrects himself in it nor quotes."""
        plain, start, end = self.text.plain, self.statement.start, self.statement.end
        quotes = any(words_in(m[1]) >= QUOTED for m in cues.QUOTED.finditer(plain, start, end))
        return not quotes and not cues.TAKES_BACK.search(plain, start, end)

    @property
    def speaks(self) -> bool:
        """Whether the speaker states something of his own: no question, no report of others, no list of words."""
        if self.statement.stance in ("asked", "reported"):
            return False
        if self.is_list:
            return not self._heading and len(self._bare) < MOST_BARE * len(self._list_items)
        return self.speaks_plainly or self._is_note or self._is_clause

    @property
    def speaks_plainly(self) -> bool:
        """Whether it has the words of a sentence, or of a note with a verb."""
        return self.statement.stance not in ("asked", "reported") and bool(self.stretches) and not self.is_list

    @property
    def _is_clause(self) -> bool:
        """Whether it is a few stretches of words, too long for keywords: no list of verbs is whole."""
        words = words_in(self.text.plain[self.statement.start : self.statement.end])
        return len(self._list_items) <= FEW_ITEMS and words >= SHORTEST_CLAUSE * max(1, len(self._list_items))

    @cached_property
    def _is_note(self) -> bool:
        """Whether it sets something beside its heading, as notes do (`verify: target, one forward`)."""
        return bool(cues.NOTE.search(self.text.plain, self.statement.start, self.statement.end))

    @property
    def spoken(self) -> list[tuple[int, int]]:
        """What of the statement is speech: all of it, or of a list of keywords the items that say something."""
        return self.stretches if self.is_list else [(self.statement.start, self.statement.end)]

    @property
    def distinguishes(self) -> bool:
        """Whether it tells notions apart, which names them without asserting any."""
        return bool(cues.DISTINCTION.search(self.text.plain, self.statement.start, self.statement.end))

    def speaks_of(self, engine: str | None) -> bool:
        """Whether the statement is about that engine (None: any)."""
        return engine is None or engine in self.statement.engines

    @cached_property
    def concepts(self) -> frozenset[tuple[str, bool]]:
        """Every concept that is mentioned, with whether it is denied."""
        return frozenset((concept, denied) for concept, places in self._places.items() for _, denied in places)

    @property
    def concepts_spoken(self) -> frozenset[tuple[str, bool]]:
        """Those of them that are more than an item of a list of keywords."""
        return frozenset(
            (concept, denied)
            for concept, places in self._places.items()
            for at, denied in places
            if any(start <= at < end for start, end in self.spoken)
        )

    @cached_property
    def _places(self) -> dict[str, list[tuple[int, bool]]]:
        places: dict[str, list[tuple[int, bool]]] = {}
        for mention in self.mentions:
            places.setdefault(mention.concept, []).append((mention.start, self.denied(mention)))
        return places

    def denied(self, mention: Mention) -> bool:
        """Whether it stands under a negation; in a statement that is rejected as wrong, whether it does not."""
        return any(self._denies(d, mention) for d in self.statement.denials) != (self.statement.stance == "rejected")

    def _denies(self, denial: Denial, mention: Mention) -> bool:
        cue, scope = denial.cue, denial.scope
        if _holds(mention, cue):
            # A concept worded with the negation (未命中) is meant as it stands; a pattern may span one by chance.
            return bool(mention.pattern) and self.text.plain[slice(*cue)] not in mention.pattern
        if not scope[0] <= mention.start < scope[1]:
            return False
        # "cannot allocate" is itself a word of the field: its negation denies nothing outside it.
        words = (m for m in self.mentions if not m.pattern and _holds(m, cue))
        return not any(scope[0] < cue[0] or m.end <= mention.start for m in words)

    def states(self, alternative: Sequence[str], *, denied: bool = False, near: bool = False) -> bool:
        """Whether the statement relates all concepts of the alternative.

        denied  the relation must be denied: one concept at least stands under a negation.
        near    the concepts must stand within a few words of one another.
        """
        if self.statement.stance in ("asked", "reported") or (
            self.statement.stance == "rejected" and not denied and not any("!" in a for a in alternative)
        ):
            return False
        if not self._stated_in((self.statement.start, self.statement.end), alternative, denied):
            return False
        windows = self._close_windows if near else self.stretches
        return any(self._stated_in(window, alternative, denied) for window in windows)

    @cached_property
    def _close_windows(self) -> list[tuple[int, int]]:
        """The stretches of NEAR words that begin at a mention and end with its list item or half sentence."""
        plain, found = self.text.plain, []
        for first, last in self.stretches:
            for start in sorted({m.start for m in self.mentions if first <= m.start < last}):
                end = start
                for word in islice(cues.WORD_OR_TWO.finditer(plain, start, last), NEAR):
                    if plain[end : word.start()].strip()[:1] == ";":
                        break
                    end = word.end()
                found.append((start, end))
        return found

    def _stated_in(self, window: tuple[int, int], alternative: Sequence[str], denied: bool) -> bool:
        some_denied = False
        for item in alternative:
            polarities = {p for option in item.split("|") for p in self._polarities(window, option.strip())}
            if not (polarities if denied else True in polarities):
                return False
            some_denied = some_denied or False in polarities
        return some_denied or not denied

    def _polarities(self, window: tuple[int, int], option: str) -> Iterator[bool]:
        """For each place where the option stands: whether as asked for (plain: not denied; `!`: denied)."""
        concept = option.removeprefix("!")
        if concept.startswith("="):
            places = [(m.start, self.denied(m)) for m in self._literals(concept[1:])]
        else:
            places = self._places.get(concept, [])
        for start, denied in places:
            if window[0] <= start < window[1]:
                yield denied == option.startswith("!")

    def _literals(self, literal: str) -> list[Mention]:
        """Where the statement names the literal: a number by its value, anything else by its letters."""
        wanted = _literal(literal)
        if len(wanted.numbers) == 1:
            number = wanted.numbers[0]
            return [
                Mention("", q.start, q.end)
                for q in self.numbers
                if number.value in (q.value, q.whole)
                and number.whole in (None, q.whole)
                and number.unit in (None, q.unit)
            ]
        letters = re.compile(rf"(?<![a-z0-9]){re.escape(wanted.plain)}(?![a-z0-9])")
        return [
            Mention("", *m.span()) for m in letters.finditer(self.text.plain, self.statement.start, self.statement.end)
        ]

    @cached_property
    def stretches(self) -> list[tuple[int, int]]:
        """Where concepts count as related: the whole statement, or single items of a list."""
        if not self.is_list and len(self._bare) < len(self._list_items):
            return [(self.statement.start, self.statement.end)]
        terse = [item for item in self._bare if self._is_terse(item)] if len(self._bare) <= LONGEST_LIST else []
        return [item for item in self._list_items if item not in self._bare or item in terse]

    @cached_property
    def is_list(self) -> bool:
        """Whether it is a list of keywords: it says so, or has more bare items than anybody speaks."""
        return (bool(self._heading) and len(self._list_items) > 2) or len(self._bare) > LONGEST_LIST

    @cached_property
    def _heading(self) -> re.Match[str] | None:
        return cues.KEYWORD_HEADING.match(self.text.plain, self.statement.start, self.statement.end)

    @cached_property
    def _list_items(self) -> list[tuple[int, int]]:
        start = self._heading.end() if self._heading else self.statement.start
        return list(_items(self.text.plain, start, self.statement.end))

    @cached_property
    def _bare(self) -> list[tuple[int, int]]:
        """The items that have no words of a sentence."""
        return [item for item in self._list_items if not self._says(item)]

    def _says(self, item: tuple[int, int]) -> bool:
        """Whether the item has the words of a sentence: a verb, small words outside the terms of the field, or many."""
        plain = self.text.plain
        if cues.PREDICATE.search(plain, *item):
            return True
        measured = any(q.unit and q.value > COUNT and item[0] <= q.start < item[1] for q in self.numbers)
        if words_in(plain[slice(*item)]) >= (SHORTEST_CLAUSE if measured else LONGEST_KEYWORD):
            return True
        words = (m.span() for m in cues.SMALL_WORD.finditer(plain, *item))
        return any(not any(m.start <= a and b <= m.end for m in self.mentions) for a, b in words)

    def _is_terse(self, item: tuple[int, int]) -> bool:
        """Whether a note without a predicate still says something: two concepts and a verb (尾部重算)."""
        places = {(m.start, m.end) for m in self.mentions if item[0] <= m.start < item[1]}
        apart = [p for p in places if not any(q != p and q[0] <= p[0] and p[1] <= q[1] for q in places)]
        return len(apart) > 1 and bool(cues.NOTE_VERB.search(self.text.plain, *item))


def mostly_keywords(read: Sequence[Reading]) -> bool:
    """Whether an answer is a list of keywords as a whole, however it is set: next to nothing in it has a verb."""
    items, bare = sum(len(r._list_items) for r in read), sum(len(r._bare) for r in read)
    return items > LONGEST_LIST and bare >= MOST_BARE * items


@dataclass(frozen=True)
class _Literal:
    plain: str
    numbers: tuple[Quantity, ...]


@lru_cache(maxsize=4096)
def _literal(literal: str) -> _Literal:
    text = normalise(literal)
    numbers = tuple(
        q for q in quantities(text) if text.plain[: q.start].strip() == "" and text.plain[q.end :].strip() == ""
    )
    return _Literal(text.plain.strip(), numbers)


def _list_marks(plain: str, start: int, end: int) -> re.Pattern[str]:
    """What separates list items here: also arrows, where they make a chain, and blanks between Chinese words."""
    if len(cues.ARROW.findall(plain, start, end)) > LONGEST_CHAIN:
        return cues.CHAIN_MARK
    particles = len(cues.PARTICLE.findall(plain, start, end))
    if particles < FEWEST_PARTICLES and len(cues.CHINESE_BLANK.findall(plain, start, end)) > 1:
        longest = max(len(run) for run in cues.CHINESE_RUN.findall(plain, start, end))
        return cues.BLANK_MARK if longest <= SHORT_WORD else cues.LIST_MARK
    return cues.LIST_MARK


def _items(plain: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    edge = start
    for match in _list_marks(plain, start, end).finditer(plain, start, end):
        if match.start() > edge and not cues.FIGURE.fullmatch(plain, edge, match.start()):
            yield edge, match.start()
        edge = match.end()
    if edge < end and plain[edge:end].strip(" .。!！") and not cues.FIGURE.fullmatch(plain, edge, end):
        yield edge, end


def _holds(mention: Mention, cue: tuple[int, int]) -> bool:
    return mention.start <= cue[0] and cue[1] <= mention.end and mention.end - mention.start > cue[1] - cue[0]


def readings(answer: str, about: frozenset[str] = frozenset()) -> list[Reading]:
    """Every statement of an answer, read. `about`: the engines spoken of before any is named."""
    text = normalise(answer)
    mentions, numbers = glossary().mentions(text), quantities(text)
    found = []
    for s in statements(text, about):
        inside = tuple(m for m in mentions if s.start <= m.start and m.end <= s.end)
        found.append(Reading(text, s, inside, tuple(q for q in numbers if s.start <= q.start < s.end)))
    return found


@lru_cache(maxsize=4096)
def example(wording: str) -> tuple[Reading, ...]:
    """A card's example sentence, read once."""
    return tuple(readings(wording))
