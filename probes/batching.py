"""Continuous batching: who is in each step, and what more concurrency does to throughput and to latency.

Question
    What does a scheduler decide on in each step, when may a new request enter, and who pays for the throughput of a
    large batch?
Watched
    vLLM: every plan that its scheduler returns (tokens for each request), and its running queue after the step.
    SGLang: the lines of its log for prefill batches, its own `SchedulePolicy` ordering a queue, and the requests.
    Times: a closed loop of 16 requests at concurrency 1, 4 and 16, measured at the engine's Python interface.
Can mislead
    Level control has no forward pass: steps and tokens are exact there, and time does not exist.
    With equal lengths and a closed loop, requests finish together and the next ones enter together.
    On a CPU attention is computed request by request, so a decode step grows faster with its batch than on a GPU: only
    the direction of each trend carries over. Other work on the same cores can slow a mean by ten times: hence the 10th
    percentile of the gaps beside it. Goodput depends on the objective; here it is a multiple of what the same
    run measured for an undisturbed request, for each engine by itself.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `v1/core/sched/scheduler.py` (`schedule`), `v1/core/sched/output.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/managers/scheduler.py` (`get_new_batch_prefill`),
    `srt/managers/schedule_policy.py`, `srt/managers/scheduler_components/metrics_reporter.py`.
"""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import mean, median
from typing import Any

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Completion, Inconclusive, Observations, Request, Run, probe, random_tokens

CONCURRENCIES = (1, 4, 16)

_SCHEDULE = "vllm.v1.core.sched.scheduler:Scheduler.schedule"


def _stepwise(p: dict[str, Any]) -> dict[str, Any]:
    """A vLLM with that token budget and that many seats."""
    return {**vllm_engine.roomy(16), "max_num_batched_tokens": p["token_budget"], "max_num_seqs": p["seats"]}


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "tokens_by_step": "tokens of each request in the plan's own order, for each step from the prompts' arrival on "
        "until all prompts are computed",
        "most_tokens": "most tokens in one of these steps",
        "decode_tokens_by_step": "tokens that the requests in decode got, all together, in each of these steps",
        "running_came_first": "whether each plan lists the requests in decode before any prompt",
        "steps": "steps that computing the prompts took",
        "tokens_before": "tokens of the last step before the prompts arrived",
    },
    config=_stepwise,
    covers=(_SCHEDULE,),
)
def vllm_step_plans(
    run: Run,
    *,
    decodes: int = 4,
    prompts: int = 2,
    prompt_tokens: int = 700,
    token_budget: int = 512,  # noqa: ARG001 - set in the engine's config
    seats: int = 32,  # noqa: ARG001 - set in the engine's config
) -> Observations:
    """Let a few requests decode, send long prompts, and read each plan until the prompts are computed."""
    run.modifications.append(vllm_engine.WATCHED)
    engine = run.engine
    short = [Request(random_tokens(16, seed=i), max_tokens=24) for i in range(decodes)]
    long = [Request(random_tokens(prompt_tokens, seed=100 + i), max_tokens=4) for i in range(prompts)]
    plans: list[dict[int, int]] = []
    arrived = 0

    def read() -> Sequence[Request]:
        nonlocal arrived
        plans.append({engine.index(name): n for name, n in watched.last.num_scheduled_tokens.items()})
        if arrived or len(plans) < 3:
            return ()
        arrived = len(plans)
        return long

    with vllm_engine.Plans(engine.scheduler) as watched:
        engine.generate(short, on_step=read)
    run.samples["plans"] = [list(plan.items()) for plan in plans]
    last = max(i for i, plan in enumerate(plans) if any(r >= decodes and n > 1 for r, n in plan.items()))
    seen = plans[arrived : last + 1]
    if not all(any(r < decodes for r in plan) for plan in seen):
        raise Inconclusive("the requests in decode had finished before the prompts were computed")
    return {
        "tokens_by_step": [list(plan.values()) for plan in seen],
        "most_tokens": max(sum(plan.values()) for plan in seen),
        "decode_tokens_by_step": [sum(n for r, n in plan.items() if r < decodes) for plan in seen],
        "running_came_first": all(set(list(plan)[:decodes]) == set(range(decodes)) for plan in seen),
        "steps": len(seen),
        "tokens_before": sum(plans[arrived - 1].values()),
    }


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "most_running": "most requests in one plan",
        "entered_at": "step (from 1) in which each request first got tokens, in order of arrival",
        "left_at": "step of each request's last token",
        "entered_in_order": "whether requests entered in the order of their arrival",
        "late_entries": "requests that entered after the first step",
        "entered_next_step": "late entries that entered in the step right after one in which a request finished",
        "entered_beside_others": "late entries in whose first step requests of an earlier step went on",
        "steps": "steps until all had finished",
        "static_steps": "steps that groups of `seats` would take if a group had to finish before the next one starts",
        "new_by_step": "requests that the plan calls new, in each step",
    },
    config=_stepwise,
    covers=(_SCHEDULE,),
)
def vllm_refill(
    run: Run,
    *,
    seats: int = 4,
    requests: int = 8,
    token_budget: int = 8192,  # noqa: ARG001 - set in the engine's config
) -> Observations:
    """Give `seats` places to twice as many requests of unequal length and see when each one enters and leaves."""
    run.modifications.append(vllm_engine.WATCHED)
    engine = run.engine
    lengths = output_lengths(requests)
    plans: list[list[int]] = []
    new: list[int] = []

    def read() -> None:
        plans.append([engine.index(name) for name in watched.last.num_scheduled_tokens])
        new.append(len(watched.last.scheduled_new_reqs))

    with vllm_engine.Plans(engine.scheduler) as watched:
        engine.generate([Request(random_tokens(32, seed=i), n) for i, n in enumerate(lengths)], on_step=read)
    run.samples["running_by_step"] = [len(plan) for plan in plans]
    return {
        "most_running": max(map(len, plans)),
        **comings_and_goings(plans),
        "steps": len(plans),
        "static_steps": sum(max(lengths[i : i + seats]) for i in range(0, requests, seats)),
        "new_by_step": new,
    }


