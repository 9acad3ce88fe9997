"""Cards, builds and machines as every report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inferproof.grading.verdict import VERDICTS, Verdict, of_claim
from inferproof.questions.card import Card, Claim, Language
from inferproof.questions.recorded import Recorded
from inferproof.reports import values
from inferproof.reports.words import say
from inferproof.runners.evidence import Evidence

FACTS = ("distribution", "version", "commit", "wheel_sha256", "files", "python", "torch", "stands_to_pin")
LISTED = ("placeholders", "env")
"""What the report shows of a build's identity (see `runners/identity.py`), in this order."""


def machine(host: Mapping[str, Any], language: Language) -> str:
    """The machine in one line."""
    gpus = ", ".join(host.get("gpus") or ()) or say(language, "no_gpu")
    memory = round(int(host.get("memory_bytes") or 0) / 2**30)
    return say(language, "host", cpu=host.get("cpu") or "?", cores=host.get("cores") or "?", memory=memory, gpus=gpus)


def card_of(card: Card, verdicts: Sequence[Verdict], recorded: Recorded, language: Language) -> dict[str, Any]:
    """A card with its claims, each with what every build gave."""
    claims = {
        claim: of for (name, claim), of in values.by_claim(verdicts).items() if name == card.id and claim in card.claims
    }
    words = [of_claim(of) for of in claims.values()]
    counts = [
        say(language, "count", word=say(language, word), count=words.count(word)) for word in VERDICTS if word in words
    ]
    return {
        "id": card.id,
        "title": card.title.of(language),
        "question": card.question.of(language).strip(),
        "count": say(language, "comma").join(counts),
        "claims": [_claim(name, card.claims[name], of, recorded, language) for name, of in claims.items()],
    }


def _claim(name: str, claim: Claim, of: Sequence[Verdict], recorded: Recorded, language: Language) -> dict[str, Any]:
    return {
        "id": name,
        "says": claim.says.of(language).strip(),
        "kind": claim.kind,
        "verdict": of_claim(of),
        "expect": claim.expect,
        "groups": _alike(of, language),
        "recorded": [figure for figure in recorded.figures if figure.id in claim.recorded],
        "note": claim.note.of(language).strip() if claim.note else "",
    }


def _alike(of: Sequence[Verdict], language: Language) -> list[dict[str, str]]:
    """Builds that gave the same verdict, reach and observations, on one line."""
    groups: dict[tuple[str, str | None, str, str], list[Verdict]] = {}
    for v in of:
        groups.setdefault((v.verdict, v.reach, values.observed(v.observed), v.reason), []).append(v)
    comma = say(language, "comma")
    return [
        {
            "head": comma.join(say(language, word) for word in (verdict, reach) if word),
            "observed": seen,
            "reason": "" if verdict == "contradicted" else reason,
            "where": comma.join(_where(v, language) for v in alike if v.build),
        }
        for (verdict, reach, seen, reason), alike in groups.items()
    ]


def _where(v: Verdict, language: Language) -> str:
    facts = [say(language, "evidence_short", id=values.code(values.short(v.evidence)))] if v.evidence else []
    facts += [f"{v.seconds:.1f} s"] if v.seconds is not None else []
    return f"{values.code(v.build)} ({', '.join(facts)})" if facts else values.code(v.build)


def build_of(
    name: str, identity: Mapping[str, Any], evidence: Iterable[Evidence], language: Language
) -> dict[str, Any]:
    """A build\'s identity, and what about it a stock installation would not have."""
    declared = dict.fromkeys(sentence for e in evidence if e.task["build"] == name for sentence in e.modifications)
    facts = {key: values.code(identity[key]) for key in FACTS if identity.get(key)}
    if identity.get("wheel_sha256"):
        commit, source = facts.get("commit"), identity.get("commit_from")
        facts["commit"] = (
            say(language, "commit_from", commit=commit, source=source) if commit else say(language, "no_commit")
        )
    if stands := identity.get("stands_to_pin"):
        facts["stands_to_pin"] = say(language, stands)
    if stand_ins := identity.get("placeholders"):
        facts["placeholders"] = ", ".join(map(values.code, stand_ins))
    if env := identity.get("env"):
        facts["env"] = values.code(" ".join(f"{key}={setting}" for key, setting in env.items()))
    return {
        "name": name,
        "facts": [(say(language, f"fact_{key}"), facts[key]) for key in (*FACTS, *LISTED) if key in facts],
        "modifications": [values.plain(sentence) for sentence in declared],
    }
