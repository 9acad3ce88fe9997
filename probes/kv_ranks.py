"""What a token's KV costs each tensor-parallel rank: KV heads are split, a latent is not.

Question
    Does KV divide by the number of ranks?
Watched
    The rule by which SGLang budgets bytes a token for its pool; vLLM's rule for KV heads and the spec that follows.
Can mislead
    The rules are asked with stand-ins for configs and ranks; no rank runs (`tensor_parallel.two_ranks` has two).
    Attention data parallelism and context parallelism divide in other ways and are not asked here.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/model_executor/pool_configurator.py`, `srt/configs/model_config.py`.
    vLLM 0.25.1 to 0.27.1: `config/model.py` (`get_num_kv_heads`), `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any
from unittest import mock

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Run, probe

_BY_RANKS = {
    "bytes_by_ranks": "bytes of KV that one rank budgets for a token and layer, at each number of ranks",
    "held_by_ranks": "the same times the ranks: bytes over all of them",
}


@probe(
    engine="sglang",
    levels=("component",),
    observes=_BY_RANKS,
    covers=("sglang.srt.model_executor.pool_configurator:DefaultPoolConfigurator._compute_cell_size",),
)
def sglang_budget(
    run: Run,
    *,
    kv_heads: int = 8,
    head_dim: int = 128,
    latent: int = 0,
    ranks: list[int] = [1, 2, 4, 8, 16],  # noqa: B006
) -> Observations:
    """Ask SGLang's own memory budget for its bytes a token, in BF16, at several attention-TP sizes."""
    sglang_engine.prepare()
    run.modifications.append("The rule is asked with stand-ins for the model runner, the model's config and the ranks.")
    import torch
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.model_executor import pool_configurator

    config: Any = SimpleNamespace(
        kv_lora_rank=latent, qk_rope_head_dim=head_dim, head_dim=head_dim, v_head_dim=head_dim,
        hf_config=SimpleNamespace(architectures=["None"]), get_total_num_kv_heads=lambda: kv_heads,
    )  # fmt: skip
    config.get_num_kv_heads = lambda n: ModelConfig.get_num_kv_heads(config, n)
    runner = SimpleNamespace(
        model_config=config, kv_cache_dtype=torch.bfloat16, use_mla_backend=bool(latent), is_draft_worker=True,
        server_args=SimpleNamespace(kv_cache_dtype="auto"),
    )  # fmt: skip
    rule: Any = pool_configurator.DefaultPoolConfigurator._compute_cell_size
    sizes = []
    for count in ranks:
        asked = "get_attention_tp_size" if hasattr(pool_configurator, "get_attention_tp_size") else "get_parallel"
        answer = count if asked == "get_attention_tp_size" else SimpleNamespace(attn_tp_size=count)
        with mock.patch.object(pool_configurator, asked, lambda answer=answer: answer):
            sizes.append(int(rule(None, runner, 1)))
    return {"bytes_by_ranks": sizes, "held_by_ranks": [n * c for n, c in zip(sizes, ranks, strict=True)]}


@probe(
    engine="vllm",
    levels=("component",),
    observes=_BY_RANKS,
    covers=("vllm.config.model:ModelConfig.get_num_kv_heads",),
)
def vllm_budget(
    run: Run,
    *,
    kv_heads: int = 8,
    head_dim: int = 128,
    latent: int = 0,
    ranks: list[int] = [1, 2, 4, 8, 16],  # noqa: B006
) -> Observations:
    """Ask vLLM's rule for KV heads, and the spec that follows from it for its bytes a token, in BF16."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += [
        *vllm_engine.force_cpu(),
        "The rule is asked with stand-ins for the configs of model and ranks.",
    ]
    import torch
    from vllm.config import ModelConfig
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec

    model: Any = SimpleNamespace(get_total_num_kv_heads=lambda: kv_heads, use_mla=bool(latent))
    spec: Any = MLAAttentionSpec if latent else FullAttentionSpec
    sizes = []
    for count in ranks:
        heads = ModelConfig.get_num_kv_heads(model, SimpleNamespace(tensor_parallel_size=count))
        page = spec(block_size=16, num_kv_heads=heads, head_size=latent + head_dim, dtype=torch.bfloat16)
        sizes.append(page.page_size_bytes // 16)
    return {"bytes_by_ranks": sizes, "held_by_ranks": [n * c for n, c in zip(sizes, ranks, strict=True)]}
