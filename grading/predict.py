"""Predictions: what a person says an engine will do, what it then did in a run of this session, and the credit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from inferproof.grading.workload import Language, Question

if TYPE_CHECKING:  # a first question must not wait for them
    from inferproof.runners.evidence import Evidence, Task
    from inferproof.runners.ledger import Ledger
    from inferproof.runners.site import Site

BUILDS = {"vllm": "vllm-cpu", "sglang": "sglang-cpu"}
"""Engine -> the build that answers for it: a whole one, so that every level is offered."""
HALF = 0.5
KIND = "prediction"
"""Kind of the ledger's records of predictions; their key is the kind of question."""


class PredictError(ValueError):
    """There is nothing to predict with; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A question that was answered by a person, then by the engine."""

    workload: Mapping[str, Any]
    """Engine, build, level, probe and parameters of the run."""
    asks: str
    """The observation that was asked for."""
    predicted: float | None
    """None where the person passed."""
    observed: float | None
    """None where the run gave no observation."""
    credit: float | None
    """1, 0.5 or 0; None where nothing was observed."""
    evidence: str
    """Id of the record of the run."""
    why: tuple[str, ...]
    """How the observed value came about; where there is none, why not."""


def engines_here() -> list[str]:
    """The engines whose build has been set up here, going by its marker alone: the run itself looks closer."""
    from inferproof.runners.paths import builds_dir

    return [engine for engine, build in BUILDS.items() if (builds_dir() / build / "build.json").exists()]


_ERRORS = {
    "en": {
        "engine": "there is no engine '{wanted}'; known: {known}",
        "none": "no engine to run is set up; run: inferproof builds setup {needed}",
    },
    "zh": {
        "engine": "没有引擎 '{wanted}'；可选：{known}",
        "none": "没有已安装的引擎；请运行：inferproof builds setup {needed}",
    },
}


def check_engine(wanted: str | None, language: Language) -> None:
    """Raise PredictError for a name that is no engine's."""
    if wanted is not None and wanted not in BUILDS:
        raise PredictError(_ERRORS[language]["engine"].format(wanted=wanted, known=", ".join(BUILDS)))


def chosen_engines(wanted: str | None, language: Language) -> list[str]:
    """The engines to ask about: the one that is wanted, or all that are set up. Raises PredictError."""
    check_engine(wanted, language)
    here = [engine for engine in engines_here() if wanted in (None, engine)]
    if not here:
        needed = " ".join([BUILDS[wanted]] if wanted else BUILDS.values())
        raise PredictError(_ERRORS[language]["none"].format(needed=needed))
    return here


def task_of(question: Question, site: Site, language: Language) -> Task:
    """The run that answers the question. Raises PredictError where its build is not ready."""
    from inferproof.grading.verify import task_on
    from inferproof.probes.core import find_probe

    build = BUILDS[question.engine]
    if build in site.missing:
        why = site.missing[build]
        raise PredictError(why.zh if language == "zh" else why.en)
    probe = find_probe(question.kind.probe, question.engine)
    return task_on(site, build, probe, question.kind.level, probe.resolve(question.params))


def read(line: str) -> float | None:
    """The one number in a line such as `2,064 tokens`, `about 3`, `85%` or `三次`; None where there is not one."""
    from inferproof.grading.numbers import NUMERALS, chinese_number, quantities
    from inferproof.grading.text import normalise

    text = normalise(line.strip())
    found = quantities(text)
    if len(found) == 1:
        value = found[0].value / 100 if found[0].unit == "percent" else found[0].value
    elif len(text.plain) == 1 and text.plain in NUMERALS:  # 三 alone is a number here, whatever it is in a sentence
        value = chinese_number(text.plain) or 0.0
    else:
        return None
    return int(value) if value.is_integer() else value


def credit(question: Question, predicted: float | None, observed: float) -> float:
    """1 for the observed value, as exact as is asked; half within the question's tolerance; else 0.

    Nothing is near zero: whether there is any hit or any preemption at all is what such a question asks.
    """
    if predicted is None:
        return 0.0
    off = abs(predicted - observed)
    if off <= 0.5 * 10**-question.ask.decimals * (1 + 1e-9) if question.ask.decimals else off == 0:
        return 1.0
    near = off <= max(question.tolerance, question.ask.share * abs(observed))
    return HALF if near and predicted and observed else 0.0


def score(question: Question, predicted: float | None, evidence: Evidence, language: Language) -> Scored:
    """The prediction held against what the run observed."""
    task = evidence.task
    seen = evidence.ended == "ok"
    observed = question.ask.observed(evidence.observations) if seen else None
    why = question.why(language, {**task["params"], **evidence.observations}) if seen else [evidence.reason]
    return Scored(
        workload={name: task[name] for name in ("engine", "build", "level", "probe", "params")},
        asks=question.ask.name,
        predicted=predicted,
        observed=observed,
        credit=None if observed is None else credit(question, predicted, observed),
        evidence=evidence.id,
        why=tuple(why),
    )


def keep(ledger: Ledger, question: Question, seed: int, scored: Scored) -> None:
    """Append the prediction to the ledger."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    ledger.append(
        KIND, question.kind.id, {"kind": question.kind.id, "seed": seed, "number": question.number, "at": now}
        | asdict(scored)
    )  # fmt: skip
