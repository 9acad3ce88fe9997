"""From claims to verdicts: which runs a claim needs on which builds, carried out, and judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from inferproof.grading.verdict import Verdict, judge, not_run, with_reach
from inferproof.probes.core import LEVELS, Probe, canonical, find_probe
from inferproof.questions.card import Card, Claim, Language
from inferproof.runners.builds import Build
from inferproof.runners.evidence import Evidence, Task, code_hash
from inferproof.runners.execute import Result, execute
from inferproof.runners.ledger import Ledger
from inferproof.runners.site import Site
from inferproof.runners.worker import Listener, silent

Named = tuple[Card, str]
"""A card and the id of one of its claims."""


class SelectionError(ValueError):
    """A name that is no card, claim, probe, build or level; the message offers the nearest names."""


def select(deck: Mapping[str, Card], names: Sequence[str], collection: str | None = None) -> list[Named]:
    """The claims that `names` mean: a card, CARD/CLAIM, or a probe. No names: the whole deck. Raises SelectionError."""
    if collection is not None:
        have = sorted({card.collection for card in deck.values()})
        if collection not in have:
            raise unknown("collection", collection, have)
        deck = {k: c for k, c in deck.items() if c.collection == collection}
    if not names:
        return [(card, claim) for card in deck.values() for claim in card.claims]
    chosen: dict[tuple[str, str], Named] = {}
    for name in names:
        for card, claim in _meant(deck, name):
            chosen[card.id, claim] = (card, claim)
    return list(chosen.values())


def _meant(deck: Mapping[str, Card], name: str) -> list[Named]:
    card_id, slash, claim_id = name.partition("/")
    if card_id in deck:
        card = deck[card_id]
        if not slash:
            return [(card, claim) for claim in card.claims]
        if claim_id not in card.claims:
            raise unknown(f"claim of {card_id}", claim_id, list(card.claims))
        return [(card, claim_id)]
    by_probe = [(c, k) for c in deck.values() for k, claim in c.claims.items() if claim.probe == name]
    if not by_probe:
        probes = {claim.probe for c in deck.values() for claim in c.claims.values() if claim.probe}
        raise unknown("card, claim or probe", name, [*deck, *sorted(probes)])
    return by_probe


def unknown(what: str, name: str, known: Sequence[str]) -> SelectionError:
    """The error for a name that is not known, with the nearest ones."""
    near = get_close_matches(name, known, n=3, cutoff=0.4)
    return SelectionError(
        f"there is no {what} '{name}'; "
        + (f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}")
    )


@dataclass
class Plan:
    """The runs that the chosen claims need, and the claims for which nothing can run."""

    tasks: list[Task] = field(default_factory=list)
    claims_of: dict[str, list[Named]] = field(default_factory=dict)
    """Task key -> the claims that its evidence decides."""
    not_run: list[Verdict] = field(default_factory=list)


def plan(
    claims: Iterable[Named],
    site: Site,
    *,
    builds: Sequence[str] = (),
    level: str | None = None,
    language: Language = "en",
    params: Mapping[str, Any] | None = None,
) -> Plan:
    """Which task each claim needs on each build.

    builds  names of the builds to use; none: the default ones, and for a claim that no default build can answer
            (its `versions`, a level) whatever other build can.
    level   run at this level only; None: at the highest that probe and build share.
    params  probe parameters that replace the claims' own (an answer's 1040-token prompt).
    """
    for name in builds:
        if name not in site.builds:
            raise unknown("build", name, list(site.builds))
    if level is not None and level not in LEVELS:
        raise unknown("level", level, LEVELS)
    named = [b for b in site.builds.values() if b.name in builds]
    usual = [b for b in site.builds.values() if b.default]
    others = [b for b in site.builds.values() if not b.default and b.refusal is None]
    made = Plan()
    for card, claim_id in claims:
        _plan_claim(made, card, claim_id, [named] if builds else [usual, others], site, level, language, params or {})
    return made


def _plan_claim(
    made: Plan,
    card: Card,
    claim_id: str,
    offers: Sequence[Sequence[Build]],
    site: Site,
    level: str | None,
    language: Language,
    params: Mapping[str, Any],
) -> None:
    """Plan the claim on every build of the first of the `offers` in which any can answer it."""
    claim = card.claims[claim_id]
    if claim.kind == "judgement":
        made.not_run.append(not_run(card, claim_id, None, claim.reason.of(language) if claim.reason else ""))
        return
    if claim.probe is None:
        made.not_run.append(
            not_run(card, claim_id, None, "only published figures stand behind it; measuring them needs a GPU")
        )
        return
    probe = find_probe(claim.probe, claim.engine)
    resolved = probe.resolve({**claim.probe_params, **params})
    fits = (
        [(b, at) for b in offer if (at := _level(claim, probe, b, level)) and _speaks_of(claim, b)] for offer in offers
    )
    fit = next(filter(None, fits), [])
    if not fit:
        made.not_run.append(not_run(card, claim_id, None, _why_no_build(claim, probe, offers[0], level)))
    for build, at in fit:
        if build.name in site.missing:
            made.not_run.append(not_run(card, claim_id, build.name, site.missing[build.name]))
            continue
        task = Task(
            probe=probe.name,
            engine=probe.engine,
            level=at,
            params=resolved,
            build=build.name,
            config=probe.engine_config(resolved),
            probe_code=code_hash(probe),
            build_digest=site.identities[build.name]["digest"],
            timeout_s=probe.timeout_s,
        )
        if task.key not in made.claims_of:
            made.tasks.append(task)
        made.claims_of.setdefault(task.key, []).append((card, claim_id))


def _level(claim: Claim, probe: Probe, build: Build, wanted: str | None) -> str | None:
    """The level at which the claim's probe runs on the build, or None."""
    if build.engine != probe.engine:
        return None
    least = LEVELS.index(claim.level) if claim.level else 0
    shared = [at for at in LEVELS[least:] if at in probe.levels and at in build.levels and wanted in (None, at)]
    return shared[-1] if shared else None


