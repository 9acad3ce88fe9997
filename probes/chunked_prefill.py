"""A long prefill beside a running stream: what chunks are, and whether the stream advances between them.

Question
    A request streams; then a prompt of 7168 tokens arrives. Into how many steps is its prefill cut, does the stream
    get a token in each of them, how long is it silent, and what does the long prompt pay?
Watched
    vLLM: the plans that its scheduler returns, tokens for each request in each step. SGLang: its log, one line for each
    prefill batch and each decode batch, in order. Both: the times at which events reach the caller.
Can mislead
    A chunk and an interleave are two things: SGLang cuts the prompt and still runs the chunks back to back.
    Events are not tokens: an engine may merge tokens that the consumer has not fetched yet (`stream_events`). The gap
    between events is what a user sees, not what a kernel takes.
    On a CPU chunks after the first are dear (SGLang's `torch_native` computes the prefix again), so only order,
    counts and ratios within one run mean anything.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/sched/scheduler.py` (`schedule`).
    SGLang 0.5.15.post1, 0.5.16: `srt/managers/scheduler.py` (`get_new_batch_prefill`), `srt/managers/schedule_batch.py`
    (`mix_with_running`).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from inferproof.probes import engine_source, vllm_engine
from inferproof.probes.core import Completion, Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.stream_events import gaps

STREAM_PROMPT = 64
"""Prompt tokens of the stream."""
RESIZED = "Scheduler.max_num_scheduled_tokens is set between runs, so that one engine serves with both token budgets."


class _Injection:
    """Called after each vLLM step: submits the long prompt once, and records what each plan gave to whom."""

    def __init__(self, engine: Any, plans: vllm_engine.Plans, long: Request, after_tokens: int) -> None:
        self.engine, self.plans, self.long, self.after_tokens = engine, plans, long, after_tokens
        self.submitted = False
        self.steps: list[list[tuple[int, int]]] = []
        """For each step that computed part of the long prompt: (request number, tokens), in the plan's own order."""
        self._left = len(long.prompt)

    def see(self) -> list[Request]:
        scheduled = self.plans.last.num_scheduled_tokens
        step = [(self.engine.index(request), tokens) for request, tokens in scheduled.items()]
        if self._left > 0 and any(number == 1 for number, _ in step):
            self.steps.append(step)
            self._left -= dict(step)[1]
        if not self.submitted:
            requests = self.engine.scheduler.requests.values()
            if any(request.num_output_tokens >= self.after_tokens for request in requests):
                self.submitted = True
                return [self.long]
        return []


def inject(run: Run, prompt_tokens: int, stream_tokens: int, after_tokens: int, seed: int) -> Any:
    """One stream with one long prompt thrown in: (the injection, the stream, the long prompt's answer)."""
    stream = Request(random_tokens(STREAM_PROMPT, seed=seed), stream_tokens)
    long = Request(random_tokens(prompt_tokens, seed=seed + 1), 1)
    with vllm_engine.Plans(run.engine.scheduler) as plans:
        injection = _Injection(run.engine, plans, long, after_tokens)
        done: list[Completion] = run.engine.generate([stream], on_step=injection.see)
    if len(done) < 2 or not injection.steps:
        raise Inconclusive("the stream ended before the long prompt came")
    return injection, done[0], done[1]


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "token_budget": "max_num_batched_tokens, as the engine reports",
        "prefill_steps": "steps that computed part of the long prompt",
        "long_tokens": "tokens of the long prompt in each of them",
        "stream_tokens": "tokens of the stream in each of them",
        "step_tokens": "most tokens of one of these steps, over all requests",
        "stream_first": "whether the stream stood before the long prompt in each of these plans",
        "stream_advanced": "share of these steps in which the stream got a token, 0 to 1",
        "tokens_during_prefill": "tokens that the stream got while the long prompt was being computed",
    },
    config=lambda p: {
        "block_size": 16,
        "num_gpu_blocks_override": 513,
        "max_model_len": 8192,
        "max_num_batched_tokens": p["token_budget"],
        "enable_prefix_caching": False,
    },
    covers=(
        "vllm.v1.core.sched.scheduler:Scheduler.schedule",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",
    ),
)
def vllm_interference(
    run: Run,
    *,
    token_budget: int = 512,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 7168,
    stream_tokens: int = 64,
    after_tokens: int = 20,
) -> Observations:
    """Throw a long prompt into a running stream and read every plan of its prefill."""
    run.modifications.append(vllm_engine.WATCHED)
    injection, _, _ = inject(run, prompt_tokens, stream_tokens, after_tokens, seed=41)
    steps = [dict(step) for step in injection.steps]
    return {
        "token_budget": run.engine.flags["max_num_batched_tokens"],
        "prefill_steps": len(steps),
        "long_tokens": [step[1] for step in steps],
        "stream_tokens": [step.get(0, 0) for step in steps],
        "step_tokens": max(sum(step.values()) for step in steps),
        "stream_first": all(step[0][0] == 0 for step in injection.steps),
        "stream_advanced": sum(step.get(0, 0) > 0 for step in steps) / len(steps),
        "tokens_during_prefill": sum(step.get(0, 0) for step in steps),
    }


