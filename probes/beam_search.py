"""Beam search over a paged KV cache.

Question
    Does beam search fork a block table and copy blocks on write, as the vLLM paper has it, or does it send
    separate requests that meet again in the prefix cache?
Watched
    `request_trace` runs `LLM.beam_search` and records every request that reaches the engine core, and what
    came back for it. `source_trace` reads the engine's own files as syntax trees.
Can mislead
    At level control the log-probabilities are made up: how many requests, how long, and what they hit is
    real, which beam wins is not. Beams of one round may hit each other's fresh blocks only when these are full.
    Usage as HTTP reports it counts the prompt once (64) and shows nothing of the requests behind it.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `vllm/entrypoints/generate/beam_search/{offline,online,utils}.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Run, Unavailable, probe, random_tokens

BEAM_FILES = "entrypoints/generate/beam_search"
POOL_FILES = ("v1/core/kv_cache_manager.py", "v1/core/block_pool.py")
SUBMITS = ("generate", "_render_and_run_requests", "add_request")
"""Calls that hand requests to the engine."""

TRACED = "LLMEngine.step and the core client's add_request are wrapped to record what passes through."


class _Trace:
    """Every request that enters the engine core, in rounds: a request after a step opens a new round."""

    def __init__(self, engine: Any) -> None:
        self.rounds: list[list[Any]] = []
        self.outputs: dict[str, Any] = {}
        self._engine, self._stepped = engine, True
        add, step = engine.engine_core.add_request, engine.step

        def record_request(request: Any) -> Any:
            if self._stepped:
                self.rounds.append([])
                self._stepped = False
            self.rounds[-1].append(request)
            return add(request)

        def record_step() -> Any:
            self._stepped = True
            outputs = step()
            self.outputs |= {output.request_id: output for output in outputs}
            return outputs

        engine.engine_core.add_request, engine.step = record_request, record_step

    def close(self) -> None:
        del self._engine.engine_core.add_request, self._engine.step

    def output(self, request: Any) -> Any:
        """What came back for a request; the core appends `-<8 hex>` to the id that the caller sees."""
        return self.outputs.get(request.request_id) or self.outputs[request.request_id.rpartition("-")[0]]


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes={
        "requests": "requests that reached the engine core",
        "rounds": "times that the search submitted requests and waited for them",
        "requests_by_round": "requests of each round, in order",
        "max_tokens": "distinct values of max_tokens over all requests",
        "logprobs": "distinct values of logprobs over all requests",
        "n": "distinct values of n over all requests",
        "distinct_request_ids": "different request ids among them",
        "prompt_tokens_by_round": "prompt length of each request, by round (tokens)",
        "cached_tokens_by_round": "cached prompt tokens of each request, by round",
        "whole_blocks_only": "whether every number of cached tokens is a multiple of the block",
        "queried_tokens": "prefix_cache_queries over the whole search, by the engine's counter (tokens)",
        "hit_tokens": "prefix_cache_hits over the whole search, by the engine's counter (tokens)",
        "prefilled_tokens": "prompt tokens that were run, hits left out",
        "generated_tokens": "generation_tokens over the whole search, by the engine's counter",
        "beams": "sequences returned",
        "returned_tokens": "generated tokens in the sequences returned",
    },
    config=lambda p: vllm_engine.roomy(p["block_size"]),
    covers=(
        "vllm.entrypoints.generate.beam_search.offline:BeamSearchOfflineMixin.beam_search",
        "vllm.entrypoints.generate.beam_search.offline:BeamSearchOfflineMixin._beam_search_step",
        "vllm.entrypoints.generate.beam_search.utils:BeamSearchSequence.get_prompt",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",
    ),
)
def vllm_request_trace(
    run: Run, *, beam_width: int = 4, max_tokens: int = 8, prompt_tokens: int = 64, block_size: int = 16
) -> Observations:
    """Run one beam search and record every request that it makes of the engine."""
    from vllm.sampling_params import BeamSearchParams

    llm = run.engine.llm
    run.modifications.append(TRACED)
    run.engine.flush()
    before = run.engine.counters()
    trace = _Trace(llm.llm_engine)
    try:
        params = BeamSearchParams(beam_width=beam_width, max_tokens=max_tokens, ignore_eos=True)
        [found] = llm.beam_search([{"prompt_token_ids": random_tokens(prompt_tokens, seed=3)}], params)
    finally:
        trace.close()
    after = run.engine.counters()
    if len(trace.rounds) != max_tokens:
        raise Inconclusive(f"the search ended after {len(trace.rounds)} of {max_tokens} rounds")
    requests = [request for made in trace.rounds for request in made]
    cached = [[trace.output(r).num_cached_tokens for r in made] for made in trace.rounds]
    lengths = [[len(r.prompt_token_ids) for r in made] for made in trace.rounds]
    run.samples["request_ids_by_round"] = [[r.request_id for r in made] for made in trace.rounds]
    return {
        "requests": len(requests),
        "rounds": len(trace.rounds),
        "requests_by_round": [len(made) for made in trace.rounds],
        "max_tokens": sorted({r.sampling_params.max_tokens for r in requests}),
        "logprobs": sorted({r.sampling_params.logprobs for r in requests}),
        "n": sorted({r.sampling_params.n for r in requests}),
        "distinct_request_ids": len({r.request_id for r in requests}),
        "prompt_tokens_by_round": lengths,
        "cached_tokens_by_round": cached,
        "whole_blocks_only": all(hit % block_size == 0 for made in cached for hit in made),
        "queried_tokens": after["prefix_cache_queries"] - before["prefix_cache_queries"],
        "hit_tokens": after["prefix_cache_hits"] - before["prefix_cache_hits"],
        "prefilled_tokens": sum(map(sum, lengths)) - sum(map(sum, cached)),
        "generated_tokens": after["generation_tokens"] - before["generation_tokens"],
        "beams": len(found.sequences),
        "returned_tokens": sum(len(beam.tokens) - prompt_tokens for beam in found.sequences),
    }


@probe(
    engine="vllm",
    levels=("source",),
    observes={
        "files": "the files read, relative to the vllm package",
        "submits": "`file:line function call` of every call that hands requests to the engine",
        "sampling_params": "`file:line function` of every SamplingParams(...), with max_tokens and logprobs as written",
        "one_token_each": "whether every SamplingParams asks for max_tokens=1",
        "twice_beam_width": "whether every logprobs is 2 * beam_width, or is taken over from such params",
        "prompts_from_tokens": "`file:line` where a prompt is built from the beam's whole token list",
        "extends_tokens": "`file:line` where a beam's token list is extended by a copy",
        "block_calls": "`file:line name` of calls in the beam search files that fork or copy blocks",
        "cache_imports": "`file:line` of imports of the KV-cache core (vllm.v1.core) in the beam search files",
        "fork_methods": "`file:line name` of methods of KVCacheManager and BlockPool that fork",
        "copy_methods": "`file:line name` of methods of KVCacheManager and BlockPool named after copies, of any use",
    },
    covers=(
        "vllm.entrypoints.generate.beam_search.offline:BeamSearchOfflineMixin._beam_search_step",
        "vllm.entrypoints.generate.beam_search.online:BeamSearchOnlineMixin.beam_search",
        "vllm.entrypoints.generate.beam_search.utils:BeamSearchSequence.get_prompt",
    ),
)
def vllm_source_trace(run: Run) -> Observations:
    """Read in the engine's own files how beam search submits, and that nothing forks a block table."""
    if run.source is None or not (run.source / BEAM_FILES).is_dir():
        raise Unavailable(f"this build has no {BEAM_FILES} in its package folder")
    beam = [_Source(run.source, path) for path in sorted((run.source / BEAM_FILES).glob("*.py"))]
    pool = [_Source(run.source, run.source / path) for path in POOL_FILES]
    params = [found for source in beam for found in source.sampling_params()]
    methods = [found for source in pool for found in source.methods("KVCacheManager", "BlockPool")]
    run.samples["sampling_params"] = params
    return {
        "files": [source.name for source in (*beam, *pool)],
        "submits": [found for source in beam for found in source.submits()],
        "sampling_params": [_SAMPLING_PARAMS.format(**p) for p in params],
        "one_token_each": bool(params) and {p["max_tokens"] for p in params} == {"1"},
        "twice_beam_width": bool(params) and {p["logprobs"] for p in params} <= _TWICE_BEAM_WIDTH,
        "prompts_from_tokens": [found for source in beam for found in source.prompts_from_tokens()],
        "extends_tokens": [found for source in beam for found in source.extends_tokens()],
        "block_calls": [found for source in beam for found in source.block_calls()],
        "cache_imports": [found for source in beam for found in source.imports_of("vllm.v1.core")],
        "fork_methods": [f"{where} {name}" for where, name in methods if _speaks_of(name, "fork")],
        "copy_methods": [f"{where} {name}" for where, name in methods if _speaks_of(name, "copy", "copies", "cow")],
    }


