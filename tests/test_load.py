"""Load and figures: queueing that counts, prompts that no cache can know, percentiles with their counts."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes import load
from inferproof.probes.dialects import Ask, Reply
from inferproof.probes.load import Prompts

ASKS = [Ask([1], 2)] * 6


class Slow:
    """A server that takes so long for each request, one token at half of it and one at its end."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.most = seconds, 0, 0

    async def __call__(self, ask: Ask) -> Reply:
        self.now += 1
        self.most = max(self.most, self.now)
        sent = time.perf_counter()
        await asyncio.sleep(self.seconds)
        self.now -= 1
        return Reply(sent, (self.seconds / 2, self.seconds), (1, 2), 1, 0)


def test_an_open_loop_counts_what_a_request_waited_in_the_client() -> None:
    server = Slow(0.05)
    replies = asyncio.run(load.open_loop(server, ASKS, [0.0] * 6, places=1))

    waited = [reply.client_queue_s for reply in replies]
    assert server.most == 1
    assert waited == sorted(waited) and waited[-1] >= 5 * 0.05
    assert all(r.e2e_s >= r.times_s[-1] + w for r, w in zip(replies, waited, strict=True))
    told = load.figures(replies)
    assert told["e2e_ms"]["max"] >= 6 * 50  # from the time at which it was due
    assert told["ttft_ms"]["count"] == 6


def test_an_open_loop_keeps_to_its_times_however_slow_the_server() -> None:
    server = Slow(0.2)
    replies = asyncio.run(load.open_loop(server, ASKS, [i * 0.01 for i in range(6)]))

    assert server.most == 6
    assert all(reply.client_queue_s < 0.1 for reply in replies)


def test_a_closed_loop_has_no_queue_and_never_more_than_its_places() -> None:
    server = Slow(0.01)
    replies = asyncio.run(load.closed_loop(server, ASKS, 2))

    assert server.most == 2
    assert {reply.client_queue_s for reply in replies} == {0.0}
    assert load.figures(replies)["throughput"] <= 12 / (3 * 0.01)


def test_most_under_way_counts_requests_between_first_and_last_token() -> None:
    def reply(sent: float, *times: float) -> Reply:
        return Reply(sent, times, tuple(range(1, len(times) + 1)), 1, 0)

    assert load.most_under_way([reply(0, 1, 3), reply(0, 2, 4), reply(0, 4.5, 5)]) == 2


def test_a_full_batch_is_counted_from_the_last_first_token_to_the_first_last_one() -> None:
    early = Reply(0.0, (1.0, 2.0, 3.0), (1, 2, 3), 1, 0)
    late = Reply(0.0, (1.5, 2.5, 9.0), (1, 3, 5), 1, 0)

    assert load.full_batch_throughput([early, late]) == (1 + 2 + 1) / 1.5
    assert load.full_batch_throughput([early, Reply(0.0, (4.0, 5.0), (1, 2), 1, 0)]) is None


@given(st.integers(0, 50), st.floats(0.1, 1000))
def test_poisson_arrivals_rise_and_come_again_with_their_seed(count: int, rate: float) -> None:
    times = load.poisson(count, rate, 5)

    assert times == sorted(times) and len(times) == count
    assert times == load.poisson(count, rate, 5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_a_percentile_lies_among_its_values(values: list[float], share: float) -> None:
    assert min(values) <= load.percentile(values, share) <= max(values)


def test_percentiles_interpolate_as_numpy_does_and_say_their_count() -> None:
    assert load.percentile([4, 1, 3, 2], 0.5) == 2.5
    assert load.percentile(range(101), 0.99) == 99
    assert load.summary_ms([0.001, 0.003]) == {
        "count": 2, "mean": 2.0, "p50": 2.0, "p99": pytest.approx(2.98), "max": 3.0,
    }  # fmt: skip
    assert load.summary_ms([]) == {"count": 0}
    with pytest.raises(ValueError, match="needs values"):
        load.percentile([], 0.5)


def test_prompts_are_cold_in_every_run_and_come_again_with_their_salt() -> None:
    first, second = Prompts(), Prompts()
    made = [p.cold(64) for p in (first, first, second)]

    assert first.salt != second.salt
    assert len({tuple(prompt[:16]) for prompt in made}) == 3
    assert [Prompts(first.salt).cold(64), len(made[0])] == [made[0], 64]
    assert min(map(min, made)) >= 16
