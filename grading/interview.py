"""A mock interview: questions, and follow-ups chosen by what the answers so far left out or got wrong.

It asks through a function it is given and holds what was said, so that one that is broken off is worth what it got to.
Nothing slow is imported before the first answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from inferproof.questions.headings import Heading, vars_of

if TYPE_CHECKING:
    from inferproof.grading.result import Finding, Grade
    from inferproof.questions.card import Card, Text

FOLLOWUPS = 2
"""Asked after a question at most."""

_CHALLENGE = {
    "en": "You said: “{span}”. Suppose we run exactly that on the real engine. What do you expect to see, and why?",
    "zh": "你刚才说：“{span}”。假如就按这个场景在真实引擎上跑一遍，你预计会看到什么？为什么？",
}
_OF_LAYER = {
    "semantics": {
        "en": "You have not said what the client is promised. What of the output may this change, and what not?",
        "zh": "你还没有讲对用户的承诺：因为这个机制，输出里什么可以变，什么不能变？",
    },
    "logical state": {
        "en": "You have not said how far each request has come. Which tokens count as computed or committed, and when?",
        "zh": "你还没有讲每个请求推进到哪里：哪些 token 算已计算或已提交，从什么时候起算？",
    },
    "physical resources": {
        "en": "You have not spoken of memory. Who owns the KV blocks here, and when may they be freed or used again?",
        "zh": "你还没有讲显存：涉及的 KV 块归谁所有，什么时候可以释放或复用？",
    },
    "execution": {
        "en": "You have not said who runs what. What does the scheduler decide in each step here, and in which order?",
        "zh": "你还没有讲谁在跑什么：调度器在每一步里决定什么，按什么顺序？",
    },
    "performance": {
        "en": "You have not said what it costs. Which latency or throughput figure moves, which way, and at what load?",
        "zh": "你还没有讲代价：哪个延迟或吞吐指标会变，往哪个方向变，在什么负载下变？",
    },
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question as it is put."""

    id: str
    """The card's id for its own question; for a follow-up its id, `challenge` or the layer asked for."""
    card: str
    question: Mapping[str, str]
    """In both languages."""
    points: tuple[str, ...] = ()
    """The rubric points that a follow-up presses on."""
    good: Text | None = None
    """What a good answer says, where the card tells it."""
    challenges: Finding | None = None
    """The statement that it takes up."""


class Times(NamedTuple):
    """Clock readings, as of `time.monotonic`."""

    question: float
    """When this question began, its follow-ups included."""
    enough: float
    """When it has had its share of the time."""
    end: float
    """When the interview is over."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One answer."""

    asked: Asked
    answer: str
    seconds: float
    grade: Grade
    """Of everything said to the question so far."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its follow-ups, as far as they were answered; the first turn answers the question itself."""

    card: Card
    turns: tuple[Turn, ...]

    @property
    def first(self) -> Grade:
        """The grade before any follow-up."""
        return self.turns[0].grade

    @property
    def last(self) -> Grade:
        """The grade with all that the follow-ups brought out."""
        return self.turns[-1].grade

    @property
    def seconds(self) -> float:
        """Time taken, follow-ups included."""
        return sum(turn.seconds for turn in self.turns)


Ask = Callable[[Asked, Times], str | None]
"""Puts a question and gives the answer; None where there will be none: the input ended, or the time was up."""


@dataclass(kw_only=True)
class Interview:
    """An interview; `questions` holds what was answered so far."""

    headings: Sequence[Heading]
    """What to ask, in this order."""
    card: Callable[[str], Card]
    grade: Callable[[Card, str], Grade]
    keep: Callable[[Turn], object]
    """Told of each answer once it is graded."""
    minutes: float
    clock: Callable[[], float] = time.monotonic
    questions: list[Question] = field(default_factory=list)
    seconds: float = 0.0

    def hold(self, ask: Ask) -> None:
        """Ask until everything was asked, the time is up or there are no more answers."""
        begun = self.clock()
        end = begun + 60 * self.minutes
        try:
            for number, heading in enumerate(self.headings):
                now = self.clock()
                times = Times(now, now + (end - now) / (len(self.headings) - number), end)
                if now >= end or not self._question(heading, times, ask):
                    return
        finally:
            self.seconds = min(self.clock(), end) - begun

    def _question(self, heading: Heading, times: Times, ask: Ask) -> bool:
        """Ask one question and its follow-ups; whether to go on with the next."""
        asked: Asked | None = Asked(id=heading.id, card=heading.id, question=heading.question)
        turns: tuple[Turn, ...] = ()
        said: list[str] = []
        while asked:
            begun = self.clock()
            answer = ask(asked, times)
            seconds = self.clock() - begun
            if answer is None:
                return False
            card = self.card(heading.id)
            if asked.challenges and _takes_back(asked.challenges, asked.points, self.grade(card, answer)):
                said = [text.replace(asked.challenges.span, "") for text in said]
            said.append(answer)
            turn = Turn(asked=asked, answer=answer, seconds=seconds, grade=self.grade(card, "\n".join(said)))
            self.keep(turn)
            self.questions[len(self.questions) - bool(turns) :] = [Question(card=card, turns=(*turns, turn))]
            turns = (*turns, turn)
            enough = len(turns) > FOLLOWUPS or self.clock() >= times.enough
            asked = None if enough else followup(card, turns)
        return True


def followup(card: Card, turns: Sequence[Turn]) -> Asked | None:
    """The next follow-up: on a wrong statement, else on a missed point, else on a layer that was not touched.

    Where the question itself was skipped there is nothing to press on.
    """
    if not turns[0].answer.strip():
        return None
    put = {turn.asked.id for turn in turns}
    return next((asked for asked in _candidates(card, turns) if asked.id not in put), None)


def _candidates(card: Card, turns: Sequence[Turn]) -> Iterator[Asked]:
    from inferproof.grading.layers import LAYERS

    grade = turns[-1].grade
    for finding in grade.findings:
        if is_wrong(finding):
            span = " ".join(finding.span.split()).rstrip(".。")
            text = {language: words.format(span=span) for language, words in _CHALLENGE.items()}
            points = tuple(p.id for p in card.rubric if finding.claim in p.claims)
            yield Asked(id="challenge", card=card.id, question=text, points=points, challenges=finding)
    lost = {p.point: p.points * (1 - p.award) for p in grade.points}
    for f in sorted(card.followups, key=lambda f: -sum(lost.get(p, 0) for p in f.after)):
        if any(lost.get(p) for p in f.after):
            yield Asked(id=f.id, card=card.id, question=vars_of(f.question), points=f.after, good=f.criterion)
    for layer in LAYERS:
        if layer not in grade.layers:
            yield Asked(id=layer, card=card.id, question=_OF_LAYER[layer])


def is_wrong(finding: Finding) -> bool:
    """Whether the evidence, or a known misconception where there is no evidence here, speaks against it."""
    return finding.verdict == "contradicted" or finding.misconception is not None


def _takes_back(wrong: Finding, points: Sequence[str], alone: Grade) -> bool:
    """Whether an answer, graded by itself, says what is right instead of the wrong statement, and not that again."""
    of_claim = [f for f in alone.findings if f.claim == wrong.claim]
    right = any(f.verdict == "supported" for f in of_claim) or any(p.award for p in alone.points if p.point in points)
    return right and not any(map(is_wrong, of_claim))
