"""One beam search in two engines: do the beams fork, or are they requests of their own?

Question
    Is a beam a request that the caller makes again in every round, or does the engine keep all beams of one request
    and let them share KV by forking the mapping from positions to slots?
Watched
    `one_search` sends the same search to both engines and counts, in each, requests, prefilled tokens, how many
    requests run at once and how much KV is held. vLLM: the plans that its scheduler returns, and its pool just after
    each. SGLang: its counter of requests, and its log, one line for each batch.
    `kv_mapping` runs SGLang's own fork primitives on its own row table, slot allocator and KV pool.
    `source_trace` reads SGLang's files as syntax trees.
Can mislead
    Both engines share the prompt's KV; only the means differ, so KV held does not tell them apart, requests do. vLLM
    counts whole blocks of 16, SGLang single tokens. In `kv_mapping` the beams' parents are given, not searched for.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `vllm/entrypoints/generate/beam_search/`.
    SGLang 0.5.23: `srt/beam_search/{coordinator,fork,batch_tail}.py`; the folder is in the wheels from 0.5.19 on.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Run, Unavailable, probe, random_tokens

NATIVE = "srt/beam_search"
NO_NATIVE = "this SGLang has no beam search; it came with 0.5.19"

_SEARCH = {
    "requests": "requests that reached the scheduler for the search",
    "beams": "sequences returned",
    "max_running": "most requests in one batch",
    "forked_beams": "beams that had no request of their own: beams less `max_running`",
    "prefilled_tokens": "prompt tokens that were run, hits left out",
    "kv_tokens_peak": "most tokens of KV memory held at once (vLLM: whole blocks)",
    "kv_tokens_unshared": "what the beams would hold at the end with nothing shared: width x (prompt + generated - 1)",
}


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes=_SEARCH,
    config=lambda _: vllm_engine.roomy(16),
    covers=(
        "vllm.entrypoints.generate.beam_search.offline:BeamSearchOfflineMixin.beam_search",
        "vllm.entrypoints.generate.beam_search.offline:BeamSearchOfflineMixin._beam_search_step",
        "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots",
    ),
)
def vllm_one_search(run: Run, *, beam_width: int = 4, max_tokens: int = 8, prompt_tokens: int = 64) -> Observations:
    """Run one search through `LLM.beam_search` and count what its scheduler was given."""
    from vllm.sampling_params import BeamSearchParams

    run.modifications.append(vllm_engine.WATCHED)
    run.engine.flush()
    with _Plans(run.engine) as plans:
        params = BeamSearchParams(beam_width=beam_width, max_tokens=max_tokens, ignore_eos=True)
        [found] = run.engine.llm.beam_search([{"prompt_token_ids": random_tokens(prompt_tokens, seed=3)}], params)
    generated = len(found.sequences[0].tokens) - prompt_tokens
    if generated != max_tokens:
        raise Inconclusive(f"the search ended after {generated} of {max_tokens} tokens")
    return {
        "requests": len(plans.requests),
        "beams": len(found.sequences),
        "max_running": plans.max_running,
        "forked_beams": len(found.sequences) - plans.max_running,
        "prefilled_tokens": plans.prefilled,
        "kv_tokens_peak": plans.blocks_peak * 16,
        "kv_tokens_unshared": beam_width * (prompt_tokens + max_tokens - 1),
    }


class _Plans(vllm_engine.Plans):
    """Plans added up, with the pool as each one left it."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine.scheduler)
        self.pool = engine.block_pool
        self.requests: set[str] = set()
        self.max_running = self.prefilled = self.blocks_peak = 0

    def __enter__(self) -> _Plans:
        super().__enter__()
        recorded, free = self.scheduler.schedule, self.pool.get_num_free_blocks()

        def add_up(*args: Any, **kwargs: Any) -> Any:
            plan = recorded(*args, **kwargs)
            self.requests |= {new.req_id for new in plan.scheduled_new_reqs}
            self.max_running = max(self.max_running, len(plan.num_scheduled_tokens))
            self.prefilled += sum(plan.num_scheduled_tokens[new.req_id] for new in plan.scheduled_new_reqs)
            self.blocks_peak = max(self.blocks_peak, free - self.pool.get_num_free_blocks())
            return plan

        self.scheduler.schedule = add_up
        return self


