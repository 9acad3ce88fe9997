"""What the members of a batch share: no KV blocks, none of which moves either, and one call of the sampler.

Question
    Does a request that joins a batch make the others' KV move, do requests of a batch read one common KV, and is a
    batch sampled request by request?
Watched
    vLLM: the block table of every running request after every step. Both: the loops in those methods of the sampler
    that pick tokens.
Can mislead
    The prompts differ from the first token on: requests with a common prefix do share the blocks of that prefix.
    Loops in other methods are not read: vLLM's top-k/top-p code, for one, loops over requests that have a seed of
    their own, and logits processors may loop as well.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `v1/core/kv_cache_manager.py`, `v1/sample/sampler.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/layers/sampler.py`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.batching import output_lengths
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.overlap import held_blocks
from inferproof.probes.syntax import functions


@probe(
    engine="vllm",
    levels=("control",),
    observes={
        "steps": "engine steps until all had finished",
        "joined": "requests that entered while others were running",
        "moved": "times that a block which a request held after one step was another one after the next",
        "shared": "blocks that two running requests held at the same time, counted in each step",
        "most_blocks": "most blocks held by all running requests together",
    },
    config=lambda p: {**vllm_engine.roomy(16), "max_num_seqs": p["seats"]},
    covers=("vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",),
)
def vllm_kept_blocks(run: Run, *, seats: int = 4, requests: int = 8) -> Observations:
    """Let requests of unequal length come and go, and compare the block tables of those that stay."""
    engine = run.engine
    before: dict[str, list[int]] = {}
    seen: Observations = {"steps": 0, "joined": 0, "moved": 0, "shared": 0, "most_blocks": 0}

    def look() -> None:
        nonlocal before
        now = {
            r.request_id: [block.block_id for block in held_blocks(engine.scheduler, r.request_id)]
            for r in engine.scheduler.running
        }
        held = [block for blocks in now.values() for block in blocks]
        seen["steps"] += 1
        seen["joined"] += sum(name not in before for name in now) if before else 0
        seen["moved"] += sum(a != b for name in now for a, b in zip(before.get(name, ()), now[name], strict=False))
        seen["shared"] += len(held) - len(set(held))
        seen["most_blocks"] = max(seen["most_blocks"], len(held))
        before = now

    lengths = output_lengths(requests)
    engine.generate([Request(random_tokens(64, seed=i), n) for i, n in enumerate(lengths)], on_step=look)
    if seats < requests and not seen["joined"]:
        raise Inconclusive("no request joined while others were running")
    return seen


_LOOPS = {
    "methods": "how many of the sampler's methods were read",
    "loops": "what the loops in them go over, as written",
    "whole_batch": "`file:line` of the calls that pick a token for every row: argmax, multinomial, a function for them",
}
_CALLS = ("argmax", "multinomial", "topk_topp_sampler", "sampling_from_probs_torch")


@probe(engine="vllm", levels=("source",), observes=_LOOPS, covers=("vllm.v1.sample.sampler:Sampler.sample",))
def vllm_sampler(run: Run) -> Observations:
    """Read in vLLM's sampler what its loops go over."""
    return _sampler(run, Path("v1/sample/sampler.py"), ("sample", "greedy_sample", "apply_temperature"))


@probe(engine="sglang", levels=("source",), observes=_LOOPS, covers=("sglang.srt.layers.sampler:Sampler.forward",))
def sglang_sampler(run: Run) -> Observations:
    """Read in SGLang's sampler what its loops go over."""
    return _sampler(run, Path("srt/layers/sampler.py"), ("forward", "_sample_from_probs"))


def _sampler(run: Run, path: Path, names: tuple[str, ...]) -> Observations:
    methods = functions(run, path, "Sampler")
    read = [methods[name] for name in names if name in methods]
    nodes: list[Any] = [node for method in read for node in ast.walk(method)]
    calls = {n.lineno for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] in _CALLS}
    return {
        "methods": len(read),
        "loops": [ast.unparse(n.iter) for n in nodes if isinstance(n, (ast.For, ast.comprehension))],
        "whole_batch": [f"{path}:{line}" for line in sorted(calls)],
    }