def output_lengths(requests: int) -> list[int]:
    """Output tokens of each request: 8, 16, 24, 32, and again."""
    return [8 * (1 + i % 4) for i in range(requests)]


def comings_and_goings(plans: Sequence[Sequence[int]]) -> dict[str, Any]:
    """When each request entered and left, from the requests in each step's plan."""
    requests = range(max(map(max, plans)) + 1)
    steps_of = [[step for step, plan in enumerate(plans, 1) if i in plan] for i in requests]
    entered, left = [steps[0] for steps in steps_of], [steps[-1] for steps in steps_of]
    late = [step for step in entered if step > 1]
    return {
        "entered_at": entered,
        "left_at": left,
        "entered_in_order": entered == sorted(entered),
        "late_entries": len(late),
        "entered_next_step": sum(step - 1 in left for step in late),
        "entered_beside_others": sum(any(a < step <= b for a, b in zip(entered, left, strict=True)) for step in late),
    }


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "concurrency": "requests in flight at most",
        "steps": "engine steps for the whole load, at each concurrency",
        "output_tokens": "output tokens of the whole load, at each concurrency",
        "tokens_per_step": "output tokens for each step, at each concurrency",
    },
    config=lambda _: vllm_engine.roomy(16),
    covers=(_SCHEDULE,),
)
def vllm_steps_by_concurrency(
    run: Run, *, requests: int = 16, prompt_tokens: int = 256, max_tokens: int = 32
) -> Observations:
    """Count the steps that the same load takes with 1, 4 and 16 requests in flight."""
    steps, output = [], []
    for concurrency in CONCURRENCIES:
        run.engine.flush()
        load = [Request(random_tokens(prompt_tokens, seed=i), max_tokens) for i in range(requests)]
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 1

        done = _vllm_closed_loop(run.engine, load, concurrency, count)
        steps.append(counted)
        output.append(sum(len(one.tokens) for one in done))
    return {
        "concurrency": list(CONCURRENCIES),
        "steps": steps,
        "output_tokens": output,
        "tokens_per_step": [tokens / n for tokens, n in zip(output, steps, strict=True)],
    }


def _vllm_closed_loop(
    engine: Any, load: Sequence[Request], concurrency: int, on_step: Callable[[], None] | None = None
) -> list[Completion]:
    """Run the load with at most `concurrency` requests in the engine: the next one is sent when one has finished."""
    waiting = list(load)
    first = [waiting.pop(0) for _ in range(min(concurrency, len(waiting)))]

    def send() -> list[Request]:
        if on_step:
            on_step()
        free = concurrency - len(engine.scheduler.running) - len(engine.scheduler.waiting)
        return [waiting.pop(0) for _ in range(min(free, len(waiting)))]

    done: list[Completion] = engine.generate(first, on_step=send)
    return done


