"""Figures that were published with the questions: shown as `recorded`, never as run here.

`recorded.yaml` holds them, with the hardware, model and commits they were measured on. A claim cites them by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from inferproof.questions.deck import DeckError, Problem, locate

SHIPPED = Path(__file__).with_name("recorded.yaml")
Unit = Literal[
    "ms", "s", "tokens", "tokens/s", "requests", "batches", "buckets", "count", "percent", "ratio", "GiB", "GB"
]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One published number."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}
    id: str
    value: int | float
    unit: Unit
    quantity: str
    """What was measured: ttft, tpot_mean, cached_tokens, preemptions..."""
    engine: Literal["vllm", "sglang"]
    section: int
    """Section of the document that the figure stands in."""
    setting: Mapping[str, str | int | bool]
    """What was set for it: mode, prompt_tokens, concurrency, pool_tokens..."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """All published figures of one document, and what they were measured on."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}
    document: str
    date: date
    hardware: Mapping[str, str | int]
    model: str
    commits: Mapping[str, str]
    """Engine -> commit."""
    figures: tuple[Figure, ...]

    def __getitem__(self, figure_id: str) -> Figure:
        """The figure with that id. Raises KeyError."""
        for figure in self.figures:
            if figure.id == figure_id:
                return figure
        raise KeyError(figure_id)


@cache
def load_recorded(file: Path = SHIPPED) -> Recorded:
    """The figures of one file. Raises DeckError with every field that is wrong."""
    import yaml
    from pydantic import TypeAdapter, ValidationError

    locate(file, ())  # raises for a file that is missing, is not YAML, or has aliases or a key twice
    data = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    try:
        recorded: Recorded = TypeAdapter(Recorded).validate_python(data)
    except ValidationError as error:
        raise DeckError([_problem(file, e["loc"], e["msg"]) for e in error.errors()]) from None
    ids = [figure.id for figure in recorded.figures]
    twice = [
        _problem(file, ("figures", i, "id"), f"'{name}' stands twice") for i, name in enumerate(ids) if name in ids[:i]
    ]
    if twice:
        raise DeckError(twice)
    return recorded


def _problem(file: Path, location: tuple[str | int, ...], message: str) -> Problem:
    return Problem(str(file), locate(file, location), ".".join(map(str, location)), message)
