"""What a card is. Frozen dataclasses; `deck.py` reads them from YAML and validates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Kind = Literal["mechanism", "source", "arithmetic", "performance", "judgement"]
Language = Literal["en", "zh"]
_STRICT: Any = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Text:
    """The same words in both languages."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    en: str
    zh: str

    def of(self, language: Language) -> str:
        """The text in that language."""
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True, kw_only=True)
class Stated:
    """How an answer states a claim, so that its number can be compared with the observed one."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    when: tuple[tuple[str, ...], ...]
    """Alternatives; each lists concepts that must all stand in one statement (see the glossary)."""
    about: str | None = None
    """Engine that the statement must speak of."""
    value: str | None = None
    """Observation that a number in the statement is compared with."""
    unit: str | None = None
    """Unit of that number as the grader reads it: tokens, requests, ms, percent, ratio, count..."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Probe parameter -> unit, for parameters that the answer may set itself (a 1040-token prompt). A claim that is
    arithmetic is then computed again with the answer's own."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One checkable sentence."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    says: Text
    kind: Kind
    probe: str | None = None
    """`module.function`; absent for judgement claims and for figures that are only recorded."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """The probe's parameters (`with` in YAML); `engine` chooses the engine."""
    expect: str | None = None
    """CEL predicate over the probe's observations."""
    level: str | None = None
    """Lowest level at which the claim may be proven; absent: any level the probe has."""
    versions: str | None = None
    """PEP 440 specifier of the engine versions that the claim speaks of; absent: all."""
    recorded: tuple[str, ...] = ()
    """Ids of figures in `recorded.yaml` that were published about this claim."""
    reason: Text | None = None
    """Why no probe can decide it (judgement claims)."""
    note: Text | None = None
    """What a reader must know besides: where the engine contradicts the document, what the CPU cannot show."""
    stated: Stated | None = None

    @property
    def engine(self) -> str:
        """The engine that the probe drives, "none" where it drives none."""
        return str(self.params.get("engine", "none"))

    @property
    def probe_params(self) -> dict[str, Any]:
        """`params` without the choice of engine."""
        return {k: v for k, v in self.params.items() if k != "engine"}


@dataclass(frozen=True, kw_only=True)
class Idea:
    """One thing an answer must state to earn (part of) a point."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    id: str
    states: tuple[tuple[str, ...], ...]
    """Alternatives; each lists concepts (`a|b` for either) that must stand in one statement."""
    about: str | None = None
    """Engine the statement must speak of, if the idea is about one engine."""
    denied: bool = False
    """True where the right statement is a denial ("does not fork")."""


@dataclass(frozen=True, kw_only=True)
class EvidenceOf:
    """What an answer must say to earn a rubric point."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    ideas: tuple[Idea, ...]
    full: int | None = None
    """How many ideas earn the full award (absent: all); at least half of that earns half."""


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Sentences that must earn the point in full, and sentences that must earn nothing."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    earn: Mapping[Language, tuple[str, ...]]
    earn_nothing: Mapping[Language, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class RubricPoint:
    """One criterion of the 10-point rubric."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    id: str
    points: int
    criterion: Text
    claims: tuple[str, ...] = ()
    evidence_of: EvidenceOf
    examples: Examples
    prompt: Text | None = None
    """What a drill asks for this step; a card whose points all have one is asked step by step."""


@dataclass(frozen=True, kw_only=True)
class Misconception:
    """A wrong sentence that people really say."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    id: str
    says: Text
    refuted_by: tuple[str, ...]
    instead: Text
    """What is true instead, in one sentence."""
    stated: Stated
    examples: Mapping[Language, tuple[str, ...]]
    """Wordings that must be recognised."""
    unless: tuple[str, ...] = ()
    """Rubric points: an answer that touches on every one of them has backed the sentence, and may say it."""


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """A paragraph of the model answer and the claims it rests on."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    text: Text
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Followup:
    """A question that presses further, with what a good answer says."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    id: str
    question: Text
    criterion: Text
    claims: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Rubric points whose absence makes this the next question to ask."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the question comes from."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    document: str
    section: int | str


@dataclass(frozen=True, kw_only=True)
class Card:
    """One interview question with everything needed to ask, grade and prove it."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    id: str
    title: Text
    question: Text
    claims: Mapping[str, Claim]
    rubric: tuple[RubricPoint, ...]
    misconceptions: tuple[Misconception, ...]
    answer: tuple[Paragraph, ...]
    followups: tuple[Followup, ...]
    source: Source
    collection: str = ""
    """Folder of the card's file; set by the deck."""
    file: str = ""
    """The card's file; set by the deck."""
