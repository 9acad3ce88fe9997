"""What pictures need from evidence, as plain series. Knows the names that probes use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferproof.probes.core import LEVELS
from inferproof.runners.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class CacheSend:
    """The second send of a prompt (`prefix_cache.repeat_prompt`), in tokens."""

    engine: str
    case: str
    """The parameters, in a few words."""
    prompt: int
    cached: int


@dataclass(frozen=True, kw_only=True)
class PressureRun:
    """One run of `kv_pressure.overcommit`: requests at each logged step or batch."""

    engine: str
    label: str
    progress: Sequence[float]
    """Per cent of the run's steps (vLLM) or decode batches (SGLang) behind each sample."""
    running: Sequence[int]
    waiting: Sequence[int]
    losses: Sequence[float]
    """Where a request lost its KV, in the unit of `progress`; empty where the samples do not show it."""
    lost: int
    """Preemptions or retractions by the engine's own counter."""

    @property
    def most(self) -> int:
        """The highest value of either curve."""
        return max(*self.running, *self.waiting)


@dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """One `beam_search.request_trace`, summed over the requests of each round."""

    label: str
    requests: Sequence[int]
    prompt: Sequence[int]
    cached: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class PrefillTimes:
    """One `prefill_time.by_length`: measured prefill times, and the three parts of their fit at each length, in ms."""

    label: str
    tokens: Sequence[int]
    measured: Sequence[float]
    fixed: Sequence[float]
    linear: Sequence[float]
    quadratic: Sequence[float]


def prefill_times(evidence: Sequence[Evidence]) -> list[PrefillTimes]:
    """The newest run of each engine."""
    newest: dict[str, Evidence] = {}
    for e in sorted(_of(evidence, "prefill_time.by_length"), key=lambda e: e.started_at):
        newest[str(e.task["engine"])] = e
    return [_prefill_times(e) for _, e in sorted(newest.items(), reverse=True)]


def _prefill_times(e: Evidence) -> PrefillTimes:
    o = e.observations
    tokens = [int(n) for n in o["tokens"]]
    return PrefillTimes(
        label=str(e.task["build"]),
        tokens=tokens,
        measured=[float(t) for t in o["ttft_ms"]],
        fixed=[float(o["fixed_ms"])] * len(tokens),
        linear=[float(o["linear_us_per_token"]) * n / 1e3 for n in tokens],
        quadratic=[float(o["quadratic_ns_per_pair"]) * n * n / 1e6 for n in tokens],
    )


def cache_sends(evidence: Sequence[Evidence]) -> list[CacheSend]:
    """Each case once an engine: builds that saw the same share a bar, builds that differ name themselves."""
    found: dict[tuple[str, str], dict[tuple[int, int], str]] = {}
    for e in _of(evidence, "prefix_cache.repeat_prompt"):
        counts = (int(e.observations["prompt_tokens"]), int(e.observations["warm_cached_tokens"]))
        found.setdefault((str(e.task["engine"]), _case(e.task["params"])), {}).setdefault(counts, str(e.task["build"]))
    return [
        CacheSend(engine=engine, case=case if len(seen) == 1 else f"{case} ({build})", prompt=prompt, cached=cached)
        for (engine, case), seen in sorted(found.items(), key=lambda item: item[0][0], reverse=True)
        for (prompt, cached), build in seen.items()
    ]


def _case(params: Mapping[str, Any]) -> str:
    """`2080 tokens, block 16, other salt`: the sizes, then what was switched."""
    words = [f"{params['prompt_tokens']} tokens"]
    words += [
        f"{word} {params[name]}" for name, word in (("block_size", "block"), ("page_size", "page")) if name in params
    ]
    if params.get("shared_tokens") is not None:
        words.append(f"{params['shared_tokens']} shared")
    switched = (
        ("same_salt", False, "other salt"),
        ("change_first_token", True, "other first token"),
        ("prefix_caching", False, "cache off"),
    )
    words += [word for name, when, word in switched if params.get(name) is when]
    return ", ".join(words)