@probe(
    engine="vllm",
    levels=("engine",),
    observes={
        "large_gap_ms": "largest gap between events of the stream during the prefill, with the large budget",
        "small_gap_ms": "the same with the small budget",
        "base_gap_ms": "median gap between events before the long prompt came",
        "large_prefill_ms": "time from submission to first token of the long prompt, with the large budget",
        "small_prefill_ms": "the same with the small budget",
        "gap_ratio": "large_gap_ms over small_gap_ms",
        "prefill_ratio": "small_prefill_ms over large_prefill_ms",
        "large_gap_share": "large_gap_ms over large_prefill_ms: the part of the prefill that was one silence",
        "small_gap_share": "small_gap_ms over small_prefill_ms",
        "large_gap_over_base": "large_gap_ms over base_gap_ms",
        "small_gap_over_base": "small_gap_ms over base_gap_ms",
        "repeats": "measurements of each budget; every time is the median over them",
    },
    config=lambda _: vllm_engine.roomy(16),
    covers=("vllm.v1.core.sched.scheduler:Scheduler.schedule",),
)
def vllm_budgets(
    run: Run,
    *,
    large: int = 8192,
    small: int = 512,
    prompt_tokens: int = 4096,
    stream_tokens: int = 20,
    after_tokens: int = 8,
    repeats: int = 3,
) -> Observations:
    """The same injection under two token budgets in turn, on one engine."""
    run.modifications += [vllm_engine.WATCHED, RESIZED]
    scheduler = run.engine.scheduler
    usual = scheduler.max_num_scheduled_tokens
    taken: dict[int, list[dict[str, float]]] = {large: [], small: []}
    inject(run, prompt_tokens, stream_tokens, after_tokens, seed=51)  # a first time, which is always slow
    try:
        for repeat in range(repeats):
            for budget, times in taken.items():
                scheduler.max_num_scheduled_tokens = budget
                _, stream, long = inject(run, prompt_tokens, stream_tokens, after_tokens, seed=60 + 2 * repeat)
                times.append(gaps(stream, long, after_tokens))
                run.engine.flush()
    finally:
        scheduler.max_num_scheduled_tokens = usual
    run.samples.update({str(budget): times for budget, times in taken.items()})
    one, other = (_medians(times) for times in taken.values())
    base = statistics.median(t["base_gap_ms"] for times in taken.values() for t in times)
    return {
        "large_gap_ms": one["gap_ms"],
        "small_gap_ms": other["gap_ms"],
        "base_gap_ms": base,
        "large_prefill_ms": one["prefill_ms"],
        "small_prefill_ms": other["prefill_ms"],
        "gap_ratio": one["gap_ms"] / other["gap_ms"],
        "prefill_ratio": other["prefill_ms"] / one["prefill_ms"],
        "large_gap_share": one["gap_ms"] / one["prefill_ms"],
        "small_gap_share": other["gap_ms"] / other["prefill_ms"],
        "large_gap_over_base": one["gap_ms"] / base,
        "small_gap_over_base": other["gap_ms"] / base,
        "repeats": repeats,
    }


