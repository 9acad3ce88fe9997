"""CUDA graphs as the engines plan them: which sizes they capture, and what they would replay for a given batch.

Question
    For which batches is there a captured graph, how much padding does it cost, and when is there none? Which phases
    have graphs of their own?
Watched
    vLLM's own `_set_cudagraph_sizes` and `CudagraphDispatcher`; SGLang's own bucket lists in `ServerArgs` and the
    `can_run_graph` and `_pad_to_bucket` of its runners.
Can mislead
    Without a GPU nothing is captured or replayed: these are the plans, taken from the code that would carry them out;
    `graph_replay` has what is left. A CPU build turns graphs off by itself, so a GPU's mode is set by hand.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `config/vllm.py`, `v1/cudagraph_dispatcher.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/server_args.py`, `srt/model_executor/cuda_graph_config.py`,
    `srt/model_executor/runner/`.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from inferproof.probes import model, sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Run, probe

MODE_BY_HAND = "The graph mode that a GPU build would choose is set by hand in an otherwise resolved config."
NO_CONSTRUCTOR = "The runner is made without its constructor, which would capture; its attributes are set by hand."


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "sizes": "batch sizes, in tokens, for which a graph is captured",
        "buckets": "how many there are",
        "largest": "the largest of them, in tokens",
        "eager_buckets": "how many there are under enforce_eager",
        "default_mode": "graph mode of the default optimization level",
    },
    covers=("vllm.config.vllm:VllmConfig._set_cudagraph_sizes",),
)
def vllm_capture_sizes(
    run: Run, *, max_num_seqs: int = 256, token_budget: int = 8192, speculative_tokens: int = 0
) -> Observations:
    """Let vLLM's config choose its capture sizes."""
    config, eager = (
        _vllm_config(
            run,
            "FULL_AND_PIECEWISE",
            max_num_seqs=max_num_seqs,
            token_budget=token_budget,
            speculative_tokens=speculative_tokens,
            enforce_eager=enforce_eager,
        )
        for enforce_eager in (False, True)
    )
    from vllm.config.vllm import OPTIMIZATION_LEVEL_TO_CONFIG

    default: Any = OPTIMIZATION_LEVEL_TO_CONFIG[config.optimization_level]
    sizes = list(config.compilation_config.cudagraph_capture_sizes)
    return {
        "sizes": sizes,
        "buckets": len(sizes),
        "largest": config.compilation_config.max_cudagraph_capture_size,
        "eager_buckets": len(eager.compilation_config.cudagraph_capture_sizes or ()),
        "default_mode": default["compilation_config"]["cudagraph_mode"].name,
    }


@probe(
    engine="vllm",
    levels=("component",),
    observes={
        "modes": "for each batch: FULL, PIECEWISE, or NONE for no graph",
        "padded_tokens": "for each batch: tokens that the forward pass would run over",
        "padding_tokens": "for each batch: how many of these are padding",
        "full_graphs": "full graphs that would be captured",
        "piecewise_graphs": "piecewise graphs that would be captured",
        "tokens_per_request": "tokens of each request in a uniform decode batch",
    },
    covers=(
        "vllm.v1.cudagraph_dispatcher:CudagraphDispatcher.dispatch",
        "vllm.v1.cudagraph_dispatcher:CudagraphDispatcher.initialize_cudagraph_keys",
        "vllm.v1.cudagraph_dispatcher:CudagraphDispatcher._compute_bs_to_padded_graph_size",
    ),
)
def vllm_dispatch(
    run: Run,
    *,
    tokens: list[int],
    decode: bool,
    mode: str = "FULL_AND_PIECEWISE",
    max_num_seqs: int = 256,
    token_budget: int = 8192,
    speculative_tokens: int = 0,
) -> Observations:
    """Ask vLLM's dispatcher for the graph of each batch: decode only, or mixed with prefill."""
    config = _vllm_config(
        run, mode, max_num_seqs=max_num_seqs, token_budget=token_budget, speculative_tokens=speculative_tokens
    )
    from vllm.config import CUDAGraphMode
    from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher

    dispatcher = CudagraphDispatcher(config)
    dispatcher.initialize_cudagraph_keys(CUDAGraphMode[mode], 1 + speculative_tokens)
    chosen = [dispatcher.dispatch(count, uniform_decode=decode) for count in tokens]
    padded = [batch.num_tokens for _, batch in chosen]
    return {
        "modes": [runtime.name for runtime, _ in chosen],
        "padded_tokens": padded,
        "padding_tokens": [wide - count for wide, count in zip(padded, tokens, strict=True)],
        "full_graphs": len(dispatcher.cudagraph_keys[CUDAGraphMode.FULL]),
        "piecewise_graphs": len(dispatcher.cudagraph_keys[CUDAGraphMode.PIECEWISE]),
        "tokens_per_request": dispatcher.uniform_decode_query_len,
    }


