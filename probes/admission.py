"""What SGLang's scheduler demands of free KV memory before it admits a request.

Question
    How much does SGLang reserve for the requests that are running, how much for one that asks to come in, and what
    moves the `new_token_ratio` between the two?
Watched
    SGLang's own `PrefillAdder` with real `Req` objects and a simulated `RadixCache`: how many of the waiting requests
    it takes, and its budget after each. SGLang's own `NewTokenRatioTracker`: its start, its floor, its decay, and its
    estimate after a retraction.
Can mislead
    The scheduler's loop does not run, so nothing decays or is retracted by itself; the free memory is a given number.
    The ratio counts one decay per decode batch, not per second.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/managers/schedule_policy.py` (`PrefillAdder`),
    `srt/managers/scheduler_components/new_token_ratio_tracker.py`, `srt/managers/scheduler.py`
    (`update_running_batch`).
"""

from __future__ import annotations

import zlib
from array import array
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from inferproof.probes import sglang_engine
from inferproof.probes.core import Observations, Run, probe, random_tokens

_TRACKER = "sglang.srt.managers.scheduler_components.new_token_ratio_tracker:NewTokenRatioTracker"
_ADDER = "sglang.srt.managers.schedule_policy:PrefillAdder"


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "initial": "ratio at the start, and again whenever the scheduler is idle",
        "floor": "lowest ratio that decay reaches",
        "decay": "what one decode batch without retraction takes off",
        "after_decay": "ratio after `decode_steps` decode batches without retraction",
        "steps_to_floor": "decode batches from the start to the floor",
        "after_retraction": "ratio that a retraction sets when `stay` requests stay, each with `output_tokens` done",
        "after_reset": "ratio after a reset",
    },
    covers=(
        f"{_TRACKER}.from_server_args",
        f"{_TRACKER}.decay_step",
        f"{_TRACKER}.reset",
        f"{_TRACKER}.estimate_new_token_ratio_after_retract",
    ),
)
def sglang_new_token_ratio(
    run: Run,
    *,
    schedule_conservativeness: float = 1.0,
    decode_steps: int = 100,
    stay: int = 2,
    output_tokens: int = 342,
    max_tokens: int = 512,
) -> Observations:
    """Let the new-token ratio start, decay to its floor, and be set anew by a retraction."""
    sglang_engine.prepare()
    from sglang.srt.managers.scheduler_components.new_token_ratio_tracker import NewTokenRatioTracker

    arguments = SimpleNamespace(schedule_conservativeness=schedule_conservativeness)
    tracker = NewTokenRatioTracker.from_server_args(arguments)
    run.modifications.append("The tracker stands alone; it reads one server argument, given by a stand-in.")
    trajectory = [tracker.current]
    while tracker.current > tracker.min and len(trajectory) < 10_000:
        tracker.decay_step()
        trajectory.append(tracker.current)
    run.samples["ratio_by_decode_batch"] = trajectory
    tracker.reset()
    return {
        "initial": tracker.init,
        "floor": tracker.min,
        "decay": tracker.decay,
        "after_decay": trajectory[min(decode_steps, len(trajectory) - 1)],
        "steps_to_floor": len(trajectory) - 1,
        "after_retraction": tracker.estimate_new_token_ratio_after_retract(
            [_request(f"stay-{i}", 1024, max_tokens, output_tokens) for i in range(stay)]
        ),
        "after_reset": tracker.current,
    }


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "admitted": "waiting requests that were taken",
        "stopped_by": "the adder's last answer: CONTINUE, NO_TOKEN (memory) or OTHER (chunk or prefill budget)",
        "chunked": "whether the last one was taken in part only",
        "reserved_tokens": "tokens held back for the running requests: free tokens less the first budget",
        "budgets_tokens": "budget before each request that was asked about, and at the end",
        "charged_tokens": "what each admitted request took off the budget",
    },
    covers=(
        f"{_ADDER}.__init__",
        f"{_ADDER}.add_one_req",
        f"{_ADDER}.budget_state",
        f"{_ADDER}._update_prefill_budget",
        f"{_ADDER}._get_running_request_total_token_offset",
    ),
)
def sglang_prefill_budget(
    run: Run,
    *,
    free_tokens: int = 4096,
    running: int = 0,
    output_tokens: int = 0,
    waiting: int = 8,
    prompt_tokens: int = 1024,
    max_tokens: int = 512,
    ratio: float = 0.7,
    chunk_tokens: int | None = None,
) -> Observations:
    """Offer waiting requests to the adder until it refuses, with some requests running."""
    sglang_engine.prepare()
    run.modifications.append("The adder stands alone: a stand-in names the free KV tokens, the prefix tree is empty.")
    from sglang.srt.managers.schedule_policy import AddReqResult

    active = [_request(f"running-{i}", prompt_tokens, max_tokens, output_tokens) for i in range(running)]
    adder, tree = _adder(active, free_tokens, ratio, chunk_tokens)
    budgets, answer = [float(adder.rem_total_tokens)], AddReqResult.CONTINUE
    for i in range(waiting):
        newcomer = _request(f"waiting-{i}", prompt_tokens, max_tokens)
        newcomer.init_next_round_input(tree)
        answer = adder.add_one_req(newcomer, has_chunked_req=False, truncation_align_size=None)
        if len(adder.can_run_list) == len(budgets):
            budgets.append(float(adder.rem_total_tokens))
        if answer is not AddReqResult.CONTINUE:
            break
    return {
        "admitted": len(adder.can_run_list),
        "stopped_by": answer.name,
        "chunked": adder.new_chunked_req is not None,
        "reserved_tokens": free_tokens - budgets[0],
        "budgets_tokens": budgets,
        "charged_tokens": [before - after for before, after in pairwise(budgets)],
    }


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "hit_tokens": "tokens of the newcomer's prompt that the tree holds",
        "needed_tokens": "tokens that the newcomer needs beyond its hit: the rest of its prompt, its output, a page",
        "budget_before": "the adder's budget before it locks the hit: free and evictable tokens",
        "budget_locked": "its budget while the hit is locked",
        "admitted": "whether the newcomer is taken",
    },
    covers=(f"{_ADDER}.add_one_req", f"{_ADDER}._lock_node", f"{_ADDER}.budget_state"),
)
def sglang_lock_recheck(
    run: Run, *, hits: bool = True, free_tokens: int = 1000, cached_tokens: int = 600, max_tokens: int = 900
) -> Observations:
    """Offer one request of 200 new tokens that fits only as long as the cached prefix counts as evictable."""
    sglang_engine.prepare()
    run.modifications.append("The adder stands alone: a stand-in names the free KV tokens, the tree is filled by hand.")
    import torch
    from sglang.srt.mem_cache.base_prefix_cache import InsertParams
    from sglang.srt.mem_cache.radix_cache import RadixKey

    adder, tree = _adder([], free_tokens, 0.7, None)
    newcomer = _request("newcomer", 200 + (cached_tokens if hits else 0), max_tokens)
    cached = newcomer.origin_input_ids[:cached_tokens] if hits else array("q", random_tokens(cached_tokens, seed=1))
    tree.insert(InsertParams(key=RadixKey(cached, None), value=torch.arange(cached_tokens, dtype=torch.int64)))
    newcomer.init_next_round_input(tree)
    before = int(adder.rem_total_tokens)
    with adder._lock_node(newcomer.last_node):
        locked = int(adder.rem_total_tokens)
    adder.add_one_req(newcomer, has_chunked_req=False, truncation_align_size=None)
    return {
        "hit_tokens": len(newcomer.prefix_indices),
        "needed_tokens": len(newcomer.origin_input_ids) - len(newcomer.prefix_indices) + max_tokens + adder.page_size,
        "budget_before": before,
        "budget_locked": locked,
        "admitted": bool(adder.can_run_list),
    }


def _adder(active: list[Any], free_tokens: int, ratio: float, chunk_tokens: int | None) -> tuple[Any, Any]:
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.schedule_policy import PrefillAdder
    from sglang.srt.mem_cache.radix_cache import RadixCache
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy", device="cpu", skip_tokenizer_init=True))
    slots = SimpleNamespace(device="cpu", available_size=lambda: free_tokens)
    tree = RadixCache.create_simulated(mock_allocator=slots, page_size=1)
    adder = PrefillAdder(
        page_size=1,
        tree_cache=tree,
        token_to_kv_pool_allocator=slots,
        running_batch=ScheduleBatch(reqs=active),
        new_token_ratio=ratio,
        rem_input_tokens=16384,
        rem_chunk_tokens=chunk_tokens,
    )
    return adder, tree


def _request(name: str, prompt_tokens: int, max_tokens: int, output_tokens: int = 0) -> Any:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    prompt = array("q", random_tokens(prompt_tokens, seed=zlib.crc32(name.encode())))
    request = Req(name, "", prompt, SamplingParams(max_new_tokens=max_tokens, ignore_eos=True, temperature=0))
    request.output_ids.extend(random_tokens(output_tokens, seed=1))
    return request
