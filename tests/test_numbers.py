from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.numbers import Quantity, chinese_number, english_number, quantities
from inferproof.grading.text import normalise

DIGITS = "零一二三四五六七八九"


def read(text: str) -> list[Quantity]:
    return quantities(normalise(text))


def only(text: str) -> Quantity:
    (quantity,) = read(text)
    return quantity


def spoken(number: int) -> str:
    """The number as it is said in Chinese (below 100 million)."""
    if number >= 10_000:
        rest = number % 10_000
        return spoken(number // 10_000) + "万" + (("零" if rest < 1000 else "") + spoken(rest) if rest else "")
    words, skipped = "", False
    for size, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // size % 10
        if digit:
            words += ("零" if skipped and words else "") + DIGITS[digit] + unit
            skipped = False
        else:
            skipped = True
    return words or "零"


ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def said(number: int) -> str:
    """The number as it is said in English (below a million)."""
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = f" {said(number % size)}" if number % size else ""
            return f"{said(number // size)} {name}{rest}"
    if number < 20:
        return ONES[number]
    return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("2064 tokens", 2064, "tokens"),
        ("两千零六十四个 token", 2064, "tokens"),
        ("二零六四个 token", 2064, "tokens"),
        ("２０６４ tokens", 2064, "tokens"),
        ("7k tokens", 7000, "tokens"),
        ("1.5万 token", 15000, "tokens"),
        ("a 1,040-token prompt", 1040, "tokens"),
        ("8 个请求", 8, "requests"),
        ("三次抢占", 3, "times"),
        ("24.27 ms", 24.27, "ms"),
        ("31 s", 31, "s"),
        ("99.2%", 99.2, "percent"),
        ("百分之九十九", 99, "percent"),
        ("16x", 16, "x"),
        ("9.17倍", 9.17, "x"),
        ("280.79 tok/s", 280.79, "tokens/s"),
        ("三点五倍", 3.5, "x"),
        ("三千五百个 token", 3500, "tokens"),
        ("two thousand and sixty four tokens", 2064, "tokens"),
        ("Thirty-two requests", 32, "requests"),
        ("two point seven times faster", 2.7, "x"),
        ("a hundred percent", 100, "percent"),
    ],
)
def test_a_number_is_read_with_its_unit(text: str, value: float, unit: str) -> None:
    assert (only(text).value, only(text).unit) == (value, unit)


@pytest.mark.parametrize("unit", ["Gb/s", "GB/s", "GiB", "GB", "MiB", "MB"])
def test_bits_and_bytes_and_powers_are_kept_apart(unit: str) -> None:
    assert only(f"10 {unit}").unit == unit


@pytest.mark.parametrize("text", ["2064/2080", "2064 of 2080", "2064 out of 2080", "2080 个 token 里命中 2064"])
def test_a_share_keeps_its_whole(text: str) -> None:
    assert (read(text)[-1].value, read(text)[-1].whole) == (2064, 2080)


@pytest.mark.parametrize(
    "text", ["一般来说", "要一致", "一起跑", "mp3", "v0.27.1", "one of them", "the two engines", "in their thousands"]
)
def test_words_and_names_are_no_numbers(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize("text", ["about 2000", "大概 2000", "2000 左右", "2000 or so", "~2000"])
def test_an_approximate_number_is_marked(text: str) -> None:
    assert only(text).approximate


@given(st.integers(0, 99_999_999))
def test_spoken_chinese_numbers_come_back(number: int) -> None:
    assert chinese_number(spoken(number)) == number


@given(st.integers(0, 999_999))
def test_spoken_english_numbers_come_back(number: int) -> None:
    assert english_number(said(number)) == number
    assert english_number(said(number).replace("-", " ").replace("hundred ", "hundred and ")) == number


@given(st.lists(st.sampled_from([*ONES, *TENS[2:], "hundred", "thousand", "million", "and", "point"]), max_size=8))
def test_any_row_of_number_words_is_a_number_or_none(words: list[str]) -> None:
    value = english_number(" ".join(words))
    assert value is None or value >= 0


@pytest.mark.parametrize("words", ["two point  ", "point", "twenty twenty", "two thirty", "one and a bit"])
def test_words_that_make_no_number_are_none(words: str) -> None:
    assert english_number(words) is None


@pytest.mark.parametrize("text", ["4k tokens", "a 4K prompt"])
def test_a_number_of_thousands_is_approximate_since_it_may_be_of_1024(text: str) -> None:
    assert (only(text).value, only(text).approximate) == (4000, True)


@given(st.integers(0, 10**9), st.sampled_from(["tokens", "ms", "GiB", "GB/s", "Gb/s"]))
def test_written_numbers_come_back_with_and_without_separators(number: int, unit: str) -> None:
    for text in (f"{number} {unit}", f"{number:,} {unit}"):
        assert (only(text).value, only(text).unit) == (number, unit)


@given(st.text(alphabet="零〇一二两三四五六七八九十百千万亿点", max_size=30))
def test_any_run_of_numerals_is_a_number_or_none(numerals: str) -> None:
    value = chinese_number(numerals)
    assert value is None or value >= 0


@given(st.text(max_size=200))
def test_reading_numbers_never_fails_and_stays_inside_the_text(text: str) -> None:
    normal = normalise(text)
    for quantity in quantities(normal):
        assert 0 <= quantity.start < quantity.end <= len(normal.plain)
