"""The study report: one Markdown file with its pictures, readable on a code host as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferproof.grading.attempts import Attempt
from inferproof.grading.verdict import Verdict, summary
from inferproof.questions.card import Card, Language
from inferproof.questions.recorded import Figure, Recorded
from inferproof.reports import markdown, plots, progress, sections, values
from inferproof.reports.words import say
from inferproof.runners.evidence import Evidence


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
    given = {
        "opening": _opening(verdicts, evidence, identities, language),
        "attempts": attempts,
        "missed": missed,
        "next": progress.next_to_learn(missed),
        "untried": [card for card in cards if card.id not in tried],
        "contradictions": progress.contradictions(attempts),
        "pictures": pictures,
        "absent": absent,
        "cards": [sections.card_of(card, verdicts, recorded, language) for card in cards],
        "evidence": sorted(evidence.values(), key=lambda e: (e.task["probe"], e.task["build"], e.started_at)),
        "builds": [sections.build_of(name, facts, evidence.values(), language) for name, facts in identities.items()],
        "recorded": _figures(cards, recorded),
        "recorded_about": _recorded_about(recorded, language),
    }
    return markdown.write(folder, "report.md", "study.md.j2", language, given)


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
    hosts = dict.fromkeys(sections.machine(e.host, language) for e in evidence.values())
    if hosts:
        newest = max(e.started_at for e in evidence.values())[:10]
        parts.append(say(language, "opening_host", hosts="; ".join(hosts), newest=newest))
    return say(language, "sentence_gap").join(parts)


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
        hardware=markdown.pairs(recorded.hardware),
        commits=", ".join(f"{engine} {values.code(commit)}" for engine, commit in recorded.commits.items()),
    )
