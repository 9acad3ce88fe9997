"""Who loses its KV when the pool is full.

Question
    When memory must be taken from a running request, which one is it: the last that came in, the least important,
    or the one with the least to lose?
Watched
    vLLM: the plans that its scheduler returns and its running queue, with either scheduling policy.
    SGLang: its own `ScheduleBatch.retract_decode` over real `Req` objects.
Can mislead
    Three equal requests are the smallest case that overflows; who came last and who is least important are made to
    differ on purpose: the first one runs a step before the others arrive. In SGLang memory check and release are
    stand-ins, the order is its own.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/core/sched/scheduler.py` (`schedule`, `_preempt_request`).
    SGLang 0.5.15.post1, 0.5.16: `srt/managers/schedule_batch.py` (`retract_decode`).
"""

from __future__ import annotations

from array import array
from typing import Any

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Run, probe, random_tokens

PRIORITIES = (5, 3, 0)
"""Of the three requests in order of arrival; vLLM serves the smallest number first."""


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes={
        "priorities": "priority of each request in order of arrival; the smallest number goes first",
        "victims": "preempted requests by their number (from 0), in order of preemption",
        "victims_were_last": "whether each was the last in the running queue",
        "resumed_computed_tokens": "computed tokens that each found in the prefix cache when it ran again",
        "finished": "requests that came back with all their output tokens",
    },
    config=lambda p: {
        "block_size": 16,
        "num_gpu_blocks_override": 131,  # 130 usable: three prompts of 600 fit, their 200 tokens each do not
        "max_model_len": 2080,
        "max_num_batched_tokens": 2080,
        "scheduling_policy": p["policy"],
    },
    covers=(
        "vllm.v1.core.sched.scheduler:Scheduler.schedule",
        "vllm.v1.core.sched.scheduler:Scheduler._preempt_request",
    ),
)
def vllm_preempted(run: Run, *, policy: str = "fcfs") -> Observations:
    """Let three requests of 600 + 200 tokens outgrow 130 blocks; the first to run is the least important."""
    from vllm import SamplingParams

    engine, scheduler = run.engine.llm.llm_engine, run.engine.scheduler
    run.modifications.append(vllm_engine.WATCHED)
    run.engine.flush()
    params = SamplingParams(max_tokens=200, temperature=0.0, ignore_eos=True, detokenize=False)

    def submit(i: int) -> None:
        prompt: Any = {"prompt_token_ids": random_tokens(600, seed=i)}
        engine.add_request(f"victim-{i}", prompt, params, priority=PRIORITIES[i] if policy == "priority" else 0)

    submit(0)
    engine.step()  # it runs before the others come, so it is never the last in the running queue
    submit(1)
    submit(2)
    victims: list[int] = []
    last: list[bool] = []
    resumed: list[int] = []
    finished = 0
    queue: list[str] = []
    with vllm_engine.Plans(scheduler) as plans:
        while engine.has_unfinished_requests():
            outputs = engine.step()
            finished += sum(one.finished and len(one.outputs[0].token_ids) == 200 for one in outputs)
            for name in plans.last.preempted_req_ids or ():
                victims.append(int(name.split("-")[1]))
                last.append(queue[-1] == name)
            cached = plans.last.scheduled_cached_reqs
            computed = zip(cached.req_ids, cached.num_computed_tokens, strict=True)
            resumed += [tokens for name, tokens in computed if name in cached.resumed_req_ids]
            queue = [request.request_id for request in scheduler.running]
    if not victims:
        raise Inconclusive("the pool held all three requests: nobody was preempted")
    return {
        "priorities": list(PRIORITIES),
        "victims": victims,
        "victims_were_last": all(last),
        "resumed_computed_tokens": resumed,
        "finished": finished,
    }


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "retracted": "numbers of the requests (from 0) in the order in which they are retracted",
        "kept": "numbers of the requests that stay",
        "outputs_of_retracted": "output tokens of each retracted request",
    },
    covers=("sglang.srt.managers.schedule_batch:ScheduleBatch.retract_decode",),
)
def sglang_retracted(run: Run, *, output_tokens: list[int], prompt_tokens: list[int], fits: int = 1) -> Observations:
    """Ask `retract_decode` to make room until only `fits` requests are left."""
    sglang_engine.prepare()
    run.modifications.append("Whether memory suffices, the release of KV and the filtering of the batch are stand-ins.")
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.sampling.sampling_params import SamplingParams
    from sglang.srt.server_args import ServerArgs

    order: list[int] = []

    class Batch(ScheduleBatch):  # type: ignore[misc]
        reqs: Any

        def check_decode_mem(self, selected_indices: Any = None) -> bool:
            return len(selected_indices) <= fits

        def release_req(self, idx: int, *_: Any) -> bool:
            order.append(idx)
            return True

        def filter_batch(self, keep_indices: Any = None, **_: Any) -> None:
            self.reqs = [self.reqs[i] for i in keep_indices]

    requests = []
    for i, (outputs, prompt) in enumerate(zip(output_tokens, prompt_tokens, strict=True)):
        request = Req(str(i), "", array("q", random_tokens(prompt, seed=i)), SamplingParams(max_new_tokens=512))
        request.output_ids.extend(random_tokens(outputs, seed=i))
        requests.append(request)
    batch = Batch(reqs=requests)
    batch.retract_decode(ServerArgs(model_path="dummy", device="cpu", skip_tokenizer_init=True))
    return {
        "retracted": order,
        "kept": [int(request.rid) for request in batch.reqs],
        "outputs_of_retracted": [output_tokens[i] for i in order],
    }