def _vllm_config(
    run: Run,
    mode: str,
    *,
    max_num_seqs: int,
    token_budget: int,
    speculative_tokens: int,
    enforce_eager: bool = False,
) -> Any:
    """A resolved `VllmConfig` in which a GPU's graph mode and compilation mode are set, and the sizes chosen anew."""
    assert run.models is not None
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += [m for m in (MODE_BY_HAND, *vllm_engine.force_cpu()) if m not in run.modifications]
    from vllm.config import CompilationMode, CUDAGraphMode
    from vllm.engine.arg_utils import EngineArgs

    speculation = {"method": "ngram", "num_speculative_tokens": speculative_tokens, "prompt_lookup_max": 4}
    config = EngineArgs(
        model=str(model.make(run.models, "tiny")),
        load_format="dummy",
        enforce_eager=enforce_eager,
        max_model_len=token_budget,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=token_budget,
        speculative_config=speculation if speculative_tokens else None,
    ).create_engine_config()
    compilation = config.compilation_config
    compilation.cudagraph_mode = CUDAGraphMode[mode]
    compilation.mode = CompilationMode.VLLM_COMPILE
    compilation.cudagraph_capture_sizes = compilation.max_cudagraph_capture_size = compilation.splitting_ops = None
    config._set_cudagraph_sizes()
    compilation.set_splitting_ops_for_v1(all2all_backend=config.parallel_config.all2all_backend, data_parallel_size=1)
    return config


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "sizes": "bucket sizes: requests for decode, tokens for prefill",
        "buckets": "how many there are",
        "smallest": "the smallest",
        "largest": "the largest",
        "gpu_backend": "kind of graph that this phase gets by default on CUDA",
    },
    covers=(
        "sglang.srt.server_args:ServerArgs._generate_decode_cuda_graph_batch_sizes",
        "sglang.srt.server_args:ServerArgs._generate_prefill_cuda_graph_batch_sizes",
        "sglang.srt.model_executor.cuda_graph_config:CudaGraphConfig",
    ),
)
def sglang_capture_sizes(
    run: Run, *, phase: str = "decode", max_size: int = 32, speculative: bool = False
) -> Observations:
    """Let SGLang list the buckets of a phase up to a largest size."""
    sizes = _sglang_sizes(phase, max_size, speculative)
    from unittest.mock import patch

    from sglang.srt.model_executor.cuda_graph_config import CudaGraphConfig

    run.modifications.append("is_cuda() answers True while the default kinds of graph are read.")
    with patch("sglang.srt.utils.is_cuda", lambda: True):
        backend = CudaGraphConfig()[phase].backend
    return {
        "sizes": sizes,
        "buckets": len(sizes),
        "smallest": sizes[0],
        "largest": sizes[-1],
        "gpu_backend": backend,
    }


