"""How evenly a router loads the ranks that hold its experts, and what moving experts about can mend.

Question
    With the same mean load for each rank, how much work does the busiest rank have? What does a load balancer that
    knows past averages (EPLB) make of it, and what can it not mend? How many experts must a batch read, and how few
    rows does each of them get?
Watched
    The expert ids that either engine's own top-k router (its torch path) picks from given router logits, counted by
    expert and by rank, step by step. The placement that the engine's own EPLB algorithm makes of the summed counts,
    and the load of the busiest rank under it.
Can mislead
    The logits are made up: random, with some experts preferred. No expert is computed and nothing is sent; that a layer
    takes as long as its busiest rank is the reading of these numbers, not an observation. A replicated expert's tokens
    are shared equally among its replicas.
Sources
    vLLM 0.25.1 to 0.27.1: `model_executor/layers/fused_moe/cpu_fused_moe.py`, `distributed/eplb/policy/default.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/layers/moe/topk.py`, `srt/eplb/eplb_algorithms/deepseek.py`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Run, probe

_OBSERVES = {
    "routed_rows": "rows (a token for one expert) that the router makes in a step",
    "mean_rows_per_rank": "rows of a rank, mean over ranks; the same in every step",
    "busiest_rank_rows": "rows of the busiest rank, in each step",
    "imbalance": "rows of the busiest rank over the mean, in each step",
    "mean_imbalance": "the same, mean over steps",
    "imbalance_of_sums": "the same over each rank's sum of all steps: what a dashboard of averages shows",
    "busiest_expert_share": "share of all rows that the busiest expert gets, over all steps",
    "idle_share": "share of the ranks' time spent waiting for the busiest, if time goes with rows; mean over steps",
    "ranks_per_token": "ranks that a token is sent to, mean: at most the experts it is for",
    "balanced_mean_imbalance": "mean imbalance over the same steps with experts placed and replicated by EPLB",
    "balanced_imbalance_of_sums": "imbalance of the sums under that placement",
    "most_replicas": "replicas of the expert that EPLB replicates most",
}


@probe(
    engine="vllm",
    levels=("component",),
    observes=_OBSERVES,
    covers=(
        "vllm.model_executor.layers.fused_moe.cpu_fused_moe:select_experts",
        "vllm.distributed.eplb.policy.default:DefaultEplbPolicy.rebalance_experts",
    ),
)
def vllm_routed_rows(
    run: Run,
    *,
    hot: str = "none",
    preference: float = 2.0,
    tokens: int = 2048,
    steps: int = 8,
    experts: int = 64,
    top_k: int = 8,
    ranks: int = 8,
    spare_experts: int = 16,
) -> Observations:
    """Route made-up tokens that prefer no experts, one rank's (`fixed`), or another rank's each step (`rotating`)."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += vllm_engine.force_cpu()
    from vllm.distributed.eplb.policy.default import DefaultEplbPolicy
    from vllm.model_executor.layers.fused_moe.cpu_fused_moe import select_experts

    def route(logits: Any) -> Any:
        return select_experts(logits, logits, top_k, use_grouped_topk=False, renormalize=True)[1]

    def place(rows: Any, replicas: int) -> Any:
        placed = DefaultEplbPolicy.rebalance_experts(rows, replicas, num_groups=1, num_nodes=1, num_ranks=ranks)
        return placed[0] if isinstance(placed, tuple) else placed

    traffic = _Traffic(hot, preference, tokens, steps, experts, ranks)
    return traffic.observed(route, place, spare_experts)


@probe(
    engine="sglang",
    levels=("component",),
    observes=_OBSERVES,
    covers=(
        "sglang.srt.layers.moe.topk:fused_topk_torch_native",
        "sglang.srt.eplb.eplb_algorithms.deepseek:rebalance_experts",
    ),
)
def sglang_routed_rows(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    hot: str = "none",
    preference: float = 2.0,
    tokens: int = 2048,
    steps: int = 8,
    experts: int = 64,
    top_k: int = 8,
    ranks: int = 8,
    spare_experts: int = 16,
) -> Observations:
    """Route made-up tokens that prefer no experts, one rank's (`fixed`), or another rank's each step (`rotating`)."""
    sglang_engine.prepare()
    from sglang.srt.eplb.eplb_algorithms.deepseek import rebalance_experts
    from sglang.srt.layers.moe.topk import fused_topk_torch_native

    def route(logits: Any) -> Any:
        return fused_topk_torch_native(logits, logits, top_k, renormalize=True)[1]

    def place(rows: Any, replicas: int) -> Any:
        return rebalance_experts(rows, replicas, 1, 1, ranks, enable_hierarchical=False)[0]

    traffic = _Traffic(hot, preference, tokens, steps, experts, ranks)
    return traffic.observed(route, place, spare_experts)


_TOUCHED = {
    "experts_read": "different experts that the router picks for a batch of each size",
    "share_read": "the same as a share of all experts",
    "rows_per_expert": "rows that a picked expert computes, mean, for each batch size",
    "rows_of_busiest": "rows of the expert with the most rows, for each batch size",
}


