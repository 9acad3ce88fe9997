"""The shapes of `--json` output, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from inferproof.grading.drift import Drift
from inferproof.grading.result import Grade
from inferproof.grading.verdict import Verdict, summary
from inferproof.questions.card import Card, Language
from inferproof.runners.builds import Build
from inferproof.runners.evidence import Evidence


def verdicts_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """`{"claims": [a row per claim and build], "summary": {...}}`."""
    return {"claims": [asdict(v) for v in verdicts], "summary": summary(verdicts)}


def drift_json(rows: Sequence[Drift], builds: Sequence[Build]) -> dict[str, Any]:
    """`{"claims": [{"card", "claim", "builds": {name: verdict}, ...}], "versions": {name: version}}`."""

    def row(of: Drift) -> dict[str, Any]:
        named = {name: getattr(of, name) for name in ("card", "claim", "engine", "versions", "changed_at")}
        seen = {name: {"level": v.level, "observed": v.observed, "reason": v.reason} for name, v in of.builds.items()}
        return {**named, "builds": {name: v.verdict for name, v in of.builds.items()}, "seen": seen}

    return {"claims": [row(of) for of in rows], "versions": {b.name: b.version for b in builds}}


def builds_json(builds: Iterable[Build], states: Mapping[str, str]) -> dict[str, Any]:
    """`{"builds": [a row per build]}`; `states`: build name -> how its environment stands."""
    fields = ("name", "engine", "version", "levels", "default")
    return {"builds": [{**{name: getattr(b, name) for name in fields}, "state": states[b.name]} for b in builds]}


def cards_json(cards: Iterable[Card], language: Language) -> dict[str, Any]:
    """`{"cards": [a row per card]}`."""
    return {
        "cards": [
            {"id": c.id, "collection": c.collection, "title": c.title.of(language), "claims": len(c.claims)}
            for c in cards
        ]
    }


def evidence_line(evidence: Evidence) -> dict[str, Any]:
    """One record as a line of `evidence list --json`: what ran, how it ended, how long it took."""
    task = {name: evidence.task[name] for name in ("probe", "engine", "build", "level", "params")}
    times = {name: getattr(evidence, name) for name in ("ended", "seconds", "engine_start_s", "started_at")}
    return {"id": evidence.id, **task, **times}


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
    """One grade as a line of `grade --jsonl`: score, award per point, contradicted statements."""
    return {
        "id": answer_id,
        "score": grade.score,
        "points": {p.point: p.award for p in grade.points},
        "contradicted": [asdict(f) for f in grade.contradicted],
    }
