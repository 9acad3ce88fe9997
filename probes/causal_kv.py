"""Why K and V are cached and Q is not: what later tokens change of the past, and what a decode step computes and reads.

Question
    Do the keys and values of a token depend on what follows it? What does a decode step still compute?
Watched
    The KV cache of a whole vLLM after prompts that share a beginning, compared value by value; and each call of its
    attention layers: rows of queries, of new keys, and of history.
Can mislead
    Rounding may differ with the shape of a batch, so equality is judged against the values' size. It holds for causal
    attention; a bidirectional encoder or an image prefix that attends both ways has no such past.
Sources
    vLLM 0.27.1: `v1/worker/gpu_model_runner.py` (`kv_caches`), `v1/attention/backends/cpu_attn.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inferproof.probes import model, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, Unavailable, probe, random_tokens

_BLOCK = 16


@probe(
    engine="vllm",
    levels=("engine",),
    observes={
        "scale": "largest magnitude in the compared KV",
        "past_differs_by": "largest difference of the first 64 tokens' KV when the 32 tokens behind them are others",
        "future_differs_by": "largest difference of those 32 tokens' own KV",
        "first_layer_differs_by": "largest difference of tokens 16..63 in layer 0 when the first token is another",
        "last_layer_differs_by": "the same in the last layer",
        "prefill_queries": "query rows of each attention call in the prefill",
        "decode_queries": "query rows of each attention call in the decode steps",
        "decode_keys": "new key rows of each attention call in the decode steps",
        "decode_history": "tokens of history that each attention call in the decode steps reads, itself included",
    },
    covers=("vllm.v1.attention.backends.cpu_attn:CPUAttentionBackendImpl.forward",),
)
def vllm_past_and_future(run: Run) -> Observations:
    """Run prompts with a common beginning, with other endings and with another first token, and compare their KV."""
    if run.models is None:
        raise Unavailable("a folder for local model configs is needed")
    run.modifications.append(
        "The attention layers' forward is wrapped to record its shapes; the model's random weights come from a file."
    )
    past, ending, other_ending = (random_tokens(n, seed) for n, seed in ((64, 1), (32, 2), (32, 3)))
    prompts = [[*past, *ending], [*past, *other_ending], [past[0] + 1, *past[1:], *ending]]
    model.write_weights(model.make(run.models, "tiny"), "tiny")
    config = vllm_engine.roomy(_BLOCK) | {"load_format": "safetensors", "dtype": "float32"}
    engine = vllm_engine.start(config, level="engine", source=None, log=None, models=run.models)
    try:
        (one, calls), (other, _), (moved, _) = (_kv(engine, prompt) for prompt in prompts)
    finally:
        engine.close()
    prefill = [c for c in calls if c[0] > 1]
    decode = [c for c in calls if c[0] == 1]
    if not prefill or not decode:
        raise Inconclusive("no prefill or no decode step was seen in the attention layers")
    blocks = len(past) // _BLOCK
    return {
        "scale": float(one.abs().max()),
        "past_differs_by": _difference(one[:, :blocks], other[:, :blocks]),
        "future_differs_by": _difference(one[:, blocks:], other[:, blocks:]),
        "first_layer_differs_by": _difference(one[0, 1:blocks], moved[0, 1:blocks]),
        "last_layer_differs_by": _difference(one[-1, 1:blocks], moved[-1, 1:blocks]),
        "prefill_queries": [queries for queries, _, _ in prefill],
        "decode_queries": [queries for queries, _, _ in decode],
        "decode_keys": [keys for _, keys, _ in decode],
        "decode_history": [history for _, _, history in decode],
    }


def _difference(one: Any, other: Any) -> float:
    return float((one - other).abs().max())


def _kv(engine: Any, prompt: list[int]) -> tuple[Any, list[tuple[int, int, int]]]:
    """KV [layers, blocks, ...] of the prompt's full blocks, and (queries, new keys, history) of each attention call."""
    blocks: list[int] = []

    def look() -> None:
        for request in engine.scheduler.running:
            blocks[:] = engine.scheduler.kv_cache_manager.get_block_ids(request.request_id)[0]

    engine.flush()
    engine.llm.collective_rpc(_watch)
    engine.generate([Request(prompt, max_tokens=4)], on_step=look)
    wanted = blocks[: len(prompt) // _BLOCK]
    [(kv, calls)] = engine.llm.collective_rpc(_taken, args=(wanted,))
    return kv, calls


# These run inside the worker, which vLLM's `collective_rpc` hands them.


def _watch(worker: Any) -> None:
    """Record what each attention layer is called with from now on."""
    worker.inferproof_calls = []
    worker.inferproof_layers = list(worker.vllm_config.compilation_config.static_forward_context.values())
    for layer in worker.inferproof_layers:
        layer.impl.forward = _recorded(layer.impl.forward, worker.inferproof_calls)


def _recorded(forward: Callable[..., Any], calls: list[tuple[int, int, int]]) -> Callable[..., Any]:
    def recorded(layer: Any, query: Any, key: Any, value: Any, cache: Any, about: Any, *args: Any, **more: Any) -> Any:
        if about is not None:  # a profiling run has no metadata
            rows = about.num_actual_tokens  # the tensors may be padded
            calls.append((rows, min(rows, len(key)), int(about.seq_lens.max())))
        return forward(layer, query, key, value, cache, about, *args, **more)

    return recorded


def _taken(worker: Any, blocks: list[int]) -> tuple[Any, list[tuple[int, int, int]]]:
    """KV of those blocks in every layer, and the recorded calls; the layers are as they were again."""
    import torch

    for layer in worker.inferproof_layers:
        del layer.impl.forward  # uncovers the class's own method
    return torch.stack([cache[blocks].float() for cache in worker.model_runner.kv_caches]), worker.inferproof_calls
