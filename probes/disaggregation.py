"""Prefill on one server, decode on another: what either engine switches off, refuses or holds back for it.

Question
    What does a decode server do with a request whose KV is still on the way, and who owns the blocks when it is
    cancelled? When may a prefill server give up the KV of a finished request? What becomes of the prefix cache?
Watched
    What SGLang's own `ServerArgs` resolve to for a prefill and for a decode server. vLLM's own scheduler while a KV
    connector says that a prompt's KV is on its way: which steps compute what, and when the blocks are given back.
Can mislead
    No KV is moved: the connector is ours and only announces, and tokens are made up (level `control`). Nothing here has
    a duration; `kv_transfer` has the bytes.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/arg_groups/pd_disaggregation_hook.py`. vLLM 0.25.1 to 0.27.1:
    `v1/core/sched/scheduler.py` (WAITING_FOR_REMOTE_KVS, `_connector_finished`, `_update_from_kv_xfer_finished`).
"""

from __future__ import annotations

from typing import Any

from inferproof.probes import model, sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Request, Run, Unavailable, probe, random_tokens


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "refused": "what ServerArgs says against these arguments; empty if it takes them",
        "radix_cache": "whether the server keeps a radix cache",
        "cuda_graph": "whether the server keeps CUDA graphs (it was not told to drop them)",
        "extra_slots": "request rows kept besides `max_running` for requests whose KV is arriving; -1 where none are",
    },
    covers=("sglang.srt.arg_groups.pd_disaggregation_hook:handle_pd_disaggregation",),
)
def sglang_server_role(
    run: Run, *, role: str = "decode", backend: str = "fake", keep_radix_cache: bool = False, max_running: int = 16
) -> Observations:
    """Resolve the arguments of a prefill, a decode or an ordinary ("null") server."""
    sglang_engine.prepare()
    from sglang.srt.server_args import ServerArgs

    if run.models is None:
        raise Unavailable("a folder for local model configs is needed")
    given = {
        "model_path": str(model.make(run.models, "tiny")), "device": "cpu", "skip_tokenizer_init": True,
        "max_running_requests": max_running, "disaggregation_mode": role, "disaggregation_transfer_backend": backend,
        "disaggregation_decode_enable_radix_cache": keep_radix_cache,
    }  # fmt: skip
    try:
        resolved = ServerArgs(**given)
    except (AssertionError, ValueError) as refusal:
        return {"refused": str(refusal), "radix_cache": False, "cuda_graph": False, "extra_slots": -1}
    extra = resolved.disaggregation_decode_extra_slots
    return {
        "refused": "",
        "radix_cache": not resolved.disable_radix_cache,
        "cuda_graph": not resolved.disable_cuda_graph,
        "extra_slots": -1 if extra is None else extra,
    }


def _disaggregated(role: str) -> dict[str, Any]:
    connector = {
        "kv_connector": "AnnouncingConnector",
        "kv_connector_module_path": "inferproof.probes.announcing_connector",
        "kv_role": role,
    }
    return {
        "block_size": 16,
        "num_gpu_blocks_override": 129,
        "max_model_len": 2048,
        "max_num_batched_tokens": 2048,
        "kv_transfer_config": connector,
    }