def _medians(times: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in times) for name in times[0]}


@probe(
    engine="sglang",
    levels=("engine",),
    observes={
        "chunk_tokens": "chunked_prefill_size, as the engine reports",
        "mixed_chunk": "enable_mixed_chunk, as the engine reports",
        "prefill_batches": "prefill batches of the long prompt, from the log",
        "long_tokens": "its tokens in each of them",
        "longest_run": "most prefill batches in a row without a decode batch between them",
        "decodes_between": "decode batches logged between its first and its last prefill batch",
        "tokens_during_prefill": "tokens of the stream that reached the caller between the long prompt's submission and"
        " its first token",
        "gap_share": "largest gap between events of the stream, over the long prompt's time to first token",
        "gap_over_base": "that gap over the median gap before the long prompt came",
        "prefill_ms": "time from submission to first token of the long prompt",
        "gap_ms": "largest gap between events of the stream during it",
        "base_gap_ms": "median gap between events before",
        "events": "events of the stream",
        "stream_tokens": "tokens of the stream",
    },
    config=lambda p: {
        "chunked_prefill_size": p["chunk_tokens"],
        "enable_mixed_chunk": p["mixed_chunk"],
        "max_prefill_tokens": 16384,
    },
    covers=(
        "sglang.srt.managers.scheduler:Scheduler.get_new_batch_prefill",
        "sglang.srt.managers.schedule_policy:PrefillAdder.add_chunked_req",
        "sglang.srt.managers.schedule_batch:ScheduleBatch.mix_with_running",
    ),
)
def sglang_interference(
    run: Run,
    *,
    chunk_tokens: int = 512,  # noqa: ARG001 - set in the engine's config
    mixed_chunk: bool = False,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 7168,
    stream_tokens: int = 64,
    after_tokens: int = 20,
) -> Observations:
    """Throw a long prompt into a running stream and read SGLang's log for the order of its batches."""
    run.engine.generate([Request(random_tokens(STREAM_PROMPT, seed=70), 4)])  # a first time, which is always slow
    offset = run.log_offset()
    stream, long = run.engine.interrupt(
        Request(random_tokens(STREAM_PROMPT, seed=71), stream_tokens),
        Request(random_tokens(prompt_tokens, seed=72), 1),
        after_tokens=after_tokens,
    )
    run.engine.counters()  # its answer comes between two steps: the last batch has been logged by then
    order = run.samples["order"] = batches(run.log_since(offset))
    prefills = [i for i, (kind, _) in enumerate(order) if kind == "prefill"][1:]  # the first is the stream's own
    if not prefills or prefills[0] < after_tokens:
        raise Inconclusive("the long prompt's prefill did not begin while the stream was running")
    within = order[prefills[0] : prefills[-1] + 1]
    times = run.samples["times"] = gaps(stream, long, after_tokens)
    counts = dict(zip(stream.event_times_s, stream.meta["token_counts"], strict=True))
    came = next(time for time, count in counts.items() if count >= after_tokens)
    end = came + times["prefill_ms"] / 1000
    return {
        "chunk_tokens": run.engine.flags["chunked_prefill_size"],
        "mixed_chunk": run.engine.flags["enable_mixed_chunk"],
        "prefill_batches": len(prefills),
        "long_tokens": [order[i][1] for i in prefills],
        "longest_run": max(len(list(same)) for kind, same in groupby(k for k, _ in within) if kind == "prefill"),
        "decodes_between": sum(kind == "decode" for kind, _ in within),
        "tokens_during_prefill": max(count for time, count in counts.items() if time <= end) - counts[came],
        "gap_share": times["gap_ms"] / times["prefill_ms"],
        "gap_over_base": times["gap_ms"] / times["base_gap_ms"],
        **times,
        "events": len(counts),
        "stream_tokens": len(stream.tokens),
    }


