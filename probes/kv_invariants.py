"""What must hold of the KV cache after every step, whatever arrives, leaves, or is thrown out meanwhile.

Question
    Does any step of a random load leave a request with fewer slots than computed tokens, a block with a wrong reference
    count, a block that is lost, or a token with the wrong request?
Watched
    vLLM's own scheduler and block pool after each engine step: block tables, reference counts, free blocks; and each
    caller's tokens.
Can mislead
    The forward pass is left out (level control), and asynchronous scheduling is forced, since the CPU platform refuses
    it. The executor's made-up tokens depend on the position alone: prompts of different lengths get different ones,
    which is what makes a result given to the wrong request visible.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/sched/scheduler.py`, `v1/core/kv_cache_manager.py`, `v1/core/block_pool.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from inferproof.probes import null_executor
from inferproof.probes.core import Completion, Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.overlap import COVERS, WATCHED, Calls, held_blocks


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "steps": "engine steps of the workload",
        "requests": "requests submitted",
        "aborted": "requests aborted while they ran",
        "finished": "requests that returned all their output tokens",
        "preemptions": "growth of the counter num_preemptions",
        "max_running": "most requests running at once",
        "too_few_slots": "(request, step) pairs with fewer slots in blocks than computed tokens; 0 by the invariant",
        "least_slack": "smallest count of slots beyond the computed tokens over all pairs",
        "most_slack": "largest count of slots beyond the computed tokens over all pairs",
        "most_placeholders": "largest count of output tokens of one request that were planned and not yet known",
        "miscounted": "steps at which some block's reference count differs from the requests that hold it",
        "leaked": "steps at which free and held blocks do not add up to the pool",
        "rows_moved": "commits at whose time the running list was no longer that of the plan",
        "own_tokens": "whether each request got exactly the tokens made for its own positions",
        "free_before": "free blocks before",
        "free_after": "free blocks after",
    },
    config=lambda p: {
        "block_size": 16,
        "num_gpu_blocks_override": p["blocks"],
        "max_model_len": 2048,
        "max_num_batched_tokens": 512,
        "enable_prefix_caching": True,
        "async_scheduling": p["async_scheduling"],
    },
    covers=COVERS,
)
def vllm_under_load(
    run: Run,
    *,
    async_scheduling: bool = True,  # noqa: ARG001 - set in the engine's config
    blocks: int = 200,  # noqa: ARG001 - set in the engine's config
    requests: int = 24,
    seed: int = 7,
) -> Observations:
    """Run a random load with arrivals, aborts and preemptions, and count what breaks an invariant after each step."""
    engine, before = run.engine, run.engine.counters()
    run.modifications.append(WATCHED)
    free_before = engine.block_pool.get_num_free_blocks()
    with Calls(engine) as calls:
        audit = _Audit(engine, random_load(requests, seed), random.Random(seed))
        done: list[Completion] = engine.generate(audit.next(4), on_step=audit.see)
    if not audit.aborted or audit.max_running < 2:
        raise Inconclusive("nothing was aborted, or requests never ran side by side")
    own = [one.tokens == _own_tokens(r, len(one.tokens)) for one, r in zip(done, audit.submitted, strict=True)]
    run.samples["slack"] = audit.slack
    return {
        "steps": audit.steps,
        "requests": len(done),
        "aborted": len(audit.aborted),
        "finished": sum(len(one.tokens) == r.max_tokens for one, r in zip(done, audit.submitted, strict=True)),
        "preemptions": engine.counters()["num_preemptions"] - before["num_preemptions"],
        "max_running": audit.max_running,
        "too_few_slots": sum(slack < 0 for slack in audit.slack),
        "least_slack": min(audit.slack),
        "most_slack": max(audit.slack),
        "most_placeholders": audit.most_placeholders,
        "miscounted": audit.miscounted,
        "leaked": audit.leaked,
        "rows_moved": calls.rows_moved,
        "own_tokens": all(own),
        "free_before": free_before,
        "free_after": engine.block_pool.get_num_free_blocks(),
    }


def random_load(requests: int, seed: int) -> list[Request]:
    """Prompts of 17 to 700 tokens, a third of them behind a shared prefix of 160, with 4 to 120 output tokens."""
    chance, shared = random.Random(seed), random_tokens(160, seed=seed)
    load = []
    for i in range(requests):
        own = random_tokens(chance.randint(17, 700), seed=1000 + i)
        load.append(Request((shared + own) if chance.random() < 1 / 3 else own, chance.randint(4, 120)))
    return load


def _own_tokens(request: Request, count: int) -> tuple[int, ...]:
    """The first output tokens that the null executor makes for that request: they depend on its positions alone."""
    start = len(request.prompt)
    return tuple(null_executor.token(start + i, 0) for i in range(count))


class _Audit:
    """Submits a load little by little, aborts some of it, and checks the pool after each step."""

    def __init__(self, engine: Any, load: list[Request], chance: random.Random) -> None:
        self.engine, self.load, self.chance = engine, load, chance
        self.submitted: list[Request] = []
        self.aborted: list[str] = []
        self.slack: list[int] = []
        self.steps = self.miscounted = self.leaked = self.max_running = self.most_placeholders = 0

    def next(self, count: int) -> list[Request]:
        """The next requests to submit."""
        new, self.load = self.load[:count], self.load[count:]
        self.submitted += new
        return new

    def see(self) -> list[Request]:
        self._check()
        running = self.engine.scheduler.running
        if len(running) > 1 and self.chance.random() < 0.02:
            victim = self.chance.choice(running).request_id
            self.aborted.append(victim)
            self.engine.llm.llm_engine.abort_request([victim.rpartition("-")[0]])
            self._check()
        more = self.chance.random() < 0.05 or not self.engine.llm.llm_engine.has_unfinished_requests()
        return self.next(self.chance.randint(1, 3)) if more else []

    def _check(self) -> None:
        scheduler, pool = self.engine.scheduler, self.engine.block_pool
        size, holders = scheduler.block_size, Counter[int]()
        for request in scheduler.requests.values():
            held = held_blocks(scheduler, request.request_id)
            holders.update(block.block_id for block in held)
            if held:
                self.slack.append(len(held) * size - request.num_computed_tokens)
            self.most_placeholders = max(self.most_placeholders, request.num_output_placeholders)
        counted = {b.block_id: b.ref_cnt for b in pool.blocks if b.ref_cnt > 0 and not b.is_null}
        self.miscounted += counted != dict(holders)
        self.leaked += pool.get_num_free_blocks() + len(holders) != len(pool.blocks) - 1
        self.max_running = max(self.max_running, len(scheduler.running))
        self.steps += 1
