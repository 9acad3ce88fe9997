"""Arithmetic in an answer, worked out again with the answer's own numbers: its layers, its GPU, its link.

A claim whose probe only computes needs no evidence: the same function is called with what the answer gives, and with
the question's figures for what it leaves open. So "40 layers, 128 KiB a token" is wrong although no card says 160.
In doubt nothing is said: where the answer gives a parameter twice, or several numbers that may be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import Reading
from inferproof.grading.result import Finding
from inferproof.probes import units
from inferproof.probes.core import Run, find_probe
from inferproof.questions.card import Card, Claim, Language

CALCULATORS = {
    "capacity.gpu_plan": "capacity",
    "capacity.pd_break_even": "pd",
    "replicas.of_ranks": "tp",
    "kv_size.formula": "kv",
    "transfer_time.link": "transfer",
}
"""Probe -> the `inferproof calc` that computes the same; its options are the probe's parameters."""
KINDS = ("count", "tokens", "size", "rate", "dtype")
"""What a number in an answer can be that sets a parameter (`given` of a claim); a dtype is named, not counted."""
AGREES, ROUGHLY, CONTRADICTS = 0.03, 0.1, 0.08
"""Shares of the computed value: up to which a number agrees, or agrees if it is said to be approximate, and from which
on it is wrong. GB where GiB is meant is 0.07."""
_BESIDE = {
    "layers": "layers?|层",
    "kv_heads": "kv[ _-]?heads?|kv ?头|key[/ -]value heads?",
    "head_dim": "head[ _-]?dim(?:ension)?s?|dims?\\b|dimensions?|维",
    "tokens": "contexts?|prompts?|requests?|inputs?|long|length|sequences?|上下文|请求|长度|长|输入|提示",
    "shared_tokens": "shared?|common|prefix|共享|公共|前缀",
    "gpu": "gpus?|h100|h200|a100|cards?|hbm|显存|卡",
    "weights": "weights?|model|权重|模型",
    "workspace": "workspace|overhead|reserved?|graphs?|buffers?|activations?|工作区|预留|开销|激活",
    "ranks": "tp|ranks?|tensor parallel|张量并行",
    "prefill_tokens_s": "prefill",
    "kv_kib_per_token": "per token|a token|each token|token 占|每(?:个)? ?token|一个 token|单 ?token",
    "request_gib": "(?:per|a|each|one) (?:request|context|prompt)|(?:每|一|单)[个条]?(?:请求|上下文)",
    "requests": "requests?|concurren|fits?|请求|并发|放下|容纳",
    "transfer_ms": "transfer|wire|link|network|传输|链路|网络|搬",
}
"""Parameter or observation -> how an answer names it beside its number."""
_BEHIND = {"head_dim": "|heads? of"}
"""What names a number only from in front: in "8 heads of 128" the 8 is no dimension."""
_DTYPES = {2.0: r"\b(?:bf16|fp16|16[- ]bit)\b", 1.0: r"\b(?:fp8|int8|8[- ]bit)\b", 0.5: r"\b(?:fp4|int4|4[- ]bit)\b"}
_UNITS = {
    "size": ("KiB", "MiB", "GiB", "KB", "MB", "GB"),
    "rate": ("Gb/s", "GB/s", "GiB/s"),
    "time": ("us", "ms", "s"),
}
"""As `numbers.py` reads them."""
_PERCENTILE = re.compile(r"(?:p\d\d|median|peak|percentile|分位|峰值)[^\d]{0,10}$")
_PER_SECOND = re.compile(r"\s*(?:requests?|contexts?|个|请求)?\s*(?:/ ?s\b|per second|a second|每秒)")
_LEFT_BEHIND = re.compile(r"\s*(?:are |is |of \w+ )?(?:left|remain|剩)")
_LEFT_BEFORE = re.compile(r"(?:leaves?|left|剩下?|余下?)[^\d]{0,6}$")
_WORDS = {
    "en": "{value}, computed with {given}.",
    "zh": "{value}（按 {given} 计算）。",
}


@dataclass(frozen=True)
class _Amount:
    """A number of the answer in the unit of the observation, and as it was said."""

    value: float
    said: str
    approximate: bool


def is_computed(claim: Claim) -> bool:
    """Whether the claim is worked out again: arithmetic without an engine, with parameters that an answer may give."""
    return claim.engine == "none" and claim.stated is not None and bool(claim.stated.value and claim.stated.given)


def recomputed(card: Card, claim_id: str, read: Sequence[Reading], language: Language) -> Iterator[Finding]:
    """A finding for each statement that names the claim's number, against what it is with the numbers given."""
    claim = card.claims[claim_id]
    assert claim.stated is not None
    everywhere: dict[str, set[Any]] = {}
    for reading in read:
        for name, value in _given(reading, claim, carried=True):
            everywhere.setdefault(name, set()).add(value)
    for reading in read:
        if not reading.asserted or not any(_mentions(reading, alternative) for alternative in claim.stated.when):
            continue
        numbers = list(_candidates(reading, claim))
        given = dict(_given(reading, claim, carried=False))
        unclear = [name for name, values in everywhere.items() if len(values) > 1 and name not in given]
        own = {name: next(iter(values)) for name, values in everywhere.items()} | given
        own = {name: value for name, value in own.items() if value != claim.probe_params.get(name)}
        due = _computed(claim, own) if numbers and not unclear else None
        if due is not None:
            yield _finding(claim_id, claim, reading, numbers, due, own, language)


def _mentions(reading: Reading, alternative: Sequence[str]) -> bool:
    """Whether all concepts stand in the statement, even in a note without a verb (`KV per token: 128 KiB`)."""
    return all(any((option, False) in reading.concepts for option in item.split("|")) for item in alternative)


