"""Replicas that each keep a prefix cache of their own: what the router's choice makes of hits and of load.

Question
    Two to four replicas, several long documents, many questions about each: what does a router that spreads requests
    evenly do to the caches, and what does one that only follows the cache do to the load?
Watched
    One of SGLang's own `RadixCache` for each replica, with room for some of the documents, evicting as it does. For
    each request: how much of it is found where it is sent, and how much that replica then has to compute.
Can mislead
    The three routing rules are ours and of a few lines: SGLang's router is a package of its own and does not run here.
    No model runs and nothing waits; load is counted in tokens to compute, and the order of requests is made up.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/radix_cache.py`.
"""

from __future__ import annotations

import random
from typing import Any

from inferproof.probes import sglang_engine
from inferproof.probes.core import Observations, Run, probe, random_tokens
from inferproof.probes.expert_load import imbalance
from inferproof.probes.radix_cache import _Tree

_CACHE = "sglang.srt.mem_cache.radix_cache:RadixCache"
_RULES = ("spread", "affinity", "balanced")


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "hit_share": "share of all prompt tokens that were found in the cache of the replica they were sent to",
        "computed_tokens": "prompt tokens that had to be computed, all replicas together",
        "computed_by_replica": "the same for each replica",
        "load_imbalance": "requests of the busiest replica over the mean",
        "document_copies": "documents held at the end, over all replicas: 2 for one that two replicas hold",
        "evicted_tokens": "tokens that were evicted for want of room",
    },
    covers=(f"{_CACHE}.match_prefix", f"{_CACHE}.insert", f"{_CACHE}.evict"),
)
def sglang_by_rule(
    run: Run,
    *,
    rule: str = "spread",
    replicas: int = 4,
    documents: int = 8,
    document_tokens: int = 2048,
    question_tokens: int = 64,
    requests: int = 256,
    room_documents: int = 3,
    hot_share: float = 0.0,
) -> Observations:
    """Send questions about documents to replicas by one rule; `hot_share` of them are about the first document.

    `spread` takes the replicas in turn, `affinity` always the same one for a document, `balanced` that one too unless
    it has 1.5 times the mean load.
    """
    if rule not in _RULES:
        raise ValueError(f"rule is {rule!r}, expected {', '.join(_RULES)}")
    sglang_engine.prepare()
    run.modifications.append("Each tree stands alone (create_simulated): freed KV slots go to a stand-in.")
    texts = [random_tokens(document_tokens, seed=d) for d in range(documents)]
    room = room_documents * (document_tokens + question_tokens)
    fleet = [_Replica(room) for _ in range(replicas)]
    chance = random.Random(0)
    for i in range(requests):
        document = 0 if chance.random() < hot_share else chance.randrange(documents)
        replica = fleet[_chosen(rule, i, document, fleet)]
        replica.serve([*texts[document], *random_tokens(question_tokens, seed=documents + i)])
    computed, asked = sum(r.computed for r in fleet), requests * (document_tokens + question_tokens)
    return {
        "hit_share": 1 - computed / asked,
        "computed_tokens": computed,
        "computed_by_replica": [r.computed for r in fleet],
        "load_imbalance": imbalance([r.served for r in fleet]),
        "document_copies": sum(r.tree.hit(text) == document_tokens for r in fleet for text in texts),
        "evicted_tokens": sum(r.evicted for r in fleet),
    }


class _Replica:
    """One replica's radix tree with so much room, and what it was given to do."""

    def __init__(self, room: int) -> None:
        self.tree: Any = _Tree()
        self.room, self.served, self.computed, self.evicted = room, 0, 0, 0

    def serve(self, prompt: list[int]) -> None:
        """Compute what is not found, make room for it, and keep the prompt."""
        missing = len(prompt) - self.tree.hit(prompt)
        beyond = self.tree.cache.total_size() + missing - self.room
        if beyond > 0:
            self.evicted += self.tree.evict(beyond)
        self.tree.insert(prompt)
        self.served += 1
        self.computed += missing


def _chosen(rule: str, turn: int, document: int, fleet: list[_Replica]) -> int:
    home = document % len(fleet)
    if rule == "affinity":
        return home
    mean = (1 + sum(r.served for r in fleet)) / len(fleet)
    if rule == "balanced" and fleet[home].served <= 1.5 * mean:
        return home
    return turn % len(fleet) if rule == "spread" else min(range(len(fleet)), key=lambda i: fleet[i].served)