def _speaks_of(claim: Claim, build: Build) -> bool:
    from packaging.specifiers import SpecifierSet

    return (
        claim.versions is None
        or not build.version
        or SpecifierSet(claim.versions).contains(build.version, prereleases=True)
    )


def _why_no_build(claim: Claim, probe: Probe, chosen: Sequence[Build], level: str | None) -> str:
    least = claim.level or probe.levels[0]
    if least == "cuda" or probe.levels == ("cuda",):
        return "needs an NVIDIA GPU; run the same command on a machine that has one, with a build of level cuda"
    among = ", ".join(b.name for b in chosen) or "none"
    where = f"engine {probe.engine}" + (f" {claim.versions}" if claim.versions else "")
    return f"no chosen build offers {where} at level {level or ' or '.join(probe.levels)} (chosen: {among})"


def carry_out(
    made: Plan, site: Site, ledger: Ledger, *, rerun: bool = False, listen: Listener = silent
) -> Iterator[list[Verdict]]:
    """Run what is missing of the plan; yield the verdicts of each piece of evidence as it comes, reach untold."""
    for result in execute(
        made.tasks, ledger, launcher=site.launch, identities=site.identities, logs=site.logs, rerun=rerun, listen=listen
    ):
        yield _judged(made, result)


def ordered(verdicts: Iterable[Verdict], claims: Sequence[Named], site: Site) -> list[Verdict]:
    """The verdicts with their reach, in the order of the claims, then of the builds."""
    claim_at = {(card.id, claim): i for i, (card, claim) in enumerate(claims)}
    build_at = {name: i for i, name in enumerate(site.builds)}
    reached = with_reach(verdicts, site.stands)
    return sorted(reached, key=lambda v: (claim_at[v.card, v.claim], build_at.get(v.build or "", -1)))


def _judged(made: Plan, result: Result) -> list[Verdict]:
    if result.evidence is None:
        return [
            not_run(card, claim, result.task.build, result.reason) for card, claim in made.claims_of[result.task.key]
        ]
    return [
        judge(card, claim, result.evidence, reused=result.reused) for card, claim in made.claims_of[result.task.key]
    ]


def known_evidence(claims: Sequence[Named], site: Site, ledger: Ledger) -> tuple[list[Verdict], dict[str, Evidence]]:
    """Verdicts from evidence that is there already, without running anything, and that evidence by id."""
    from inferproof.runners.execute import up_to_date

    made = plan(claims, site)
    known = up_to_date(made.tasks, ledger)
    verdicts = list(made.not_run)
    for task in made.tasks:
        evidence = known.get(task.key)
        why = "" if evidence else "not verified yet on this machine: run inferproof verify"
        verdicts += _judged(made, Result(task, evidence, reused=True, reason=why))
    return ordered(verdicts, claims, site), {e.id: e for e in known.values()}


def explain(task: Task, ledger: Ledger) -> str:
    """Why a task must run, in one sentence, going by the newest record of the same probe, parameters and build."""
    same = [
        e
        for e in ledger.of_probe(task.probe)
        if (e.task["probe"], e.task["engine"], e.task["build"], dict(e.task["params"]))
        == (task.probe, task.engine, task.build, dict(task.params))
    ]
    if not same:
        return "never run with these parameters on this build"
    last = same[-1]
    if last.key == task.key:
        return "up to date" if last.settled else f"the last run {last.ended}: {last.reason}"
    names = {
        "probe_code": "the probe's code",
        "build_digest": "the build's installed files",
        "config": "the engine config",
        "level": "the level",
    }
    changed = [words for name, words in names.items() if last.task.get(name) != getattr(task, name)]
    return f"changed since the last run: {', '.join(changed)}"


def evidence_by_claim(card: Card, ledger: Ledger) -> dict[str, list[Evidence]]:
    """Claim id -> the newest settled evidence of its probe and parameters, one record a build, newest first.

    Whatever build it is from, whether or not that build is still installed: a grade quotes what was measured.
    """
    wanted: dict[tuple[str, str, str], list[str]] = {}
    for claim_id, claim in card.claims.items():
        if claim.probe is not None:
            params = find_probe(claim.probe, claim.engine).resolve(claim.probe_params)
            wanted.setdefault((claim.probe, claim.engine, canonical(params)), []).append(claim_id)
    newest: dict[str, dict[str, Evidence]] = {}
    for probe in {key[0] for key in wanted}:
        for evidence in ledger.of_probe(probe):
            claims = wanted.get((probe, str(evidence.task["engine"]), canonical(evidence.task["params"])), [])
            for claim_id in claims if evidence.settled else ():
                newest.setdefault(claim_id, {})[str(evidence.task["build"])] = evidence
    return {
        claim: sorted(by_build.values(), key=lambda e: e.started_at, reverse=True) for claim, by_build in newest.items()
    }
