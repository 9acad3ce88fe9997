"""Two trees of one engine against each other: the symbols that probes cover, and file by file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from inferproof.runners import environment
from inferproof.runners.builds import find_build, load_builds
from inferproof.runners.symbols import Tree, TreeError, tree_of

State = Literal["equal", "differs", "missing"]


@dataclass(frozen=True)
class Compared:
    """One covered symbol in both trees."""

    symbol: str
    state: State
    missing_in: tuple[str, ...] = ()
    """Names of the trees that do not define it."""


@dataclass(frozen=True)
class Files:
    """All `.py` files of both trees by their bytes."""

    equal: int
    differ: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """What two trees have in common."""

    a: str
    b: str
    engine: str
    symbols: tuple[Compared, ...]
    files: Files

    def count(self, state: State) -> int:
        """How many symbols are in that state."""
        return sum(c.state == state for c in self.symbols)


def audit(a: Tree, b: Tree, symbols: Iterable[str]) -> Audit:
    """Compare the symbols of the engine, and all files. Raises TreeError where the trees are of two engines."""
    if a.engine != b.engine:
        raise TreeError(f"{a.name} is {a.engine} and {b.name} is {b.engine}: there is nothing to compare")
    own = sorted({s for s in symbols if s.startswith(f"{a.engine}.")})
    return Audit(a.name, b.name, a.engine, tuple(compare(a, b, s) for s in own), _compare_files(a, b))


def compare(a: Tree, b: Tree, symbol: str) -> Compared:
    """One symbol in both trees."""
    in_a, in_b = a.hash_of(symbol), b.hash_of(symbol)
    if missing := tuple(t.name for t, found in ((a, in_a), (b, in_b)) if found is None):
        return Compared(symbol, "missing", missing)
    return Compared(symbol, "equal" if in_a == in_b else "differs")


def same_code(a: Tree, b: Tree, symbols: Iterable[str]) -> bool:
    """Whether all the symbols are defined, and equally, in both trees; never so where none is named."""
    symbols = list(symbols)
    return bool(symbols) and all(compare(a, b, symbol).state == "equal" for symbol in symbols)


def _compare_files(a: Tree, b: Tree) -> Files:
    shared = sorted({*a.paths} & {*b.paths})
    differ = tuple(p for p in shared if _digest(a, p) != _digest(b, p))
    only_a, only_b = (tuple(sorted({*x.paths} - {*y.paths})) for x, y in ((a, b), (b, a)))
    return Files(len(shared) - len(differ), differ, only_a, only_b)


def _digest(tree: Tree, path: str) -> bytes:
    return hashlib.sha256(tree.read(path)).digest()


def named_tree(name: str) -> Tree:
    """The tree of a build that is ready, or at a path. Raises TreeError, BuildError, NotReady."""
    if name not in load_builds() and Path(name).exists():
        return tree_of(Path(name))
    build = find_build(name)
    if build.engine == "none":
        raise TreeError(f"{name} has no engine to compare")
    source = environment.find(build).source
    assert source is not None
    return tree_of(source.parent, name)