@probe(
    engine="sglang",
    levels=("engine",),
    observes=_SEARCH,
    config=lambda _: {"page_size": 1},
    covers=(
        "sglang.srt.beam_search.coordinator:BeamCoordinator",
        "sglang.srt.beam_search.batch_tail:append_beam_tail",
        "sglang.srt.beam_search.fork:alias_members_prompt_kv",
        "sglang.srt.beam_search.fork:remap_kv_mapping",
    ),
)
def sglang_one_search(run: Run, *, beam_width: int = 4, max_tokens: int = 8, prompt_tokens: int = 64) -> Observations:
    """Send one request with `beam_width` and read in counters and log what the scheduler made of it."""
    from sglang.srt.managers.io_struct import GenerateReqInput

    if run.source is None or not (run.source / NATIVE).is_dir():
        raise Unavailable(NO_NATIVE)
    run.engine.flush()
    before, offset = run.engine.counters(), run.log_offset()
    sampling = {"beam_width": beam_width, "n": beam_width, "max_new_tokens": max_tokens, "ignore_eos": True}
    prompt = random_tokens(prompt_tokens, seed=3)
    [answer] = run.engine.answer(GenerateReqInput(input_ids=[prompt], sampling_params=[{**sampling, "temperature": 0}]))
    after = run.engine.counters()
    log = run.log_since(offset)
    beams = answer["meta_info"]["beam_results"]
    if {len(beam["output_ids"]) for beam in beams} != {max_tokens}:
        raise Inconclusive(f"the search ended before {max_tokens} tokens")
    decodes = [(int(running), int(held)) for running, held in _DECODE.findall(log)]
    run.samples["kv_tokens_by_step"] = [held for _, held in decodes]
    max_running = max(running for running, _ in decodes)
    return {
        "requests": int(after["num_requests_total"] - before.get("num_requests_total", 0)),
        "beams": len(beams),
        "max_running": max_running,
        "forked_beams": len(beams) - max_running,
        "prefilled_tokens": sum(map(int, _PREFILL.findall(log))),
        "kv_tokens_peak": max(held for _, held in decodes),
        "kv_tokens_unshared": beam_width * (prompt_tokens + max_tokens - 1),
    }


_PREFILL = re.compile(r"Prefill batch, .*?#new-token: (\d+)")
_DECODE = re.compile(r"Decode batch, #running-req: (\d+), #token: (\d+)")


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "rows_per_prompt_slot": "rows of the table that name each prompt slot after the fork, distinct values",
        "slots_for_fork": "KV slots that the fork took",
        "rows_for_fork": "rows of the table that the fork took",
        "slots_for_step": "KV slots that the next decode step takes",
        "slots_for_reparent": "KV slots that reparenting took",
        "shared_slots": "slots of generated tokens that two beams name after reparenting",
        "orphans": "slots that no beam names any more after reparenting",
        "kv_data_changed": "whether fork and reparenting changed any key or value in the KV pool",
        "slots_left": "slots still held after the group ended, the prompt's own left out",
        "freed_once": "whether each slot of the group was given back exactly once",
    },
    covers=(
        "sglang.srt.beam_search.fork:alias_members_prompt_kv",
        "sglang.srt.beam_search.fork:remap_kv_mapping",
        "sglang.srt.beam_search.fork:collect_orphan_slots",
        "sglang.srt.beam_search.fork:free_member_rows",
    ),
)
def sglang_kv_mapping(run: Run, *, beam_width: int = 4, prompt_tokens: int = 64) -> Observations:
    """Fork a prompt's row into beams, let each take a step, reparent the second beam to the first, end the group."""
    if run.source is None or not (run.source / NATIVE).is_dir():
        raise Unavailable(NO_NATIVE)
    sglang_engine.prepare()
    run.modifications.append("SGLang's fork primitives run on its own pools alone; who wins a step is given.")
    import torch
    from sglang.srt.beam_search import fork

    pools = _Pools(beam_width, prompt_tokens)
    data, free, rows_free = pools.data(), pools.free_slots(), pools.rows.available_size()
    members = pools.rows.alloc_rows(beam_width - 1)
    table, end = pools.rows.req_to_token, prompt_tokens + 1
    fork.alias_members_prompt_kv(table, torch.tensor(members), pools.leader, prompt_tokens)
    all_rows = torch.tensor([pools.leader, *members])
    named = table[all_rows, :prompt_tokens].flatten().unique(return_counts=True)[1]
    seen: Observations = {"rows_per_prompt_slot": named.unique().tolist(), "slots_for_fork": free - pools.free_slots()}
    seen["rows_for_fork"] = rows_free - pools.rows.available_size()
    step = pools.slots.alloc(beam_width)
    table[all_rows, prompt_tokens] = step.to(torch.int32)
    seen["slots_for_step"] = free - pools.free_slots()
    parents = torch.tensor([0, 0, *range(2, beam_width)])  # the second beam goes on from the first's history
    old, new = fork.remap_kv_mapping(table, all_rows, parents, prompt_tokens, end)
    seen["slots_for_reparent"] = free - pools.free_slots() - seen["slots_for_step"]
    orphans = fork.collect_orphan_slots(old, new)
    pools.slots.free(orphans)
    seen["orphans"] = len(orphans)
    seen["shared_slots"] = int((table[all_rows, prompt_tokens].unique(return_counts=True)[1] > 1).sum())
    seen["kv_data_changed"] = not all(map(torch.equal, data, pools.data()))
    fork.free_member_rows(pools.group(all_rows, members, prompt_tokens, end), pools.rows, pools.slots)
    returned = pools.slots.free_pages
    return {**seen, "slots_left": free - pools.free_slots(), "freed_once": len(returned.unique()) == len(returned)}


