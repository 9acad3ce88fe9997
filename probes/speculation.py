"""Speculative decoding: what is proposed, how many steps it saves, and what the engines count.

Question
    Where do drafts come from, what do they save, and how do acceptance rate and acceptance length follow from the
    counters? (Which of them are accepted: `rejection_sampling`. What becomes of their KV: `draft_kv`.)
Watched
    vLLM's own `NgramProposer`, called as it is; a running vLLM with n-gram speculation beside one without it; SGLang's
    own formulas, called with counters of our choice; the order of steps in SGLang's worker.
Can mislead
    A model with random weights falls into a loop under greedy decoding, so that n-grams predict it far better than
    they predict real text: its acceptance says nothing about a workload. Sampled at temperature 1 it never repeats.
    Steps are not time: how much a step that verifies drafts costs depends on the hardware, and no time is taken here.
    SGLang's n-gram worker needs kernels that run on CUDA only; its times and acceptance are published figures.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `v1/spec_decode/ngram_proposer.py`, `v1/spec_decode/metrics.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/speculative/ngram_worker.py`, `srt/managers/tokenizer_manager.py`,
    `srt/arg_groups/speculative_hook.py`.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inferproof.probes import model, sglang_engine, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.syntax import assigned, functions, ordered_calls


def ngram(speculative_tokens: int, min_ngram: int = 2, max_ngram: int = 4) -> dict[str, Any]:
    """vLLM's `speculative_config` for n-gram drafts."""
    return {
        "method": "ngram",
        "num_speculative_tokens": speculative_tokens,
        "prompt_lookup_min": min_ngram,
        "prompt_lookup_max": max_ngram,
    }


@probe(
    engine="vllm",
    levels=("component",),
    observes={"drafts": "token ids that the proposer drafts after `history`"},
    covers=(
        "vllm.v1.spec_decode.ngram_proposer:NgramProposer.propose",
        "vllm.v1.spec_decode.ngram_proposer:_find_longest_matched_ngram_and_propose_tokens",
    ),
)
def vllm_propose(
    run: Run, *, history: list[int], width: int = 5, min_ngram: int = 2, max_ngram: int = 4
) -> Observations:
    """Ask vLLM's n-gram proposer for drafts after a history of token ids."""
    assert run.models is not None
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += vllm_engine.force_cpu()
    import numpy as np
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.spec_decode.ngram_proposer import NgramProposer

    config = EngineArgs(
        model=str(model.make(run.models, "tiny")),
        max_model_len=1024,
        speculative_config=ngram(width, min_ngram, max_ngram),
    ).create_engine_config()
    tokens: Any = np.zeros((1, 1024), dtype=np.int32)
    tokens[0, : len(history)] = history
    [drafts] = NgramProposer(config).propose(width, [history[-1:]], np.array([len(history)], dtype=np.int32), tokens)
    return {"drafts": list(drafts)}


@probe(
    engine="vllm",
    levels=("engine",),
    observes={
        "same_tokens": "whether the output is the one without speculation, token for token",
        "plain_steps": "engine steps without speculation",
        "speculative_steps": "engine steps with it",
        "drafts": "steps that verified drafts",
        "draft_tokens": "draft tokens proposed",
        "accepted_tokens": "draft tokens accepted",
        "acceptance_rate": "accepted over proposed, 0 where nothing was proposed",
        "acceptance_length": "1 + accepted tokens over drafts: tokens committed by a step that verified",
        "step_ratio": "engine steps without speculation over those with it",
    },
    covers=(
        "vllm.v1.spec_decode.ngram_proposer:NgramProposer.propose",
        "vllm.v1.sample.rejection_sampler:RejectionSampler.forward",
        "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        "vllm.v1.spec_decode.metrics:SpecDecodingStats.observe_draft",
    ),
)
def vllm_ngram_run(
    run: Run,
    *,
    width: int = 7,
    max_tokens: int = 128,
    temperature: float = 0.0,
) -> Observations:
    """Generate on an engine with n-gram speculation, then on one without; compare outputs and steps."""
    prompt = random_tokens(4, seed=1) * 8
    request = Request(prompt, max_tokens=max_tokens, temperature=temperature)
    tokens, steps, counted = _generate(run, {"speculative_config": ngram(width)}, request)
    plain_tokens, plain_steps, _ = _generate(run, {}, request)
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    drafts, proposed, accepted = (counted[f"spec_decode_{name}"] for name in names)
    if temperature == 0 and drafts == 0:
        raise Inconclusive("the proposer drafted nothing, so nothing was speculated")
    return {
        "same_tokens": tokens == plain_tokens,
        "plain_steps": plain_steps,
        "speculative_steps": steps,
        "drafts": drafts,
        "draft_tokens": proposed,
        "accepted_tokens": accepted,
        "acceptance_rate": accepted / proposed if proposed else 0.0,
        "acceptance_length": 1 + accepted / drafts if drafts else 1.0,
        "step_ratio": plain_steps / steps,
    }