def _given(reading: Reading, claim: Claim, *, carried: bool) -> Iterator[tuple[str, Any]]:
    """The probe's parameters that the statement sets. `carried`: only those that hold beyond it, thus no percentile."""
    assert claim.stated is not None
    plain = reading.text.plain
    for name, kind in claim.stated.given.items():
        if kind == "dtype":
            said = plain[reading.statement.start : reading.statement.end]
            yield from ((name, value) for value, word in _DTYPES.items() if re.search(word, said))
            continue
        if not reading.numbers:
            continue
        fitting = [q for q in reading.numbers if _is(q, kind) and not _is_rest(reading, q) and not _is_rate(plain, q)]
        # "5 GiB of workspace 60 GiB": a name belongs to the number before it rather than to the one behind.
        named = [q for q in fitting if _before_name(reading, q, name)] or [
            q for q in fitting if _behind_name(reading, q, name)
        ]
        for q in fitting if kind == "rate" else named:
            if not (carried and _PERCENTILE.search(plain[max(0, q.start - 16) : q.start])):
                yield name, f"{q.value:g} {q.unit}" if kind in ("size", "rate") else int(q.value)


def _candidates(reading: Reading, claim: Claim) -> Iterator[_Amount]:
    """The numbers of the statement that may be the claim's: of its kind, and beside its name where several are."""
    assert claim.stated is not None
    stated, unit = claim.stated, claim.stated.unit or "count"
    kind = "count" if unit in ("count", "requests") else units.Quantity(0, unit).dimension

    def is_parameter(q: Quantity) -> bool:
        return any(k == kind and _beside(reading, q, name) for name, k in stated.given.items())

    fitting = [q for q in reading.numbers if _is(q, kind) and not is_parameter(q)]
    near = [q for q in fitting if _beside(reading, q, stated.value or "")]
    if kind == "count":
        near = [q for q in near if not _is_rate(reading.text.plain, q)]
        yield from (_Amount(q.value, f"{q.value:g}", q.approximate) for q in near)
        return
    for q in near or (fitting if kind == "time" and len(fitting) == 1 else []):
        said = units.parse(f"{q.value:g} {q.unit}", kind)
        yield _Amount(said.to(unit).value, str(said), q.approximate)


def _is_rate(plain: str, q: Quantity) -> bool:
    return bool(_PER_SECOND.match(plain, q.end)) or plain[max(0, q.start - 4) : q.start].rstrip().endswith("每秒")


def _is_rest(reading: Reading, q: Quantity) -> bool:
    """Whether the number is said to be left over: a result, and no parameter, whatever stands beside it."""
    plain = reading.text.plain
    return bool(_LEFT_BEHIND.match(plain, q.end) or _LEFT_BEFORE.search(plain[max(0, q.start - 10) : q.start]))


def _is(q: Quantity, kind: str) -> bool:
    if kind in _UNITS:
        return q.unit in _UNITS[kind]
    if kind == "tokens":
        return q.unit == "tokens"
    return q.unit in (None, "requests") and q.whole is None and q.value >= 1 and float(q.value).is_integer()


def _beside(reading: Reading, q: Quantity, name: str) -> bool:
    return _before_name(reading, q, name) or _behind_name(reading, q, name)


def _before_name(reading: Reading, q: Quantity, name: str) -> bool:
    """Whether the number stands right before that name (32 layers), or has it as its unit (60 requests)."""
    words, plain = _BESIDE.get(name, re.escape(name.replace("_", " "))), reading.text.plain
    return bool(
        re.match(rf"[^\d,，。;；]{{0,12}}(?:{words})", plain[q.end : min(q.end + 24, reading.statement.end)])
        or re.search(rf"\d\D*(?:{words})$", plain[q.start : q.end])
    )


def _behind_name(reading: Reading, q: Quantity, name: str) -> bool:
    """Whether the number stands right behind that name (layers: 32)."""
    words = _BESIDE.get(name, re.escape(name.replace("_", " "))) + _BEHIND.get(name, "")
    before = reading.text.plain[max(reading.statement.start, q.start - 24) : q.start]
    return bool(re.search(rf"(?:{words})[^\d,，。;；]{{0,10}}$", before))


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
    claim_id: str,
    claim: Claim,
    reading: Reading,
    numbers: Sequence[_Amount],
    due: float,
    own: Mapping[str, Any],
    language: Language,
) -> Finding:
    assert claim.stated is not None
    unit = claim.stated.unit if claim.stated.unit not in (None, "count") else ""
    value, parameters = str(units.Quantity(due, unit or "")), {**claim.probe_params, **own}
    nearest = min(numbers, key=lambda n: abs(n.value - due))
    off = abs(nearest.value - due) / (abs(due) or 1)
    verdict: Literal["supported", "contradicted", "not checked"] = "not checked"
    if off <= (ROUGHLY if nearest.approximate else AGREES):
        verdict = "supported"
    elif off > CONTRADICTS and len(numbers) == 1 and not reading.statement.hedged:
        verdict = "contradicted"
    given = ", ".join(f"{name} {v}" for name, v in parameters.items())
    return Finding(
        span=reading.span,
        verdict=verdict,
        claim=claim_id,
        misconception=None,
        stated=nearest.said,
        observed=value,
        build=None,
        evidence=None,
        rerun=_command(claim, parameters),
        instead="" if verdict == "supported" else _WORDS[language].format(given=given, value=value),
    )


def _command(claim: Claim, parameters: Mapping[str, Any]) -> str:
    """The calculator's command line for these parameters."""
    options = [f"--{n.replace('_', '-')} {v if not isinstance(v, str) else repr(v)}" for n, v in parameters.items()]
    return " ".join(["inferproof calc", CALCULATORS.get(claim.probe or "", ""), *options])
