"""Statements: what an answer asserts, about which engine, and what in it is denied.

An answer is cut into sentences, sentences into clauses, and neighbouring clauses that speak of the same engine in the
same stance are one statement again. Only cue words decide (see cues.py); nothing here knows a card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Literal

from inferproof.grading import cues
from inferproof.grading.text import Text

Stance = Literal["asserted", "asked", "reported", "rejected"]
"""asked: a question or an instruction; reported: what others say, or once was; rejected: said to be wrong."""
ENGINES = ("vllm", "sglang")
BOTH = frozenset(ENGINES)
LONGEST = 90
"""Words of one statement; unpunctuated speech is cut there (a Chinese character counts as half a word)."""

SPEECH = 40
"""Words of a sentence from which on it is speech, if it has next to no punctuation."""

MARKED = 25
"""Words for which written text has a comma at least."""

HEADING = 4
"""Words up to which what stands before a colon is a heading, which speaks of what follows."""

QUOTED = 2.5
"""Words in quotation marks from which on they are what others say, rather than a name."""

_EDGE = 3
"""Characters of a clause that may stand outside of its quotation marks: these, a blank, a comma."""

LONGEST_REJECTED = 30
"""Words of a clause that is rejected as a whole; in speech without punctuation a negation reaches less far."""

SHORTEST = 7
"""Words of a breath at the least."""

LONGEST_SCOPE = 16
"""Words (two Chinese characters are one) that a negation reaches; speech without punctuation has no other end."""

LONGEST_SUBJECT = 10
"""The same backwards, where the subject is what is denied ("queueing is not involved")."""


@dataclass(frozen=True, kw_only=True)
class Denial:
    """A negation: its cue word, and what it denies, both as [start, end) of the normalised text."""

    cue: tuple[int, int]
    scope: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement, at [start, end) of the normalised text."""

    start: int
    end: int
    engines: frozenset[str]
    """The engines it speaks about; empty where none has been named so far."""
    named: bool
    """Whether the engine is named in its sentence rather than carried over."""
    stance: Stance
    hedged: bool
    denials: tuple[Denial, ...]


@dataclass
class _Clause:
    start: int
    end: int
    stance: Stance = "asserted"
    engines: frozenset[str] | None = None
    """None until `_Speaking` assigned it, or where the clause names none."""
    named: bool = False
    spoken: bool = False
    """Whether it is one breath of a long clause: what others say, or a question, goes no further than that."""


def statements(text: Text, about: frozenset[str] = frozenset()) -> list[Statement]:
    """The statements of a text, in order.

    about  the engines that are spoken of before any is named (those of the question).
    """
    plain, speaking, sentences = text.plain, _Speaking(about), list[list[_Clause]]()
    quoted = [m.span(1) for m in cues.QUOTED.finditer(plain) if words_in(m[1]) >= QUOTED]
    for match in cues.SENTENCE.finditer(plain):
        clauses = list(_clauses(plain, match.start(), match.end()))
        _take_stances(plain, clauses, quoted)
        if sentences and cues.REJECTS_BACK.match(match.group()):
            for clause in sentences[-1]:
                clause.stance = "rejected"
        elif sentences and cues.DISMISSED.fullmatch(match.group()):
            if reported := [clause for clause in sentences[-1] if clause.stance == "reported"]:
                for clause in (*reported, *clauses):
                    clause.stance = "rejected"
        elif sentences and cues.TURNS_BACK.match(match.group()):
            for clause in sentences[-1]:
                clause.stance = "rejected" if clause.stance == "reported" else clause.stance
        speaking.assign(plain, clauses)
        sentences.append(clauses)
    denials = list(_denials(plain))
    return [statement for clauses in sentences for statement in _merged(plain, clauses, denials)]