def _generate(run: Run, settings: dict[str, Any], request: Request) -> tuple[tuple[int, ...], int, dict[str, float]]:
    """Output tokens, the engine steps that they took, and what the engine counted; on an engine of its own.

    Not on the worker's: closing one vLLM of a process takes the parallel groups of any other with it.
    """
    config = {**vllm_engine.roomy(16), **settings}
    engine = vllm_engine.start(config, level=run.level, source=run.source, log=run.log, models=run.models)
    run.modifications = list(engine.modifications)
    steps = 0

    def one_more() -> None:
        nonlocal steps
        steps += 1

    try:
        before = engine.counters()
        [completion] = engine.generate([request], on_step=one_more)
        after = engine.counters()
    finally:
        engine.close()
    return completion.tokens, steps, {name: after[name] - before.get(name, 0) for name in after}


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "accept_rate": "spec_accept_rate that SGLang reports",
        "accept_length": "spec_accept_length that it reports",
        "proposed_drafts": "draft tokens that it takes to have been proposed",
    },
    covers=("sglang.srt.managers.tokenizer_manager:TokenizerManager._calculate_spec_decoding_metrics",),
)
def sglang_accept_metrics(
    run: Run, *, verify_count: int, completion_tokens: int, correct_drafts: int, verify_width: int = 8
) -> Observations:
    """Give SGLang's own formulas the counters of one request."""
    sglang_engine.prepare()
    run.modifications.append("The method is called on a stand-in that holds one setting, with counters of our choice.")
    from sglang.srt.managers.tokenizer_manager import TokenizerManager

    manager = SimpleNamespace(server_args=SimpleNamespace(speculative_num_draft_tokens=verify_width))
    counted = SimpleNamespace(
        spec_verify_ct=[verify_count],
        spec_num_correct_drafts=[correct_drafts],
        completion_tokens=[completion_tokens],
        spec_correct_drafts_histogram=[],
    )
    meta: dict[str, Any] = {}
    method: Any = TokenizerManager._calculate_spec_decoding_metrics
    method(manager, meta, counted, 0)
    return {
        "accept_rate": meta["spec_accept_rate"],
        "accept_length": meta["spec_accept_length"],
        "proposed_drafts": meta["spec_num_proposed_drafts"],
    }


@probe(
    engine="sglang",
    levels=("component",),
    observes={"accepted": "whether the arguments were accepted", "message": "what was said against them"},
    covers=("sglang.srt.arg_groups.speculative_hook:_handle_ngram",),
)
def sglang_arguments(run: Run, *, algorithm: str = "NGRAM", device: str = "cpu") -> Observations:
    """Ask SGLang for speculation on a device; accepting the arguments is not yet running it."""
    sglang_engine.prepare()
    assert run.models is not None
    from sglang.srt.server_args import ServerArgs

    path = str(model.make(run.models, "tiny"))  # for a model called "dummy" the arguments are not resolved
    try:
        ServerArgs(model_path=path, device=device, skip_tokenizer_init=True, speculative_algorithm=algorithm)
    except ValueError as refused:
        return {"accepted": False, "message": str(refused)}
    return {"accepted": True, "message": ""}


@probe(
    engine="sglang",
    levels=("source",),
    observes={
        "order": "the worker's calls of one decode round, in the order of its source",
        "draft_model": "what the worker returns for its draft model, as written",
        "verify_mode": "forward mode that the batch is given, as written",
        "kept_draft_counts": "what the KV mover is told of the accepted length, as written",
    },
    covers=("sglang.srt.speculative.ngram_worker:NGRAMWorker.forward_batch_generation",),
)
def sglang_source_trace(run: Run) -> Observations:
    """Read in SGLang's n-gram worker the round of draft, verify and commit."""
    methods = functions(run, Path("srt/speculative/ngram_worker.py"), "NGRAMWorker")
    round_, prepare = methods["forward_batch_generation"], methods["_prepare_for_speculative_decoding"]
    returned = [n for n in ast.walk(methods["draft_worker"]) if isinstance(n, ast.Return)]
    return {
        "order": ordered_calls(round_, ROUND),
        "draft_model": ast.unparse(returned[-1].value or returned[-1]),
        "verify_mode": assigned(prepare, "batch.forward_mode")[-1],
        "kept_draft_counts": assigned(round_, "num_correct_drafts_per_req")[-1],
    }


ROUND = ("_prepare_for_speculative_decoding", "eagle_sample", "move_accept_tokens_to_target_kvcache",
         "_update_ngram_corpus")  # fmt: skip