def _sglang_sizes(phase: str, max_size: int, speculative: bool) -> list[int]:
    sglang_engine.prepare()
    from sglang.srt.server_args import ServerArgs

    arguments = ServerArgs(model_path="dummy", device="cpu", skip_tokenizer_init=True)
    if speculative:
        arguments.speculative_algorithm = "NGRAM"  # set afterwards: 0.5.15.post1 refuses it for a CPU
    lists = {
        "decode": arguments._generate_decode_cuda_graph_batch_sizes,
        "prefill": arguments._generate_prefill_cuda_graph_batch_sizes,
    }
    if phase not in lists:
        raise ValueError(f"phase is {phase!r}, expected decode or prefill")
    return list(lists[phase](max_size))


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "graph": "for each batch: whether a graph can run it",
        "bucket": "for each batch: the bucket that it is padded to, 0 where it runs without a graph",
        "tokens_per_request": "tokens of each request in a batch of this kind of graph",
        "captured_tokens": "for each batch: tokens that the graph runs over, padding included, 0 without a graph",
    },
    covers=(
        "sglang.srt.model_executor.runner.base_cuda_graph_runner:BaseCudaGraphRunner._pad_to_bucket",
        "sglang.srt.model_executor.runner.decode_cuda_graph_runner:DecodeCudaGraphRunner.can_run_graph",
        "sglang.srt.model_executor.runner.prefill_cuda_graph_runner:PrefillCudaGraphRunner.can_run_graph",
    ),
)
def sglang_dispatch(
    run: Run,
    *,
    phase: str,
    sizes: list[int],
    max_size: int,
    verify_width: int = 0,
) -> Observations:
    """Ask SGLang's runner of a phase whether a graph can run each batch, and which bucket it is padded to.

    sizes         requests for the decode runner, tokens of one request for the prefill runner
    verify_width  tokens a request in the verification of drafts; 0: no speculation
    """
    buckets = _sglang_sizes(phase, max_size, verify_width > 0)
    run.modifications.append(NO_CONSTRUCTOR)
    width = _verify_width(verify_width) if verify_width else 1
    runner = _runner(phase, buckets, width)
    fits = [bool(runner.can_run_graph(_batch(size, phase, verify_width))) for size in sizes]
    padded = [runner._pad_to_bucket(size, buckets) if fit else 0 for size, fit in zip(sizes, fits, strict=True)]
    return {
        "graph": fits,
        "bucket": padded,
        "tokens_per_request": width,
        "captured_tokens": [size * (width if phase == "decode" else 1) for size in padded],
    }


def _verify_width(draft_tokens: int) -> int:
    """Tokens a request in SGLang's verify graph, by its own function (renamed in 0.5.16)."""
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    algorithm: Any = SpeculativeAlgorithm.NGRAM
    names = ("get_num_tokens_per_req_for_target_verify", "get_num_tokens_per_bs_for_target_verify")
    return int(next(getattr(algorithm, name) for name in names if hasattr(algorithm, name))(draft_tokens, False))


def _runner(phase: str, buckets: list[int], width: int) -> Any:
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
    from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner
    from sglang.srt.model_executor.runner.prefill_cuda_graph_runner import PrefillCudaGraphRunner
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    kind: Any = DecodeCudaGraphRunner if phase == "decode" else PrefillCudaGraphRunner
    runner = object.__new__(kind)
    algorithm = SpeculativeAlgorithm.NGRAM if width > 1 else SpeculativeAlgorithm.NONE
    off = (
        "require_mlp_tp_gather", "require_mlp_sync", "enable_pdmux", "disable_padding", "is_encoder_decoder",
        "enable_two_batch_overlap", "ragged_verify_mode", "record_nolora_graph", "_is_full_backend",
        "has_mha_companion_layers",
    )  # fmt: skip
    vars(runner).update(dict.fromkeys(off, False))
    vars(runner).update(
        capture_hidden_mode=CaptureHiddenMode.NULL,
        model_runner=SimpleNamespace(spec_algorithm=algorithm),
        max_bs=buckets[-1],
        max_num_tokens=buckets[-1],
        capture_num_tokens=buckets,
        prefill_backend_name="breakable",
        num_tokens_per_bs=width,  # 0.5.15.post1
        captured_req_width=width,  # 0.5.16
    )
    return runner


def _batch(size: int, phase: str, verify_width: int) -> Any:
    import torch
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode

    kind = ForwardMode.EXTEND if phase == "prefill" else ForwardMode.DECODE
    requests, tokens = (1, size) if phase == "prefill" else (size, size * max(verify_width, 1))
    spec = SimpleNamespace(num_tokens_per_req=verify_width, capture_hidden_mode=CaptureHiddenMode.NULL)
    return SimpleNamespace(
        forward_mode=ForwardMode.TARGET_VERIFY if verify_width else kind,
        batch_size=requests,
        input_ids=torch.zeros(tokens, dtype=torch.int64),
        spec_info=spec if verify_width else None,
        capture_hidden_mode=CaptureHiddenMode.NULL,
        return_logprob=False,
        input_embeds=None,
        replace_embeds=None,
        global_num_tokens_cpu=None,
        encoder_lens=None,
        lora_ids=None,
    )
