"""SGLang's radix tree: what a lookup, a lock and an eviction do to it.

Question
    Does a running request's lock protect a part of the cached prefix, or the whole path to the root? What does
    eviction take, and in what portions? When a node is split, who gets its slots, its children, its locks, its hashes?
Watched
    SGLang's own `RadixCache` without memory pools (`create_simulated`): numbers of tokens per node, the evictable and
    the protected size, and what is still found, after each step; around a split also the two nodes themselves.
Can mislead
    Only the tree's bookkeeping runs; whoever releases and refills KV slots in the engine is in `finished_request`.
    Unless a page size is given it is 1: with larger pages every length is cut down to whole pages.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/radix_cache.py`, `srt/mem_cache/base_prefix_cache.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from inferproof.probes import sglang_engine
from inferproof.probes.core import Observations, Run, probe

_CACHE = "sglang.srt.mem_cache.radix_cache:RadixCache"


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "looked_up_hit_tokens": "tokens of [1 2 3 4 99 98] found in a tree that holds 1..10",
        "nodes_before_lookup": "tokens of each node before that lookup, ascending",
        "nodes_after_lookup": "tokens of each node after that lookup, ascending",
        "insert_shared_tokens": "tokens of [1 2 3 4 50 51] that the tree already held when it was inserted",
        "nodes_after_insert": "tokens of each node after that insertion, ascending",
        "total_tokens": "tokens in the tree after that insertion",
        "evictable_tokens_locked": "tokens that may be evicted while [1 2 3 4 50 51] is locked (not with lock=false)",
        "protected_tokens_locked": "tokens that must stay at that time",
        "evicted_tokens_locked": "tokens given up at that time when 100 are asked for",
        "path_hit_tokens": "tokens of [1 2 3 4 50 51] found after that eviction",
        "evictable_tokens_unlocked": "tokens that may be evicted once the lock is gone",
        "evicted_tokens_of_one": "tokens given up when a single one is asked for, after the lock is gone",
        "tokens_left": "tokens in the tree at the end",
    },
    covers=(
        f"{_CACHE}.match_prefix",
        f"{_CACHE}.insert",
        f"{_CACHE}.inc_lock_ref",
        f"{_CACHE}.dec_lock_ref",
        f"{_CACHE}.evict",
        f"{_CACHE}._split_node",
    ),
)
def sglang_lock_and_split(run: Run, *, lock: bool = True) -> Observations:
    """Look up, insert, lock, evict and unlock in a small tree, and watch its nodes."""
    sglang_engine.prepare()
    run.modifications.append("The tree stands alone (create_simulated): freed KV slots go to a stand-in.")
    tree = _Tree()
    seen: Observations = {}
    tree.insert(range(1, 11))
    seen["nodes_before_lookup"] = tree.nodes()
    seen["looked_up_hit_tokens"] = tree.hit([1, 2, 3, 4, 99, 98])
    seen["nodes_after_lookup"] = tree.nodes()
    path = [1, 2, 3, 4, 50, 51]
    seen["insert_shared_tokens"] = tree.insert(path)
    seen["nodes_after_insert"], seen["total_tokens"] = tree.nodes(), tree.cache.total_size()
    leaf = tree.leaf(path)
    if lock:
        tree.cache.inc_lock_ref(leaf)
    seen["evictable_tokens_locked"] = tree.cache.evictable_size()
    seen["protected_tokens_locked"] = tree.cache.protected_size()
    seen["evicted_tokens_locked"] = tree.evict(100)
    seen["path_hit_tokens"] = tree.hit(path)
    if lock:
        tree.cache.dec_lock_ref(leaf)
    seen["evictable_tokens_unlocked"] = tree.cache.evictable_size()
    seen["evicted_tokens_of_one"] = tree.evict(1)
    seen["tokens_left"] = tree.cache.total_size()
    return seen


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "slots_before": "KV slots of the one cached node of 12 tokens",
        "nodes_after": "tokens of each node after the lookup, ascending",
        "hit_slots": "KV slots that the lookup returned",
        "upper_slots": "KV slots of the node nearest to the root after the lookup",
        "lower_slots": "KV slots of the node below it; empty if there is none",
        "lower_is_the_old_node": "whether the node that the running request holds is now the lower one",
        "linked": "whether root, upper and lower node are each the only child of the one before",
        "locks_before": "lock count of the node before the lookup",
        "locks_after": "lock counts of the upper and the lower node after it",
        "protected_tokens": "protected tokens before and after the lookup",
        "hash_split": "whether the page hashes of both nodes together are those of the old node, each with its own",
        "second_locks": "lock counts of both nodes once a second request holds what it found",
        "locks_at_end": "lock counts of both nodes when the first request has let go",
        "evictable_at_end": "tokens that may be evicted then",
    },
    covers=(f"{_CACHE}._split_node", f"{_CACHE}.match_prefix", f"{_CACHE}.inc_lock_ref", f"{_CACHE}.dec_lock_ref"),
)
def sglang_split(run: Run, *, shared_tokens: int = 5, page_size: int = 1) -> Observations:
    """Look up a prompt that shares `shared_tokens` with a cached one of 12 whose request still runs."""
    sglang_engine.prepare()
    run.modifications.append("The tree stands alone (create_simulated); page hashes are marks that the probe sets.")
    tree = _Tree(page_size)
    cached, asked = list(range(1, 13)), [*range(1, shared_tokens + 1), 99, 98, 97, 96]
    tree.insert(cached)
    old = tree.leaf(cached)
    old.hash_value = [f"page {i}" for i in range(len(cached) // page_size)]
    tree.cache.inc_lock_ref(old)
    seen: Observations = {"slots_before": old.value.tolist(), "locks_before": old.lock_ref}
    protected, marks = tree.cache.protected_size(), list(old.hash_value)
    found = tree.match(asked)
    path = tree.path(old)
    seen |= {
        "hit_slots": found.device_indices.tolist(),
        "protected_tokens": [protected, tree.cache.protected_size()],
        "hash_split": [page for node in path for page in node.hash_value] == marks
        and all(len(node.hash_value) * page_size == len(node.key) for node in path),
        **_two_nodes(tree, path, old),
    }
    tree.cache.inc_lock_ref(found.last_device_node)
    seen["second_locks"] = [node.lock_ref for node in path]
    tree.cache.dec_lock_ref(old)
    seen["locks_at_end"] = [node.lock_ref for node in path]
    return seen | {"evictable_at_end": tree.cache.evictable_size()}


def _two_nodes(tree: _Tree, path: list[Any], old: Any) -> Observations:
    """What a lookup left of the only node: its path from the root, one node or two."""
    root, upper, lower = tree.cache.root_node, path[0], path[1] if len(path) > 1 else None
    return {
        "nodes_after": tree.nodes(),
        "upper_slots": upper.value.tolist(),
        "lower_slots": lower.value.tolist() if lower else [],
        "lower_is_the_old_node": lower is old,
        "linked": [*root.children.values()] == [upper] and [*upper.children.values()] == path[1:],
        "locks_after": [node.lock_ref for node in path],
    }


class _Tree:
    """A `RadixCache`, spoken to in lists of token ids."""

    def __init__(self, page_size: int = 1) -> None:
        from sglang.srt.mem_cache.radix_cache import RadixCache

        slots = SimpleNamespace(device="cpu", free=lambda _: None)
        self.cache: Any = RadixCache.create_simulated(mock_allocator=slots, page_size=page_size)

    def insert(self, tokens: Sequence[int]) -> int:
        import torch
        from sglang.srt.mem_cache.base_prefix_cache import InsertParams

        slots = torch.arange(100, 100 + len(tokens), dtype=torch.int64)
        return int(self.cache.insert(InsertParams(key=_key(tokens), value=slots)).prefix_len)

    def hit(self, tokens: Sequence[int]) -> int:
        return len(self.match(tokens).device_indices)

    def leaf(self, tokens: Sequence[int]) -> Any:
        return self.match(tokens).last_device_node

    def evict(self, tokens: int) -> int:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        return int(self.cache.evict(EvictParams(num_tokens=tokens)).num_tokens_evicted)

    def path(self, node: Any) -> list[Any]:
        """The nodes from below the root down to this one, by way of the parents."""
        found: list[Any] = []
        while node is not self.cache.root_node:
            found.insert(0, node)
            node = node.parent
        return found

    def nodes(self) -> list[int]:
        """Tokens of each node, ascending; the empty root is left out."""
        found, waiting = [], list(self.cache.root_node.children.values())
        while waiting:
            node = waiting.pop()
            found.append(len(node.key))
            waiting.extend(node.children.values())
        return sorted(found)

    def match(self, tokens: Sequence[int]) -> Any:
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams

        return self.cache.match_prefix(MatchPrefixParams(key=_key(tokens)))


def _key(tokens: Sequence[int]) -> Any:
    from sglang.srt.mem_cache.radix_cache import RadixKey

    return RadixKey(array("q", tokens), None)
