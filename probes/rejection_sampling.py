"""Rejection sampling in vLLM: which drafts the target accepts, and what takes a rejected one's place.

Question
    Why does verifying drafts leave the output's distribution as the target model's own?
Watched
    vLLM's own `rejection_sample`, called with drafts, probabilities and logits of our choice; its kernels, read.
Can mislead
    The kernels exist in Triton for a GPU and in C++ for a CPU: what runs here is the second, what is read the first.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `v1/sample/rejection_sampler.py`, `utils/cpu_triton_utils.py`. arXiv 2211.17192.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Observations, Run, Unavailable, probe
from inferproof.probes.syntax import assigned, functions

SAMPLER = "vllm.v1.sample.rejection_sampler"
KERNELS = (
    "rejection_greedy_sample_kernel",
    "rejection_random_sample_kernel",
    "expand_kernel",
    "sample_recovered_tokens_kernel",
)
"""What `rejection_sample` launches; in Triton for a GPU, in C++ for a CPU."""


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "output": "token ids that the step commits",
        "accepted": "drafts among them",
        "bonus": "whether the bonus token is among them",
    },
    covers=(f"{SAMPLER}:rejection_sample", f"{SAMPLER}:rejection_greedy_sample_kernel"),
)
def vllm_greedy_acceptance(run: Run, *, drafts: list[int], target: list[int], bonus_token: int = 9) -> Observations:
    """Verify drafts greedily: `target` holds the target model's argmax at each draft's position."""
    logits = [[10.0 if token == best else 0.0 for token in range(16)] for best in target]
    [row] = _reject(run, [drafts], None, logits, bonus_token, temperature=None)
    output = [token for token in row if token >= 0]
    return {
        "output": output,
        "accepted": len(output) - 1,  # the last one is the target's own: a replacement or the bonus
        "bonus": len(output) == len(drafts) + 1,
    }


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "frequencies": "share of each token among the first tokens that the steps commit",
        "chi_square": "chi-square statistic of these against the target's distribution",
        "chi_square_bound": "what it stays below with probability 0.999 if the two are the same",
        "accept_rate": "share of drafts that were accepted",
        "accept_theory": "sum over tokens of min(draft probability, target probability)",
        "recovered_frequencies": "share of each token among those committed after a rejection",
    },
    covers=(
        f"{SAMPLER}:rejection_sample",
        f"{SAMPLER}:rejection_random_sample_kernel",
        f"{SAMPLER}:sample_recovered_tokens_kernel",
    ),
)
def vllm_sampled_acceptance(
    run: Run, *, draft: list[float], target: list[float], requests: int = 20000, seed: int = 0
) -> Observations:
    """Verify one draft a request, sampled from `draft`, against a target that samples from `target`."""
    if len(draft) != len(target) or not 2 <= len(target) <= len(_CHI_SQUARE) + 1:
        raise ValueError(f"expected two distributions over the same 2 to {len(_CHI_SQUARE) + 1} tokens")
    drafts = random.Random(seed).choices(range(len(draft)), weights=draft, k=requests)
    logits = [[math.log(p) for p in target]] * requests
    rows = _reject(run, [[token] for token in drafts], [draft] * requests, logits, 0, temperature=1.0, seed=seed)
    first = [row[0] for row in rows]
    rejected = [row[0] for row in rows if row[1] < 0]  # no bonus token after a rejection
    return {
        "frequencies": _shares(first, len(target)),
        "chi_square": chi_square(Counter(first), target),
        "chi_square_bound": _CHI_SQUARE[len(target) - 2],
        "accept_rate": 1 - len(rejected) / requests,
        "accept_theory": sum(map(min, draft, target)),
        "recovered_frequencies": _shares(rejected, len(target)),
    }


_CHI_SQUARE = (10.828, 13.816, 16.266, 18.467)
"""0.999 quantiles of the chi-square distribution with 1 to 4 degrees of freedom."""


def chi_square(counts: Counter[int], distribution: Sequence[float]) -> float:
    """Pearson's statistic of observed counts of 0, 1, ... against a distribution; no probability may be 0."""
    total = sum(counts.values())
    return sum((counts[i] - total * p) ** 2 / (total * p) for i, p in enumerate(distribution))


def _shares(tokens: Sequence[int], vocabulary: int) -> list[float]:
    counts = Counter(tokens)
    return [counts[i] / max(len(tokens), 1) for i in range(vocabulary)]


