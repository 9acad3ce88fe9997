"""Lines of a kept engine log that belong to one run: the batches that SGLang told of while a probe watched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from inferproof.runners.evidence import Evidence

_BATCH = re.compile(r"(Prefill|Decode) batch,(?:.*?#new-token: (\d+))?")
_FIELDS = re.compile(r"(?:#new-token|token usage|#running-req|#queue-req): [\d.]+")
_KEPT = 3
"""Lines shown of equal ones in a row: the first two and the last."""

LONGEST = 16
"""Lines of an excerpt."""

Batch = tuple[str, int]
"""`prefill` or `decode`, and its new tokens."""


def batch_lines(evidence: Evidence, logs: Path) -> list[str]:
    """The run's batch lines in the worker's log; none where the log is gone or does not hold them."""
    samples = evidence.samples
    order: list[Batch] = [(kind, tokens) for kind, tokens in samples.get("order", ())]
    order = order or [(one["kind"], one["new_tokens"]) for one in samples.get("batches", ())]
    try:
        text = (logs / evidence.log).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if _BATCH.search(line)]
    return run_in(lines, order)


def run_in(lines: Sequence[str], order: Sequence[Batch]) -> list[str]:
    """The consecutive lines that tell of exactly these batches; none where there are not."""
    told = [(m[1].lower(), int(m[2] or 0)) for m in map(_BATCH.search, lines) if m]
    if not order:
        return []
    for start in range(len(told) - len(order) + 1):
        if told[start : start + len(order)] == list(order):
            return list(lines[start : start + len(order)])
    return []


def abridged(lines: Sequence[str]) -> list[str]:
    """Each line with the fields that matter, and of equal kinds in a row the first two and the last."""
    shown: list[str] = []
    for kind, same in groupby(lines, key=lambda line: line.partition(" batch,")[0].rpartition("] ")[2]):
        run = [f"{kind} batch {' '.join(_FIELDS.findall(line))}" for line in same]
        shown += run if len(run) <= _KEPT else [*run[:2], f"... ({len(run) - _KEPT} more)", run[-1]]
    return shown if len(shown) <= LONGEST else [*shown[: LONGEST - 1], "..."]
