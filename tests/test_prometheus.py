"""A server's metrics as differences between two readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes.prometheus import CounterReset, difference, labels_of, mean_ms, read_metrics

PAGE = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="a {b} \\"c\\""} 12.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 30.0
vllm:prompt_tokens_created{engine="0"} 1.7e+09
vllm:time_to_first_token_seconds_bucket{le="0.5"} 3.0
vllm:time_to_first_token_seconds_sum{engine="0"} 1.5
vllm:time_to_first_token_seconds_count{engine="0"} 3.0
vllm:cache_config_info{block_size="16",num_gpu_blocks="256"} 1.0
sglang:num_retracted_reqs{} 0.0
python_info 1.0 1700000000
sglang:nan NaN
not a sample at all
"""


def test_a_page_is_read_summed_over_labels() -> None:
    assert read_metrics(PAGE) == {
        "prompt_tokens_total": 42.0, "time_to_first_token_seconds_sum": 1.5, "time_to_first_token_seconds_count": 3.0,
        "cache_config_info": 1.0, "num_retracted_reqs": 0.0, "python_info": 1.0,
    }  # fmt: skip
    assert labels_of(PAGE, "vllm:cache_config_info") == {"block_size": "16", "num_gpu_blocks": "256"}
    assert labels_of(PAGE, "vllm:nothing") == {}


def test_a_counter_that_was_not_there_began_at_0_and_a_gauge_has_no_difference() -> None:
    grown = difference({"a_total": 2.0, "gauge": 9.0}, {"a_total": 5.0, "new_total": 1.0, "gauge": 3.0})

    assert grown == {"a_total": 3.0, "new_total": 1.0}


def test_a_counter_that_fell_is_a_server_that_was_started_anew() -> None:
    with pytest.raises(CounterReset, match="a_total fell from 5 to 2"):
        difference({"a_total": 5.0}, {"a_total": 2.0})


@given(st.lists(st.floats(0.001, 10), min_size=1), st.floats(0, 100), st.integers(0, 100))
def test_a_mean_stands_on_what_came_between_the_readings_only(seen: list[float], before: float, count: int) -> None:
    earlier = {"x_sum": before, "x_count": float(count)}
    later = {"x_sum": before + sum(seen), "x_count": float(count + len(seen))}

    assert mean_ms(difference(earlier, later), "x") == pytest.approx(1000 * sum(seen) / len(seen), rel=1e-6)
    assert mean_ms(difference(later, later), "x") is None
