"""An executor that fabricates tokens instead of running a model: vLLM's control plane, alone.

It fills vLLM's own extension point (`distributed_executor_backend` takes an `Executor` class), so scheduler,
KV-cache manager, beam search and metrics are the engine's, untouched. What comes out of it proves nothing
about time, logits or attention. The same class runs on vLLM 0.25.1, 0.26.0 and 0.27.1.

`Fabricator` holds the behaviour and imports vLLM inside its methods, so that this module can be imported where
there is no vLLM; `null_executor()` joins it with the engine's base class. A server finds the joined class under
the name `inferproof.probes.null_executor.NullExecutor`.
"""

from __future__ import annotations

import functools
from concurrent.futures import Future
from typing import Any

FIRST_TOKEN, TOKENS = 16, 4000
"""Fabricated ids: above the special tokens, inside the vocabulary of `model.py`, never the end of sequence."""


_ANSWERS = {
    "get_supported_tasks": ("generate",),
    "get_supported_kv_cache_layouts": ["LBHNC"],  # as the CPU backend; asked from 0.33 on
}


class Fabricator:
    """One made-up token, and one for each accepted draft, for every request whose last known token is scheduled."""

    supports_pp = True
    accepted_drafts = 0
    """Of the drafts that a step verifies for a request, how many it accepts; drafts come where speculation is on."""
    vllm_config: Any
    model_config: Any
    cache_config: Any
    parallel_config: Any

    def _init_executor(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  # request id -> (prompt length, logprobs asked)
        self._output: Any = None
        self._sampled: list[str] = []  # requests that the last step made a token for

    def check_health(self) -> None:
        """Nothing can be unwell."""

    def shutdown(self) -> None:
        """Nothing was started."""

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """True: outputs may be fetched a step later."""
        return True

    def collective_rpc(self, method: Any, *_args: Any, non_block: bool = False, **_kwargs: Any) -> Any:
        """Answer for the one worker that is not there."""
        answer = [_ANSWERS.get(method) if isinstance(method, str) else None]
        return _done(answer) if non_block else answer

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        """Full attention in every layer, with the heads and sizes of the configured model."""
        from vllm.v1.kv_cache_interface import FullAttentionSpec

        spec = FullAttentionSpec(
            block_size=self.cache_config.block_size,
            num_kv_heads=self.model_config.get_num_kv_heads(self.parallel_config),
            head_size=self.model_config.get_head_size(),
            dtype=self.model_config.dtype,
        )
        return [{f"layer.{i}": spec for i in range(self.model_config.get_num_layers(self.parallel_config))}]

    def determine_available_memory(self) -> list[int]:
        """1 GiB, in bytes; `num_gpu_blocks_override` decides the real number of blocks."""
        return [1 << 30]

    def initialize_from_config(self, kv_cache_configs: Any) -> None:
        """There is no KV memory to initialise."""

    def compile_or_warm_up_model(self) -> None:
        """There is no model to warm up."""

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Make up the step's output; `sample_tokens` hands it over, as with a real model runner."""
        output = self._fabricate(scheduler_output)
        if scheduler_output.total_num_scheduled_tokens > 0:
            self._output, output = output, None
        return _done(output) if non_block else output

    def sample_tokens(self, _grammar: Any, non_block: bool = False) -> Any:
        """The output of the step that `execute_model` was last given."""
        output, self._output = self._output, None
        return _done(output) if non_block else output

    def take_draft_token_ids(self) -> Any:
        """As many drafts as speculation is configured for, for each request that has a new token; else None."""
        if self.vllm_config.speculative_config is None:
            return None
        from vllm.v1.outputs import DraftTokenIds

        width = self.vllm_config.speculative_config.num_speculative_tokens
        return DraftTokenIds(self._sampled, [[FIRST_TOKEN] * width for _ in self._sampled])

    def _fabricate(self, step: Any) -> Any:
        from vllm.v1.outputs import ModelRunnerOutput

        lengths = self._lengths(step)
        ids = list(step.num_scheduled_tokens)
        drafts = {i: len(tokens) for i, tokens in step.scheduled_spec_decode_tokens.items()}
        ends = [lengths[i][0] + step.num_scheduled_tokens[i] - drafts.get(i, 0) for i in ids]
        sampled = [
            [token(end + j, 0) for j in range(1 + min(self.accepted_drafts, drafts.get(i, 0)))]
            if end >= lengths[i][1]
            else []
            for i, end in zip(ids, ends, strict=True)
        ]
        self._sampled = [i for i, tokens in zip(ids, sampled, strict=True) if tokens]
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request: row for row, request in enumerate(ids)},
            sampled_token_ids=sampled,
            logprobs=self._logprobs(ids, ends),
        )

    def _lengths(self, step: Any) -> dict[str, tuple[int, int]]:
        """Request id -> (tokens computed before this step, tokens known: prompt and output)."""
        for request in step.finished_req_ids:
            self._known.pop(request, None)
        lengths = {}
        for new in step.scheduled_new_reqs:
            self._known[new.req_id] = (len(new.prompt_token_ids), new.sampling_params.logprobs or 0)
            lengths[new.req_id] = (new.num_computed_tokens, len(new.prompt_token_ids))
        cached = step.scheduled_cached_reqs
        for request, *counts in zip(cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True):
            lengths[request] = (counts[0], self._known[request][0] + counts[1])
        return lengths

    def _logprobs(self, ids: list[str], ends: list[int]) -> Any:
        """For each request its token, then the best `k`, that token first among them; None where nobody asked."""
        import numpy as np
        from vllm.v1.outputs import LogprobsLists

        k = max((self._known[i][1] for i in ids), default=0)
        if k == 0:
            return None
        tokens = [[token(end, 0), *(token(end, rank) for rank in range(k))] for end in ends]
        scores = [-0.5, *(-0.5 - 0.25 * rank for rank in range(k))]
        return LogprobsLists(
            logprob_token_ids=np.array(tokens, dtype=np.int32),
            logprobs=np.array([scores] * len(ids), dtype=np.float32),
            sampled_token_ranks=np.ones(len(ids), dtype=np.int32),
        )


def token(position: int, rank: int) -> int:
    """The id made up for that position; `rank` 0 is the one sampled, higher ones are its alternatives."""
    return FIRST_TOKEN + (31 * position + rank) % TOKENS


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@functools.cache
def null_executor() -> type:
    """The class for `distributed_executor_backend`. Needs vLLM."""
    from vllm.v1.executor.abstract import Executor

    return type("NullExecutor", (Fabricator, Executor), {"__module__": __name__, "__doc__": __doc__})


def __getattr__(name: str) -> Any:
    if name == "NullExecutor":
        return null_executor()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
