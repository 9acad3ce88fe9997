"""What the experts of a model weigh, how little of that a token uses, and how unevenly a load falls on ranks.

Question
    A mixture-of-experts model activates few of its parameters. How much memory do all of them take, and how much of
    the ranks' time does an uneven load cost?
Watched
    The arithmetic on a model's shape, and maximum over mean of given rows (`expert_load` has the engines' own routers).
Can mislead
    Only the experts of gated MLPs (three matrices) are counted: attention, embedding and shared experts come on top.
    That a layer takes as long as its busiest rank is assumed.
Sources
    The default shape is Qwen3-30B-A3B's published config: 48 layers, 128 experts, 8 a token, 2048 by 768.
"""

from __future__ import annotations

from collections.abc import Sequence

from inferproof.probes.core import Observations, Run, probe
from inferproof.probes.expert_load import imbalance, rank_loads
from inferproof.probes.units import Quantity


def weigh(
    *, layers: int = 48, experts: int = 128, top_k: int = 8, hidden_size: int = 2048, inner_size: int = 768,
    value_bytes: float = 2, ranks: int = 1, rows: Sequence[float] = (),
) -> dict[str, Quantity]:  # fmt: skip
    """Weights of all experts, of those that one token uses, and of one rank; with `rows`, how even the load is.

    rows  rows of each expert of a layer, in order; ranks hold equally many experts each.

    Raises ValueError for experts that cannot be divided, and for rows that are not one number an expert.
    """
    if experts < 1 or ranks < 1 or experts % ranks or not 0 < top_k <= experts:
        raise ValueError(
            f"{experts} experts, {top_k} a token, on {ranks} ranks: ranks must divide experts, top_k at most all"
        )
    one = 3 * hidden_size * inner_size * value_bytes
    found = {
        "expert_weights": Quantity(layers * experts * one / 2**30, "GiB"),
        "weights_used_by_a_token": Quantity(layers * top_k * one / 2**30, "GiB"),
        "weights_on_each_rank": Quantity(layers * experts // ranks * one / 2**30, "GiB"),
        "weights_over_used": Quantity(experts / top_k, ""),
    }
    if not rows:
        return found
    if len(rows) != experts or not sum(rows) > 0 or min(rows) < 0:
        raise ValueError(
            f"rows holds {len(rows)} numbers, expected one of at least 0 for each of the {experts} experts"
        )
    worst = imbalance(rank_loads(rows, range(experts), ranks))
    return found | {
        "busiest_rank_over_mean": Quantity(worst, ""),
        "share_of_time_waiting": Quantity(1 - 1 / worst, ""),
    }


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "expert_gib": "GiB of all experts' weights",
        "used_gib": "GiB of the weights that one token uses",
        "rank_gib": "GiB of experts on each rank",
        "over_used": "all experts over those that a token uses",
    },
)
def none_by_shape(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    layers: int = 48,
    experts: int = 128,
    top_k: int = 8,
    hidden_size: int = 2048,
    inner_size: int = 768,
    value_bytes: float = 2,
    ranks: int = 1,
) -> Observations:
    """Compute what a model's experts weigh."""
    found = weigh(
        layers=layers, experts=experts, top_k=top_k, hidden_size=hidden_size, inner_size=inner_size,
        value_bytes=value_bytes, ranks=ranks,
    )  # fmt: skip
    names = ("expert_gib", "used_gib", "rank_gib", "over_used")
    return dict(zip(names, (quantity.value for quantity in found.values()), strict=True))
