"""What the batching probes compute from plans and request records, without an engine."""

from __future__ import annotations

from typing import Any

import pytest

from inferproof.probes import batching
from inferproof.probes.core import Completion


def test_comings_and_goings_are_read_from_the_plans() -> None:
    seen = batching.comings_and_goings([[0, 1], [0, 1], [1, 2], [2]])
    assert seen["entered_at"] == [1, 1, 3]
    assert seen["left_at"] == [2, 3, 4]
    assert (seen["late_entries"], seen["entered_next_step"], seen["entered_beside_others"]) == (1, 1, 1)


def test_an_entry_into_an_empty_engine_is_not_beside_others() -> None:
    seen = batching.comings_and_goings([[0], [1]])
    assert (seen["entered_next_step"], seen["entered_beside_others"]) == (1, 0)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.99, 4), (0.01, 1), (1.0, 4)])
def test_a_percentile_is_one_of_the_values(share: float, expected: int) -> None:
    assert batching.percentile([4, 1, 3, 2], share) == expected


def test_a_record_measures_from_the_first_token_on() -> None:
    one = batching.record(Completion((1, 2, 3), 0, 0.1, (0.1, 0.12, 0.16)))
    assert one["ttft_ms"] == pytest.approx(100)
    assert one["tpot_ms"] == pytest.approx(30)
    assert one["gaps_ms"] == pytest.approx([20, 40])


def test_merged_events_still_count_every_token() -> None:
    one = batching.record(Completion((1, 2, 3, 4, 5), 0, 0.1, (0.1, 0.14)))
    assert one["tpot_ms"] == pytest.approx(10)


def _record(ttft_ms: float, tpot_ms: float) -> dict[str, Any]:
    return {"tokens": 10, "cached_tokens": 0, "ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "gaps_ms": [tpot_ms] * 9}


def test_goodput_counts_only_requests_that_meet_both_targets() -> None:
    records = {
        1: [[_record(10, 1), _record(10, 1)]],
        16: [[_record(25, 2), _record(35, 2), _record(25, 4), _record(9, 3)]],
    }
    seen = batching.service(records, {1: [2.0], 16: [1.0]}, slo_multiple=3.0)
    assert (seen["slo_ttft_ms"], seen["slo_tpot_ms"]) == (30, 3)
    assert seen["within_slo"] == [1.0, 0.5]
    assert seen["output_tok_s"] == [10.0, 40.0]
    assert seen["goodput_tok_s"] == [10.0, 20.0]
    assert seen["itl_p10_ms"] == [1, 2]
    assert seen["itl_p99_ms"] == [1, 4]


def test_the_median_pass_counts() -> None:
    records = {1: [[_record(10, 1)], [_record(500, 50)], [_record(12, 1)]]}
    seen = batching.service(records, {1: [1.0, 9.0, 1.0]}, slo_multiple=3.0)
    assert seen["ttft_ms"] == [12]
    assert seen["output_tok_s"] == [10.0]