@probe(
    engine="vllm",
    levels=("component",),
    observes=_TOUCHED,
    covers=("vllm.model_executor.layers.fused_moe.cpu_fused_moe:select_experts",),
)
def vllm_experts_read(
    run: Run,
    *,
    batches: list[int] = [1, 8, 64, 512],  # noqa: B006
    experts: int = 128,
    top_k: int = 8,
) -> Observations:
    """Route batches of several sizes, without preference, and count the experts that each batch needs."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += vllm_engine.force_cpu()
    from vllm.model_executor.layers.fused_moe.cpu_fused_moe import select_experts

    def route(logits: Any) -> Any:
        return select_experts(logits, logits, top_k, use_grouped_topk=False, renormalize=True)[1]

    return _experts_read(route, batches, experts)


@probe(
    engine="sglang",
    levels=("component",),
    observes=_TOUCHED,
    covers=("sglang.srt.layers.moe.topk:fused_topk_torch_native",),
)
def sglang_experts_read(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    batches: list[int] = [1, 8, 64, 512],  # noqa: B006
    experts: int = 128,
    top_k: int = 8,
) -> Observations:
    """Route batches of several sizes, without preference, and count the experts that each batch needs."""
    sglang_engine.prepare()
    from sglang.srt.layers.moe.topk import fused_topk_torch_native

    def route(logits: Any) -> Any:
        return fused_topk_torch_native(logits, logits, top_k, renormalize=True)[1]

    return _experts_read(route, batches, experts)


def _experts_read(route: Callable[[Any], Any], batches: Sequence[int], experts: int) -> Observations:
    import torch

    generator = torch.Generator().manual_seed(0)
    chosen = [route(torch.randn(tokens, experts, generator=generator)) for tokens in batches]
    rows = [[n for n in torch.bincount(ids.flatten().long()).tolist() if n] for ids in chosen]
    return {
        "experts_read": [len(r) for r in rows],
        "share_read": [len(r) / experts for r in rows],
        "rows_per_expert": [mean(r) for r in rows],
        "rows_of_busiest": [max(r) for r in rows],
    }


class _Traffic:
    """Router logits of several steps; experts lie on ranks in order, equally many on each."""

    def __init__(self, hot: str, preference: float, tokens: int, steps: int, experts: int, ranks: int) -> None:
        if hot not in ("none", "fixed", "rotating"):
            raise ValueError(f"hot is {hot!r}, expected none, fixed or rotating")
        import torch

        generator, each = torch.Generator().manual_seed(0), experts // ranks
        self.experts, self.ranks, self.logits = experts, ranks, list[Any]()
        for step in range(steps):
            logits = torch.randn(tokens, experts, generator=generator)
            if hot != "none":
                first = (step % ranks if hot == "rotating" else 0) * each
                logits[:, first : first + each] += preference
            self.logits.append(logits)

    def observed(
        self, route: Callable[[Any], Any], place: Callable[[Any, int], Any], spare_experts: int
    ) -> Observations:
        """Route every step, then place the experts by the summed counts and look at the same steps again."""
        import torch

        chosen = [route(logits) for logits in self.logits]
        rows = [torch.bincount(ids.flatten().long(), minlength=self.experts).tolist() for ids in chosen]
        summed = [sum(column) for column in zip(*rows, strict=True)]
        in_order = list(range(self.experts))
        now = [rank_loads(r, in_order, self.ranks) for r in rows]
        placed = place(torch.tensor([summed], dtype=torch.float32), self.experts + spare_experts)[0].tolist()
        then = [rank_loads(r, placed, self.ranks) for r in rows]
        imbalances, routed = [imbalance(loads) for loads in now], sum(rows[0])
        return {
            "routed_rows": routed,
            "mean_rows_per_rank": routed / self.ranks,
            "busiest_rank_rows": [max(loads) for loads in now],
            "imbalance": imbalances,
            "mean_imbalance": mean(imbalances),
            "imbalance_of_sums": imbalance(rank_loads(summed, in_order, self.ranks)),
            "busiest_expert_share": max(summed) / sum(summed),
            "idle_share": mean([1 - 1 / i for i in imbalances]),
            "ranks_per_token": mean([self._ranks_per_token(ids) for ids in chosen]),
            "balanced_mean_imbalance": mean([imbalance(loads) for loads in then]),
            "balanced_imbalance_of_sums": imbalance(rank_loads(summed, placed, self.ranks)),
            "most_replicas": max(Counter(placed).values()),
        }

    def _ranks_per_token(self, ids: Any) -> float:
        each = self.experts // self.ranks
        return mean([len({expert // each for expert in chosen}) for chosen in ids.tolist()])


def rank_loads(rows: Sequence[float], placement: Sequence[int], ranks: int) -> list[float]:
    """Rows of each rank. `placement` names the expert in each slot, an equal number of slots for each rank in order."""
    replicas, slots = Counter(placement), len(placement) // ranks
    shares = [rows[expert] / replicas[expert] for expert in placement]
    return [sum(shares[rank * slots : (rank + 1) * slots]) for rank in range(ranks)]


def imbalance(loads: Sequence[float]) -> float:
    """The largest load over the mean."""
    return max(loads) / mean(loads)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)