def _clauses(plain: str, start: int, end: int) -> Iterator[_Clause]:
    """The sentence's clauses: cut at commas and conjunctions, and where it turns from one engine to the other."""
    cuts = {start, end}
    brackets = [m.span() for m in cues.IN_BRACKETS.finditer(plain, start, end)]
    ends = (m.end() for m in cues.CLAUSE_END.finditer(plain, start, end))
    cuts.update(cut for cut in ends if not any(a < cut < b for a, b in brackets))
    mentions = [m for m in cues.ENGINE.finditer(plain, start, end) if not _contrasted(plain, m)]
    for one, other in pairwise(mentions):
        if one.lastgroup != other.lastgroup and not cues.CONNECTED.fullmatch(plain, one.end(), other.start()):
            switches = list(cues.SWITCH.finditer(plain, one.end(), other.start()))
            if switches or not any(a < other.start() < b for a, b in brackets):
                cuts.add(switches[-1].start() if switches else other.start())
    spoken = _is_speech(plain, start, end)
    for a, b in pairwise(sorted(cuts)):
        for c, d in pairwise(breath_edges(plain, a, b)) if spoken else [(a, b)]:
            yield _Clause(c, d, spoken=spoken)


def _is_speech(plain: str, start: int, end: int) -> bool:
    """Whether a sentence is written down as it was spoken: long, with next to no punctuation."""
    words = words_in(plain[start:end])
    return words >= SPEECH and MARKED * len(cues.MARK.findall(plain, start, end)) < words


def breath_edges(plain: str, start: int, end: int, shortest: int = SHORTEST) -> list[int]:
    """Where a long stretch of words is cut into the breaths in which it is spoken, both ends included.

    shortest  words of a breath at the least; a shorter one goes with what follows.
    """
    edges = [start]
    for place in (m.start() for m in cues.BREATH.finditer(plain, start, end)):
        if words_in(plain[edges[-1] : place]) >= shortest:
            edges.append(place)
    if len(edges) > 1 and words_in(plain[edges[-1] : end]) < shortest:
        edges.pop()
    return [*edges, end]


def _contrasted(plain: str, engine: re.Match[str]) -> bool:
    """Whether the engine is only named to compare with ("unlike vLLM")."""
    before = max(0, engine.start() - 24), engine.start()
    return bool(
        cues.CONTRAST_BEFORE.search(plain, *before)
        or (cues.CONTRAST_AFTER.match(plain, engine.end()) and cues.CONTRASTED_WITH.search(plain, *before))
    )


def _take_stances(plain: str, clauses: list[_Clause], quoted: Sequence[tuple[int, int]]) -> None:
    """Set the stance of each clause of one sentence. `quoted`: where words stand in quotation marks."""
    start, end = clauses[0].start, clauses[-1].end
    orders = cues.INSTRUCTION.match(plain, start, end)
    if not orders:  # in speech only the last breath asks, in writing only what stands behind a colon or the like
        marks = (plain.rfind(mark, start, end) for mark in ";:")
        start = clauses[-1].start if clauses[-1].spoken else max(start, *marks)
    asks = cues.QUESTION.search(plain, start, end) and not cues.TAG_QUESTION.search(plain, start, end)
    if orders or asks:
        for clause in clauses:
            clause.stance = "asked" if clause.start >= start else clause.stance
        clauses = [clause for clause in clauses if clause.start < start]
    stance: Stance = "asserted"
    since = 0  # first clause after the last turn ("but", "actually")
    for i, clause in enumerate(clauses):
        if clause.spoken:
            stance, since = "asserted", max(since, i - 1)
        if i > since and _begins_anew(plain, clauses[i - 1], clause, stance):
            stance, since = "asserted", i
        if (
            (turn := cues.TURN.search(plain, clause.start, clause.end))
            and turn.start() - clause.start < 12
            and i > since
        ):
            if stance == "reported":  # "people say A, but B": the turn speaks against A
                for said in clauses[since:i]:
                    said.stance = "rejected"
            stance, since = "asserted", i
        if stance != "asserted" and cues.DISMISSED.fullmatch(plain, clause.start, clause.end):
            for said in clauses[since : i + 1]:
                said.stance = "rejected"
            stance, since = "asserted", i + 1
            continue
        if _quoted_whole(quoted, clause):
            clause.stance = stance = "reported"
            continue
        if i and _quoted_whole(quoted, clauses[i - 1]):
            stance = "asserted"
        if cues.UNSURE.search(plain, clause.start, clause.end):
            clause.stance = "asked"
            continue
        reports = cues.REPORTED.search(plain, clause.start, clause.end)
        if reports and not cues.AGAINST_OTHERS.search(plain, clause.start, clause.end):
            stance = "reported"
        if past := cues.PAST.search(plain, clause.start, clause.end):
            for said in clauses[since : i + 1]:
                said.stance = "reported"
            stance = "reported"
            if cues.TURN.search(plain, past.end(), clause.end):  # "the paper's fork is gone today"
                stance, since = "asserted", i + 1
                continue
        rejects = _rejects(plain, clause)
        if rejects is not None:
            for said in clauses[since if rejects == "back" else i : i + 1]:
                said.stance = "rejected"
            stance = "rejected" if rejects == "ahead" else "asserted"
            since = i + 1 if rejects == "back" else since
            continue
        clause.stance = stance