_BATCH = re.compile(r"(Prefill|Decode) batch,(?:.*?#new-token: (\d+))?")


def batches(log: str) -> list[tuple[str, int]]:
    """Every batch in SGLang's log, in order: ("prefill", its new tokens) or ("decode", 0)."""
    return [(m[1].lower(), int(m[2] or 0)) for m in map(_BATCH.search, log.splitlines()) if m]


_VLLM_SCHEDULE = ("v1/core/sched/scheduler.py", "Scheduler.schedule")


@probe(
    engine="vllm",
    levels=("source",),
    observes={
        "running_loop": "`file:line` of the loop over running requests in Scheduler.schedule",
        "waiting_loop": "`file:line` of the loop over waiting requests there",
        "running_before_waiting": "whether the first stands before the second",
        "one_budget": "`file:line` of the statements that take scheduled tokens off the one budget",
        "mixed_settings": "fields of SchedulerConfig whose name speaks of mixing",
        "chunk_settings": "fields of SchedulerConfig whose name speaks of chunked prefill",
    },
    covers=("vllm.v1.core.sched.scheduler:Scheduler.schedule",),
)
def vllm_source_trace(run: Run) -> Observations:
    """Read in vLLM's scheduler who is served first, and whether a setting mixes prefill and decode."""
    body = engine_source.statements(run, *_VLLM_SCHEDULE)
    config = engine_source.statements(run, "config/scheduler.py", "SchedulerConfig")
    fields = [s.code.partition(":")[0] for s in config if re.match(r"\w+: ", s.code)]
    return {
        "running_loop": engine_source.lines_with(body, "while ", "self.running", "token_budget > 0"),
        "waiting_loop": engine_source.lines_with(body, "while ", "self.waiting", "token_budget > 0"),
        "running_before_waiting": engine_source.in_order(
            body, "while req_index < len(self.running)", "while (self.wait"
        ),
        "one_budget": engine_source.lines_with(body, "token_budget -= num_new_tokens"),
        "mixed_settings": [name for name in fields if "mix" in name],
        "chunk_settings": [name for name in fields if "chunked_prefill" in name],
    }


@probe(
    engine="sglang",
    levels=("source",),
    observes={
        "default": "`file:line` of the default of enable_mixed_chunk in ServerArgs, with its value",
        "off_by_default": "whether that value is False",
        "switch": "`file:line` of the statements that make is_mixed_chunk out of the settings",
        "merges": "`file:line` of calls of mix_with_running",
        "merge_condition": "`file:line` of the conditions on is_mixed_chunk in the method that calls it",
        "budget": "`file:line` of the statements that take the decode tokens off the chunk's budget",
    },
    covers=(
        "sglang.srt.managers.schedule_batch:ScheduleBatch.mix_with_running",
        "sglang.srt.managers.schedule_policy:PrefillAdder.__init__",
    ),
)
def sglang_source_trace(run: Run) -> Observations:
    """Read in SGLang's files what switches mixed batches on, and what a decode token costs the chunk."""
    arguments = engine_source.statements(run, "srt/server_args.py", "ServerArgs")
    scheduler = engine_source.statements(run, "srt/managers/scheduler.py", "Scheduler")
    adder = engine_source.statements(run, "srt/managers/schedule_policy.py", "PrefillAdder.__init__")
    default = [s for s in arguments if s.code.startswith("enable_mixed_chunk: ")]
    return {
        "default": [f"{s.file}:{s.line} {s.code.rpartition('= ')[2]}" for s in default],
        "off_by_default": bool(default) and all(s.code.endswith("= False") for s in default),
        "switch": engine_source.lines_with(scheduler, "self.is_mixed_chunk =", "enable_mixed_chunk"),
        "merges": engine_source.lines_with(scheduler, ".mix_with_running("),
        "merge_condition": engine_source.lines_with(scheduler, "if self.is_mixed_chunk and"),
        "budget": engine_source.lines_with(adder, "rem_chunk_tokens -=", "num_mixed_decode_tokens"),
    }
