"""What can be said of the speculation and graph probes without an engine: arithmetic, chi-square, reading of source."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes import speculation_cost
from inferproof.probes.core import Run, Unavailable
from inferproof.probes.graph_replay import sglang_source_trace, vllm_source_trace
from inferproof.probes.null_executor import Fabricator
from inferproof.probes.rejection_sampling import chi_square
from inferproof.probes.syntax import assigned, functions, ordered_calls

HOST = Run(level="arithmetic", engine_name="none", version="")


def source(folder: Path, name: str, text: str) -> Run:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Run(level="source", engine_name="vllm", version="", source=folder)


def test_counts_in_exact_proportion_have_no_chi_square() -> None:
    assert chi_square(Counter({0: 20, 1: 50, 2: 30}), [0.2, 0.5, 0.3]) == pytest.approx(0)


def test_counts_of_the_draft_distribution_are_far_outside_the_targets_bound() -> None:
    assert chi_square(Counter({0: 600, 1: 300, 2: 100}), [0.2, 0.5, 0.3]) > 13.816


def test_the_published_times_give_the_published_speedup() -> None:
    worked_out = speculation_cost.round_cost(HOST, tokens=256, rounds=33, baseline_ms=504.47, speculative_ms=187.35)
    assert worked_out["speedup"] == pytest.approx(504.47 / 187.35)
    assert worked_out["break_even"] == pytest.approx(2.881, abs=0.001)


@given(st.floats(0.05, 0.95), st.floats(0.01, 2.0))
def test_the_best_width_is_never_worse_than_no_drafts(acceptance: float, token_cost: float) -> None:
    found = speculation_cost.draft_width(HOST, acceptance=acceptance, token_cost=token_cost)
    assert found["best_speedup"] == max(found["speedups"]) >= found["speedups"][0] == 1
    assert found["tokens_by_width"] == sorted(found["tokens_by_width"])


@given(st.floats(0.05, 0.9))
def test_drafts_never_pay_where_a_verified_token_costs_a_whole_step(acceptance: float) -> None:
    assert speculation_cost.draft_width(HOST, acceptance=acceptance, token_cost=1.0)["best_width"] == 0


def test_calls_and_assignments_come_in_the_order_of_the_lines() -> None:
    tree = ast.parse("def f():\n    a.second = 1\n    x.last()\n    if y:\n        first(), last()\n    a.second = 2\n")
    assert ordered_calls(tree, ("first", "last")) == ["last", "first", "last"]
    assert assigned(tree, "a.second") == ["1", "2"]


def test_a_file_or_class_that_a_build_lacks_is_unavailable(tmp_path: Path) -> None:
    run = source(tmp_path, "a.py", "class A: pass\n")
    with pytest.raises(Unavailable, match=r"no b\.py"):
        functions(run, Path("b.py"))
    with pytest.raises(Unavailable, match="no class B"):
        functions(run, Path("a.py"), "B")


def test_a_wrapper_that_compares_no_addresses_is_seen_to_compare_none(tmp_path: Path) -> None:
    text = """class CUDAGraphWrapper:
    def __call__(self, *args):
        if mode == NONE:
            return self.runnable(*args)
        entry.input_addresses = [x.data_ptr() for x in args]
        entry.cudagraph.replay()
"""
    seen = vllm_source_trace(source(tmp_path, "compilation/cuda_graph.py", text))
    assert seen == {
        "recorded_addresses": ["compilation/cuda_graph.py:5"],
        "compared_addresses": [],
        "replays": ["compilation/cuda_graph.py:6"],
        "plain_calls": ["mode == NONE"],
    }


def test_the_mode_under_speculation_is_read_from_the_branch_and_not_from_its_alternatives(tmp_path: Path) -> None:
    text = """class DecodeCudaGraphRunner:
    def __init__(self, m):
        self.capture_forward_mode = DECODE
        if m.is_speculative():
            self.capture_forward_mode = VERIFY
        elif m.other:
            self.capture_forward_mode = OTHER
"""
    path = "srt/model_executor/runner/decode_cuda_graph_runner.py"
    assert sglang_source_trace(source(tmp_path, path, text)) == {
        "decode_mode": "DECODE",
        "speculative_mode": "VERIFY",
        "speculative_condition": "m.is_speculative()",
    }


def test_the_null_executor_drafts_nothing_where_speculation_is_off() -> None:
    executor = Fabricator()
    executor.vllm_config = SimpleNamespace(speculative_config=None)
    assert executor.take_draft_token_ids() is None
