"""The same greedy answer with and without cached KV, and where they part when cached KV is wrong.

Question
    Does a prefix hit change what a request returns? When a wrong block is in the cache, where does the answer part from
    the one computed without it, how far are the logprobs off, and how is the block found?
Watched
    Tokens and their logprobs as the engine returns them, temperature 0: once on the cache, once under a salt that
    nobody used, which hits nothing and is otherwise the same request. In vLLM also with one cached block overwritten in
    the real KV tensors, and then with the prompt cut after 1, 2, 3, ... blocks. Last, what comes from the cache when
    the prompt's own logprobs are asked for.
Can mislead
    The model is tiny, with random weights, on a CPU: with and without the cache its numbers agree to the last bit. On a
    GPU another batch shape picks other kernels, and near ties may flip. How large the error of a wrong block is
    depends on the model. The cut finds a block, not the cause.
Sources
    vLLM 0.27.1: `v1/worker/gpu_model_runner.py` (`kv_caches`), `v1/core/kv_cache_utils.py` (the salt's place),
    `sampling_params.py` (`skip_reading_prefix_cache`).
    SGLang 0.5.15.post1, 0.5.16: `srt/managers/io_struct.py`, `srt/managers/schedule_batch.py`
    (`_compute_max_prefix_len`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.overlap import held_blocks

BLOCK, BLOCKS, OUTPUT = 16, 10, 32
_SEEN = {
    "cached_tokens": "prompt tokens of the request on the cache that came from it",
    "uncached_tokens": "the same for the request under the unused salt",
    "first_divergence": "number (from 0) of the first output token that differs; -1 if none does",
    "logprob_error": "largest difference between the two logprobs of a token before they part, in nats",
}


@dataclass(frozen=True)
class Answer:
    """Output tokens of one request, their logprobs in nats, and its cached prompt tokens."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    cached_tokens: int


def compare(cached: Answer, uncached: Answer) -> Observations:
    """Where two answers part, and how far their logprobs are apart up to and with that token."""
    pairs = list(zip(cached.tokens, uncached.tokens, strict=True))
    parted = next((i for i, (a, b) in enumerate(pairs) if a != b), -1)
    errors = [abs(a - b) for a, b in zip(cached.logprobs, uncached.logprobs, strict=True)]
    return {
        "cached_tokens": cached.cached_tokens,
        "uncached_tokens": uncached.cached_tokens,
        "first_divergence": parted,
        "logprob_error": max(errors[: parted + 1 or None]),
    }


WEIGHTED = {"model": "weighted", "load_format": "auto"}
"""Weights that make the answer depend on the KV, which the dummy ones do not."""


@probe(
    engine="vllm",
    levels=("engine",),
    observes=_SEEN
    | {
        "other_prompt_differs": "whether another prompt of the same length gets another answer: attention matters",
        "overwritten_block": "block of the prompt (from 0) that was overwritten with its successor; -1 for none",
        "error_by_blocks": "logprob error of the first token with the prompt cut after 1, 2, ... blocks and one token",
    },
    config=lambda _: {**vllm_engine.roomy(BLOCK), **WEIGHTED},
    covers=(
        "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",
        "vllm.v1.core.block_pool:BlockPool.get_cached_block",
    ),
)
def vllm_greedy(run: Run, *, overwrite: int = -1) -> Observations:
    """Answer a prompt of 10 blocks with and without its cached KV; damage the block `overwrite` of the cache first."""
    engine, prompt = run.engine, random_tokens(BLOCK * BLOCKS, seed=1)
    engine.flush()
    blocks = blocks_of(engine, Request(prompt, max_tokens=2))
    if overwrite >= 0:
        run.modifications.append("A cached block's KV is overwritten with that of the block behind it.")
        for layer in kv_tensors(engine):
            layer[blocks[overwrite]] = layer[blocks[overwrite + 1]].clone()
    seen = compare(_ask_vllm(engine, prompt), _ask_vllm(engine, prompt, salt="unused"))
    cuts = [prompt[: BLOCK * count + 1] for count in range(1, BLOCKS)]
    steps = [compare(_ask_vllm(engine, cut, 1), _ask_vllm(engine, cut, 1, salt=f"{len(cut)}")) for cut in cuts]
    other = _ask_vllm(engine, random_tokens(BLOCK * BLOCKS, seed=2))
    engine.flush()  # nobody else may hit the damaged block
    return seen | {
        "other_prompt_differs": other.tokens != _ask_vllm(engine, prompt).tokens,
        "overwritten_block": overwrite,
        "error_by_blocks": [step["logprob_error"] for step in steps],
    }


def kv_tensors(engine: Any) -> list[Any]:
    """The layers' KV tensors of a vLLM engine in this process; the first index is the block's number."""
    return list(engine.llm.llm_engine.model_executor.driver_worker.worker.model_runner.kv_caches)


def blocks_of(engine: Any, request: Request) -> list[int]:
    """Run the request; the numbers of the blocks that it held."""
    held: list[int] = []

    def see() -> None:
        for running in engine.scheduler.running:
            held[:] = [block.block_id for block in held_blocks(engine.scheduler, running.request_id)]

    engine.generate([request], on_step=see)
    if len(held) < len(request.prompt) // BLOCK:
        raise Inconclusive("the request ended before its blocks could be read")
    return held