def _quoted_whole(quoted: Sequence[tuple[int, int]], clause: _Clause) -> bool:
    """Whether a clause stands in quotation marks as a whole, but for these and what ends it."""
    return any(start <= clause.start + _EDGE and clause.end - _EDGE <= end for start, end in quoted)


def _rejects(plain: str, clause: _Clause) -> Literal["itself", "ahead", "back"] | None:
    """Whether and of what a clause says that it is wrong: what it says itself, what follows, or what went before."""
    rejection = cues.REJECTED.search(plain, clause.start, clause.end)
    if rejection is None or cues.NOT_REJECTED.search(plain, clause.start, clause.end):
        return None
    if clause.spoken and cues.CORRECTS_HIMSELF.search(plain, clause.start, clause.end):
        return None
    one = cues.REJECTS_ONE.match(plain, rejection.start(), clause.end)
    if one or cues.OWN_SUBJECT.search(plain, clause.start, rejection.start()):
        return "itself" if words_in(plain[clause.start : clause.end]) <= LONGEST_REJECTED else None
    return "ahead" if cues.REJECTS_AHEAD.search(plain, rejection.start(), clause.end) else "back"


def _begins_anew(plain: str, before: _Clause, clause: _Clause, stance: Stance) -> bool:
    """Whether what was said to be wrong, or what others say, ends before this clause."""
    mark = plain[: clause.start].rstrip()[-1:]
    if stance == "rejected":
        if mark in ":：" and words_in(plain[before.start : before.end]) < HEADING:
            return False  # "Myth: ..."
        return mark in ";；:：—" or bool(cues.GOES_ON.match(plain, clause.start, clause.end))
    answered = cues.DISMISSED.fullmatch(plain, clause.start, clause.end) or cues.TURNS_BACK.match(plain, clause.start)
    return stance == "reported" and mark in ";；" and not answered


@dataclass
class _Speaking:
    """Which engine is being spoken of, carried from clause to clause."""

    current: frozenset[str]
    order: list[str] = field(default_factory=list)
    """Engines in the order in which they were last named: the former and the latter."""

    def assign(self, plain: str, clauses: list[_Clause]) -> None:
        """Set the engines of each clause of one sentence."""
        named = [self._named(plain, clause) for clause in clauses]
        first = next((engines for engines in named if engines), None)
        if first is not None:
            self.current = first  # clauses before the name speak of it too: "since blocks are whole, vLLM ..."
        for clause, engines in zip(clauses, named, strict=True):
            self.current = engines or self.current
            clause.engines, clause.named = self.current, first is not None

    def _named(self, plain: str, clause: _Clause) -> frozenset[str] | None:
        if unknown := cues.UNFAMILIAR.search(plain, clause.start, clause.end):
            return BOTH - {str(m.lastgroup) for m in cues.ENGINE.finditer(plain, *unknown.span())} or None
        found: set[str] = set()
        for mention in cues.ENGINE.finditer(plain, clause.start, clause.end):
            engine = str(mention.lastgroup)
            self.order = [e for e in self.order if e != engine] + [engine]
            if not _contrasted(plain, mention):
                found.add(engine)
        if cues.BOTH.search(plain, clause.start, clause.end):
            found |= BOTH
        if len(self.order) == 2 and not found:
            if cues.FORMER.search(plain, clause.start, clause.end):
                found.add(self.order[0])
            elif cues.LATTER.search(plain, clause.start, clause.end):
                found.add(self.order[1])
        if len(self.current) == 1 and not found and cues.OTHER.search(plain, clause.start, clause.end):
            found |= BOTH - self.current
        return frozenset(found) or None