class _Pools:
    """SGLang's row table, slot allocator and a small KV pool; one row, the leader's, holds a prompt."""

    def __init__(self, beam_width: int, prompt_tokens: int) -> None:
        import torch
        from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool

        size = 4 * (prompt_tokens + beam_width)
        self.kv: Any = MHATokenToKVPool(
            size=size, page_size=1, dtype=torch.float32, head_num=1, head_dim=8, layer_num=1, device="cpu",
            enable_memory_saver=False,
        )  # fmt: skip
        self.slots: Any = TokenToKVPoolAllocator(size, torch.float32, "cpu", self.kv, need_sort=False)
        self.rows: Any = ReqToTokenPool(2 * beam_width, size, "cpu", enable_memory_saver=False)
        [self.leader] = self.rows.alloc_rows(1)
        for buffer in (*self.kv.k_buffer, *self.kv.v_buffer):
            buffer.normal_()
        self.rows.req_to_token[self.leader, :prompt_tokens] = self.slots.alloc(prompt_tokens).to(torch.int32)

    def free_slots(self) -> int:
        return int(self.slots.available_size())

    def data(self) -> list[Any]:
        return [buffer.clone() for buffer in (*self.kv.k_buffer, *self.kv.v_buffer)]

    def group(self, all_rows: Any, members: list[int], start: int, end: int) -> Any:
        """What `free_member_rows` reads of a beam group."""
        import torch

        leader = SimpleNamespace(kv=SimpleNamespace(kv_allocated_len=end, kv_committed_len=end))
        rows = torch.tensor(members)
        return SimpleNamespace(
            leader=leader, prompt_len=start, all_rows=all_rows, member_rows=rows, member_rows_cpu=rows
        )


@probe(
    engine="sglang",
    levels=("source",),
    observes={
        "files": "files of the native beam search, relative to the package; none where there is none",
        "mentions": "files of srt/ that speak of beam_width or beam_search",
        "row_writes": "`file:line function` that writes the table from rows and positions to KV slots",
        "kv_data_calls": "`file:line name` of calls in these files that would read, write or move keys and values",
        "refusals": "messages with which a beam request is refused",
    },
    covers=("sglang.srt.beam_search.coordinator:BeamCoordinator.validate_and_init",),
)
def sglang_source_trace(run: Run) -> Observations:
    """Read in SGLang's own files whether it has a beam search, and what that does to the KV table."""
    if run.source is None:
        raise Unavailable("this build has no package folder")
    files = sorted((run.source / NATIVE).glob("*.py"))
    trees = {path.relative_to(run.source).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}
    return {
        "files": list(trees),
        "mentions": _mentions(run.source),
        "row_writes": [found for name, tree in trees.items() for found in _row_writes(name, tree)],
        "kv_data_calls": [found for name, tree in trees.items() for found in _kv_data_calls(name, tree)],
        "refusals": [found for tree in trees.values() for found in _refusals(tree)],
    }


def _mentions(package: Path) -> list[str]:
    files = sorted((package / "srt").rglob("*.py"))
    return [f.relative_to(package).as_posix() for f in files if _BEAM.search(f.read_text(encoding="utf-8"))]


_BEAM = re.compile(r"beam_(width|search)", re.IGNORECASE)


def _row_writes(name: str, tree: ast.Module) -> list[str]:
    return [
        f"{name}:{node.lineno} {function.name}"
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Subscript)
        and ast.unparse(node.targets[0].value).endswith("req_to_token")
    ]


def _kv_data_calls(name: str, tree: ast.Module) -> list[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = ((call.lineno, ast.unparse(call.func)) for call in calls)
    return [f"{name}:{line} {function}" for line, function in named if _KV_DATA.search(function)]


_KV_DATA = re.compile(r"kv_buffer|k_buffer|v_buffer|key_buffer|value_buffer|move_kv|copy_kv|load_cpu|get_cpu_copy")


def _refusals(tree: ast.Module) -> list[str]:
    return [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
