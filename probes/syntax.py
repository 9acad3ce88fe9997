"""Reading an engine's files as syntax trees: what the probes of level `source` share."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from inferproof.probes.core import Run, Unavailable


def functions(run: Run, path: Path, owner: str | None = None) -> dict[str, ast.FunctionDef]:
    """The functions of a file in the engine's package, or the methods of one of its classes, by name.

    Raises Unavailable where this build has no such file or class.
    """
    if run.source is None or not (run.source / path).is_file():
        raise Unavailable(f"this build has no {path} in its package folder")
    body = ast.parse((run.source / path).read_text(encoding="utf-8")).body
    if owner is not None:
        classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == owner]
        if not classes:
            raise Unavailable(f"this build has no class {owner} in {path}")
        body = classes[0].body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def assigned(tree: ast.AST, target: str) -> list[str]:
    """What is assigned to `target` inside, as written, in the order of the lines."""
    return [ast.unparse(node.value) for node in assignments(tree, target)]


def assignments(tree: ast.AST, target: str) -> list[ast.Assign]:
    """The assignments to `target` inside, in the order of the lines."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and target in map(ast.unparse, n.targets)]
    return sorted(found, key=lambda node: node.lineno)


def ordered_calls(tree: ast.AST, names: Sequence[str]) -> list[str]:
    """Which of these functions are called inside, by the last part of their names, in the order of the lines."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [(call.lineno, ast.unparse(call.func).rpartition(".")[2]) for call in calls]
    return [name for _, name in sorted(found) if name in names]