def _merged(plain: str, clauses: list[_Clause], denials: Iterable[Denial]) -> Iterator[Statement]:
    """One statement for each run of clauses of equal engine and stance."""
    run: list[_Clause] = []
    words = 0.0
    for clause in clauses:
        words += words_in(plain[clause.start : clause.end])
        if run and ((clause.engines, clause.stance) != (run[0].engines, run[0].stance) or words > LONGEST):
            yield _statement(plain, run, denials)
            run, words = [], words_in(plain[clause.start : clause.end])
        run.append(clause)
    yield _statement(plain, run, denials)


def _statement(plain: str, run: list[_Clause], denials: Iterable[Denial]) -> Statement:
    start, end = run[0].start, run[-1].end
    return Statement(
        start=start,
        end=end,
        engines=run[0].engines or frozenset(),
        named=run[0].named,
        stance=run[0].stance,
        hedged=bool(cues.HEDGE.search(plain, start, end)),
        denials=tuple(d for d in denials if d.scope[0] < end and d.scope[1] > start),
    )


def words_in(plain: str) -> float:
    """Words of a text; a Chinese character counts as half a word."""
    return len(cues.WORD.findall(plain)) + 0.5 * len(cues.CHINESE.findall(plain))


def _denials(plain: str) -> Iterator[Denial]:
    """Every negation of the text with its scope."""
    for cue in cues.NEGATION.finditer(plain):
        if (
            cue.lastgroup == "chinese"
            and cue.start() > 0
            and plain[cue.start() - 1] == plain[cue.end() : cue.end() + 1]
        ):
            continue  # 是不是, 会不会
        if passive := cues.PASSIVE.match(plain, cue.end()):
            yield Denial(cue=cue.span(), scope=(_clause_start(plain, cue.start()), passive.end()))
            continue
        end = _scope_end(plain, cue.end())
        if cue.lastgroup == "short":
            end = min(
                end,
                next(
                    (
                        m.end() if m.end() > m.start() + 8 else m.start()
                        for m in cues.SHORT_END.finditer(plain, cue.end())
                    ),
                    end,
                ),
            )
        if cue.lastgroup == "noun" and (of := plain.find("的", cue.end(), end)) >= 0:
            end = of  # 没有命中的部分要重算 denies the hit only
        yield Denial(cue=cue.span(), scope=(cue.start(), end))


def _scope_end(plain: str, start: int) -> int:
    """Where what is denied ends: at a mark or a conjunction, and after so many words at the latest."""
    if plain[start : start + 1] in cues.MARKS:
        return start
    words = islice(cues.WORD_OR_TWO.finditer(plain, start), LONGEST_SCOPE)
    latest = max((m.end() for m in words), default=len(plain))
    return next((m.start() for m in cues.SCOPE_END.finditer(plain, start, latest) if m.start() > start), latest)


def _clause_start(plain: str, position: int) -> int:
    start = max(plain.rfind(mark, 0, position) for mark in ",，.。;；:：\n!?！？") + 1
    words = [m.start() for m in cues.WORD_OR_TWO.finditer(plain, start, position)]
    start = words[-LONGEST_SUBJECT] if len(words) > LONGEST_SUBJECT else start
    if start > 1 and position - start < 6:  # "..., 这里都没有发生" speaks of the clause before
        return _clause_start(plain, start - 1)
    return start
