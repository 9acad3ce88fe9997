"""Arithmetic in an answer, worked out again with the answer's own numbers: its layers, its GPU, its link.

A claim whose probe only computes needs no evidence: the same function is called with what the answer gives, and with the
question's figures for what it leaves open. So `40 layers, hence 160 KiB a token` is checked although no card says 160.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import Reading
from inferproof.grading.result import Finding
from inferproof.probes import units
from inferproof.probes.core import Run, find_probe
from inferproof.questions.card import Card, Claim, Language

CALCULATORS = {
    "capacity.gpu_plan": "capacity",
    "capacity.pd_break_even": "pd",
    "capacity.tp_or_replicas": "tp",
    "transfer_time.link": "transfer",
}
"""Probe -> the `inferproof calc` that computes the same."""
AGREES, CONTRADICTS = 0.03, 0.08
"""Shares of the computed value: up to the one a number agrees, from the other on it is wrong. GB for GiB is 0.07."""
_BESIDE = {
    "layers": "layers?|层",
    "kv_heads": "kv[ _-]?heads?|kv ?头|key[/ -]value heads?",
    "head_dim": "head[ _-]?dim(?:ension)?s?|dims?\\b|dimensions?|heads? of|维",
    "tokens": "context|prompt|request|input|long|length|sequence|上下文|请求|长度|长|输入|提示",
    "shared_tokens": "shared?|common|prefix|共享|公共|前缀",
    "gpu": "gpus?|h100|h200|a100|card|hbm|显存|卡",
    "weights": "weights?|model|权重|模型",
    "workspace": "workspace|overhead|reserved?|graphs?|buffers?|activations?|工作区|预留|开销|激活",
    "ranks": "tp|ranks?|tensor parallel|张量并行",
    "prefill_tokens_s": "prefill",
    "kv_kib_per_token": "per token|a token|each token|token 占|每(?:个)? ?token|一个 token|单 ?token",
    "request_gib": "per request|a request|each request|one request|per prompt|each prompt|每(?:个)?请求|一个请求|单请求|每条",
    "requests": "requests?|concurren|fits?|请求|并发|放下|容纳",
}
"""Parameter or observation -> how an answer names it beside its number."""
_DTYPES = {1.0: r"\b(?:fp8|int8|8[- ]bit|e4m3|e5m2)\b", 0.5: r"\b(?:fp4|int4|4[- ]bit)\b", 2.0: r"\b(?:bf16|fp16|16[- ]bit)\b"}
_WORDS = {
    "en": "Computed with your numbers ({given}): {value}.",
    "zh": "按你给的数字（{given}）计算：{value}。",
}


def is_computed(claim: Claim) -> bool:
    """Whether the claim can be worked out again: arithmetic, without an engine."""
    return claim.kind == "arithmetic" and claim.engine == "none" and claim.stated is not None and bool(claim.stated.given)


def recomputed(card: Card, claim_id: str, read: Sequence[Reading], language: Language) -> Iterator[Finding]:
    """A finding for each statement that names the claim's number, against what it is with the numbers given so far."""
    claim = card.claims[claim_id]
    assert claim.stated is not None and claim.stated.value is not None
    given: dict[str, Any] = {}
    for reading in reversed(read):
        given.update(_given(reading, claim))
    for reading in read:
        given.update(_given(reading, claim))
        states = reading.asserted and any(reading.states(alternative) for alternative in claim.stated.when)
        numbers = list(_candidates(reading, claim)) if states else []
        if not numbers:
            continue
        own = {name: value for name, value in given.items() if value != claim.probe_params.get(name)}
        due = _computed(claim, own)
        if due is not None:
            yield _finding(card, claim_id, reading, numbers, due, own, language)


@dataclass(frozen=True)
class _Amount:
    """A number of the answer in the unit of the observation, and as it was said."""

    value: float
    said: str
    approximate: bool


def _given(reading: Reading, claim: Claim) -> Iterator[tuple[str, Any]]:
    """The probe's parameters that the statement sets."""
    assert claim.stated is not None
    for name, kind in claim.stated.given.items():
        if kind == "dtype":
            plain = reading.text.plain[reading.statement.start : reading.statement.end]
            yield from ((name, value) for value, word in _DTYPES.items() if re.search(word, plain))
            continue
        for q in reading.numbers:
            if _is(q, kind) and (kind == "rate" or _beside(reading, q, name)):
                yield name, f"{q.value:g} {q.unit}" if kind in ("size", "rate") else int(q.value)
                break