_SERVICE = {
    "concurrency": "requests in flight at most",
    "output_tok_s": "output tokens a second, at each concurrency",
    "ttft_ms": "mean time to first token, ms, at each concurrency",
    "tpot_ms": "mean time per output token after the first, ms, at each concurrency",
    "itl_p10_ms": "10th percentile of the gaps between output events, ms, at each concurrency: a step that nothing "
    "outside the engine slowed down",
    "itl_p99_ms": "99th percentile of the same gaps",
    "slo_ttft_ms": "the objective's time to first token: a multiple of the median at concurrency 1, ms",
    "slo_tpot_ms": "the objective's time per output token: the same multiple of the median at concurrency 1, ms",
    "within_slo": "share of the requests that met both, at each concurrency",
    "goodput_tok_s": "output tokens a second of the requests that met both, at each concurrency",
    "cached_tokens": "prompt tokens that came from the prefix cache, over all requests",
}


@probe(engine="vllm", levels=("engine", "cuda"), observes=_SERVICE, config=lambda _: vllm_engine.roomy(16))
def vllm_closed_loop(
    run: Run,
    *,
    requests: int = 16,
    prompt_tokens: int = 256,
    max_tokens: int = 32,
    slo_multiple: float = 3.0,
    passes: int = 2,
) -> Observations:
    """Serve the same load at concurrency 1, 4 and 16, several times over, and time every request."""
    return _closed_loop(run, _vllm_closed_loop, requests, prompt_tokens, max_tokens, slo_multiple, passes)


@probe(
    engine="sglang",
    levels=("engine", "cuda"),
    observes=_SERVICE,
    config=lambda _: {"page_size": 1, "disable_radix_cache": False},
)
def sglang_closed_loop(
    run: Run,
    *,
    requests: int = 16,
    prompt_tokens: int = 256,
    max_tokens: int = 32,
    slo_multiple: float = 3.0,
    passes: int = 2,
) -> Observations:
    """Serve the same load at concurrency 1, 4 and 16, several times over, and time every request."""

    def serve(engine: Any, load: Sequence[Request], concurrency: int) -> list[Completion]:
        done: list[Completion] = engine.generate(load, concurrency=concurrency)
        return done

    return _closed_loop(run, serve, requests, prompt_tokens, max_tokens, slo_multiple, passes)


Serve = Callable[[Any, Sequence[Request], int], list[Completion]]


def _closed_loop(
    run: Run, serve: Serve, requests: int, prompt_tokens: int, max_tokens: int, slo_multiple: float, passes: int
) -> Observations:
    """Interleave the concurrencies, so that a slow moment of the machine hits all alike."""
    records: dict[int, list[list[dict[str, Any]]]] = {c: [] for c in CONCURRENCIES}
    seconds: dict[int, list[float]] = {c: [] for c in CONCURRENCIES}
    load = [Request(random_tokens(prompt_tokens, seed=i), max_tokens) for i in range(requests)]
    serve(run.engine, load, max(CONCURRENCIES))  # first-use costs fall on this one
    for _ in range(passes):
        for concurrency in CONCURRENCIES:
            run.engine.flush()
            started = time.perf_counter()
            done = serve(run.engine, load, concurrency)
            seconds[concurrency].append(time.perf_counter() - started)
            records[concurrency].append([record(one) for one in done])
    run.samples["requests"] = {str(c): [[*r.values()] for p in passes for r in p] for c, passes in records.items()}
    if any(len(one["gaps_ms"]) < 2 for p in records.values() for one_pass in p for one in one_pass):
        raise Inconclusive("a request's tokens came in fewer than three events: no gap between tokens was seen")
    return service(records, seconds, slo_multiple)


def record(one: Completion) -> dict[str, Any]:
    """A request as a client sees it: tokens, TTFT, TPOT, and the gaps between its events, in ms."""
    times = [1000 * t for t in one.event_times_s]
    return {
        "tokens": len(one.tokens),
        "cached_tokens": one.cached_tokens,
        "ttft_ms": times[0],
        "tpot_ms": (times[-1] - times[0]) / (len(one.tokens) - 1),
        "gaps_ms": [b - a for a, b in pairwise(times)],
    }


