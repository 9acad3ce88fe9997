"""From claims to verdicts: which runs a claim needs on which builds, carried out, and judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from inferproof.grading.same_code import reaching_the_pin
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


_WHY = {
    "no GPU": (
        "needs an NVIDIA GPU; run the same command on a machine that has one, with a build of level cuda",
        "需要 NVIDIA GPU；请在有 GPU 的机器上，用 cuda 级别的构建执行同一命令",
    ),
    "published": (
        "only published figures stand behind it; measuring them needs a GPU",
        "只有已发表的数据作依据；实测需要 GPU",
    ),
    "no build": (
        "no chosen build offers engine {where} at level {levels} (chosen: {among})",
        "所选构建中没有能在 {levels} 级别提供引擎 {where} 的（所选：{among}）",
    ),
    "no level": (
        "its probe does not run at level {level}, only at {levels}",
        "它的探针不在 {level} 级别运行，只在 {levels} 级别运行",
    ),
    "not yet": (
        "not verified yet on this machine: run inferproof verify",
        "尚未在本机验证：请运行 inferproof verify",
    ),
    "never": ("never run with these parameters on this build", "从未以这些参数在该构建上运行"),
    "up to date": ("up to date", "证据是最新的"),
    "ended": ("the last run {ended}: {reason}", "上次运行的结果是 {ended}：{reason}"),
    "changed": ("changed since the last run: {changed}", "上次运行之后有变化：{changed}"),
    "probe_code": ("the probe's code", "探针代码"),
    "build_digest": ("the build's installed files", "构建的文件"),
    "config": ("the engine config", "引擎配置"),
    "level": ("the level", "层级"),
}
"""Why a claim did not run, or why a run is wanted, in English and in Chinese."""


def _why(key: str, language: Language, **values: object) -> str:
    return _WHY[key][language == "zh"].format(**values)


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
    language: Language = "en"
    """Of the reasons."""


def plan(
    claims: Iterable[Named],
    site: Site,
    *,
    builds: Sequence[str] = (),
    level: str | None = None,
    language: Language = "en",
    params: Mapping[str, Any] | None = None,
    any_version: bool = False,
) -> Plan:
    """Which task each claim needs on each build.

    builds  names of the builds to use; none: the default ones, and for a claim that no default build can answer
            (its `versions`, a level) whatever other build can.
    level   run at this level only; None: at the highest that probe and build share.
    params  probe parameters that replace the claims' own (an answer's 1040-token prompt).
    any_version  also on releases that a claim does not speak of, to see whether it holds there all the same.
    """
    for name in builds:
        if name not in site.builds:
            raise unknown("build", name, list(site.builds))
    if level is not None and level not in LEVELS:
        raise unknown("level", level, LEVELS)
    named = [b for b in site.builds.values() if b.name in builds]
    usual = [b for b in site.builds.values() if b.default]
    others = [b for b in site.builds.values() if not b.default and b.refusal is None]
    made = Plan(language=language)
    for card, claim_id in claims:
        _plan_claim(
            made, card, claim_id, [named] if builds else [usual, others], site, level, params or {}, any_version
        )
    return made


def _plan_claim(
    made: Plan,
    card: Card,
    claim_id: str,
    offers: Sequence[Sequence[Build]],
    site: Site,
    level: str | None,
    params: Mapping[str, Any],
    any_version: bool,
) -> None:
    """Plan the claim on every build of the first of the `offers` in which any can answer it."""
    claim = card.claims[claim_id]
    if claim.kind == "judgement":
        made.not_run.append(not_run(card, claim_id, None, claim.reason.of(made.language) if claim.reason else ""))
        return
    if claim.probe is None:
        made.not_run.append(not_run(card, claim_id, None, _why("published", made.language)))
        return
    probe = find_probe(claim.probe, claim.engine)
    resolved = probe.resolve({**claim.probe_params, **params})
    fits = (
        [(b, at) for b in offer if (at := _level(claim, probe, b, level)) and (any_version or _speaks_of(claim, b))]
        for offer in offers
    )
    fit = next(filter(None, fits), [])
    if any_version:  # then every release is to be accounted for
        left_out = [b for b in offers[0] if b.engine == probe.engine and b not in [fitting for fitting, _ in fit]]
        for build in left_out:
            why = _why_no_build(claim, probe, [build], level, made.language)
            made.not_run.append(not_run(card, claim_id, build.name, why))
    elif not fit:
        made.not_run.append(not_run(card, claim_id, None, _why_no_build(claim, probe, offers[0], level, made.language)))
    for build, at in fit:
        if build.name in site.missing:
            missing = site.missing[build.name]
            made.not_run.append(
                not_run(card, claim_id, build.name, missing.zh if made.language == "zh" else missing.en)
            )
            continue
        task = task_on(site, build.name, probe, at, resolved)
        if task.key not in made.claims_of:
            made.tasks.append(task)
        made.claims_of.setdefault(task.key, []).append((card, claim_id))


def task_on(site: Site, build: str, probe: Probe, level: str, params: Mapping[str, Any]) -> Task:
    """The run of a probe on a build that is ready; `params` has every parameter."""
    return Task(
        probe=probe.name,
        engine=probe.engine,
        level=level,
        params=params,
        build=build,
        config=probe.engine_config(dict(params)),
        probe_code=code_hash(probe),
        build_digest=site.identities[build]["digest"],
        timeout_s=probe.timeout_s,
    )


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


def _why_no_build(claim: Claim, probe: Probe, chosen: Sequence[Build], level: str | None, language: Language) -> str:
    least = claim.level or probe.levels[0]
    if least == "cuda" or probe.levels == ("cuda",):
        return _why("no GPU", language)
    join = " 或 " if language == "zh" else " or "
    if level is not None and level not in probe.levels:
        return _why("no level", language, level=level, levels=join.join(probe.levels))
    among = ", ".join(b.name for b in chosen) or "none"
    where = " ".join(filter(None, (probe.engine, claim.versions)))
    return _why("no build", language, where=where, levels=level or join.join(probe.levels), among=among)


def carry_out(
    made: Plan, site: Site, ledger: Ledger, *, rerun: bool = False, listen: Listener = silent
) -> Iterator[list[Verdict]]:
    """Run what is missing of the plan; yield the verdicts of each piece of evidence as it comes, reach untold."""
    for result in execute(
        made.tasks, ledger, launcher=site.launch, identities=site.identities, logs=site.logs, rerun=rerun,
        listen=listen, executor=site.executor,
    ):  # fmt: skip
        yield _judged(made, result)


def ordered(verdicts: Iterable[Verdict], claims: Sequence[Named], site: Site) -> list[Verdict]:
    """The verdicts with their reach, in the order of the claims, then of the builds."""
    claim_at = {(card.id, claim): i for i, (card, claim) in enumerate(claims)}
    build_at = {name: i for i, name in enumerate(site.builds)}
    verdicts = list(verdicts)
    reached = with_reach(verdicts, site.stands, reaching_the_pin(verdicts, claims, site))
    return sorted(reached, key=lambda v: (claim_at[v.card, v.claim], build_at.get(v.build or "", -1)))


def _judged(made: Plan, result: Result) -> list[Verdict]:
    if result.evidence is None:
        return [
            not_run(card, claim, result.task.build, result.reason) for card, claim in made.claims_of[result.task.key]
        ]
    return [
        judge(card, claim, result.evidence, reused=result.reused) for card, claim in made.claims_of[result.task.key]
    ]


def known_evidence(
    claims: Sequence[Named], site: Site, ledger: Ledger, language: Language = "en"
) -> tuple[list[Verdict], dict[str, Evidence]]:
    """Verdicts from evidence that is there already, without running anything, and that evidence by id."""
    from inferproof.runners.execute import up_to_date

    made = plan(claims, site, language=language)
    known = up_to_date(made.tasks, ledger)
    verdicts = list(made.not_run)
    for task in made.tasks:
        evidence = known.get(task.key)
        why = "" if evidence else _why("not yet", language)
        verdicts += _judged(made, Result(task, evidence, reused=True, reason=why))
    return ordered(verdicts, claims, site), {e.id: e for e in known.values()}


def explain(task: Task, ledger: Ledger, language: Language = "en") -> str:
    """Why a task must run, in one sentence, going by the newest record of the same probe, parameters and build."""
    same = [
        e
        for e in ledger.of_probe(task.probe)
        if (e.task["probe"], e.task["engine"], e.task["build"], dict(e.task["params"]))
        == (task.probe, task.engine, task.build, dict(task.params))
    ]
    if not same:
        return _why("never", language)
    last = same[-1]
    if last.key == task.key:
        if last.settled:
            return _why("up to date", language)
        return _why("ended", language, ended=last.ended, reason=last.reason)
    inputs = ("probe_code", "build_digest", "config", "level")
    changed = [_why(name, language) for name in inputs if last.task.get(name) != getattr(task, name)]
    return _why("changed", language, changed=("、" if language == "zh" else ", ").join(changed))


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
