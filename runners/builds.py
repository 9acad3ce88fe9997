"""Builds: which engines, in which exact form, a claim can be tried on. The list is `builds.yaml`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from inferproof.probes.core import LEVELS

HERE = Path(__file__).parent
LOCKS = HERE / "locks"
PLACEHOLDERS = HERE / "placeholders"
MAX_VALUES = 10_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_STRICT = {"extra": "forbid", "strict": True}


class BuildError(Exception):
    """A build list that is wrong (file and field are named), or a build that is not in it."""


@dataclass(frozen=True)
class Bilingual:
    """The same sentence in English and in Chinese."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    en: str
    zh: str


@dataclass(frozen=True)
class Wheel:
    """The engine's own wheel, one exact file."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    distribution: str
    version: str
    sha256: str
    without: tuple[str, ...] = ()
    """Patterns (as for a shell) of files that are not unpacked, for a wheel laid over a base."""


@dataclass(frozen=True)
class StandsToPin:
    """How a build stands to the commit that the claims were written against."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    relation: Literal["before", "after", "pinned"]
    how: Bilingual


@dataclass(frozen=True)
class Build:
    """One engine in one environment."""

    __pydantic_config__: ClassVar[Any] = _STRICT
    name: str
    engine: Literal["none", "vllm", "sglang"]
    levels: tuple[str, ...]
    """What it can run, of `probes.core.LEVELS`."""
    about: Bilingual
    python: str
    """Interpreters it was tried on, as a version specifier."""
    version: str = ""
    torch: str | None = None
    lock: str | None = None
    """File in `locks/`: every distribution besides the engine's wheel, `name==version` a line."""
    wheel: Wheel | None = None
    base: str | None = None
    """Build whose environment this one's wheel is laid over."""
    env: Mapping[str, str] = field(default_factory=dict)
    placeholders: tuple[str, ...] = ()
    """Folders of `placeholders/` that stand in for packages which the engine imports but does not need here."""
    stands_to_pin: StandsToPin | None = None
    refusal: Bilingual | None = None
    """Why `setup` does not make this build, when it does not."""
    checkout: str | None = None
    """Folder of the user's clone that this build is (see `checkout.py`); never in the list of builds.yaml."""
    default: bool = False
    """Whether `verify` uses it unasked; another build only for a claim that no default one can answer."""

    @property
    def package(self) -> str:
        """The engine's import name, `vllm` or `sglang`; empty for the host."""
        return "" if self.engine == "none" else self.engine


def load_builds() -> dict[str, Build]:
    """Every build by name: the shipped ones, then the clones that the user added. Raises BuildError."""
    from inferproof.runners.checkout import added

    return {**shipped_builds(), **added()}


@cache
def shipped_builds(path: Path = HERE / "builds.yaml") -> dict[str, Build]:
    """Every build of the file by name, in its order. Raises BuildError."""
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(Build)
    builds: dict[str, Build] = {}
    for name, fields in _document(path).items():
        if not isinstance(fields, dict):
            raise BuildError(f"{path}: {name}: expected fields, found {fields!r}")
        try:
            # through JSON, whose arrays strict mode takes for tuples
            builds[name] = adapter.validate_json(json.dumps({**fields, "name": name}), strict=True)
        except (ValidationError, TypeError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            raise BuildError(f"{path}: {'.'.join(map(str, (name, *first['loc'])))}: {first['msg']}") from error
    for build in builds.values():
        if wrong := _inconsistency(build, builds):
            raise BuildError(f"{path}: {build.name}.{wrong}")
    return builds


def find_build(name: str) -> Build:
    """The build of that name. Raises BuildError that offers the nearest names."""
    builds = load_builds()
    if name not in builds:
        near = get_close_matches(name, builds, n=3, cutoff=0.4) or list(builds)
        raise BuildError(f"there is no build '{name}'; did you mean: {', '.join(near)}?")
    return builds[name]


def _document(path: Path) -> dict[str, Any]:
    import yaml

    try:
        loader = yaml.CSafeLoader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        if node is not None and _size(node, MAX_VALUES) > MAX_VALUES:
            raise BuildError(f"{path}: holds more than {MAX_VALUES} values once its aliases are written out")
        document = loader.construct_document(node) if node is not None else None
    except OSError as error:
        raise BuildError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise BuildError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        raise BuildError(f"{path}: expected a mapping of build names")
    return document


def _size(node: Any, most: int) -> int:
    """How many values the node has with every alias written out, counted no further than past `most`."""
    count, todo = 0, [node]
    while todo and count <= most:
        value = todo.pop().value
        count += 1
        for item in value if isinstance(value, list) else ():
            todo += item if isinstance(item, tuple) else (item,)
    return count


def _inconsistency(build: Build, builds: Mapping[str, Build]) -> str | None:
    """`field: what is wrong` for what a schema cannot say, or None."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if build.checkout is not None:
        return "checkout: a clone is added by `inferproof builds add`"
    for where, names in (("name", (build.name,)), ("lock", (build.lock,)), ("placeholders", build.placeholders)):
        if wrong := [name for name in names if name is not None and not _NAME.fullmatch(name)]:
            return f"{where}: '{wrong[0]}' is not a plain name of letters, digits, '.', '_' and '-'"
    if not build.levels:
        return "levels: expected at least one level"
    if unknown := [level for level in build.levels if level not in LEVELS]:
        return f"levels: '{unknown[0]}' is not a level; levels are {', '.join(LEVELS)}"
    try:
        SpecifierSet(build.python)
    except InvalidSpecifier:
        return f"python: '{build.python}' is not a version specifier such as '>=3.11'"
    if build.base is not None and (build.base not in builds or builds[build.base].lock is None):
        return f"base: '{build.base}' is not a build with a lock of its own"
    if build.lock is not None and not (LOCKS / build.lock).is_file():
        return f"lock: there is no file {LOCKS / build.lock}"
    if missing := [name for name in build.placeholders if not (PLACEHOLDERS / name).is_dir()]:
        return f"placeholders: there is no folder {PLACEHOLDERS / missing[0]}"
    made = build.engine != "none" and build.refusal is None
    if made and (build.wheel is None or (build.lock is None) == (build.base is None)):
        return "wheel: an engine's build needs a wheel, and either a lock or a base"
    if build.wheel is not None and len(build.wheel.sha256) != 64:
        return "wheel.sha256: expected 64 hexadecimal digits"
    return None