def service(
    records: dict[int, list[list[dict[str, Any]]]], seconds: dict[int, list[float]], slo_multiple: float
) -> Observations:
    """What each concurrency gave: the median over its passes, and percentiles over all their gaps."""
    calm = [one for one_pass in records[min(records)] for one in one_pass]
    ttft, tpot = (slo_multiple * median(one[name] for one in calm) for name in ("ttft_ms", "tpot_ms"))

    def met(one: dict[str, Any]) -> bool:
        return bool(one["ttft_ms"] <= ttft and one["tpot_ms"] <= tpot)

    def by_concurrency(figure: Callable[[list[dict[str, Any]], float], float]) -> list[float]:
        return [median(figure(p, s) for p, s in zip(records[c], seconds[c], strict=True)) for c in records]

    def gap(concurrency: int, share: float) -> float:
        return percentile([g for p in records[concurrency] for one in p for g in one["gaps_ms"]], share)

    return {
        "concurrency": list(records),
        "output_tok_s": by_concurrency(lambda p, s: sum(one["tokens"] for one in p) / s),
        "ttft_ms": by_concurrency(lambda p, _: mean(one["ttft_ms"] for one in p)),
        "tpot_ms": by_concurrency(lambda p, _: mean(one["tpot_ms"] for one in p)),
        "itl_p10_ms": [gap(c, 0.10) for c in records],
        "itl_p99_ms": [gap(c, 0.99) for c in records],
        "slo_ttft_ms": ttft,
        "slo_tpot_ms": tpot,
        "within_slo": by_concurrency(lambda p, _: sum(map(met, p)) / len(p)),
        "goodput_tok_s": by_concurrency(lambda p, s: sum(one["tokens"] for one in p if met(one)) / s),
        "cached_tokens": sum(one["cached_tokens"] for p in records.values() for one_pass in p for one in one_pass),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


@probe(
    engine="sglang",
    levels=("engine",),
    observes={
        "new_by_batch": "requests that each prefill batch took in, in order, from the log",
        "running_by_batch": "requests that were running when it did",
        "queued_by_batch": "requests that were left in the queue",
        "entered_beside_others": "requests that were taken in while others were running",
        "most_running": "most requests in a decode batch",
        "finished": "requests that came back with all their tokens",
    },
    config=lambda p: {"page_size": 1, "disable_radix_cache": False, "max_running_requests": p["seats"]},
    covers=("sglang.srt.managers.scheduler:Scheduler.get_new_batch_prefill",),
)
def sglang_refill(
    run: Run,
    *,
    seats: int = 4,  # noqa: ARG001 - set in the engine's config
    requests: int = 8,
) -> Observations:
    """Give `seats` places to twice as many requests of unequal length and see when each one enters."""
    lengths, offset = output_lengths(requests), run.log_offset()
    load = [Request(random_tokens(32, seed=i), n) for i, n in enumerate(lengths)]
    done = run.engine.generate(load, stream=False)
    log = run.log_since(offset)
    entries = [
        tuple(map(int, m.groups()))
        for m in re.finditer(r"Prefill batch,.*?#new-seq: (\d+),.*?#running-req: (\d+), #queue-req: (\d+)", log)
    ]
    if sum(new for new, _, _ in entries) != requests:
        raise Inconclusive(f"the log tells of {sum(new for new, _, _ in entries)} requests, and {requests} were sent")
    return {
        "new_by_batch": [new for new, _, _ in entries],
        "running_by_batch": [running for _, running, _ in entries],
        "queued_by_batch": [queued for _, _, queued in entries],
        "entered_beside_others": sum(new for new, running, _ in entries if running),
        "most_running": max(map(int, re.findall(r"Decode batch,.*?#running-req: (\d+)", log))),
        "finished": sum(len(one.tokens) == n for one, n in zip(done, lengths, strict=True)),
    }


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "order": "the queue after ordering: requests by their place of arrival",
        "matched_tokens": "tokens of each request, by place of arrival, that the prefix tree holds",
    },
    covers=(
        "sglang.srt.managers.schedule_policy:SchedulePolicy.calc_priority",
        "sglang.srt.managers.schedule_policy:SchedulePolicy._sort_by_longest_prefix",
    ),
)
def sglang_queue_order(run: Run, *, policy: str = "fcfs") -> Observations:
    """Let SGLang's policy order four waiting requests, of which the later ones match more of the prefix tree."""
    sglang_engine.prepare()
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.managers.schedule_policy import SchedulePolicy
    from sglang.srt.mem_cache.base_prefix_cache import InsertParams
    from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
    from sglang.srt.sampling.sampling_params import SamplingParams
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    run.modifications.append("The policy stands alone, over a simulated prefix tree and a queue made here.")
    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy", device="cpu", skip_tokenizer_init=True))
    tree = RadixCache.create_simulated()
    known = random_tokens(256, seed=1)
    tree.insert(InsertParams(key=RadixKey(array("q", known))))
    matched = [0, 64, 128, 256]
    queue = [
        Req(str(i), "", array("q", known[:n] + random_tokens(64, seed=10 + i)), SamplingParams(max_new_tokens=8))
        for i, n in enumerate(matched)
    ]
    SchedulePolicy(policy, tree, False, False, False).calc_priority(queue)
    return {"order": [int(request.rid) for request in queue], "matched_tokens": matched}
