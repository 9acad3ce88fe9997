"""The benchmark's measures, against cases worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.metrics import (
    AWARDS,
    accuracy,
    bias,
    macro_f1,
    mean_absolute_error,
    share,
    weighted_kappa,
)

PAIRS = st.lists(st.tuples(st.sampled_from(AWARDS), st.sampled_from(AWARDS)), min_size=1, max_size=40)
TOTALS = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=40)


def test_accuracy_is_the_share_that_is_equal() -> None:
    assert accuracy([0, 0.5, 1, 1], [0, 1, 1, 1]) == 0.75


def test_macro_f1_weighs_every_award_alike() -> None:
    # award 0: 2*1/(1+2); half: 0/(1+0); full: 2*1/(1+1)
    assert macro_f1([0, 0.5, 1], [0, 0, 1]) == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_macro_f1_leaves_out_an_award_that_neither_side_uses() -> None:
    assert macro_f1([0, 0], [0, 0]) == 1


def test_kappa_as_worked_out_by_hand() -> None:
    # observed: (0 + 0 + 1) / 3; by chance: all nine pairs of {1, 2, 3} and {1, 2, 2} -> (0+1+1 + 1+0+0 + 4+1+1) / 9
    assert weighted_kappa([1, 2, 3], [1, 2, 2]) == pytest.approx(1 - (1 / 3) / 1)


def test_kappa_is_one_of_agreement_and_nothing_where_nothing_can_differ() -> None:
    assert weighted_kappa([1, 2], [1, 2]) == 1
    assert weighted_kappa([1, 1], [1, 1]) is None


def test_a_guess_that_never_varies_has_no_agreement_beyond_chance() -> None:
    assert weighted_kappa([5, 5, 5], [0, 5, 10]) == pytest.approx(0)


def test_error_and_bias() -> None:
    assert mean_absolute_error([1, 5], [2, 3]) == 1.5
    assert bias([1, 5], [2, 3]) == 0.5


def test_nothing_has_no_measure() -> None:
    for measure in (accuracy, macro_f1, weighted_kappa, mean_absolute_error, bias):
        assert measure([], []) is None
    assert share(0, 0) is None


@given(PAIRS)
def test_accuracy_and_f1_stay_between_0_and_1(pairs: list[tuple[float, float]]) -> None:
    some, other = [a for a, _ in pairs], [b for _, b in pairs]
    for measure in (accuracy, macro_f1):
        value = measure(some, other)
        assert value is not None and 0 <= value <= 1
        assert measure(other, other) == 1


@given(TOTALS)
def test_kappa_is_at_most_1_and_the_same_both_ways(pairs: list[tuple[float, float]]) -> None:
    some, other = [a for a, _ in pairs], [b for _, b in pairs]
    value = weighted_kappa(some, other)
    assert value is None or value <= 1 + 1e-9
    assert weighted_kappa(other, some) == (None if value is None else pytest.approx(value))
