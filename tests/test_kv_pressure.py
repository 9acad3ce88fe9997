"""What is read off a metric that was polled."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes.kv_pressure import _changes, _Poll


@pytest.mark.parametrize(("values", "seen"), [([], []), ([0], [0]), ([0, 0, 1, 1, 1, 0, 0], [0, 1, 0]), ([2, 2], [2])])
def test_a_value_counts_once_until_it_changes(values: list[int], seen: list[int]) -> None:
    assert _changes(values) == seen


@given(st.lists(st.integers(0, 3)))
def test_neighbours_always_differ(values: list[int]) -> None:
    seen = _changes(values)
    assert all(one != other for one, other in pairwise(seen))
    assert set(seen) == set(values)


class _Engine:
    def metrics(self) -> dict[str, float]:
        return {"num_retracted_reqs": 1.0}


def test_a_poll_reads_at_least_once_and_takes_an_absent_counter_for_zero() -> None:
    with _Poll(_Engine()) as poll:
        pass
    assert set(poll.gauge) == {1}
    assert set(poll.counter) == {0}
    assert len(poll.gauge) == len(poll.counter) >= 1