_ANNOUNCED = (
    "A KV connector of the probe announces KV and moves none; its arrival or departure is written into the null"
    " executor's output, where vLLM's workers report it."
)
_SCHEDULER = "vllm.v1.core.sched.scheduler:Scheduler"


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "status_on_the_way": "the scheduler's own name for the request's state while its KV is on the way",
        "blocks_on_the_way": "KV blocks that it holds then",
        "tokens_on_the_way": "tokens that were scheduled for it in all those steps",
        "neighbour_tokens": "tokens that another, local request was given in those steps",
        "tokens_on_arrival": "tokens scheduled for it in the first step after the arrival; 0 if it was cancelled",
        "output_tokens": "tokens that came back for it in the end",
        "held_after_cancel": "blocks still held after the cancel, the neighbour's left out; -1 if it was not cancelled",
        "held_at_end": "blocks held after the arrival, when all requests have ended",
    },
    config=lambda _: _disaggregated("kv_consumer"),
    covers=(f"{_SCHEDULER}.schedule", f"{_SCHEDULER}.finish_requests", f"{_SCHEDULER}._update_from_kv_xfer_finished"),
)
def vllm_arriving_kv(run: Run, *, prompt_tokens: int = 1024, steps: int = 8, cancel: bool = False) -> Observations:
    """Let a request wait for KV from elsewhere beside a local one; then let it arrive, or cancel it before."""
    run.modifications.append(_ANNOUNCED)
    side = _Side(run.engine)
    side.submit("neighbour", Request(random_tokens(64, seed=1), max_tokens=4 * steps))
    side.submit("remote", Request(random_tokens(prompt_tokens, seed=2), max_tokens=4, salt="remote"))
    scheduled = side.step(steps)
    request = side.request("remote")
    seen: Observations = {
        "status_on_the_way": request.status.name,
        "blocks_on_the_way": side.blocks("remote"),
        "tokens_on_the_way": sum(s.get("remote", 0) for s in scheduled),
        "neighbour_tokens": sum(s.get("neighbour", 0) for s in scheduled),
        "held_after_cancel": -1,
    }
    if cancel:
        side.cancel("remote")
        side.step(2)
        seen["held_after_cancel"] = side.held() - side.blocks("neighbour")
    side.arrived(request.request_id)
    after = [s for _ in range(3) for s in side.step(1)]
    seen["tokens_on_arrival"] = next((s["remote"] for s in after if "remote" in s), 0)
    side.finish()
    return {**seen, "output_tokens": side.outputs.get("remote", 0), "held_at_end": side.held()}


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "finished_tokens": "tokens that the request returned before its KV was fetched",
        "held_after_finish": "blocks held although the request has finished and nothing runs",
        "held_after_fetch": "blocks held once the other side has fetched them",
    },
    config=lambda _: _disaggregated("kv_producer"),
    covers=(f"{_SCHEDULER}._free_request", f"{_SCHEDULER}._connector_finished"),
)
def vllm_departing_kv(run: Run, *, prompt_tokens: int = 1024) -> Observations:
    """Finish a request on a prefill server whose KV is still to be fetched by a decode server."""
    run.modifications.append(_ANNOUNCED)
    side = _Side(run.engine)
    side.submit("prefill", Request(random_tokens(prompt_tokens, seed=3), max_tokens=1, salt="remote"))
    side.step(1)
    request_id = next(iter(side.scheduler.requests))
    side.step(2)
    finished, held = side.outputs.get("prefill", 0), side.held()
    side.fetched(request_id)
    side.submit("wake", Request(random_tokens(16, seed=4), max_tokens=2))
    side.step(1)
    after = side.held() - side.blocks("wake")
    side.finish()
    return {"finished_tokens": finished, "held_after_finish": held, "held_after_fetch": after}


class _Side:
    """One side of a disaggregated vLLM, driven step by step; requests are known by names of ours."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.outputs = engine.llm.llm_engine, dict[str, int]()
        self.scheduler = engine.scheduler
        self._pool, self._plans = engine.block_pool, vllm_engine.Plans(engine.scheduler)
        self._free = self._pool.get_num_free_blocks()
        self._executor = engine.llm.llm_engine.model_executor

    def submit(self, name: str, request: Request) -> None:
        self.engine.add_request(name, vllm_engine._prompt(request), vllm_engine._sampling(request))

    def request(self, name: str) -> Any:
        """The scheduler's own request; its ids are ours with a suffix."""
        return next(r for i, r in self.scheduler.requests.items() if i.partition("-")[0] == name)

    def blocks(self, name: str) -> int:
        manager = self.scheduler.kv_cache_manager
        return len(manager.get_blocks(self.request(name).request_id).blocks[0])

    def held(self) -> int:
        """Blocks that are not free, against the pool before the first request."""
        return int(self._free - self._pool.get_num_free_blocks())

    def cancel(self, name: str) -> None:
        self.engine.abort_request([name])

    def step(self, count: int) -> list[dict[str, int]]:
        """Run so many steps; for each, name -> tokens that it scheduled."""
        return [self._step() for _ in range(count)]

    def _step(self) -> dict[str, int]:
        self._plans.last = None
        with self._plans as plans:
            for output in self.engine.step():
                name, tokens = output.request_id, len(output.outputs[0].token_ids)
                self.outputs[name] = self.outputs.get(name, 0) + tokens
        scheduled = plans.last.num_scheduled_tokens if plans.last else {}  # without a request nothing is planned
        return {i.partition("-")[0]: n for i, n in scheduled.items()}

    def arrived(self, request_id: str) -> None:
        """The next step's output reports that the request's KV has arrived."""
        self._report(finished_recving={request_id})

    def fetched(self, request_id: str) -> None:
        """The next step's output reports that the request's KV was fetched."""
        self._report(finished_sending={request_id})

    def _report(self, **finished: set[str]) -> None:
        from vllm.v1.outputs import KVConnectorOutput

        fabricate = self._executor._fabricate

        def once(step: Any) -> Any:
            del self._executor._fabricate
            output = fabricate(step)
            output.kv_connector_output = KVConnectorOutput(**finished)
            return output

        self._executor._fabricate = once

    def finish(self) -> None:
        """Run until no request is left."""
        while self.engine.has_unfinished_requests():
            self._step()
