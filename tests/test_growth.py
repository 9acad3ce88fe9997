"""The fits behind "it grows with the square": recovered from points that are known to grow so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes import growth
from inferproof.probes.prefill_time import LENGTHS, observed

coefficient = st.floats(0.001, 1000)


@given(st.floats(-2, 3), coefficient)
def test_a_power_law_gives_its_exponent(power: float, factor: float) -> None:
    assert growth.exponent([1, 2, 4, 8], [factor * n**power for n in (1, 2, 4, 8)]) == pytest.approx(power, abs=1e-6)


@given(coefficient, coefficient, coefficient)
def test_the_parts_of_an_exact_parabola_are_found(fixed: float, linear: float, quadratic: float) -> None:
    times = [fixed + linear * n + quadratic * n * n for n in (1, 2, 4, 8, 16)]
    found = growth.parts((1, 2, 4, 8, 16), times)
    fitted = [found[0] + found[1] * n + found[2] * n * n for n in (1, 2, 4, 8, 16)]
    assert fitted == pytest.approx(times, rel=1e-4)


@given(st.lists(st.floats(0.1, 100), min_size=5, max_size=5))
def test_no_part_is_ever_negative(times: list[float]) -> None:
    assert min(growth.parts(LENGTHS, times)) >= 0


def test_a_straight_line_has_no_quadratic_part() -> None:
    assert growth.parts((1, 2, 3), (2, 4, 6)) == pytest.approx((0, 2, 0), abs=1e-9)


def test_a_prefill_with_fixed_cost_grows_by_less_than_its_pairs() -> None:
    seen = observed(LENGTHS, [10 + 0.01 * n + 1e-5 * n * n for n in LENGTHS])
    assert seen["time_ratio"] < 20
    assert seen["quadratic_share"][0] < 0.1 < 0.7 < seen["quadratic_share"][-1]
    assert seen["exponent_short"] < seen["exponent_long"]
    assert seen["fit_error"] < 1e-6
