"""What the engines scheduled, step by step, from evidence. Knows the names that probes use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from inferproof.runners.evidence import Evidence

STEP_PLANS, INTERFERENCE = "batching.step_plans", "chunked_prefill.interference"
AROUND = 4
"""Steps shown before the first and after the last prefill of a late prompt."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one request got in one step; step 0 is the first that has part of the late prompt."""

    step: int
    lane: int
    tokens: int
    prefill: bool


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One run: `streams` lanes that were decoding, then `prompts` lanes that came late."""

    label: str
    streams: int
    prompts: int
    cells: Sequence[Cell]


def schedules(evidence: Sequence[Evidence]) -> list[Schedule]:
    """The newest run of each kind of engine and setting, only where the prompt was cut into several steps."""
    newest: dict[tuple[str, str], Schedule] = {}
    for e in sorted(evidence, key=lambda e: e.started_at):
        read = _READERS.get((str(e.task["probe"]), str(e.task["engine"])))
        made = read(e) if read and e.ended == "ok" else None
        if made is not None:
            newest[str(e.task["probe"]), made.label.partition(", ")[2]] = made
    return [made for _, made in sorted(newest.items(), key=lambda item: (item[0][0], item[1].label), reverse=True)]


def _step_plans(e: Evidence) -> Schedule | None:
    """vLLM's plans, (request, tokens) in each step. The streams are there from the start; theirs is the first plan."""
    plans, streams = e.samples.get("plans") or [], int(e.task["params"]["decodes"])
    late = [at for at, plan in enumerate(plans) if any(number >= streams and tokens > 1 for number, tokens in plan)]
    if len(late) < 2:
        return None
    left = dict.fromkeys(range(streams + int(e.task["params"]["prompts"])), int(e.task["params"]["prompt_tokens"]))
    left |= dict(plans[0])
    cells = []
    for at, plan in enumerate(plans[: late[-1] + AROUND + 1]):
        for number, tokens in plan:
            cells.append(Cell(step=at - late[0], lane=number, tokens=tokens, prefill=left[number] > 0))
            left[number] -= tokens
    params = e.task["params"]
    label = (
        f"{e.task['build']}, budget {params['token_budget']}, {params['prompts']} x {params['prompt_tokens']} tokens"
    )
    return Schedule(label=label, streams=streams, prompts=len(left) - streams, cells=cells)


def _vllm_interference(e: Evidence) -> Schedule | None:
    o = e.observations
    if "long_tokens" not in o or len(o["long_tokens"]) < 2 or e.task["params"]["token_budget"] > 512:
        return None
    pairs = zip(o["stream_tokens"], o["long_tokens"], strict=True)
    return Schedule(
        label=f"{e.task['build']}, budget {e.task['params']['token_budget']}, {sum(o['long_tokens'])} tokens",
        streams=1,
        prompts=1,
        cells=list(_two_lanes(enumerate(pairs))),
    )


def _sglang_interference(e: Evidence) -> Schedule | None:
    """The log's batches in order. In mixed batches the stream advances too, where its events account for each."""
    order, o = e.samples.get("order") or [], e.observations
    long = [at for at, (kind, _) in enumerate(order) if kind == "prefill" and at > 0]
    if len(long) < 2:
        return None
    mixed = bool(e.task["params"]["mixed_chunk"]) and o["tokens_during_prefill"] >= o["prefill_batches"]
    shown = range(max(1, long[0] - AROUND), min(len(order), long[-1] + AROUND + 1))
    pairs = ((at - long[0], (int(mixed), order[at][1]) if order[at][0] == "prefill" else (1, 0)) for at in shown)
    params = e.task["params"]
    mode = "mixed" if params["mixed_chunk"] else "not mixed"
    label = f"{e.task['build']}, chunk {params['chunk_tokens']}, {mode}, {params['prompt_tokens']} tokens"
    return Schedule(label=label, streams=1, prompts=1, cells=list(_two_lanes(pairs)))


def _two_lanes(steps: Iterator[tuple[int, tuple[int, int]]]) -> Iterator[Cell]:
    """The stream's token and the prompt's tokens of each step, where there are any."""
    for step, (stream, long) in steps:
        if stream:
            yield Cell(step=step, lane=0, tokens=stream, prefill=False)
        if long:
            yield Cell(step=step, lane=1, tokens=long, prefill=True)


_READERS: dict[tuple[str, str], Callable[[Evidence], Schedule | None]] = {
    (STEP_PLANS, "vllm"): _step_plans,
    (INTERFERENCE, "vllm"): _vllm_interference,
    (INTERFERENCE, "sglang"): _sglang_interference,
}
