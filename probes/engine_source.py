"""An engine's own files as syntax trees: which statements a function has, in order."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from inferproof.probes.core import Run, Unavailable


@dataclass(frozen=True)
class Statement:
    """One statement of an engine, for a compound one its head (`if ...:`, `while ...:`)."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.code}"


def statements(run: Run, file: str, function: str) -> list[Statement]:
    """The statements of `function` (`Class.method` or a plain name) in `file` below the package, in order.

    Code is written as `ast.unparse` writes it, so that formatting and comments do not count.
    Raises Unavailable where the build has no such file or function.
    """
    if run.source is None or not (run.source / file).is_file():
        raise Unavailable(f"this build has no {file} in its package folder")
    node: ast.AST = ast.parse((run.source / file).read_text(encoding="utf-8"))
    for name in function.split("."):
        named = (n for n in ast.walk(node) if getattr(n, "name", None) == name and isinstance(n, _NAMED))
        if (found := next(named, None)) is None:
            raise Unavailable(f"{file} has no {function}")
        node = found
    inner = (n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node)
    return sorted((Statement(file, n.lineno, _head(n)) for n in inner), key=lambda s: s.line)


_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _head(node: ast.stmt) -> str:
    code = ast.unparse(node)
    compound = isinstance(node, (*_NAMED, ast.If, ast.For, ast.While, ast.With, ast.Try))
    return code.partition("\n")[0] if compound else " ".join(code.split())


def lines_with(found: list[Statement], *words: str) -> list[str]:
    """Those of the statements whose code holds all the words, as `file:line code`."""
    return [str(s) for s in found if all(word in s.code for word in words)]


def in_order(found: list[Statement], *words: str) -> bool:
    """Whether statements that hold these words stand one after the other, the first of each counted."""
    lines = [next((s.line for s in found if word in s.code), None) for word in words]
    known = [line for line in lines if line is not None]
    return len(known) == len(words) and known == sorted(known)
