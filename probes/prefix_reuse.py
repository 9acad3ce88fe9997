"""What else a prefix cache gives back: tokens that were generated, and a prompt that is still being computed.

Question
    Can the next turn of a conversation hit the answer of the last one? Do two equal prompts that arrive together
    help each other?
Watched
    Cached tokens as each engine itself reports them, and whether both prompts ran in one step (vLLM: the
    scheduler's plan; SGLang: the log's line for the prefill batch).
Can mislead
    A token's KV is computed when the token is fed in, so the last token of an answer has none, unless the engine ran
    one more forward than it needed: SGLang's overlap scheduler does, and its next turn hits that token too.
    Measuring "cold" requests by sending equal prompts together measures hits instead, in vLLM.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/kv_cache_manager.py` (`allocate_slots` caches full blocks as it plans them).
    SGLang 0.5.15.post1, 0.5.16: `srt/mem_cache/radix_cache.py` (`cache_finished_req`, `cache_unfinished_req`).
"""

from __future__ import annotations

import re
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens

_NO_OVERLAP = {"disable_overlap_schedule": True}
_TURN = {
    "first_turn_tokens": "prompt and generated tokens of the first turn",
    "cached_tokens": "tokens of the second turn that came from the cache",
    "cached_generated_tokens": "of these, tokens that the first turn had generated",
    "second_turn_tokens": "prompt tokens of the second turn: the first turn and something new",
}


def _second_turn(engine: Any, prompt_tokens: int, output_tokens: int, new_tokens: int) -> Observations:
    engine.flush()
    prompt = random_tokens(prompt_tokens, seed=1)
    [first] = engine.generate([Request(prompt, output_tokens)])
    history = [*prompt, *first.tokens]
    [second] = engine.generate([Request([*history, *random_tokens(new_tokens, seed=2)])])
    return {
        "first_turn_tokens": len(history),
        "cached_tokens": second.cached_tokens,
        "cached_generated_tokens": max(0, second.cached_tokens - prompt_tokens),
        "second_turn_tokens": len(history) + new_tokens,
    }


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes=_TURN,
    config=lambda p: vllm_engine.roomy(p["block_size"]),
    covers=(
        "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",
        "vllm.v1.core.block_pool:BlockPool.cache_full_blocks",
    ),
)
def vllm_second_turn(
    run: Run,
    *,
    block_size: int = 16,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 100,
    output_tokens: int = 60,
    new_tokens: int = 5,
) -> Observations:
    """Send a prompt, then the prompt with its answer and something new."""
    return _second_turn(run.engine, prompt_tokens, output_tokens, new_tokens)


@probe(
    engine="sglang",
    levels=("engine",),
    observes=_TURN,
    config=lambda p: {"page_size": 1, "disable_radix_cache": False, **({} if p["overlap"] else _NO_OVERLAP)},
    covers=("sglang.srt.mem_cache.radix_cache:RadixCache.cache_finished_req",),
)
def sglang_second_turn(
    run: Run,
    *,
    prompt_tokens: int = 100,
    output_tokens: int = 60,
    new_tokens: int = 5,
    overlap: bool = True,  # noqa: ARG001 - set in the engine's config
) -> Observations:
    """Send a prompt, then the prompt with its answer and something new."""
    return _second_turn(run.engine, prompt_tokens, output_tokens, new_tokens)


_TOGETHER = {
    "one_step": "whether both prompts were computed in the same step",
    "cached_tokens": "cached tokens of each of the two prompts, in order",
    "cached_later": "cached tokens of the same prompt sent once more when both are done",
}


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes=_TOGETHER,
    config=lambda p: vllm_engine.roomy(p["block_size"]),
    covers=(
        "vllm.v1.core.sched.scheduler:Scheduler.schedule",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",
    ),
)
def vllm_sent_together(
    run: Run,
    *,
    block_size: int = 16,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 512,
) -> Observations:
    """Send the same prompt twice at once on an empty cache."""
    engine = run.engine
    engine.flush()
    run.modifications.append(vllm_engine.WATCHED)
    request, firsts = Request(random_tokens(prompt_tokens, seed=1)), []
    with vllm_engine.Plans(engine.scheduler) as plans:
        both = engine.generate([request] * 2, on_step=lambda: firsts.append(len(plans.last.scheduled_new_reqs)))
    [later] = engine.generate([request])
    return {
        "one_step": max(firsts) == 2,
        "cached_tokens": [one.cached_tokens for one in both],
        "cached_later": later.cached_tokens,
    }


@probe(
    engine="sglang",
    levels=("engine",),
    observes=_TOGETHER,
    config=lambda _: {"page_size": 1, "disable_radix_cache": False},
    covers=(
        "sglang.srt.managers.schedule_policy:SchedulePolicy.calc_priority",
        "sglang.srt.mem_cache.radix_cache:RadixCache.cache_unfinished_req",
    ),
)
def sglang_sent_together(run: Run, *, prompt_tokens: int = 512) -> Observations:
    """Send the same prompt twice at once on an empty cache, behind another that keeps the scheduler busy meanwhile."""
    request = Request(random_tokens(prompt_tokens, seed=1))
    other = Request(random_tokens(1000, seed=2))  # all three fit into one chunk
    for _ in range(10):
        run.engine.flush()
        offset = run.log_offset()
        _, *both = run.engine.generate([other, request, request])
        batches = [int(count) for count in _NEW_SEQUENCES.findall(run.log_since(offset))]
        if batches in ([1, 2], [3]):
            break
    else:
        raise Inconclusive(f"the two prompts never came into one batch; the last batches took {batches} requests")
    [later] = run.engine.generate([request])
    return {
        "one_step": True,
        "cached_tokens": [one.cached_tokens for one in both],
        "cached_later": later.cached_tokens,
    }


_NEW_SEQUENCES = re.compile(r"Prefill batch, #new-seq: (\d+)")