def pressure_runs(evidence: Sequence[Evidence], most: int = 2) -> list[PressureRun]:
    """Runs at the highest level that ran, `most` an engine: the smallest pools and the most losses first."""
    best: dict[tuple[str, str], Evidence] = {}
    for e in _of(evidence, "kv_pressure.overcommit"):
        key = (str(e.task["engine"]), _pressure_label(e.task["params"]))
        if key not in best or _level(e) > _level(best[key]):
            best[key] = e
    ranked = sorted(best.items(), key=lambda item: (item[1].task["params"]["pool_tokens"], -_lost(item[1]), item[0]))
    runs = []
    for engine in ("vllm", "sglang"):
        of = [_pressure_run(engine, label, e) for (name, label), e in ranked if name == engine]
        runs += [run for run in of if run is not None][:most]
    return runs


def _lost(e: Evidence) -> int:
    return int(e.observations.get("preemptions", e.observations.get("retractions", 0)))


def _pressure_label(params: Mapping[str, Any]) -> str:
    words = [
        f"pool {params['pool_tokens']}",
        f"{params['requests']} x ({params['prompt_tokens']} in + {params['max_tokens']} out)",
    ]
    if params.get("chunk_tokens") is not None:
        words.append(f"chunk {params['chunk_tokens']}")
    if "mixed_chunk" in params:
        words.append("mixed" if params["mixed_chunk"] else "not mixed")
    return ", ".join(words)


def _pressure_run(engine: str, label: str, e: Evidence) -> PressureRun | None:
    """vLLM's samples are two lists with an entry a step, SGLang's a list of the batches that its log tells of.

    Of these the decode batches: a prefill batch's line leaves the requests that it prefills out of both counts.
    """
    batches = [batch for batch in e.samples.get("batches", ()) if batch["kind"] == "decode"]
    running = [int(n) for n in e.samples.get("running") or [b["running"] for b in batches]]
    waiting = [int(n) for n in e.samples.get("waiting") or [b["waiting"] for b in batches]]
    if not running:
        return None
    steps = e.observations.get("victim_steps")
    losses = _rises(waiting, _lost(e)) if steps is None else [step - 1 for step in steps]
    share = 100 / max(1, len(running) - 1)
    return PressureRun(
        engine=engine,
        label=f"{engine}, {label}",
        progress=[at * share for at in range(len(running))],
        running=running,
        waiting=waiting,
        losses=[at * share for at in losses],
        lost=_lost(e),
    )


def _rises(waiting: Sequence[int], lost: int) -> list[int]:
    """Where the queue grew although nothing new arrived; none unless that accounts for every loss that was counted.

    All requests arrive at once, so after the queue's first fall it grows only by requests that lost their KV.
    """
    first_fall = next((i for i in range(1, len(waiting)) if waiting[i] < waiting[i - 1]), len(waiting))
    rises = [
        (i, waiting[i] - waiting[i - 1]) for i in range(first_fall + 1, len(waiting)) if waiting[i] > waiting[i - 1]
    ]
    return [i for i, _ in rises] if sum(by for _, by in rises) == lost else []


def beam_search(evidence: Sequence[Evidence]) -> BeamSearch | None:
    """The trace at the highest level, the widest search first; None without one."""
    traces = _of(evidence, "beam_search.request_trace")
    if not traces:
        return None
    e = max(traces, key=lambda e: (_level(e), int(e.observations["requests"])))
    return BeamSearch(
        label=f"{e.task['build']}, beam width {e.task['params']['beam_width']}",
        requests=e.observations["requests_by_round"],
        prompt=[sum(of) for of in e.observations["prompt_tokens_by_round"]],
        cached=[sum(of) for of in e.observations["cached_tokens_by_round"]],
    )


def _of(evidence: Sequence[Evidence], probe: str) -> list[Evidence]:
    return [e for e in evidence if e.task["probe"] == probe and e.ended == "ok"]


def _level(e: Evidence) -> int:
    return LEVELS.index(str(e.task["level"]))
