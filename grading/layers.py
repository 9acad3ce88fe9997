"""The five layers of a deep answer, and which of them an answer covers.

What is promised, how far each token has come, who owns the memory, who runs what, what it costs: an answer that stays
on one of these is a feature list. A layer counts as covered where one asserted statement relates something of that
layer (a block, a step, TTFT) to what happens to it there (is freed, is preempted, rises); naming it is not enough.
Whether what is said of it is right is the rubric's matter, not this module's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from inferproof.grading.reading import Reading


class _Layer(NamedTuple):
    """Concepts of the glossary; `what` and `happens` have none in common, or one word would say both."""

    what: frozenset[str]
    happens: frozenset[str]


def _layer(what: str, happens: str) -> _Layer:
    return _Layer(frozenset(what.split()), frozenset(happens.split()))


_CONCEPTS = {
    "semantics": _layer(
        "user output-token first-token sampling logits greedy abort streaming target-model semantic-layer request"
        " output-distribution",
        "distribution-preserved unchanged exact-match contract client-visible committed-state discard-result"
        " request-fails takes-effect",
    ),
    "logical state": _layer(
        "token token-ids prompt prefix output-token last-token request logical-state draft",
        "computed-progress kv-committed commit committed-state recompute hit accept reject prefix-acceptance mismatch"
        " deeper-invalid miss already-computed",
    ),
    "physical resources": _layer(
        "kv kv-cache block page full-block partial-block block-table buffer memory private-tail rejected-kv stream"
        " physical-resource kv-allocated tree-node weights",
        "allocate release evict evictable lock reference-count share owner swap capacity fragmentation copy-on-write"
        " allocation-failure buffer-lifetime war-hazard pinned reservation kv-transfer incremental-allocation once"
        " gives-up",
    ),
    "execution": _layer(
        "scheduler step round batch running-queue waiting-queue execution-layer decode prefill chunk engine-core"
        " request rank cuda-graph",
        "admission planned token-budget interleave mixed preempt retract requeue launch refill running-first forward"
        " replay overlap snapshot in-flight verify capture bucket independent-request all-reduce all-to-all"
        " back-to-back barrier",
    ),
    "performance": _layer(
        "ttft tpot itl latency tail-latency throughput goodput flops hbm-io launch-overhead fixed-cost queueing"
        " utilization end-to-end step-duration spec-cost performance-layer network",
        "increase decrease trade-off amortize compute-bound memory-bound bottleneck work-reduction speedup predict"
        " interference slo skip hit-rate expert-imbalance",
    ),
}
LAYERS = tuple(_CONCEPTS)
"""Their names, from what is promised to what it costs."""


def layers_covered(read: Iterable[Reading]) -> tuple[str, ...]:
    """The layers that these statements cover, in their order."""
    said = [(r, frozenset(concept for concept, _ in r.concepts)) for r in read if r.asserted]
    return tuple(
        name
        for name, layer in _CONCEPTS.items()
        if any(_relates(reading, layer.what & concepts, layer.happens & concepts) for reading, concepts in said)
    )


def _relates(reading: Reading, what: frozenset[str], happens: frozenset[str]) -> bool:
    """Whether the statement relates one of `what` to one of `happens`, be it to deny it."""
    return bool(what and happens) and reading.states([_any(what), _any(happens)])


def _any(concepts: frozenset[str]) -> str:
    return "|".join(f"{c}|!{c}" for c in sorted(concepts))
