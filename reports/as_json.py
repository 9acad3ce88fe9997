"""The shapes of `--json` output, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from inferproof.grading.result import Grade
from inferproof.grading.verdict import Verdict, summary


def verdicts_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """`{"claims": [a row per claim and build], "summary": {...}}`."""
    return {"claims": [asdict(v) for v in verdicts], "summary": summary(verdicts)}


def grade_json(grade: Grade) -> dict[str, Any]:
    """One grade whole: points by id with the span that earned them, findings against the evidence."""
    whole = asdict(grade)
    return {
        "card": whole["card"],
        "lang": whole["language"],
        "score": whole["score"],
        "points": {p["point"]: {k: v for k, v in p.items() if k != "point"} for p in whole["points"]},
        "contradicted": [f for f in whole["findings"] if f["verdict"] == "contradicted"],
        "findings": whole["findings"],
        "layers": whole["layers"],
        "followup": whole["followup"],
    }


def grade_line(answer_id: str | int, grade: Grade) -> dict[str, Any]:
    """One grade as a line of `grade --jsonl`: score, award per point, contradicted statements, layers covered."""
    return {
        "id": answer_id,
        "score": grade.score,
        "points": {p.point: p.award for p in grade.points},
        "contradicted": [asdict(f) for f in grade.contradicted],
        "layers": grade.layers,
    }
