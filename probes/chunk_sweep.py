"""The same long prompt under one token budget after another: how many steps, how much decode, how much extra work.

Question
    What does a smaller chunk buy the requests that decode beside it, and what does it add to the prefill?
Watched
    The plans of vLLM's scheduler while a prompt of 7168 tokens is computed beside a running stream. From the tokens of
    each plan follows what the step must read: all weights once, and the KV of the prompt's earlier chunks again.
Can mislead
    There is no forward pass: steps, tokens and reads are exact, time is not observed, and how much each step costs
    depends on the GPU. Reads of KV are counted once a step, as if no kernel read them twice.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/sched/scheduler.py` (`schedule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from inferproof.probes import chunked_prefill, vllm_engine
from inferproof.probes.core import Observations, Run, probe


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "budgets": "token budgets of a step, in the order tried",
        "prefill_steps": "steps that the long prompt's prefill took, each of which reads all weights, for each budget",
        "stream_tokens": "tokens that the stream got during them, for each budget",
        "largest_step": "most tokens in one of these steps, for each budget",
        "kv_reread": "tokens of the prompt whose KV a later chunk reads again, summed over its chunks",
        "kv_reread_times": "that sum over the prompt's tokens, for each budget",
        "prompt_tokens": "tokens of the prompt that were computed, for each budget",
    },
    config=lambda _: vllm_engine.roomy(16),
    covers=("vllm.v1.core.sched.scheduler:Scheduler.schedule",),
)
def vllm_by_budget(
    run: Run, *, budgets: list[int], prompt_tokens: int = 7168, stream_tokens: int = 96, after_tokens: int = 20
) -> Observations:
    """Throw the same prompt into a stream under each budget, on one engine."""
    run.modifications += [vllm_engine.WATCHED, chunked_prefill.RESIZED]
    scheduler = run.engine.scheduler
    usual, chunks, beside = scheduler.max_num_scheduled_tokens, [], []
    try:
        for budget in budgets:
            run.engine.flush()
            scheduler.max_num_scheduled_tokens = budget
            injection, _, _ = chunked_prefill.inject(run, prompt_tokens, stream_tokens, after_tokens, seed=41)
            steps = [dict(step) for step in injection.steps]
            chunks.append([step[1] for step in steps])
            beside.append([step.get(0, 0) for step in steps])
    finally:
        scheduler.max_num_scheduled_tokens = usual
    run.samples["chunks"] = dict(zip(map(str, budgets), chunks, strict=True))
    again = [reread(sizes) for sizes in chunks]
    return {
        "budgets": budgets,
        "prefill_steps": [len(sizes) for sizes in chunks],
        "stream_tokens": [sum(tokens) for tokens in beside],
        "largest_step": [max(map(sum, zip(*pair, strict=True))) for pair in zip(chunks, beside, strict=True)],
        "kv_reread": again,
        "kv_reread_times": [tokens / prompt_tokens for tokens in again],
        "prompt_tokens": [sum(sizes) for sizes in chunks],
    }


def reread(chunks: Sequence[int]) -> int:
    """Tokens whose KV is read by later chunks: before each chunk, all that was computed earlier."""
    return sum(list(accumulate(chunks))[:-1])
