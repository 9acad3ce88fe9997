"""What tensor parallelism splits, what every rank keeps whole, and what the ranks must say to one another.

Question
    How many collectives does one forward pass need, how large is each message, and does the answer stay the same? Which
    parameters and how much KV does each rank hold?
Watched
    A whole vLLM with one rank and with two (two worker processes, messages over gloo), on the same weights: tokens,
    shapes of the parameters, the KV cache's spec, and every call of the ranks' own communicator. vLLM's own rule for KV
    heads. `collective_bytes` is arithmetic, for models and ranks that no machine here holds.
Can mislead
    Two processes on one CPU have no NVLink: counts and bytes carry over to a GPU, times do not. On a GPU an engine may
    choose another all-reduce, or merge it with the norm behind it; the message stays as large.
Sources
    vLLM 0.25.1 to 0.27.1: `model_executor/layers/linear.py`, `vocab_parallel_embedding.py`, `logits_processor.py`,
    `distributed/device_communicators/cpu_communicator.py`, `config/model.py` (`get_num_kv_heads`).
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inferproof.probes import model, vllm_engine
from inferproof.probes.core import Observations, Request, Run, Unavailable, probe, random_tokens

_LINEAR = "vllm.model_executor.layers.linear"


@probe(
    engine="vllm",
    levels=("engine",),
    observes={
        "layers": "decoder layers of the model",
        "hidden_size": "width of a token's hidden state",
        "same_output": "whether two ranks gave the very tokens that one rank gave (greedy)",
        "collectives_alone": "collectives of a decode step with one rank",
        "all_reduces": "all-reduces of each forward pass with two ranks, in order: the prefill, then decode steps",
        "gathers": "other collectives of each forward pass (the logits), in the same order",
        "prefill_message_bytes": "bytes of one all-reduce message in the prefill",
        "decode_message_bytes": "bytes of one all-reduce message in a decode step of one request",
        "parameters": "parameters of the model on one rank",
        "parameters_by_rank": "parameters on each of two ranks",
        "replicated_parameters": "parameters that each of the two ranks holds whole",
        "kv_page_bytes": "bytes of one layer's KV page on one rank",
        "kv_page_bytes_by_rank": "bytes of one layer's KV page on each of two ranks (both have the same)",
        "message_growth": "bytes of the large timed all-reduce over those of the small one",
        "time_growth": "time of the large all-reduce over that of the small one, fastest of 30 each",
    },
    covers=(f"{_LINEAR}:RowParallelLinear.forward",),
    timeout_s=180,
)
def vllm_two_ranks(run: Run, *, prompt_tokens: int = 64, max_tokens: int = 6) -> Observations:
    """Run a prompt with one rank and with two on the same weights, and count what the ranks exchange."""
    if run.models is None:
        raise Unavailable("a folder for local model configs is needed")
    run.modifications.append(_WRAPPED)
    folder = model.make(run.models, "tiny")
    model.write_weights(folder, "tiny")
    request = Request(random_tokens(prompt_tokens, seed=1), max_tokens=max_tokens)
    alone, two = (_observed(run.models, ranks, request) for ranks in (1, 2))
    run.samples |= {"collectives_by_pass": two["passes"], "all_reduce_s": two["timed"]}
    whole, part = alone["shapes"][0], two["shapes"][0]
    reduces = [[n for kind, n in calls if kind == "all_reduce"] for calls in two["passes"]]
    (small_bytes, small_s), (large_bytes, large_s) = two["timed"]
    return {
        "layers": model.config("tiny")["num_hidden_layers"],
        "hidden_size": model.config("tiny")["hidden_size"],
        "same_output": alone["output"] == two["output"],
        "collectives_alone": sum(map(len, alone["passes"])),
        "all_reduces": [len(r) for r in reduces],
        "gathers": [len(calls) - len(r) for calls, r in zip(two["passes"], reduces, strict=True)],
        "prefill_message_bytes": max(reduces[0]),
        "decode_message_bytes": max(reduces[-1]),
        "parameters": _count(whole.values()),
        "parameters_by_rank": [_count(shapes.values()) for shapes in two["shapes"]],
        "replicated_parameters": _count(shape for name, shape in whole.items() if part[name] == shape),
        "kv_page_bytes": alone["kv_page_bytes"],
        "kv_page_bytes_by_rank": two["kv_page_bytes"],
        "message_growth": large_bytes // small_bytes,
        "time_growth": large_s / small_s,
    }


_WRAPPED = "The ranks' communicator is wrapped to record each collective; the model's random weights come from a file."


def _count(shapes: Iterable[Sequence[int]]) -> int:
    return sum(math.prod(shape) for shape in shapes)


def _observed(models: Path, ranks: int, request: Request) -> dict[str, Any]:
    """What an engine of so many ranks held and exchanged; it is stopped again."""
    config = {
        "load_format": "safetensors", "dtype": "float32", "tensor_parallel_size": ranks, "block_size": 16,
        "num_gpu_blocks_override": 129, "max_model_len": 2048, "max_num_batched_tokens": 2048,
    }  # fmt: skip
    with _unbound():
        engine = vllm_engine.start(config, level="engine", source=None, log=None, models=models)
        try:
            ask = engine.llm.collective_rpc
            shapes, passes = ask(_watch), list[Any]()
            (answer,) = engine.generate([request], on_step=lambda: passes.append(ask(_taken)[0]))
            group = engine.scheduler.kv_cache_config.kv_cache_groups[0]
            return {
                "shapes": shapes,
                "passes": passes,
                "output": answer.tokens,
                "kv_page_bytes": group.kv_cache_spec.page_size_bytes,
                "timed": ask(_timed)[0] if ranks > 1 else None,
            }
        finally:
            engine.close()


@contextlib.contextmanager
def _unbound() -> Iterator[None]:
    """One thread a rank, bound to no core: vLLM would bind each rank to its own NUMA node, and may find one."""
    wanted = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


# These three run inside a rank's worker; vLLM's `collective_rpc` hands them that worker.


def _watch(worker: Any) -> dict[str, list[int]]:
    """Record every collective of the rank from now on. The shapes of its parameters by name."""
    from vllm.distributed import get_tp_group

    calls: list[tuple[str, int]] = []
    worker.inferproof_calls = calls
    communicator = get_tp_group().device_communicator
    for kind in ("all_reduce", "all_gather", "gather", "reduce_scatter"):
        if communicator is not None:
            setattr(communicator, kind, _recorded(kind, getattr(communicator, kind), calls))
    model_ = worker.model_runner.model
    shapes = {name: list(p.shape) for name, p in model_.named_parameters() if p.numel()}
    return shapes | {  # on a CPU a linear layer's weight is packed away after loading; its sizes stay
        f"{name}.weight": [m.output_size_per_partition, m.input_size_per_partition]
        for name, m in model_.named_modules()
        if hasattr(m, "input_size_per_partition")
    }


def _recorded(kind: str, call: Callable[..., Any], calls: list[tuple[str, int]]) -> Callable[..., Any]:
    def recorded(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append((kind, tensor.numel() * tensor.element_size()))
        return call(tensor, *args, **kwargs)

    return recorded


def _taken(worker: Any) -> list[tuple[str, int]]:
    """(kind, bytes of the message) of the collectives since the last call."""
    taken = list(worker.inferproof_calls)
    worker.inferproof_calls.clear()
    return taken


def _timed(_worker: Any) -> list[tuple[int, float]]:
    """(bytes, seconds of the fastest of 30) of an all-reduce of a single token's hidden state, and of 1024 tokens'."""
    import torch
    from vllm.distributed import get_tp_group

    communicator, found = get_tp_group().device_communicator, []
    for tokens in (1, 1024):
        message, seconds = torch.zeros(tokens, 64), []
        for _ in range(30):
            started = time.perf_counter()
            communicator.all_reduce(message)
            seconds.append(time.perf_counter() - started)
        found.append((message.numel() * message.element_size(), min(seconds)))
    return found


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "kv_heads_by_ranks": "KV heads on each rank, for each number of ranks asked about",
        "kv_heads_held_by_ranks": "KV heads held by all ranks together: more than `kv_heads` where they are replicated",
    },
    covers=("vllm.config.model:ModelConfig.get_num_kv_heads",),
)
def vllm_kv_heads(run: Run, *, kv_heads: int = 8, ranks: list[int] = [1, 2, 4, 8, 16]) -> Observations:  # noqa: B006
    """Ask vLLM's rule how many KV heads a rank holds."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += [
        *vllm_engine.force_cpu(),
        "The rule is asked with stand-ins for the configs of model and ranks.",
    ]
    from vllm.config import ModelConfig

    stand_in: Any = SimpleNamespace(get_total_num_kv_heads=lambda: kv_heads, use_mla=False)
    held = [ModelConfig.get_num_kv_heads(stand_in, SimpleNamespace(tensor_parallel_size=n)) for n in ranks]
    return {"kv_heads_by_ranks": held, "kv_heads_held_by_ranks": [h * n for h, n in zip(held, ranks, strict=True)]}


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "all_reduces": "all-reduces of a forward pass: two a layer and one of the embedding",
        "message_bytes": "bytes of one all-reduce message",
        "pass_bytes": "bytes of all these messages of one forward pass",
        "wire_bytes_per_rank": "bytes a rank sends for them in a ring: 2 (ranks - 1) / ranks of the messages",
        "link_us": "microseconds that those bytes are on a link of `link_gbyte_s` (10^9 bytes a second)",
        "latency_us": "microseconds of the fixed latency alone: all-reduces times `latency_us_each`",
    },
)
def none_collective_bytes(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    layers: int = 28,
    hidden_size: int = 1024,
    value_bytes: int = 2,
    tokens: int = 1,
    ranks: int = 2,
    link_gbyte_s: float = 300.0,
    latency_us_each: float = 10.0,
) -> Observations:
    """Compute what a forward pass of `tokens` tokens must move between ranks."""
    moved = collective(layers=layers, hidden_size=hidden_size, value_bytes=value_bytes, tokens=tokens, ranks=ranks)
    return {
        **moved,
        "link_us": moved["wire_bytes_per_rank"] / (link_gbyte_s * 1e9) * 1e6,
        "latency_us": float(moved["all_reduces"] * latency_us_each),
    }


def collective(
    *, layers: int, hidden_size: int, value_bytes: int = 2, tokens: int = 1, ranks: int = 2
) -> dict[str, int | float]:
    """All-reduces of a forward pass (two a layer and the embedding's), and bytes: of one, of all, sent by each rank."""
    all_reduces, message = 2 * layers + 1, tokens * hidden_size * value_bytes
    return {
        "all_reduces": all_reduces,
        "message_bytes": message,
        "pass_bytes": all_reduces * message,
        "wire_bytes_per_rank": all_reduces * message * 2 * (ranks - 1) / ranks,
    }
