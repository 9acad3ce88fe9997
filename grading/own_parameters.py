"""Parameters that an answer names itself (a 1040-token prompt): evidence under them, and the runs that give it.

The claim's predicate speaks of the claim's own parameters; what was observed under others is compared with the answer's
number, and never judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferproof.grading.findings import case
from inferproof.grading.result import Grade
from inferproof.grading.verify import Named, SelectionError, plan
from inferproof.probes.core import LEVELS, canonical, find_probe
from inferproof.questions.card import Card, Claim, Language
from inferproof.runners.evidence import Evidence, Task
from inferproof.runners.execute import Result, execute
from inferproof.runners.ledger import Ledger
from inferproof.runners.site import Site
from inferproof.runners.worker import Listener, silent

QUICK = ("control", "component", "arithmetic")
"""Levels at which a grade may run a probe, the strongest first: they take seconds."""
LARGEST = 8
"""A number more than so many times the claim's own is not run: an answer may name a prompt that fills the memory."""
TIMEOUT_S = 120.0
_WHY = {
    "size": (
        "{name} is not between 1 and {largest}, which a grade runs",
        "{name} 不在评分时可运行的 1 到 {largest} 之间",
    ),
    "level": ("its probe runs at level {levels} only, which takes longer", "它的探针只在 {levels} 级别运行，耗时较长"),
}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the probe of a claim observed under given parameters; no verdict on the claim."""

    card: str
    claim: str
    build: str | None
    level: str | None
    params: Mapping[str, Any]
    ended: str
    """As in evidence, or `not run`."""
    reason: str
    observations: Mapping[str, Any]
    evidence: str | None
    seconds: float | None
    reused: bool = False


def cases(grade: Grade) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Key -> (claim, parameters) for each number in the answer that is stated under parameters of its own."""
    return {
        case(f.claim, f.given): (f.claim, f.given)
        for f in grade.findings
        if f.claim is not None and f.given and f.stated is not None
    }


def measured(card: Card, grade: Grade, ledger: Ledger) -> dict[str, list[Evidence]]:
    """For each of the grade's cases the newest evidence of every build under exactly those parameters."""
    return {
        key: _newest(card.claims[claim], given, ledger)
        for key, (claim, given) in cases(grade).items()
        if not _unfit(card.claims[claim], given)
    }


def _newest(claim: Claim, given: Mapping[str, Any], ledger: Ledger) -> list[Evidence]:
    probe = find_probe(claim.probe or "", claim.engine)
    wanted = canonical(probe.resolve({**claim.probe_params, **given}))
    strong = LEVELS[LEVELS.index(claim.level) if claim.level else 0 :]
    newest = {
        str(e.task["build"]): e
        for e in ledger.of_probe(probe.name)
        if e.ended == "ok"
        and (e.task["engine"], canonical(e.task["params"])) == (probe.engine, wanted)
        and e.task["level"] in strong
    }
    return sorted(newest.values(), key=lambda e: e.started_at, reverse=True)


def measure(
    card: Card, grade: Grade, site: Site, ledger: Ledger, language: Language, listen: Listener = silent
) -> Iterator[str]:
    """Run each of the grade's cases once that has no evidence yet; yield why one gave none."""
    have = measured(card, grade, ledger)
    for key, (claim, given) in cases(grade).items():
        if not have.get(key) and (why := _run(card, claim, given, site, ledger, language, listen)):
            yield f"{card.id}/{claim}, {shown(given)}{'：' if language == 'zh' else ': '}{why}"


def _run(
    card: Card,
    claim_id: str,
    given: Mapping[str, Any],
    site: Site,
    ledger: Ledger,
    language: Language,
    listen: Listener,
) -> str:
    """Run the probe on the first default build that can; why that gave nothing, or an empty string."""
    claim = card.claims[claim_id]
    if unfit := _unfit(claim, given) or _too_large(claim, given, language):
        return unfit
    levels = find_probe(claim.probe or "", claim.engine).levels
    quick = [level for level in QUICK if level in levels]
    why = _WHY["level"][language == "zh"].format(levels=", ".join(levels))
    for level in quick:
        made = plan([(card, claim_id)], site, level=level, language=language, params=given)
        if made.tasks:
            task = replace(made.tasks[0], timeout_s=TIMEOUT_S)
            (result,) = _execute([task], site, ledger, listen=listen)
            return _reason(result)
        why = made.not_run[0].reason
    return why


def _unfit(claim: Claim, given: Mapping[str, Any]) -> str:
    """Why the probe cannot take these parameters (half a token)."""
    try:
        find_probe(claim.probe or "", claim.engine).resolve({**claim.probe_params, **given})
    except ValueError as error:
        return str(error)
    return ""


def _too_large(claim: Claim, given: Mapping[str, Any], language: Language) -> str:
    for name, value in given.items():
        usual = claim.params.get(name)
        largest = LARGEST * usual if isinstance(usual, int | float) else value
        if not 1 <= value <= largest:
            return _WHY["size"][language == "zh"].format(name=name, largest=largest)
    return ""


def _reason(result: Result) -> str:
    if result.evidence is None:
        return result.reason
    return "" if result.evidence.ended == "ok" else f"{result.evidence.ended}: {result.evidence.reason}"


def _execute(
    tasks: Sequence[Task], site: Site, ledger: Ledger, *, rerun: bool = False, listen: Listener = silent
) -> Iterator[Result]:
    return execute(
        tasks, ledger, launcher=site.launch, identities=site.identities, logs=site.logs, rerun=rerun, listen=listen
    )


def shown(given: Mapping[str, Any]) -> str:
    """`prompt_tokens = 1040, block_size = 32`."""
    return ", ".join(f"{name} = {value}" for name, value in given.items())


def parameters(words: Sequence[str], claims: Sequence[Named]) -> dict[str, Any]:
    """The parameters that `NAME=VALUE` words give (values as in JSON, else text). Raises SelectionError."""
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise SelectionError(f"--with is '{word}', expected NAME=VALUE, as prompt_tokens=1040")
        try:
            given[name] = json.loads(value)
        except ValueError:
            given[name] = value
    for card, claim_id in claims:
        claim = card.claims[claim_id]
        if claim.probe is not None and (unfit := _unfit(claim, given)):
            raise SelectionError(f"--with: {card.id}/{claim_id}: {unfit}")
    return given


def observe(
    claims: Sequence[Named],
    given: Mapping[str, Any],
    site: Site,
    ledger: Ledger,
    *,
    builds: Sequence[str] = (),
    level: str | None = None,
    language: Language = "en",
    rerun: bool = False,
    listen: Listener = silent,
) -> Iterator[Observed]:
    """Run the claims' probes with `given` in place of their own parameters, and yield what they observe."""
    made = plan(claims, site, builds=builds, level=level, language=language, params=given)
    for v in made.not_run:
        yield Observed(
            card=v.card, claim=v.claim, build=v.build, level=None, params=given, ended="not run",
            reason=v.reason, observations={}, evidence=None, seconds=None,
        )  # fmt: skip
    for result in _execute(made.tasks, site, ledger, rerun=rerun, listen=listen):
        for card, claim in made.claims_of[result.task.key]:
            yield _observed(card, claim, result)


def _observed(card: Card, claim: str, result: Result) -> Observed:
    e = result.evidence
    return Observed(
        card=card.id, claim=claim, build=result.task.build, level=result.task.level, params=result.task.params,
        ended=e.ended if e else "not run", reason=e.reason if e else result.reason,
        observations=e.observations if e else {}, evidence=e.id if e else None,
        seconds=e.seconds if e else None, reused=result.reused,
    )  # fmt: skip
