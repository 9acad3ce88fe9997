"""A profile: published experiments as data: servers, cells, the number beside each figure, and relations.

The file names probes by strings, as cards do, and figures of `recorded.yaml` by their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from inferproof.questions.card import Text
from inferproof.questions.deck import DeckError, Problem, locate

SHIPPED = {"a100": Path(__file__).with_name("a100.yaml")}
_STRICT = {"extra": "forbid"}
Value = str | int | float | list[int]


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server that cells ask."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    engine: Literal["vllm", "sglang"]
    settings: str
    rehearsed: str | None = None
    """The settings that stand in for them on a CPU; None where nothing can."""
    not_rehearsed: str = ""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measurement."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    server: str
    probe: str
    params: Mapping[str, Value] = field(default_factory=dict)
    rehearsed: Mapping[str, Value] = field(default_factory=dict)
    """Parameters that replace its own in the rehearsal."""
    not_rehearsed: str = ""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The number that stands beside a published figure: a CEL expression over the observations of cells."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    value: str
    not_rehearsed: str = ""


@dataclass(frozen=True, kw_only=True)
class Relation:
    """What the published figures say that holds on other machines too: an order or a ratio, never a time."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    says: Text
    expect: str
    recorded: tuple[str, ...]
    """Figures that it rests on."""
    not_rehearsed: str = ""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """All of it. A `not_rehearsed` is a key of `reasons`."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    name: str
    model: str
    rehearsal_model: str
    reasons: Mapping[str, Text]
    sections: Mapping[int, Text]
    """What each section of the document measures."""
    rehearsed: Text
    """How the rehearsal differs from it."""
    servers: Mapping[str, Served]
    cells: Mapping[str, Cell]
    figures: Mapping[str, Beside]
    """By the published figure's id."""
    relations: Mapping[str, Relation]


@cache
def load_profile(file: Path) -> Profile:
    """The profile of a file. Raises DeckError with every field that is wrong."""
    import yaml
    from pydantic import TypeAdapter, ValidationError

    locate(file, ())  # raises for a file that is missing, is not YAML, or has aliases or a key twice
    data = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    if isinstance(data, dict) and isinstance(data.get("figures"), dict):  # the short form: only the expression
        data["figures"] = {k: {"value": v} if isinstance(v, str) else v for k, v in data["figures"].items()}
    try:
        profile: Profile = TypeAdapter(Profile).validate_python(data)
    except ValidationError as error:
        raise DeckError([_problem(file, e["loc"], e["msg"]) for e in error.errors()]) from None
    if wrong := list(_unknown(profile, file)):
        raise DeckError(wrong)
    return profile


def _unknown(profile: Profile, file: Path) -> list[Problem]:
    """Names that stand for nothing."""
    given = [("servers", name, served.not_rehearsed) for name, served in profile.servers.items()]
    given += [("cells", name, cell.not_rehearsed) for name, cell in profile.cells.items()]
    given += [("figures", name, beside.not_rehearsed) for name, beside in profile.figures.items()]
    given += [("relations", name, relation.not_rehearsed) for name, relation in profile.relations.items()]
    reasons = [
        _problem(file, (part, name, "not_rehearsed"), f"'{reason}' is not among the reasons")
        for part, name, reason in given
        if reason and reason not in profile.reasons
    ]
    servers = [
        _problem(file, ("cells", name, "server"), f"'{cell.server}' is not among the servers")
        for name, cell in profile.cells.items()
        if cell.server not in profile.servers
    ]
    return [*reasons, *servers]


def _problem(file: Path, location: tuple[str | int, ...], message: str) -> Problem:
    return Problem(str(file), locate(file, location), ".".join(map(str, location)), message)
