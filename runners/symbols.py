"""An engine's files as a tree, installed, in a wheel or in a clone, and what its classes and functions say in it."""

from __future__ import annotations

import ast
import hashlib
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from inferproof.runners.memory import Memory, key_of

ENGINES = ("vllm", "sglang")
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_HASHES = Memory("symbols")


class TreeError(ValueError):
    """A path that holds no engine."""


@dataclass(frozen=True)
class Tree:
    """The `.py` files of one engine."""

    name: str
    """As the user named it: a build, or a path."""
    engine: str
    paths: tuple[str, ...]
    """Of the files, `vllm/v1/core/block_pool.py`, sorted."""
    read: Callable[[str], bytes]

    def hash_of(self, symbol: str) -> str | None:
        """SHA-256 of the syntax tree of `module:Qualified.name`; None where this tree does not define it."""
        module, _, name = symbol.partition(":")
        stem = module.replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if path in self._known:
                return self._hashes(path).get(name)
        return None

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.paths)

    def _hashes(self, path: str) -> Mapping[str, str]:
        source = self.read(path)
        key = key_of(sys.version.encode(), source)  # another Python may dump the same tree otherwise
        known = _HASHES.recall(key)
        if known is None:
            known = definition_hashes(source)
            _HASHES.keep(key, known)
        assert isinstance(known, dict)
        return known


def definition_hashes(source: bytes | str) -> dict[str, str]:
    """Qualified name -> SHA-256 of what it is defined as, of every class and function outside of functions.

    Comments, docstrings and formatting do not count. A name that is defined more than once (a property and its
    setter, a branch for another platform) has one hash over all its definitions. A file that is no Python has none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    dumps: dict[str, list[str]] = {}
    for name, node in list(_definitions(tree, "")):
        for inner in ast.walk(node):
            drop_docstring(inner)
        dumps.setdefault(name, []).append(ast.dump(node))
    return {name: hashlib.sha256("\n".join(of).encode()).hexdigest() for name, of in dumps.items()}


def drop_docstring(node: ast.AST) -> None:
    """Take the docstring out of a class or function, and every other string that only stands there."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        node.body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))] or [
            ast.Pass()
        ]


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            yield f"{prefix}{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from _definitions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.stmt | ast.ExceptHandler):  # an `if` or a `try` around definitions
            yield from _definitions(child, prefix)


def tree_of(path: Path, name: str | None = None) -> Tree:
    """The engine in a wheel, an unpacked wheel, a `site-packages` or a clone of its repository. Raises TreeError."""
    name = name or str(path)
    if path.is_dir():
        for root in (path, path / "python"):  # SGLang's repository keeps its package in python/
            for engine in ENGINES:
                if (root / engine / "__init__.py").is_file():
                    return Tree(name, engine, _files_below(root, engine), lambda p, root=root: (root / p).read_bytes())  # type: ignore[misc]
        raise TreeError(f"{path}: no vllm or sglang package in it; expected a clone, an unpacked wheel or a .whl file")
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise TreeError(f"{path}: neither a build, nor a folder, nor a wheel: {error}") from error
    names = sorted(n for n in archive.namelist() if n.endswith(".py"))
    for engine in ENGINES:
        if f"{engine}/__init__.py" in names:
            return Tree(name, engine, tuple(n for n in names if n.startswith(f"{engine}/")), archive.read)
    raise TreeError(f"{path}: a wheel without vllm or sglang")


def _files_below(root: Path, engine: str) -> tuple[str, ...]:
    return tuple(sorted(p.relative_to(root).as_posix() for p in (root / engine).rglob("*.py") if p.is_file()))