def _ask_vllm(engine: Any, prompt: Sequence[int], max_tokens: int = OUTPUT, salt: str | None = None) -> Answer:
    from vllm import SamplingParams

    asked: dict[str, Any] = {"prompt_token_ids": list(prompt), **({"cache_salt": salt} if salt else {})}
    sampling = SamplingParams(max_tokens=max_tokens, temperature=0, ignore_eos=True, logprobs=1, detokenize=False)
    [done] = engine.llm.generate([asked], sampling, use_tqdm=False)
    tokens = tuple(done.outputs[0].token_ids)
    logprobs = tuple(at[token].logprob for at, token in zip(done.outputs[0].logprobs, tokens, strict=True))
    return Answer(tokens, logprobs, done.num_cached_tokens)


@probe(
    engine="sglang",
    levels=("engine",),
    observes=_SEEN
    | {"other_prompt_differs": "whether another prompt of the same length gets another answer: attention matters"},
    config=lambda _: {"page_size": 1, "disable_radix_cache": False, **WEIGHTED},
    covers=(
        "sglang.srt.mem_cache.radix_cache:RadixCache.match_prefix",
        "sglang.srt.managers.schedule_batch:Req.init_next_round_input",
    ),
)
def sglang_greedy(run: Run) -> Observations:
    """Answer a prompt of 160 tokens with and without its cached KV."""
    engine, prompt = run.engine, random_tokens(BLOCK * BLOCKS, seed=1)
    engine.flush()
    engine.generate([Request(prompt)])
    seen = compare(_ask_sglang(engine, prompt), _ask_sglang(engine, prompt, salt="unused"))
    other = _ask_sglang(engine, random_tokens(BLOCK * BLOCKS, seed=2))
    return seen | {"other_prompt_differs": other.tokens != _ask_sglang(engine, prompt).tokens}


def _ask_sglang(engine: Any, prompt: Sequence[int], salt: str | None = None) -> Answer:
    meta = _meta_sglang(engine, prompt, OUTPUT, extra_key=[salt] if salt else None)
    logprobs, tokens, _ = zip(*meta["output_token_logprobs"], strict=True)
    return Answer(tuple(tokens), tuple(logprobs), meta["cached_tokens"])


def _meta_sglang(engine: Any, prompt: Sequence[int], max_tokens: int, **asked: Any) -> dict[str, Any]:
    """SGLang's `meta_info` for a greedy request with logprobs."""
    from sglang.srt.managers.io_struct import GenerateReqInput

    sampling = {"temperature": 0.0, "max_new_tokens": max_tokens, "ignore_eos": True}
    request = GenerateReqInput(input_ids=[list(prompt)], sampling_params=[sampling], return_logprob=True, **asked)
    return dict(engine.answer(request)[0]["meta_info"])


_SCORED = {
    "prompt_tokens": "tokens of the prompt, whose KV is all in the cache",
    "plain_cached_tokens": "tokens that come from the cache when only an answer is asked for",
    "scored_cached_tokens": "the same when the logprob of every prompt token is asked for too",
    "scored_logprobs": "prompt tokens for which a logprob came back",
}


@probe(
    engine="vllm",
    levels=("engine",),
    observes=_SCORED,
    config=lambda _: {**vllm_engine.roomy(BLOCK), **WEIGHTED},
    covers=("vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",),
)
def vllm_scored_prompt(run: Run) -> Observations:
    """Send a cached prompt for its answer, and once more for the logprobs of its own tokens."""
    from vllm import SamplingParams

    engine, prompt = run.engine, random_tokens(BLOCK * BLOCKS, seed=3)
    engine.flush()
    engine.generate([Request(prompt)])
    plain = _ask_vllm(engine, prompt, 1)
    sampling = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=1, detokenize=False)
    [scored] = engine.llm.generate([{"prompt_token_ids": prompt}], sampling, use_tqdm=False)
    return {
        "prompt_tokens": len(prompt),
        "plain_cached_tokens": plain.cached_tokens,
        "scored_cached_tokens": scored.num_cached_tokens,
        "scored_logprobs": sum(one is not None for one in scored.prompt_logprobs),
    }


@probe(
    engine="sglang",
    levels=("engine",),
    observes=_SCORED,
    config=lambda _: {"page_size": 1, "disable_radix_cache": False, **WEIGHTED},
    covers=("sglang.srt.managers.schedule_batch:Req._compute_max_prefix_len",),
)
def sglang_scored_prompt(run: Run) -> Observations:
    """Send a cached prompt for its answer, and once more for the logprobs of its own tokens."""
    engine, prompt = run.engine, random_tokens(BLOCK * BLOCKS, seed=3)
    engine.flush()
    engine.generate([Request(prompt)])
    plain, scored = _meta_sglang(engine, prompt, 1), _meta_sglang(engine, prompt, 1, logprob_start_len=0)
    return {
        "prompt_tokens": len(prompt),
        "plain_cached_tokens": plain["cached_tokens"],
        "scored_cached_tokens": scored["cached_tokens"],
        "scored_logprobs": sum(one[0] is not None for one in scored["input_token_logprobs"]),
    }
