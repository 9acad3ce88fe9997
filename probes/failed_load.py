"""What vLLM does with a request when KV that it waited for turns out not to have arrived.

Question
    Is a failed load of KV a cache miss, to be computed instead, or the end of the request?
Watched
    vLLM's own scheduler while a KV connector says that a prompt's KV is on its way and the workers then report one of
    its blocks as not loaded: how the request ends, what is computed again, which blocks are held at the end.
Can mislead
    No KV is moved: the connector and the report are the probe's, and tokens are made up (level `control`). Whether a
    real connector notices that a load failed, and reports it, is its own matter.
Sources
    vLLM 0.25.1 to 0.27.1: `v1/core/sched/scheduler.py` (`_handle_invalid_blocks`), `config/kv_transfer.py`
    (`kv_load_failure_policy`).
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import disaggregation
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens

_SCHEDULER = "vllm.v1.core.sched.scheduler:Scheduler"


def _config(params: dict[str, Any]) -> dict[str, Any]:
    config = disaggregation._disaggregated("kv_consumer")
    policy = {"kv_load_failure_policy": params["policy"]} if params["policy"] else {}
    return {**config, "kv_transfer_config": {**config["kv_transfer_config"], **policy}}


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "finish_reason": "how vLLM says that the request ended",
        "output_tokens": "tokens that came back for it, of 4 asked for",
        "recomputed_tokens": "tokens of its prompt that were computed after the failure",
        "held_at_end": "blocks held when all requests have ended",
    },
    config=_config,
    covers=(f"{_SCHEDULER}._handle_invalid_blocks", f"{_SCHEDULER}._update_requests_with_invalid_blocks"),
)
def vllm_missing_block(
    run: Run,
    *,
    policy: str = "",  # noqa: ARG001 - it is in the engine config
    prompt_tokens: int = 1024,
    block: int = 10,
) -> Observations:
    """Report one block of an awaited prompt as not loaded; an empty `policy` is vLLM's default."""
    run.modifications.append(disaggregation._ANNOUNCED)
    side = disaggregation._Side(run.engine)
    side.submit("remote", Request(random_tokens(prompt_tokens, seed=2), max_tokens=4, salt="remote"))
    side.step(2)
    request = side.request("remote")
    if "WAITING_FOR_REMOTE_KVS" not in str(request.status):
        raise Inconclusive(f"the request was not waiting for its KV but {request.status}")
    blocks = side.scheduler.kv_cache_manager.get_blocks(request.request_id).blocks[0]
    lost: set[Any] = {blocks[block].block_id}
    side._report(finished_recving={request.request_id}, invalid_block_ids=lost)
    recomputed, outputs = 0, 0
    while side.engine.has_unfinished_requests():
        before = request.num_computed_tokens
        for output in side.engine.step():
            outputs += len(output.outputs[0].token_ids)
        recomputed += max(0, min(request.num_computed_tokens, prompt_tokens) - min(before, prompt_tokens))
    return {
        "finish_reason": str(request.get_finished_reason()),
        "output_tokens": outputs,
        "recomputed_tokens": recomputed,
        "held_at_end": side.held(),
    }
