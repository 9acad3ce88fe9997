"""Claims over releases: where a verdict changes from one release of an engine to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from inferproof.grading.verdict import Verdict
from inferproof.grading.verify import Named, SelectionError, unknown
from inferproof.runners.builds import Build
from inferproof.runners.site import Site

Measure = Callable[[Sequence[Named], Sequence[str]], Iterable[Verdict]]
"""Claims and build names -> verdicts, from kept evidence or by running what is missing."""

_DECIDED = ("holds", "contradicted")


@dataclass(frozen=True)
class Drift:
    """One claim over builds of its engine, oldest release first."""

    card: str
    claim: str
    engine: str
    versions: str | None
    """The releases that the card claims it of, where not all."""
    builds: Mapping[str, Verdict]
    changed_at: str | None
    """The first build that turns `holds` into `contradicted` or back; builds with neither are skipped."""


def releases(site: Site, names: Sequence[str]) -> list[Build]:
    """The engine builds of these names, or all that are ready, oldest release first. Raises SelectionError."""
    from packaging.version import Version

    for name in names:
        if name not in site.builds:
            raise unknown("build", name, [b.name for b in site.builds.values() if b.engine != "none"])
    chosen = [
        b
        for b in site.builds.values()
        if b.engine != "none" and (b.name in names if names else b.name in site.identities)
    ]
    by_hand = [b.name for b in chosen if b.refusal is not None]
    if by_hand:
        raise unknown("build that can be set up", by_hand[0], [b.name for b in chosen if b.refusal is None])
    return sorted(chosen, key=lambda b: (b.engine, Version(b.version)))


def between(builds: Sequence[Build], old: str, new: str) -> list[Build]:
    """Those of the builds from `old` to `new`, both named or given by version. Raises SelectionError."""
    ends = []
    for end in (old, new):
        at = [i for i, b in enumerate(builds) if end in (b.name, b.version)]
        if not at:
            raise unknown("ready build or version", end, [b.name for b in builds])
        ends.append(at[0])
    if ends[0] >= ends[1] or builds[ends[0]].engine != builds[ends[1]].engine:
        raise SelectionError(f"--bisect needs an older and a newer release of one engine; got {old} and {new}")
    return list(builds[ends[0] : ends[1] + 1])


def matrix(claims: Sequence[Named], builds: Sequence[Build], measure: Measure) -> list[Drift]:
    """Each claim that an engine can be asked about, on all of the builds of that engine."""
    asked = [(card, claim) for card, claim in claims if _builds_of(card.claims[claim].engine, builds)]
    found = _by_claim(measure(_with_probe(asked), [b.name for b in builds]))
    return [_drift(named, builds, found.get(_id(named), {})) for named in _with_probe(asked)]


def bisect(claims: Sequence[Named], builds: Sequence[Build], measure: Measure) -> list[Drift]:
    """Each claim on the oldest and the newest of the builds, and where these differ, on as few between as will do."""
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    wanted = {build: _with_probe(claims) for build in (builds[0].name, builds[-1].name)}
    while wanted:
        for build, of in wanted.items():
            for key, verdicts in _by_claim(measure(of, [build])).items():
                found.setdefault(key, {}).update(verdicts)
        wanted = {}
        for named in _with_probe(claims):
            if (middle := _next(builds, found.get(_id(named), {}))) is not None:
                wanted.setdefault(middle, []).append(named)
    rows = [_drift(named, builds, found.get(_id(named), {})) for named in _with_probe(claims)]
    return [row for row in rows if row.builds]


def _next(builds: Sequence[Build], seen: Mapping[str, Verdict]) -> str | None:
    """The build to ask next: halfway between the last that is like the oldest and the first that is not."""
    decided = [i for i, b in enumerate(builds) if b.name in seen and seen[b.name].verdict in _DECIDED]
    for one, other in pairwise(decided):
        if seen[builds[one].name].verdict != seen[builds[other].name].verdict:
            between = [b.name for b in builds[one + 1 : other] if b.name not in seen]
            return between[len(between) // 2] if between else None
    return None


def _drift(named: Named, builds: Sequence[Build], seen: Mapping[str, Verdict]) -> Drift:
    card, claim_id = named
    claim = card.claims[claim_id]
    ordered = {b.name: seen[b.name] for b in _builds_of(claim.engine, builds) if b.name in seen}
    decided = [(name, v.verdict) for name, v in ordered.items() if v.verdict in _DECIDED]
    changed = next((name for (_, before), (name, now) in pairwise(decided) if now != before), None)
    return Drift(card.id, claim_id, claim.engine, claim.versions, ordered, changed)


def _builds_of(engine: str, builds: Sequence[Build]) -> list[Build]:
    return [b for b in builds if b.engine == engine]


def _with_probe(claims: Iterable[Named]) -> list[Named]:
    return [(card, claim) for card, claim in claims if card.claims[claim].probe and card.claims[claim].engine != "none"]


def _id(named: Named) -> tuple[str, str]:
    return named[0].id, named[1]


def _by_claim(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], dict[str, Verdict]]:
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    for v in verdicts:
        if v.build is not None:
            found.setdefault((v.card, v.claim), {})[v.build] = v
    return found
