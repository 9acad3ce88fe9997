"""What speculation costs against what it saves: arithmetic over figures that somebody measured.

Question
    From which acceptance length on does speculation pay, and why may a wider draft or a larger batch undo it?
Watched
    Nothing runs. `round_cost` takes two end-to-end times and gives what one round of draft, verify and commit cost;
    `draft_width` gives the speedup for each width under the usual model: each draft is accepted with the same
    probability, and verifying one more token costs a fixed share of a decode step.
Can mislead
    Real acceptance falls along the draft and differs between texts; the times hold prefill and HTTP as well.
Sources
    The cost model of the question; expected tokens a round after arXiv 2211.17192.
"""

from __future__ import annotations

from inferproof.probes.core import Observations, Run, probe


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "acceptance_length": "tokens committed a round",
        "baseline_ms": "time of a token without speculation, ms",
        "round_ms": "time of a round with it, ms",
        "break_even": "acceptance length at which the two are equal: what a round costs in plain steps",
        "speedup": "acceptance length over break-even",
    },
)
def round_cost(run: Run, *, tokens: int, rounds: int, baseline_ms: float, speculative_ms: float) -> Observations:  # noqa: ARG001
    """Work out what a round cost, from end-to-end times with speculation and without."""
    per_token, per_round = baseline_ms / tokens, speculative_ms / rounds
    return {
        "acceptance_length": tokens / rounds,
        "baseline_ms": per_token,
        "round_ms": per_round,
        "break_even": per_round / per_token,
        "speedup": (tokens / rounds) / (per_round / per_token),
    }


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "tokens_by_width": "expected tokens a round for 0, 1, ... drafts",
        "speedups": "speedup for 0, 1, ... drafts",
        "best_width": "number of drafts with the highest speedup; 0: speculation does not pay",
        "best_speedup": "speedup at that number",
    },
)
def draft_width(
    run: Run,  # noqa: ARG001
    *,
    acceptance: float,
    token_cost: float,
    draft_cost: float = 0.0,
    widest: int = 16,
) -> Observations:
    """Work out the best number of drafts.

    acceptance  probability that a draft is accepted if those before it were
    token_cost  what verifying one more token adds, as a share of a plain decode step
    draft_cost  what drafting one more token costs, as a share of a plain decode step
    """
    tokens = [sum(acceptance**i for i in range(width + 1)) for width in range(widest + 1)]
    speedups = [made / (1 + (token_cost + draft_cost) * width) for width, made in enumerate(tokens)]
    best = max(range(widest + 1), key=speedups.__getitem__)
    return {"tokens_by_width": tokens, "speedups": speedups, "best_width": best, "best_speedup": speedups[best]}
