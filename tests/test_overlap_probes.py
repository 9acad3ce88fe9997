"""What can be said of the overlap and chunked-prefill probes without an engine: how they read logs and sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes import chunked_prefill, engine_source, kv_invariants, overlap, scheduler_trace, stream_events
from inferproof.probes.core import Completion, Run, Unavailable

LOG = """\
[2026-11-29 14:00:01] Decode batch, #running-req: 1, #token: 85, token usage: 0.01, gen throughput (token/s): 90.1
[2026-11-29 14:00:01] Prefill batch, #new-seq: 1, #new-token: 511, #cached-token: 0, token usage: 0.01
[2026-11-29 14:00:01] Prefill batch, #new-seq: 1, #new-token: 14, #cached-token: 0, token usage: 0.04
scheduler-trace {"do": "plan", "batch": 1, "mode": "EXTEND", "requests": [], "idle_slots": 7}
some other line
scheduler-trace {"do": "run", "batch": 1, "mode": "EXTEND", "requests": [], "idle_slots": 7}
"""

SOURCE = '''\
class Loop:
    limit: int = 3

    def step(self):
        """Not a statement that counts twice."""
        while self.left and (
            self.budget > 0
        ):
            self.wait()  # why
            self.take(1)
'''


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "loop.py").write_text(SOURCE)
    return Run(level="source", engine_name="vllm", version="1", source=tmp_path)


def test_batches_are_read_from_the_log_in_order() -> None:
    assert chunked_prefill.batches(LOG) == [("decode", 0), ("prefill", 511), ("prefill", 14)]


def test_the_trace_is_found_between_other_lines() -> None:
    assert [(call["do"], call["batch"]) for call in scheduler_trace.read(LOG)] == [("plan", 1), ("run", 1)]


def test_batches_are_numbered_from_the_first_in_the_log() -> None:
    log = LOG.replace('"batch": 1', '"batch": 41') + 'scheduler-trace {"do": "abort", "batch": 0, "requests": []}'

    assert [(call["do"], call["batch"]) for call in scheduler_trace.read(log)] == [
        ("plan", 1),
        ("run", 1),
        ("abort", 0),
    ]


def test_a_synchronous_order_plans_nothing_ahead() -> None:
    assert overlap.plans_ahead(["plan 1", "execute 1", "commit 1", "plan 2", "execute 2", "commit 2"]) == 0


def test_an_overlapping_order_plans_one_ahead() -> None:
    assert overlap.plans_ahead(["plan 1", "execute 1", "plan 2", "execute 2", "commit 1", "commit 2"]) == 1


@given(st.integers(1, 30), st.integers(0, 5))
def test_plans_ahead_is_the_depth_of_the_pipeline(steps: int, depth: int) -> None:
    order = []
    for step in range(1, steps + 1):
        order += [f"plan {step}", f"execute {step}"]
        order += [f"commit {step - depth}"] if step > depth else []

    assert overlap.plans_ahead(order) == min(depth, steps - 1)


def test_the_largest_gap_is_looked_for_until_the_long_prompt_had_its_first_token() -> None:
    times = (1.0, 1.1, 1.2, 1.3, 2.3, 2.4, 9.0)  # the long prompt comes at 1.3; what happens after 2.3 is not its doing
    stream = Completion(tokens=(1,) * 7, cached_tokens=0, ttft_s=1.0, event_times_s=times)
    long = Completion(tokens=(1,), cached_tokens=0, ttft_s=1.0)

    found = stream_events.gaps(stream, long, after_tokens=4)

    assert found == pytest.approx({"base_gap_ms": 100.0, "gap_ms": 1000.0, "prefill_ms": 1000.0})


def test_events_that_carry_several_tokens_are_counted_by_their_tokens() -> None:
    times = (1.0, 1.1, 1.2, 2.2)
    counts = {"token_counts": [1, 2, 4, 5]}
    stream = Completion(tokens=(1,) * 5, cached_tokens=0, ttft_s=1.0, event_times_s=times, meta=counts)

    found = stream_events.gaps(stream, Completion((1,), 0, ttft_s=1.0), after_tokens=3)

    assert found["gap_ms"] == pytest.approx(1000.0)


def test_a_random_load_depends_on_its_seed_alone() -> None:
    assert kv_invariants.random_load(6, seed=1) == kv_invariants.random_load(6, seed=1)
    assert kv_invariants.random_load(6, seed=1) != kv_invariants.random_load(6, seed=2)


def test_statements_come_without_comments_and_formatting(run: Run) -> None:
    found = engine_source.statements(run, "loop.py", "Loop.step")

    assert engine_source.lines_with(found, "while ", "self.left") == [
        "loop.py:6 while self.left and self.budget > 0:",
    ]


def test_statements_are_compared_by_their_place(run: Run) -> None:
    found = engine_source.statements(run, "loop.py", "Loop.step")

    assert engine_source.in_order(found, "self.wait()", "self.take(1)")
    assert not engine_source.in_order(found, "self.take(1)", "self.wait()")
    assert not engine_source.in_order(found, "self.wait()", "self.give(1)")


@pytest.mark.parametrize(("file", "function"), [("gone.py", "Loop.step"), ("loop.py", "Loop.stop"), ("loop.py", "Lop")])
def test_what_a_build_does_not_have_is_unavailable(run: Run, file: str, function: str) -> None:
    with pytest.raises(Unavailable):
        engine_source.statements(run, file, function)
