"""The capacity arithmetic: what fits, what a link carries, replicas against ranks, experts; no engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes.capacity import break_even, plan
from inferproof.probes.core import find_probe
from inferproof.probes.expert_weights import weigh
from inferproof.probes.replicas import split_or_copy
from inferproof.probes.routed_prefixes import _chosen, _Replica


def test_what_the_weights_leave_is_divided_by_a_request() -> None:
    found = plan()

    assert found["kv_pool_on_each_gpu"].value == 60
    assert found["requests"].value == 60
    assert plan(shared_tokens=4096)["requests"].value == 119


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"weights": "140 GiB"}, "use more ranks"),
        ({"shared_tokens": 8192}, "shared_tokens is 8192"),
        ({"gpu": "80"}, "has no unit"),
        ({"gpu": "80 GB/s"}, "is a rate, not a size"),
        ({"ranks": 3}, "8 KV heads cannot be split"),
    ],
)
def test_a_plan_that_makes_no_sense_says_what_to_change(given: dict[str, str | int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan(**given)  # type: ignore[arg-type]


@given(st.integers(1, 100_000), st.floats(1, 1000), st.floats(100, 100_000))
def test_the_break_even_rate_does_not_depend_on_the_prompt(tokens: int, rate: float, prefill: float) -> None:
    one = break_even(tokens=tokens, rate=f"{rate} Gb/s", prefill_tokens_s=prefill)
    other = break_even(tokens=2 * tokens, rate=f"{rate} Gb/s", prefill_tokens_s=prefill)

    assert one["break_even_rate"].value == pytest.approx(other["break_even_rate"].value)
    assert (one["stall_over_transfer"].value > 1) == (rate > one["break_even_rate"].value)


def test_a_split_removes_more_than_it_adds_above_the_break_even_rate() -> None:
    assert break_even()["transfer_added"].value == pytest.approx(42.95, abs=0.01)
    assert break_even(tokens=256, rate="10 Gb/s")["stall_over_transfer"].value < 1


def test_replicas_hold_the_weights_again_and_one_engine_holds_more_requests() -> None:
    copies, one = split_or_copy(ranks=1), split_or_copy(ranks=8)

    assert (copies["weights_held"].value, one["weights_held"].value) == (120, 15)
    assert (copies["requests"].value, one["requests"].value) == (480, 585)
    assert copies["all_reduces_a_step"].value == 0 < one["all_reduces_a_step"].value
    with pytest.raises(ValueError, match="ranks must divide gpus"):
        split_or_copy(gpus=8, ranks=3)


def test_probes_of_level_arithmetic_observe_what_the_calculators_give() -> None:
    from inferproof.probes.core import Run

    run = Run(level="arithmetic", engine_name="none", version="")
    for name in ("capacity.gpu_plan", "capacity.pd_break_even", "replicas.of_ranks", "expert_weights.by_shape"):
        probe = find_probe(name, "none")
        assert set(probe.function(run, **probe.resolve({}))) == set(probe.observes)


def test_experts_weigh_all_and_the_busiest_rank_decides() -> None:
    found = weigh(layers=1, experts=4, top_k=1, ranks=2, rows=[40, 20, 10, 10])

    assert found["weights_over_used"].value == 4
    assert found["busiest_rank_over_mean"].value == 1.5
    assert found["share_of_time_waiting"].value == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="expected one of at least 0 for each of the 4 experts"):
        weigh(layers=1, experts=4, top_k=1, ranks=2, rows=[1, 2])


def _fleet(*served: int) -> list[_Replica]:
    fleet = [object.__new__(_Replica) for _ in served]
    for replica, count in zip(fleet, served, strict=True):
        replica.served = count
    return fleet


def test_a_balanced_router_leaves_the_home_replica_only_above_its_limit() -> None:
    assert _chosen("spread", 5, 0, _fleet(0, 0)) == 1
    assert _chosen("affinity", 5, 0, _fleet(9, 0)) == 0
    assert _chosen("balanced", 5, 0, _fleet(3, 3)) == 0
    assert _chosen("balanced", 5, 0, _fleet(9, 1)) == 1
