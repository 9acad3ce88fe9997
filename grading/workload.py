"""Workloads to predict: kinds of question over the probes, drawn from a seed so that they never run out.

A kind names a probe, how its parameters are drawn, what of its observations is asked, and the words around
them. It holds no answer: what the engine will do is known only when the probe has run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any, Literal

Language = Literal["en", "zh"]
Values = Mapping[str, Any]

CONTROL, ENGINE, COMPONENT = "control", "engine", "component"
LONGEST_LIST = 8


@dataclass(frozen=True)
class Said:
    """A sentence in both languages, with parameters and observations by name in braces."""

    en: str
    zh: str
    when: Callable[[Values], bool] | None = None
    """The values for which it is said; None: always."""

    def of(self, language: Language, values: Values) -> str:
        """The sentence with the values put in."""
        template = self.zh if language == "zh" else self.en
        return template.format_map({name: shown(value, language) for name, value in values.items()})


@dataclass(frozen=True)
class Ask:
    """What is to be predicted: an observation, or an item of one."""

    observation: str
    en: str
    zh: str
    at: int | None = None
    """Which item, where the observation is a list."""
    near: int | str = 0
    """Off by no more than this, a number or a parameter's name, earns half."""
    share: float = 0.0
    """The same as a share of the observed value."""
    decimals: int = 0
    """Digits behind the point that an exact prediction needs."""

    @property
    def name(self) -> str:
        """The observation as evidence has it, `steps` or `steps[1]`."""
        return self.observation if self.at is None else f"{self.observation}[{self.at}]"

    def observed(self, observations: Values) -> float:
        """The observed value; a counter's 3.0 is 3."""
        value = observations[self.observation]
        number = value if self.at is None else value[self.at]
        return int(number) if float(number).is_integer() else float(number)


@dataclass(frozen=True)
class Kind:
    """One kind of question."""

    id: str
    probe: str
    level: str
    draw: Callable[[random.Random], dict[str, Any]]
    workload: tuple[Said, ...]
    asks: tuple[Ask, ...]
    why: tuple[Said, ...]
    """How the value comes about, told by what else the same run observed."""

    @property
    def engine(self) -> str:
        """`vllm` or `sglang`, as in the id."""
        return self.id.partition("-")[0]


@dataclass(frozen=True)
class Question:
    """A workload that was drawn, and what is asked of it."""

    number: int
    kind: Kind
    params: Values
    ask: Ask

    @property
    def engine(self) -> str:
        """The engine that will answer."""
        return self.kind.engine

    @property
    def tolerance(self) -> float:
        """Off by no more than this earns half, where it does not depend on the observed value."""
        near = self.ask.near
        return float(self.params[near] if isinstance(near, str) else near)

    def workload(self, language: Language) -> list[str]:
        """What will be run, a sentence a line."""
        return _said(self.kind.workload, language, self.params)

    def asks(self, language: Language) -> str:
        """What is to be predicted."""
        return Said(self.ask.en, self.ask.zh).of(language, self.params)

    def why(self, language: Language, values: Values) -> list[str]:
        """How the value came about, from all parameters and observations of the run."""
        return _said(self.kind.why, language, values)


def _said(sentences: Sequence[Said], language: Language, values: Values) -> list[str]:
    return [s.of(language, values) for s in sentences if s.when is None or s.when(values)]


def all_kinds() -> list[Kind]:
    """Every kind of question."""
    from inferproof.grading.workloads import cache, memory, scheduling, search

    return [kind for topic in (cache, memory, scheduling, search) for kind in topic.KINDS]


def questions(seed: int, engines: Sequence[str]) -> Iterator[Question]:
    """Questions without end: every kind once, in a shuffled order, with fresh parameters; then again."""
    kinds = [kind for kind in all_kinds() if kind.engine in engines]
    number = count(1)
    for turn in count():
        for kind in random.Random(f"{seed}/{turn}").sample(kinds, len(kinds)):
            chance = random.Random(f"{seed}/{turn}/{kind.id}")
            yield Question(next(number), kind, kind.draw(chance), chance.choice(kind.asks))


def around(chance: random.Random, block: int, longest: int) -> int:
    """A length; every other time a whole number of blocks, or one more or less."""
    if chance.random() < 0.5:
        return chance.randrange(block // 2, longest)
    return block * chance.randrange(1, longest // block) + chance.choice((0, 0, 1, -1))


def shown(value: Any, language: Language) -> str:
    """A value in a sentence: `2047 ×3, 1027` for equal ones in a row, long lists cut."""
    if isinstance(value, bool):
        return {"en": ("no", "yes"), "zh": ("否", "是")}[language][value]
    if isinstance(value, list | tuple):
        runs = [(shown(one, language), len(list(same))) for one, same in groupby(value)]
        parts = [f"{one} ×{times}" if times > 1 else one for one, times in runs]
        if len(parts) > LONGEST_LIST:
            parts = [*parts[: LONGEST_LIST - 2], "…", parts[-1]]
        return ("、" if language == "zh" else ", ").join(parts) or {"en": "none", "zh": "无"}[language]
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.4g}"
    return str(value)
