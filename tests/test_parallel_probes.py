"""The arithmetic and the readers of the probes on several ranks; no engine."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes import expert_load, kv_transfer, model, tensor_parallel
from inferproof.probes.core import Run
from inferproof.probes.sharded_layers import all_reduces, made_layers


def test_each_rank_is_loaded_by_its_own_slots_and_replicas_share() -> None:
    rows = [40, 20, 10, 10]

    assert expert_load.rank_loads(rows, [0, 1, 2, 3], 2) == [60, 20]
    assert expert_load.rank_loads(rows, [0, 1, 2, 0, 3, 3], 2) == [50, 30]


@given(st.lists(st.integers(1, 1000), min_size=8, max_size=8), st.integers(0, 7))
def test_replicating_an_expert_loses_no_rows(rows: list[int], expert: int) -> None:
    placed = [*range(8), expert, (expert + 1) % 8]

    assert sum(expert_load.rank_loads(rows, placed, 2)) == pytest.approx(sum(rows))


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=16))
def test_imbalance_is_at_least_one_and_at_most_the_number_of_ranks(loads: list[float]) -> None:
    assert 1 - 1e-9 <= expert_load.imbalance(loads) <= len(loads) + 1e-9


def test_a_gib_takes_eight_times_as_long_in_bits_as_in_bytes() -> None:
    sizes = kv_transfer.sizes(bytes_per_token=131072, prompt_tokens=8192, link_gbit_s=100)

    assert sizes["prompt_gib"] == 1
    assert sizes["transfer_ms"] == pytest.approx(85.899, abs=0.001)
    assert sizes["transfer_ms"] == pytest.approx(8 * sizes["transfer_ms_if_bytes"])


def test_messages_do_not_shrink_with_ranks_but_what_a_rank_sends_grows_to_twice_them() -> None:
    run = Run(level="arithmetic", engine_name="none", version="0")
    two, eight = (tensor_parallel.none_collective_bytes(run, tokens=64, ranks=ranks) for ranks in (2, 8))

    assert two["message_bytes"] == eight["message_bytes"] == 64 * 1024 * 2
    assert two["wire_bytes_per_rank"] == two["pass_bytes"]
    assert eight["wire_bytes_per_rank"] == 1.75 * eight["pass_bytes"]


def test_the_weights_file_holds_every_parameter_of_the_model() -> None:
    shapes = model._shapes(model.config("tiny"))

    assert tensor_parallel._count(shapes.values()) == 344512
    assert shapes["model.layers.1.mlp.down_proj.weight"] == (64, 128)


SOURCE = """
class Attention(Module):
    def __init__(self):
        self.heads = 4
        self.qkv = QKVParallelLinear(64, bias=False)
        self.o_proj = RowParallelLinear(64, 64, reduce_results=False)

class RowParallelLinear(Module):
    def forward(self, x):
        if self.reduce_results and not should_skip_all_reduce():
            return tensor_model_parallel_all_reduce(x)
        return get_group().all_reduce(x)
"""


def test_layers_and_all_reduces_are_read_from_a_class() -> None:
    attention, row = (node for node in ast.parse(SOURCE).body if isinstance(node, ast.ClassDef))

    assert made_layers(attention) == [
        ("Attention.qkv", "QKVParallelLinear", {"bias": "False"}),
        ("Attention.o_proj", "RowParallelLinear", {"reduce_results": "False"}),
    ]
    assert all_reduces(row) == ["forward: tensor_model_parallel_all_reduce", "forward: get_group().all_reduce"]
    assert all_reduces(None) == []
