"""The report of the ledger: what every probe observed, on which builds, with pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferproof.probes.core import canonical
from inferproof.questions.card import Language
from inferproof.reports import markdown, plots, sections, values
from inferproof.reports.words import say
from inferproof.runners.evidence import Evidence


def write(folder: Path, *, evidence: Iterable[Evidence], language: Language) -> Path:
    """Write `evidence.md` and its PNG files into `folder`, made when missing; return its path. Raises OSError.

    evidence    oldest first; of records of the same run the newest is shown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    newest = list({_run(e): e for e in evidence}.values())
    pictures, absent = plots.draw(folder, [], newest, [], language)
    shown = [picture for picture in pictures if picture.section == "engines"]
    identities = {str(e.task["build"]): e.build for e in newest}
    probes: dict[str, list[Evidence]] = {}
    for e in sorted(newest, key=lambda e: (e.task["probe"], e.task["engine"], canonical(dict(e.task["params"])))):
        probes.setdefault(str(e.task["probe"]), []).append(e)
    given = {
        "opening": _opening(newest, len(probes), len(identities), language),
        "pictures": shown,
        "absent": absent if not shown else [],
        "probes": {probe: _alike(of, language) for probe, of in probes.items()},
        "builds": [sections.build_of(name, facts, newest, language) for name, facts in sorted(identities.items())],
    }
    return markdown.write(folder, "evidence.md", "evidence.md.j2", language, given)


def _run(e: Evidence) -> str:
    """What makes two records the same run; another version of the probe or the build does not make another."""
    return canonical([e.task[key] for key in ("probe", "engine", "build", "level", "params")])


def _opening(evidence: Sequence[Evidence], probes: int, builds: int, language: Language) -> str:
    if not evidence:
        return say(language, "evidence_empty")
    hosts = dict.fromkeys(sections.machine(e.host, language) for e in evidence)
    newest = max(e.started_at for e in evidence)[:10]
    return say(language, "sentence_gap").join(
        (
            say(language, "evidence_opening", runs=len(evidence), probes=probes, builds=builds),
            say(language, "opening_host", hosts="; ".join(hosts), newest=newest),
        )
    )


def _alike(runs: Sequence[Evidence], language: Language) -> list[dict[str, Any]]:
    """Builds that observed the same with the same parameters, as one entry."""
    groups: dict[str, list[Evidence]] = {}
    for e in runs:
        groups.setdefault(canonical([e.task["params"], e.ended, e.reason, e.observations]), []).append(e)
    return [
        {
            "params": of[0].task["params"],
            "where": say(language, "comma").join(_where(e, language) for e in of),
            "observed": values.observed(of[0].observations),
            "ended": of[0].ended,
            "reason": of[0].reason,
        }
        for of in groups.values()
    ]


def _where(e: Evidence, language: Language) -> str:
    record: Mapping[str, str] = {"id": values.code(values.short(e.id))}
    return f"{values.code(e.task['build'])} ({e.task['level']}, {say(language, 'evidence_short', **record)})"
