"""The study report: one Markdown file with its pictures, readable on a code host as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferproof.grading.attempts import Attempt
from inferproof.grading.verdict import VERDICTS, Verdict, of_claim, summary
from inferproof.questions.card import Card, Claim, Language
from inferproof.questions.recorded import Figure, Recorded
from inferproof.reports import plots, progress, values
from inferproof.reports.words import say
from inferproof.runners.evidence import Evidence
from inferproof.runners.paths import write_atomically

TEMPLATES = Path(__file__).parent / "templates"
FACTS = ("distribution", "version", "commit", "wheel_sha256", "files", "python", "torch", "stands_to_pin")
LISTED = ("placeholders", "env")
"""What the report shows of a build's identity (see `runners/identity.py`), in this order."""


def write(
    folder: Path,
    *,
    deck: Mapping[str, Card],
    verdicts: Sequence[Verdict],
    evidence: Mapping[str, Evidence],
    attempts: Sequence[Attempt],
    identities: Mapping[str, Mapping[str, Any]],
    recorded: Recorded,
    language: Language,
) -> Path:
    """Write `report.md` and its PNG files into `folder`, made when missing; return the path of `report.md`.

    Pictures are written before the text that shows them, each file whole or not at all. Raises OSError.

    evidence    by id; verdicts cite it.
    attempts    oldest first.
    identities  build name -> identity, as JSON values.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures, absent = plots.draw(folder, verdicts, list(evidence.values()), attempts, language)
    cards = [deck[name] for name in dict.fromkeys(v.card for v in verdicts) if name in deck]
    missed = progress.missed_points(attempts, deck)
    tried = {attempt.card for attempt in attempts}
    text = _template(language).render(
        language=language,
        opening=_opening(verdicts, evidence, identities, language),
        attempts=attempts,
        missed=missed,
        next=progress.next_to_learn(missed),
        untried=[card for card in cards if card.id not in tried],
        contradictions=progress.contradictions(attempts),
        pictures=pictures,
        absent=absent,
        cards=[_card(card, verdicts, recorded, language) for card in cards],
        evidence=sorted(evidence.values(), key=lambda e: (e.task["probe"], e.task["build"], e.started_at)),
        builds=[_build(name, identity, evidence.values(), language) for name, identity in identities.items()],
        recorded=_figures(cards, recorded),
        recorded_about=_recorded_about(recorded, language),
    )
    path = folder / "report.md"
    write_atomically(path, re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")
    return path


def _template(language: Language) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # no autoescape: the output is Markdown, and `plain`, `code` and `cell` escape what is not ours
    environment = Environment(  # noqa: S701
        loader=FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "plain": values.plain, "code": values.code, "cell": values.cell, "short": values.short, "value": values.value,
        "contents": values.contents, "pairs": _pairs, "amount": _amount,
    }  # fmt: skip
    environment.globals |= {"say": lambda key, **given: say(language, key, **given), "figure": _picture}
    return environment.get_template("study.md.j2")


def _pairs(of: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={values.value(v)}" for key, v in of.items() if v is not None)


def _amount(figure: Figure) -> str:
    return (
        values.value(figure.value)
        if figure.unit in ("count", "ratio")
        else f"{values.value(figure.value)} {figure.unit}"
    )


def _picture(picture: plots.Picture) -> str:
    return f"![{values.plain(picture.title)}]({picture.file})\n\n*{picture.title}* — {picture.caption}"


def _opening(
    verdicts: Sequence[Verdict],
    evidence: Mapping[str, Evidence],
    identities: Mapping[str, Mapping[str, Any]],
    language: Language,
) -> str:
    """What was verified, on what."""
    if not verdicts:
        return say(language, "opening_empty")
    counts = summary(verdicts)
    comma = say(language, "comma")
    others = [
        say(language, "count", word=say(language, word), count=n)
        for word, n in counts["verdicts"].items()
        if n and word != "holds"
    ]
    parts = [
        say(
            language, "opening_claims", holds=counts["verdicts"]["holds"], claims=counts["claims"],
            cards=len({v.card for v in verdicts}), others="".join(comma + other for other in others),
        )
    ]  # fmt: skip
    ran = dict.fromkeys(v.build for v in verdicts if v.evidence and v.build)
    if ran:
        versions = [f"{values.code(name)} {identities.get(name, {}).get('version') or ''}".strip() for name in ran]
        parts.append(say(language, "opening_builds", builds=comma.join(versions)))
    hosts = dict.fromkeys(_host(e.host, language) for e in evidence.values())
    if hosts:
        newest = max(e.started_at for e in evidence.values())[:10]
        parts.append(say(language, "opening_host", hosts="; ".join(hosts), newest=newest))
    return say(language, "sentence_gap").join(parts)


def _host(host: Mapping[str, Any], language: Language) -> str:
    gpus = ", ".join(host.get("gpus") or ()) or say(language, "no_gpu")
    memory = round(int(host.get("memory_bytes") or 0) / 2**30)
    return say(language, "host", cpu=host.get("cpu") or "?", cores=host.get("cores") or "?", memory=memory, gpus=gpus)


def _card(card: Card, verdicts: Sequence[Verdict], recorded: Recorded, language: Language) -> dict[str, Any]:
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


def _build(name: str, identity: Mapping[str, Any], evidence: Iterable[Evidence], language: Language) -> dict[str, Any]:
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


def _figures(cards: Iterable[Card], recorded: Recorded) -> list[Figure]:
    """The published figures that stand behind these cards: cited by a claim, or of the section the card comes from."""
    cards = list(cards)
    cited = {name for card in cards for claim in card.claims.values() for name in claim.recorded}
    sections = {str(card.source.section) for card in cards if card.source.document == recorded.document}
    return [f for f in recorded.figures if f.id in cited or str(f.section) in sections]


def _recorded_about(recorded: Recorded, language: Language) -> str:
    return say(
        language,
        "recorded_about",
        document=values.code(recorded.document),
        date=recorded.date.isoformat(),
        model=recorded.model,
        hardware=_pairs(recorded.hardware),
        commits=", ".join(f"{engine} {values.code(commit)}" for engine, commit in recorded.commits.items()),
    )