def _reject(
    run: Run,
    drafts: list[list[int]],
    draft_rows: list[list[float]] | None,
    logits: list[list[float]],
    bonus_token: int,
    *,
    temperature: float | None,
    seed: int = 0,
) -> list[list[int]]:
    """vLLM's `rejection_sample`: a row for each request, -1 behind its last token."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += vllm_engine.force_cpu()
    import torch

    sampler = _sampler_with_cpu_kernels(run)
    widths = [len(row) for row in drafts]
    torch.manual_seed(seed)
    output = sampler.rejection_sample(
        torch.tensor([token for row in drafts for token in row], dtype=torch.int32),
        widths,
        max(widths),
        torch.tensor(widths, dtype=torch.int32).cumsum(0, dtype=torch.int32),
        None if draft_rows is None else torch.tensor(draft_rows, dtype=torch.float32),
        torch.tensor(logits, dtype=torch.float32),
        torch.full((len(drafts), 1), bonus_token, dtype=torch.int32),
        _sampling_metadata(len(drafts), temperature),
    )
    return output.tolist()  # type: ignore[no-any-return]


def _sampler_with_cpu_kernels(run: Run) -> Any:
    import torch
    from vllm.utils import cpu_triton_utils

    sampler = importlib.import_module(SAMPLER)
    if not hasattr(torch.ops._C, "rejection_greedy_sample_kernel_impl"):
        raise Unavailable("this build came without compiled kernels, and rejection sampling runs in them")
    for name in KERNELS:
        setattr(sampler, name, getattr(cpu_triton_utils, name))
    run.modifications.append("The sampler's kernels are vLLM's C++ ones for CPUs, as its CPU model runner sets them.")
    return sampler


def _sampling_metadata(requests: int, temperature: float | None) -> Any:
    import torch
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata

    greedy, empty = temperature is None, torch.empty(0)
    given = {
        "temperature": None if greedy else torch.full((requests,), temperature),
        "all_greedy": greedy, "all_random": not greedy, "top_p": None, "top_k": None, "generators": {},
        "max_num_logprobs": None, "no_penalties": True, "prompt_token_ids": None, "frequency_penalties": empty,
        "presence_penalties": empty, "repetition_penalties": empty, "output_token_ids": [[] for _ in range(requests)],
        "allowed_token_ids_mask": None, "bad_words_token_ids": {}, "logitsprocs": LogitsProcessors(),
        "spec_token_ids": [[] for _ in range(requests)],
    }  # fmt: skip
    return SamplingMetadata(**{k: v for k, v in given.items() if k in inspect.signature(SamplingMetadata).parameters})


@probe(
    engine="vllm",
    levels=("source",),
    observes={
        "greedy_rejects": "the condition under which a draft is rejected in greedy decoding, as written",
        "stops_at_rejection": "kernels that look at a draft only while none before it was rejected",
        "random_accepts": "the condition under which a draft is accepted in sampling, as written",
        "recovered_from": "what the token after a rejection is drawn from, as written",
        "bonus_unless_rejected": "kernels that add the bonus token only if nothing was rejected",
    },
    covers=tuple(f"{SAMPLER}:{name}" for name in KERNELS if name != "expand_kernel"),
)
def vllm_source_trace(run: Run) -> Observations:
    """Read in vLLM's rejection kernels what is accepted, what replaces a rejected draft, and what stops."""
    read = functions(run, Path("v1/sample/rejection_sampler.py"))
    greedy, sampled, recovered = (read[KERNELS[i]] for i in (0, 1, 3))
    loops = {f.name: [n for n in ast.walk(f) if isinstance(n, ast.For)] for f in (greedy, sampled)}
    return {
        "greedy_rejects": assigned(greedy, "rejected")[-1],
        "stops_at_rejection": [k for k, found in loops.items() if any(_only_if_not_rejected(n) for n in found)],
        "random_accepts": assigned(sampled, "accepted")[-1],
        "recovered_from": assigned(recovered, "prob")[-1],
        "bonus_unless_rejected": [
            f.name for f in (greedy, sampled) if any(_is_guard(n) and "bonus_token" in ast.unparse(n) for n in f.body)
        ],
    }


def _is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "not rejected"


def _only_if_not_rejected(loop: ast.For) -> bool:
    return len(loop.body) == 1 and _is_guard(loop.body[0])
