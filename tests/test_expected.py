"""Which number is expected where one stands, and what a number is, held against those that the card gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.expected import OTHER, Expected, blanks
from inferproof.grading.features import Facts, kind_of
from inferproof.grading.reading import Reading, readings

EXPECTED = Expected(
    ("16", "2064", OTHER),
    (-100, -100, -100),
    {"block": (0, 900, 1, -900), "hits": (0, -900, 1, 900), "L:hits": (1, 300)},
)
"""Sixteen is expected beside blocks, 2064 behind hits, and any other number seldom."""
FACTS: Facts = frozenset(
    {(2064.0, "tokens", "vllm"), (2079.0, "tokens", "sglang"), (41.66, "ms", "sglang"), (8.0, None, None)}
)


def read(said: str) -> Reading:
    return readings(said)[0]


def test_bare_ones_and_twos_are_no_blanks() -> None:
    assert [n.value for n, _ in blanks(read("Of the 2 engines one hits 2064 tokens in 2 ms."))] == [2064, 2]


def test_a_blank_is_what_stands_around_a_number_and_not_the_number() -> None:
    (_, around), *_ = blanks(read("vLLM hits 2064 of 2080 tokens."))
    assert {"L:hits", "hits", "E:vllm", "/2080"} <= around
    assert not any("2064" in feature for feature in around)


def test_another_number_than_the_expected_one_is_a_surprise() -> None:
    right, wrong, unheard = (EXPECTED.surprise(read(f"the block holds {n} of them")) for n in (16, 2064, 77))
    assert right is not None and wrong is not None and unheard is not None
    assert right < 0 < unheard < wrong


def test_the_worst_number_counts() -> None:
    one = EXPECTED.surprise(read("the block holds 16 of them"))
    both = EXPECTED.surprise(read("the block holds 16 of them and that block holds 2064 of them"))
    assert one is not None and both is not None and both > one


def test_without_a_number_there_is_no_surprise() -> None:
    assert EXPECTED.surprise(read("the block holds one of them")) is None


@given(st.text(max_size=200))
def test_any_text_has_a_surprise_or_none(said: str) -> None:
    for reading in readings(said):
        assert (EXPECTED.surprise(reading) is None) == (not list(blanks(reading)))


def test_a_card_without_numbers_expects_none() -> None:
    assert Expected((), (), {}).surprise(read("vLLM hits 2064 tokens")) == 0


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("vLLM hits 2064 tokens", "known"),
        ("vLLM hits 2064 of them", "known"),
        ("SGLang hits 2064 tokens", "other-engine"),
        ("SGLang answers in 2079 ms", "other-unit"),
        ("vLLM hits 2046 tokens", "garbled"),
        ("vLLM hits 2065 tokens", "garbled"),
        ("SGLang needs 416.6 ms", "garbled"),
        ("SGLang needs 46.16 ms", "garbled"),
        ("SGLang needs 41.7 ms", "known"),
        ("vLLM hits 1500 tokens", "unknown"),
        ("vLLM keeps 9 of them", "unknown"),
        ("either way 8 of them", "known"),
    ],
)
def test_a_number_is_held_against_what_the_card_gives(said: str, kind: str) -> None:
    reading = read(said)
    (number,) = reading.numbers
    assert kind_of(number, reading.statement.engines, FACTS) == kind
