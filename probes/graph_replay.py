"""Replaying a CUDA graph: what must hold still for it, which forward pass it holds, and what it saves.

Question
    What is a captured graph tied to, when does the engine stand aside and run without one, and how much faster is
    decode with graphs?
Watched
    On a running vLLM, the addresses of the buffers that the forward pass reads; in the engines' files, what the graph
    wrapper records and compares and which forward mode is captured. `decode` times one request with graphs and
    without, on a GPU.
Can mislead
    The small random models of `decode` exaggerate the share of launches; the ratio of a served model is smaller.
    On a CPU the buffers are the same code's, but no graph reads them.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `compilation/cuda_graph.py`, `v1/worker/gpu_model_runner.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/model_executor/runner/decode_cuda_graph_runner.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.syntax import assigned, assignments, functions


@probe(
    engine="vllm",
    levels=("engine",),
    observes={
        "batch_tokens": "distinct numbers of tokens that the forward passes ran over",
        "addresses": "for each buffer that the forward pass reads: distinct addresses over all passes",
        "capacity_tokens": "tokens for which the buffers were allocated at the start",
    },
    config=lambda _: vllm_engine.roomy(16),
    covers=("vllm.v1.worker.gpu_model_runner:GPUModelRunner._make_buffer",),
)
def vllm_static_buffers(run: Run) -> Observations:
    """Run batches of many sizes and read where the forward pass finds its inputs."""
    runner = run.engine.llm.llm_engine.model_executor.driver_worker.worker.model_runner
    buffers = {"input_ids": runner.input_ids.gpu, "query_start_loc": runner.query_start_loc.gpu}
    seen: dict[str, set[int]] = {name: set() for name in buffers}
    widths = set()
    run.modifications.append(vllm_engine.WATCHED)
    with vllm_engine.Plans(run.engine.scheduler) as plans:

        def look() -> None:
            widths.add(plans.last.total_num_scheduled_tokens)
            for name in buffers:
                seen[name].add(getattr(runner, name).gpu.data_ptr())

        for count in (1, 3, 8):
            requests = [Request(random_tokens(20 + 5 * i, seed=i), max_tokens=4) for i in range(count)]
            run.engine.generate(requests, on_step=look)
    if len(widths) < 4:
        raise Inconclusive(f"the batches did not differ: {sorted(widths)} tokens")
    return {
        "batch_tokens": sorted(widths),
        "addresses": {name: len(found) for name, found in seen.items()},
        "capacity_tokens": buffers["input_ids"].shape[0],
    }


WRAPPER = Path("compilation/cuda_graph.py")


@probe(
    engine="vllm",
    levels=("source",),
    observes={
        "recorded_addresses": "lines where the wrapper records the addresses of the inputs at capture",
        "compared_addresses": "assertions that a replay gets the same addresses, as written",
        "replays": "lines where a captured graph is replayed",
        "plain_calls": "conditions under which the wrapper calls the model without a graph, as written",
    },
    covers=("vllm.compilation.cuda_graph:CUDAGraphWrapper.__call__",),
)
def vllm_source_trace(run: Run) -> Observations:
    """Read in vLLM's graph wrapper what a replay is tied to, and when it stands aside."""
    call = functions(run, WRAPPER, "CUDAGraphWrapper")["__call__"]
    statements = [node for node in ast.walk(call) if isinstance(node, ast.stmt)]
    asserted = [ast.unparse(n.test) for n in statements if isinstance(n, ast.Assert)]
    return {
        "recorded_addresses": [f"{WRAPPER}:{n.lineno}" for n in assignments(call, "entry.input_addresses")],
        "compared_addresses": [test for test in asserted if "input_addresses" in test],
        "replays": [
            f"{WRAPPER}:{n.lineno}" for n in statements if isinstance(n, ast.Expr) and "replay()" in ast.unparse(n)
        ],
        "plain_calls": [
            ast.unparse(n.test)
            for n in statements
            if isinstance(n, ast.If) and any(_returns_runnable(inner) for inner in n.body)
        ],
    }


def _returns_runnable(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and ast.unparse(node).startswith("return self.runnable(")


@probe(
    engine="sglang",
    levels=("source",),
    observes={
        "decode_mode": "forward mode that the decode runner captures to begin with",
        "speculative_mode": "forward mode that it captures instead under speculation",
        "speculative_condition": "the condition for that, as written",
    },
    covers=("sglang.srt.model_executor.runner.decode_cuda_graph_runner:DecodeCudaGraphRunner.__init__",),
)
def sglang_source_trace(run: Run) -> Observations:
    """Read in SGLang's decode runner which forward pass it captures, with speculation and without."""
    path = Path("srt/model_executor/runner/decode_cuda_graph_runner.py")
    made = functions(run, path, "DecodeCudaGraphRunner")["__init__"]
    mode = "self.capture_forward_mode"
    branch = next(n for n in made.body if isinstance(n, ast.If) and "is_speculative" in ast.unparse(n.test))
    return {
        "decode_mode": assigned(made, mode)[0],
        "speculative_mode": next(ast.unparse(n.value) for n in assignments(branch, mode) if n in branch.body),
        "speculative_condition": ast.unparse(branch.test),
    }


_SPEEDS = {
    "eager_tokens_per_s": "output tokens a second without graphs, one request, median over the repeats",
    "graph_tokens_per_s": "the same with graphs",
    "speedup": "the second over the first",
    "same_tokens": "whether both gave the same output tokens",
}


@probe(engine="vllm", levels=("cuda",), observes=_SPEEDS, timeout_s=1800)
def vllm_decode(run: Run, *, model_size: str = "mid", max_tokens: int = 256, repeats: int = 3) -> Observations:
    """Decode one request with vLLM's graphs and without."""

    def start(graphs: bool) -> Any:
        settings = {**vllm_engine.roomy(16), "model": model_size, "enforce_eager": not graphs}
        return vllm_engine.start(settings, level="cuda", source=run.source, log=run.log, models=run.models)

    return _decode(start, max_tokens, repeats)


@probe(engine="sglang", levels=("cuda",), observes=_SPEEDS, timeout_s=1800)
def sglang_decode(run: Run, *, model_size: str = "mid", max_tokens: int = 256, repeats: int = 3) -> Observations:
    """Decode one request with SGLang's graphs and without."""

    def start(graphs: bool) -> Any:
        settings = {"model": model_size, "disable_cuda_graph": not graphs}
        return sglang_engine.start(settings, level="cuda", source=run.source, log=run.log, models=run.models)

    return _decode(start, max_tokens, repeats)


def _decode(start: Callable[[bool], Any], max_tokens: int, repeats: int) -> Observations:
    speeds, outputs = {}, {}
    for graphs in (False, True):
        engine = start(graphs)
        try:
            request = Request(random_tokens(32, seed=1), max_tokens=max_tokens)
            engine.generate([request])  # first-use costs fall on this one
            runs = [engine.generate([request])[0] for _ in range(repeats)]
        finally:
            engine.close()
        speeds[graphs] = median(len(one.tokens) / one.event_times_s[-1] for one in runs)
        outputs[graphs] = runs[0].tokens
    return {
        "eager_tokens_per_s": speeds[False],
        "graph_tokens_per_s": speeds[True],
        "speedup": speeds[True] / speeds[False],
        "same_tokens": outputs[False] == outputs[True],
    }