_SAMPLING_PARAMS = "{where} {function} max_tokens={max_tokens} logprobs={logprobs}"
_TWICE_BEAM_WIDTH = {"2 * beam_width", "base_params.logprobs"}  # the second takes the first over, for a grammar


class _Source:
    """One file of the engine as a syntax tree."""

    def __init__(self, root: Path, path: Path) -> None:
        self.name = path.relative_to(root).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))

    def _where(self, node: Any) -> str:
        return f"{self.name}:{node.lineno}"

    def _functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))

    def submits(self) -> list[str]:
        return [
            f"{self._where(call)} {function.name} {ast.unparse(call.func)}"
            for function in self._functions()
            for call in _calls(function)
            if _last_name(call) in SUBMITS
        ]

    def sampling_params(self) -> list[dict[str, str]]:
        found = []
        for function in self._functions():
            names = {
                node.targets[0].id: ast.unparse(node.value)
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
            for call in _calls(function):
                if _last_name(call) == "SamplingParams":
                    given = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
                    given = {k: names.get(v, v) for k, v in given.items()}
                    entry = {"where": self._where(call), "function": function.name}
                    found.append(entry | {k: given.get(k, "not given") for k in ("max_tokens", "logprobs", "n")})
        return found

    def prompts_from_tokens(self) -> list[str]:
        calls = (c for c in _calls(self.tree) if _last_name(c) in ("tokens_input", "mm_input"))
        return [self._where(c) for c in calls if "self.tokens" in [ast.unparse(a) for a in _arguments(c)]]

    def extends_tokens(self) -> list[str]:
        calls = (c for c in _calls(self.tree) if _last_name(c) == "BeamSearchSequence")
        tokens = (k.value for c in calls for k in c.keywords if k.arg == "tokens")
        return [self._where(value) for value in tokens if "current_beam.tokens + [" in ast.unparse(value)]

    def block_calls(self) -> list[str]:
        calls = (c for c in _calls(self.tree) if _speaks_of(_last_name(c), "fork", "cow", "block", "blocks", "swap"))
        return [f"{self._where(c)} {ast.unparse(c.func)}" for c in calls]

    def imports_of(self, package: str) -> list[str]:
        nodes = (n for n in ast.walk(self.tree) if isinstance(n, (ast.Import, ast.ImportFrom)))
        return [self._where(n) for n in nodes if any(name.startswith(package) for name in _imported(n))]

    def methods(self, *classes: str) -> list[tuple[str, str]]:
        return [
            (self._where(method), f"{node.name}.{method.name}")
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ClassDef) and node.name in classes
            for method in node.body
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]


def _calls(tree: ast.AST) -> list[ast.Call]:
    return sorted((node for node in ast.walk(tree) if isinstance(node, ast.Call)), key=lambda call: call.lineno)


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]


def _speaks_of(name: str, *words: str) -> bool:
    """Whether one of the words is among the underscore-separated parts of a name."""
    return bool(set(words) & set(name.rpartition(".")[2].lower().split("_")))
