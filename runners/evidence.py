"""Evidence: one run of a probe with given parameters on a build, and everything that was an input to it."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from inferproof import probes
from inferproof.probes.core import Probe, canonical
from inferproof.runners.memory import Memory, key_of
from inferproof.runners.symbols import drop_docstring

FORMAT = 1
SETTLED = ("ok", "inconclusive", "unavailable")
"""Ends that a second run would not change; the others are tried again."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run that is wanted: which probe, on which build, at which level, with which parameters."""

    probe: str
    engine: str
    level: str
    params: Mapping[str, Any]
    build: str
    config: Mapping[str, Any] | None
    probe_code: str
    """Hash of the probe's code, see `code_hash`."""
    build_digest: str
    """Digest of the build's identity: the installed files, not only the version."""
    timeout_s: float = field(default=600.0, compare=False)

    @cached_property
    def key(self) -> str:
        """SHA-256 over all inputs; evidence with this key is up to date."""
        inputs = {f.name: getattr(self, f.name) for f in fields(self) if f.compare}
        return hashlib.sha256(canonical(inputs).encode()).hexdigest()

    @property
    def session(self) -> str:
        """Runs of equal session share one started engine."""
        return canonical([self.build, self.engine, self.level, self.config])


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one run gave. A record never mentions a card: it outlives the questions."""

    id: str
    key: str
    task: Mapping[str, Any]
    build: Mapping[str, Any]
    """Identity of the build (see `identity.py`)."""
    host: Mapping[str, Any]
    started_at: str
    """UTC, ISO 8601."""
    seconds: float
    """Seconds that the probe ran, the engine's start not counted."""
    engine_start_s: float | None
    """Seconds that starting the engine took, when this run was the one that started it."""
    ended: str
    """ok, inconclusive, unavailable, failed, timed out, died."""
    reason: str
    observations: Mapping[str, Any]
    samples: Mapping[str, Any]
    flags: Mapping[str, Any]
    """The engine's resolved settings."""
    modifications: tuple[str, ...]
    """What about this engine a stock installation would not have."""
    log: str
    """Name of the kept worker log."""
    format: int = FORMAT

    @property
    def settled(self) -> bool:
        """Whether this record answers its task, so that nothing need run again."""
        return self.ended in SETTLED

    def body(self) -> dict[str, Any]:
        """Everything but the id, as JSON values; the id is the hash of it."""
        return {k: v for k, v in asdict(self).items() if k != "id"}


def content_id(body: Mapping[str, Any]) -> str:
    """SHA-256 of the body's canonical JSON: a changed record has another id."""
    return hashlib.sha256(canonical(body).encode()).hexdigest()


def evidence_from(body: Mapping[str, Any]) -> Evidence:
    """The record with that body."""
    values: dict[str, Any] = {k: tuple(v) if k == "modifications" else v for k, v in body.items()}
    return Evidence(id=content_id(body), **values)


def code_hash(probe: Probe) -> str:
    """SHA-256 over the syntax trees of the probe's module, the engine's adapter and what they import of ours.

    Comments, docstrings and formatting do not count; any other change to how the observation is made does.
    """
    roots = [probe.module.rpartition(".")[2]]
    if probe.config is not None:
        roots.append(f"{probe.engine}_engine")
    seen: dict[str, str] = {}
    while roots:
        name = roots.pop()
        if name not in seen:
            seen[name], imported = _module_tree(Path(probes.__path__[0]) / f"{name}.py")
            roots.extend(imported)
    return hashlib.sha256(canonical(seen).encode()).hexdigest()


_TREES = Memory("syntax-trees")


@cache
def _module_tree(path: Path) -> tuple[str, tuple[str, ...]]:
    """(hash of the module's syntax tree, the modules of ours that it imports)."""
    source = path.read_bytes()
    key = key_of(sys.version.encode(), source)  # a newer Python may dump the same tree otherwise
    known = _TREES.recall(key)
    if known is None:
        known = _parsed(source)
        _TREES.keep(key, known)
    return str(known[0]), tuple(known[1])


def _parsed(source: bytes) -> tuple[str, list[str]]:
    tree = ast.parse(source)
    imported: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [a.name.rpartition(".")[2] for a in node.names if a.name.startswith("inferproof.probes.")]
        elif isinstance(node, ast.ImportFrom) and node.module == "inferproof.probes":
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("inferproof.probes."):
            imported.append((node.module or "").rpartition(".")[2])
        drop_docstring(node)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imported
