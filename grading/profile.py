"""A profile carried out: which cells can run here, and what was measured beside each published figure.

Times are never compared with the published ones by a verdict: relations are, and in a rehearsal on a CPU even these
are only shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inferproof.grading.verdict import PredicateError, compiled, evaluate, free_names
from inferproof.probes.core import Probe, find_probe
from inferproof.questions.card import Language
from inferproof.questions.profile import Cell, Profile, Relation
from inferproof.questions.recorded import Figure, Recorded
from inferproof.runners.evidence import Evidence, Task, code_hash
from inferproof.runners.execute import Result, execute, up_to_date
from inferproof.runners.ledger import Ledger
from inferproof.runners.servers import Servers
from inferproof.runners.worker import Listener, silent

_WHY = {
    "no GPU": (
        "no {engine} for a GPU is at hand: on a machine with a GPU, name a Python that has it installed (--python "
        "{engine}=/path/to/python); or attach a running server (--attach {engine}=http://HOST:PORT); or rehearse it on "
        "this CPU (--rehearse)",
        "没有可用于 GPU 的 {engine}：请在有 GPU 的机器上指定装有它的 Python（--python {engine}=/path/to/python），"
        "或接入运行中的服务（--attach {engine}=http://HOST:PORT），或在本机 CPU 上演练（--rehearse）",
    ),
    "no build": (
        "no {engine} build is set up: run inferproof builds setup",
        "没有安装 {engine} 构建：请运行 inferproof builds setup",
    ),
    "model": (
        "the attached server serves {served}, the published figures are of {model}",
        "接入的服务提供的是 {served}，已发表的数据来自 {model}",
    ),
    "untold": ("the server did not say", "服务没有给出"),
    "not yet": ("not measured yet", "尚未测量"),
}


def _why(key: str, language: Language, **values: object) -> str:
    return _WHY[key][language == "zh"].format(**values)


@dataclass(frozen=True)
class Planned:
    """The cells that can run, each with its task, and the others with the reason."""

    profile: Profile
    rehearse: bool
    language: Language
    tasks: Mapping[str, Task]
    missing: Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """A published figure and what was measured for it."""

    figure: Figure
    measured: float | int | None
    ratio: float | None
    """Measured over published; None where either is 0 or nothing was measured."""
    reason: str
    """Why nothing was measured."""
    cells: tuple[str, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Related:
    """A relation and what became of it."""

    id: str
    relation: Relation
    verdict: Literal["holds", "contradicted", "not run"]
    reason: str
    observed: Mapping[str, Any]
    """What its predicate reads, in its own words and order: `vllm_c1.throughput`."""


@dataclass(frozen=True)
class Comparison:
    """All that a profile shows."""

    planned: Planned
    recorded: Recorded
    rows: tuple[Row, ...]
    relations: tuple[Related, ...]
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """By cell."""

    @property
    def exit_status(self) -> int:
        """1: a relation is contradicted (a rehearsal contradicts nothing); 3: something did not run; else 0."""
        if not self.planned.rehearse and any(r.verdict == "contradicted" for r in self.relations):
            return 1
        return 3 if any(row.measured is None for row in self.rows) else 0


def plan(profile: Profile, servers: Servers, *, rehearse: bool, language: Language = "en") -> Planned:
    """Which cells run on which build: an attached server, else the first default build that offers the level."""
    tasks: dict[str, Task] = {}
    missing: dict[str, str] = {}
    for name, cell in profile.cells.items():
        served = profile.servers[cell.server]
        if rehearse and (key := cell.not_rehearsed or served.not_rehearsed):
            missing[name] = getattr(profile.reasons[key], language)
            continue
        build, level, why = _build_for(profile, served.engine, servers, rehearse, language)
        if build is None:
            missing[name] = why
        else:
            tasks[name] = _task(profile, cell, find_probe(cell.probe, served.engine), build, level, servers, rehearse)
    return Planned(profile, rehearse, language, tasks, missing)


def _build_for(
    profile: Profile, engine: str, servers: Servers, rehearse: bool, language: Language
) -> tuple[str | None, str, str]:
    """(build, level, why there is none)."""
    found = servers.build_for(engine, "engine" if rehearse else "cuda")
    if found is None:
        return None, "", _why("no build" if rehearse else "no GPU", language, engine=engine)
    served = servers.served(found[0])
    if served is not None and not rehearse and served.rpartition("/")[2] != profile.model.rpartition("/")[2]:
        return None, "", _why("model", language, served=served, model=profile.model)
    return *found, ""


def _task(profile: Profile, cell: Cell, probe: Probe, build: str, level: str, servers: Servers, rehearse: bool) -> Task:
    served = profile.servers[cell.server]
    model = profile.rehearsal_model if rehearse else profile.model
    settings = f"model={model} {served.rehearsed if rehearse else served.settings}".strip()
    params = probe.resolve({**cell.params, **(cell.rehearsed if rehearse else {}), "server": settings})
    return Task(
        probe=probe.name, engine=probe.engine, level=level, params=params, build=build,
        config=probe.engine_config(params), probe_code=code_hash(probe),
        build_digest=servers.identities[build]["digest"], timeout_s=probe.timeout_s,
    )  # fmt: skip


def carry_out(
    planned: Planned, servers: Servers, ledger: Ledger, *, rerun: bool = False, listen: Listener = silent
) -> Iterator[Result]:
    """Run the cells that are missing in the ledger; yield each result as it comes."""
    yield from execute(
        list(planned.tasks.values()), ledger, launcher=servers.launch, identities=servers.identities,
        logs=servers.site.logs, rerun=rerun, listen=listen,
    )  # fmt: skip


def with_earlier(results: Sequence[Result], ledger: Ledger) -> list[Result]:
    """For a cell that an attached server is not set up for, what another of the same version gave when it was attached.

    So a profile whose cells want servers of many settings is measured by attaching one after the other.
    """
    return [_earlier(result, ledger) or result for result in results]


def _earlier(result: Result, ledger: Ledger) -> Result | None:
    told, task = result.evidence, result.task
    if told is None or told.ended != "unavailable" or not task.build.startswith("attached-"):
        return None
    for evidence in reversed(list(ledger.of_probe(task.probe))):
        same = all(evidence.task[k] == getattr(task, k) for k in ("engine", "params", "build", "level", "probe_code"))
        if same and evidence.ended == "ok" and evidence.build["version"] == told.build["version"]:
            return Result(task, evidence, reused=True)
    return None


def known(planned: Planned, ledger: Ledger) -> list[Result]:
    """What the ledger has of it already; nothing runs."""
    found = up_to_date(list(planned.tasks.values()), ledger)
    return [Result(task, found[task.key], reused=True) for task in planned.tasks.values() if task.key in found]


def compare(planned: Planned, results: Sequence[Result], recorded: Recorded) -> Comparison:
    """Every published figure beside what was measured, and every relation."""
    by_key = {result.task.key: result for result in results}
    evidence: dict[str, Evidence] = {}
    missing = {name: _why("not yet", planned.language) for name in planned.profile.cells} | dict(planned.missing)
    for name, task in planned.tasks.items():
        if (result := by_key.get(task.key)) is None:
            continue
        if result.evidence is not None and result.evidence.ended == "ok":
            evidence[name] = result.evidence
            del missing[name]
        elif result.evidence is not None:
            missing[name] = f"{result.evidence.ended}: {result.evidence.reason}"
        else:
            missing[name] = result.reason
    observed = {name: dict(e.observations) for name, e in evidence.items()}
    rows = tuple(_row(planned, figure, observed, missing, evidence) for figure in recorded.figures)
    relations = tuple(_related(planned, k, r, observed, missing) for k, r in planned.profile.relations.items())
    return Comparison(planned, recorded, rows, relations, evidence)


def _row(
    planned: Planned,
    figure: Figure,
    observed: Mapping[str, Any],
    missing: Mapping[str, str],
    evidence: Mapping[str, Evidence],
) -> Row:
    beside = planned.profile.figures[figure.id]
    cells = tuple(free_names(beside.value))
    value, reason = None, _absent(planned, beside.not_rehearsed, cells, missing)
    if not reason:
        try:
            value = _number(compiled(beside.value).execute(dict(observed)))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            value = None
        reason = "" if value is not None else _why("untold", planned.language)
    ratio = value / figure.value if value and figure.value else None
    ids = tuple(evidence[cell].id for cell in cells if cell in evidence) if value is not None else ()
    return Row(figure, value, ratio, reason, cells, ids)


def _related(
    planned: Planned, name: str, relation: Relation, observed: Mapping[str, Any], missing: Mapping[str, str]
) -> Related:
    cells = tuple(free_names(relation.expect))
    if reason := _absent(planned, relation.not_rehearsed, cells, missing):
        return Related(name, relation, "not run", reason, {})
    read = _read(relation.expect, observed)
    if None in read.values():
        return Related(name, relation, "not run", _why("untold", planned.language), read)
    try:
        holds = evaluate(relation.expect, observed)
    except PredicateError as error:
        return Related(name, relation, "not run", str(error), read)
    return Related(name, relation, "holds" if holds else "contradicted", "", read)


_READS = re.compile(r"\b([a-z]\w*)\.(\w+)(?:\[(\d+)\])?")


def _read(predicate: str, observed: Mapping[str, Any]) -> dict[str, Any]:
    """The observations that a predicate reads."""
    found = {}
    for cell, name, index in _READS.findall(predicate):
        value = observed[cell][name]
        found[f"{cell}.{name}" + (f"[{index}]" if index else "")] = value[int(index)] if index else value
    return found


def _absent(planned: Planned, not_rehearsed: str, cells: Sequence[str], missing: Mapping[str, str]) -> str:
    if planned.rehearse and not_rehearsed:
        return str(getattr(planned.profile.reasons[not_rehearsed], planned.language))
    return next((missing[cell] for cell in cells if cell in missing), "")


def _number(value: Any) -> float | int | None:
    real = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if real else None
