"""What a command line makes of SGLang's CUDA graphs: the settings in force, not those that were asked for.

Question
    Which kind of graph does each phase get, for which sizes, and which options take a graph away without being about
    graphs at all?
Watched
    SGLang's own argument parser reads the options, and its own `ServerArgs` methods resolve the graph settings and the
    memory that they reserve, for a GPU of a given size.
Can mislead
    No GPU is here: the device is set to CUDA and its memory given by hand after parsing, and nothing is captured. What
    a runner captures may be less still, since it drops sizes above the requests that its memory holds.
    `memory_fraction` is a heuristic of the engine's for weights and KV, before any capture is measured.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/server_args.py` (`_handle_cuda_graph_config`, `_handle_gpu_memory_settings`),
    `srt/model_executor/cuda_graph_config.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

from inferproof.probes import model, sglang_engine
from inferproof.probes.core import Observations, Run, probe

AS_ON_CUDA = (
    "After parsing, the device is set to cuda and the GPU's memory is given by hand; is_cuda() answers True meanwhile."
)


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "decode_backend": "kind of graph that decode gets: full, breakable, tc_piecewise, or disabled",
        "prefill_backend": "kind of graph that prefill gets",
        "decode_sizes": "requests for which a decode graph is to be captured",
        "prefill_buckets": "how many sizes, in tokens, are to be captured for prefill",
        "prefill_largest": "the largest of these, in tokens",
        "memory_fraction": "share of the GPU's memory that is left to weights and KV",
    },
    covers=(
        "sglang.srt.server_args:ServerArgs._handle_cuda_graph_config",
        "sglang.srt.server_args:ServerArgs._handle_gpu_memory_settings",
        "sglang.srt.server_args:ServerArgs._generate_decode_cuda_graph_batch_sizes",
    ),
)
def sglang_resolved(run: Run, *, options: list[str], gpu_memory_gib: int = 40) -> Observations:
    """Let SGLang resolve its graph settings from command-line options, as on a GPU of that size."""
    assert run.models is not None
    sglang_engine.prepare()
    run.modifications.append(AS_ON_CUDA)
    resolved = _resolved(options, str(model.make(run.models, "tiny")), 1024 * gpu_memory_gib)
    graphs = resolved.cuda_graph_config
    return {
        "decode_backend": graphs.decode.backend,
        "prefill_backend": graphs.prefill.backend,
        "decode_sizes": list(graphs.decode.bs),
        "prefill_buckets": len(graphs.prefill.bs),
        "prefill_largest": graphs.prefill.max_bs,
        "memory_fraction": resolved.mem_fraction_static,
    }


def _resolved(options: list[str], folder: str, memory_mib: int) -> Any:
    from unittest.mock import patch

    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    # "dummy" keeps the constructor from resolving anything for this machine
    given = parser.parse_args(["--model-path", "dummy", "--device", "cpu", "--skip-tokenizer-init", *options])
    arguments = ServerArgs.from_cli_args(given)
    arguments.model_path, arguments.device = folder, "cuda"
    arguments.get_model_config()  # imports kernels, which must not take this machine for a GPU
    with patch("sglang.srt.utils.is_cuda", lambda: True):
        arguments._handle_cuda_graph_config()
        arguments._handle_gpu_memory_settings(memory_mib)
    return arguments
