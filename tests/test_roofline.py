"""The roofline's arithmetic, against figures worked out by hand."""

from __future__ import annotations

import pytest

from inferproof.probes import chunk_sweep, roofline
from inferproof.probes.core import Run

HOST = Run(level="arithmetic", engine_name="none", version="")


def test_a_lone_decode_computes_about_one_operation_a_byte_in_bf16() -> None:
    found = roofline.step(HOST, context=0)
    assert found["weight_bytes"] == 2 * 7_504_658_432  # Llama-3-8B without its input embedding
    assert found["flops"] == pytest.approx(2 * 7_504_658_432, rel=0.001)
    assert found["flops_per_byte"] == pytest.approx(1, rel=0.001)


def test_kv_of_a_token_is_128_kib_for_32_layers_of_8_heads() -> None:
    one, other = (roofline.step(HOST, context=context)["kv_bytes"] for context in (1024, 1025))
    assert other - one == 128 * 1024


def test_prompt_pairs_grow_with_the_triangle() -> None:
    sizes = {"layers": 1, "hidden": 0, "intermediate": 0, "heads": 1, "kv_heads": 1, "head_dim": 1, "vocabulary": 1}
    assert roofline.step(HOST, new_tokens=4, context=2, **sizes)["flops"] == 4 * (3 + 4 + 5 + 6)


def test_the_batch_at_the_ridge_is_the_first_that_is_not_memory_bound() -> None:
    batch = roofline.step(HOST, context=128)["batch_at_ridge"]
    assert not roofline.step(HOST, context=128, batch=batch)["memory_bound"]
    assert roofline.step(HOST, context=128, batch=batch - 1)["memory_bound"]


def test_where_kv_costs_more_than_it_feeds_no_batch_reaches_the_ridge() -> None:
    assert roofline.step(HOST, context=32768)["batch_at_ridge"] == 0
    assert roofline.step(HOST, context=32768, batch=100_000)["memory_bound"]


def test_each_chunk_reads_again_what_was_computed_before_it() -> None:
    assert chunk_sweep.reread([7168]) == 0
    assert chunk_sweep.reread([100, 100, 50]) == 100 + 200
