"""What the judge says beside the offline grade: for a terminal and for programs."""

from __future__ import annotations

from typing import Any

from inferproof.grading.judge import Judgement
from inferproof.grading.result import Grade
from inferproof.questions.card import Card, Language

_WORDS = {
    "en": {
        "failed": "Judge {model}: {why}; the offline grade stands.",
        "score": "Judge {model}: {score:g}/10, offline {offline:g}/10.",
        "differs": "  {point}: judge {judge:g}, offline {offline:g}. {why}",
        "agrees": "  Both agree on every point.",
    },
    "zh": {
        "failed": "评审模型 {model}：{why}；以离线评分为准。",
        "score": "评审模型 {model}：{score:g}/10，离线评分 {offline:g}/10。",
        "differs": "  {point}：评审 {judge:g}，离线 {offline:g}。{why}",
        "agrees": "  每个得分点都一致。",
    },
}


def judge_view(card: Card, judged: Judgement, offline: Grade, language: Language) -> str:
    """The judge's score, and every point where the two disagree."""
    words = _WORDS[language]
    score = judged.score(card)
    if score is None:
        return words["failed"].format(model=judged.model, why=judged.failed)
    awards = {p.point: p.award for p in offline.points}
    lines = [words["score"].format(model=judged.model, score=score, offline=offline.score)]
    lines += [
        words["differs"].format(point=p, judge=judged.awards[p], offline=awards[p], why=_plain(judged.why[p]))
        for p in judged.disagreements(offline)
    ] or [words["agrees"]]
    return "\n".join(lines)


def _plain(said: str) -> str:
    """Without control characters: a model's words go to a terminal."""
    return "".join(c if c.isprintable() else " " for c in said)


def judge_json(card: Card, judged: Judgement, offline: Grade) -> dict[str, Any]:
    """The same for programs; `failed` is empty where there is an opinion."""
    return {
        "model": judged.model,
        "score": judged.score(card),
        "points": {p: {"award": a, "why": judged.why[p]} for p, a in judged.awards.items()},
        "disagrees": judged.disagreements(offline),
        "failed": judged.failed,
    }