def _candidates(reading: Reading, claim: Claim) -> Iterator[_Amount]:
    """The numbers of the statement that may be the claim's: of its kind, beside its name where several are."""
    assert claim.stated is not None
    stated, unit = claim.stated, claim.stated.unit or "count"
    kind = "count" if unit in ("count", "requests", "x") else units.Quantity(0, unit).dimension

    def names_parameter(q: Quantity) -> bool:
        return any(_is(q, k) and k != "dtype" and _beside(reading, q, name) for name, k in stated.given.items())

    fitting = [q for q in reading.numbers if _is(q, kind) and q.unit != "tokens"]
    fitting = [q for q in fitting if not names_parameter(q)] if kind != "time" else fitting
    near = [q for q in fitting if _beside(reading, q, stated.value or "")]
    for q in near or (fitting if len(fitting) == 1 and kind != "count" else []):
        said = f"{q.value:g} {q.unit}" if kind != "count" else f"{q.value:g}"
        value = q.value if kind == "count" else units.parse(said, kind).to(unit).value
        yield _Amount(value, said, q.approximate)


def _is(q: Quantity, kind: str) -> bool:
    if kind in ("size", "rate", "time"):
        try:
            return q.unit is not None and units.parse(f"{q.value:g} {q.unit}", kind) is not None
        except ValueError:
            return False
    if kind == "tokens":
        return q.unit == "tokens" or (q.unit is None and q.value >= 1)
    return q.unit in (None, "requests", "times", "x") and q.whole is None


def _beside(reading: Reading, q: Quantity, name: str) -> bool:
    """Whether the statement names it right before or right after the number."""
    words, plain = _BESIDE.get(name, re.escape(name.replace("_", " "))), reading.text.plain
    before = plain[max(reading.statement.start, q.start - 24) : q.start]
    after = plain[q.end : q.end + 24]
    own = plain[q.start : q.end]  # "60 requests": the number's unit is the name
    return bool(
        re.search(rf"(?:{words})[^\d,，。;；]{{0,10}}$", before)
        or re.match(rf"[^\d,，。;；]{{0,6}}(?:{words})", after)
        or re.search(rf"\d\D*(?:{words})$", own)
    )


def _computed(claim: Claim, own: Mapping[str, Any]) -> float | None:
    """The observation under the answer's own parameters; None where these make no sense together."""
    assert claim.probe is not None and claim.stated is not None
    probe = find_probe(claim.probe, "none")
    try:
        params = probe.resolve({**claim.probe_params, **own})
        seen = probe.function(Run(level="arithmetic", engine_name="none", version=""), **params)
    except (ValueError, ZeroDivisionError):
        return None
    return float(seen[claim.stated.value or ""])


def _finding(
    card: Card,
    claim_id: str,
    reading: Reading,
    numbers: Sequence[_Amount],
    due: float,
    own: Mapping[str, Any],
    language: Language,
) -> Finding:
    claim = card.claims[claim_id]
    assert claim.stated is not None
    unit = claim.stated.unit if claim.stated.unit not in (None, "count", "x") else ""
    value = str(units.Quantity(due, unit or ""))
    off = [abs(n.value - due) / abs(due) if due else abs(n.value) for n in numbers]
    nearest = min(range(len(numbers)), key=lambda i: off[i])
    within = AGREES if not numbers[nearest].approximate else 0.1
    verdict = "supported" if off[nearest] <= within else "contradicted" if off[nearest] > CONTRADICTS else "not checked"
    given = ", ".join(f"{name} {v}" for name, v in {**claim.probe_params, **own}.items())
    return Finding(
        span=reading.span,
        verdict=verdict,  # type: ignore[arg-type]
        claim=claim_id,
        misconception=None,
        stated=numbers[nearest].said,
        observed=value,
        build=None,
        evidence=None,
        rerun=_command(claim, own),
        instead="" if verdict == "supported" else _WORDS[language].format(given=given, value=value),
    )


def _command(claim: Claim, own: Mapping[str, Any]) -> str:
    """The calculator's command line for these parameters."""
    options = (
        f'--{name.replace("_", "-")} "{v}"' if isinstance(v, str) else f"--{name.replace('_', '-')} {v:g}"
        for name, v in {**claim.probe_params, **own}.items()
    )
    return " ".join(["inferproof calc", CALCULATORS.get(claim.probe or "", ""), *options])
