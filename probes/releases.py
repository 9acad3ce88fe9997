"""Whether a release of an engine still knows a name, and which value it gives it: read from its source.

Question
    Which taught facts (a flag, a default, a metric, a file) are of one release only?
Watched
    The syntax trees of the files below one path: where an identifier, a keyword or a string holds the name, the
    defaults assigned to it, and what dictionaries map it to.
Can mislead
    A name that is there may be unused, and a default may be resolved to another value when the engine starts. A file
    may have moved: then the name is missed in the old place only.
Sources
    vLLM 0.25.1 to 0.33.0 and SGLang 0.5.15.post1 to 0.5.23, as installed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from inferproof.probes.core import Observations, Run, Unavailable, probe

_NAME = {
    "exists": "whether there is such a file or folder in the package",
    "mentions": "where an identifier, a keyword or a string other than a docstring holds the name, as `file:line`",
    "defaults": "what is assigned to exactly that name, as written",
    "mapped": "numbers that dictionaries have under that name",
}


@probe(engine="vllm", levels=("source",), observes=_NAME)
def vllm_name(run: Run, *, within: str, name: str) -> Observations:
    """Look a name up in a file or folder of vLLM's package."""
    return _look_up(run, within, name)


@probe(engine="sglang", levels=("source",), observes=_NAME)
def sglang_name(run: Run, *, within: str, name: str) -> Observations:
    """Look a name up in a file or folder of SGLang's package."""
    return _look_up(run, within, name)


def _look_up(run: Run, within: str, name: str) -> Observations:
    if run.source is None:
        raise Unavailable("this build has no package folder")
    place = run.source / within
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place] if place.is_file() else []
    seen: Observations = {"exists": place.exists(), "mentions": [], "defaults": [], "mapped": []}
    for file in files:
        text = file.read_text(encoding="utf-8")
        if name in text:
            for key, found in look_up(text, name, file.relative_to(run.source)).items():
                seen[key] += found
    return seen


def look_up(text: str, name: str, file: Path) -> dict[str, list[object]]:
    """`mentions`, `defaults` and `mapped` of one file."""
    tree = ast.parse(text)
    strings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings, and other idle ones
    nodes = [n for n in ast.walk(tree) if id(n) not in strings]
    lines = {line for n in nodes if (line := getattr(n, "lineno", 0)) and any(name in word for word in _words(n))}
    defaults = [ast.unparse(value) for n in nodes for target, value in _assigned(n) if target == name]
    pairs = [pair for n in nodes if isinstance(n, ast.Dict) for pair in zip(n.keys, n.values, strict=True)]
    mapped: list[object] = [
        v.value
        for k, v in pairs
        if k is not None and ast.unparse(k).rpartition(".")[2] == name and isinstance(v, ast.Constant)
    ]
    return {"mentions": [f"{file}:{line}" for line in sorted(lines)], "defaults": [*defaults], "mapped": mapped}


def _words(node: ast.AST) -> Iterator[str]:
    for field in ("id", "attr", "arg", "name"):
        if isinstance(word := getattr(node, field, None), str):
            yield word
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((ast.unparse(target), node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield ast.unparse(node.target), node.value
