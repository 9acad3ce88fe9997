"""Units are kept apart, what is ambiguous is refused with a remedy, and the calculators agree with hand arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inferproof.probes import units
from inferproof.probes.kv_size import kv_bytes
from inferproof.probes.transfer_time import transfer
from inferproof.probes.units import Quantity

amount = st.floats(0, 1e15, allow_nan=False).map(lambda x: float(f"{x:.4g}"))
sizes = st.sampled_from(["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "b", "kb", "Gb", "Gib"])
few = st.integers(1, 64)


@given(amount, sizes, st.sampled_from(["", "/s"]))
def test_what_is_printed_reads_back_as_the_same(value: float, unit: str, per_second: str) -> None:
    quantity = Quantity(value, unit + per_second)
    assert units.parse(str(quantity), "rate" if per_second else "size").base == pytest.approx(quantity.base, rel=1e-3)


@given(amount, sizes, sizes)
def test_a_change_of_unit_there_and_back_changes_nothing(value: float, one: str, other: str) -> None:
    assert Quantity(value, one).to(other).to(one).value == pytest.approx(value)


@given(amount, st.sampled_from("kMGT"))
def test_a_byte_is_eight_bits_whatever_the_prefix(value: float, prefix: str) -> None:
    assert Quantity(value, f"{prefix}B").base == pytest.approx(8 * Quantity(value, f"{prefix}b").base)


@given(amount, sizes)
def test_the_readable_unit_keeps_the_amount(value: float, unit: str) -> None:
    quantity = Quantity(value, unit)
    found = units.readable(quantity)
    assert found.base == pytest.approx(quantity.base)
    assert found.value >= 1 or found.unit == "B"


@pytest.mark.parametrize(
    ("text", "dimension", "base"),
    [
        ("1 GiB", "size", 2**30), ("1 GB", "size", 1e9), ("1 Gb", "size", 1e9 / 8), ("1,024 MiB", "size", 2**30),
        ("200 Gb/s", "rate", 25e9), ("200Gbps", "rate", 25e9), ("200 Gbit/s", "rate", 25e9), ("25 GB/s", "rate", 25e9),
        ("25 GBps", "rate", 25e9), ("1 KB", "size", 1e3), ("8 bytes", "size", 8), ("3 µs", "time", 3e-6),
        (".5 ms", "time", 5e-4), ("1e3 s", "time", 1e3),
    ],
)  # fmt: skip
def test_usual_spellings_are_read(text: str, dimension: str, base: float) -> None:
    assert units.parse(text, dimension).base == pytest.approx(base)


@pytest.mark.parametrize(
    ("text", "dimension", "remedy"),
    [
        ("200 gb/s", "rate", "write Gb/s .*, GB/s .* or GiB/s"),
        ("2 G", "size", r"write Gb \(10\^9 bits\), GB \(10\^9 bytes\) or GiB \(2\^30 bytes\)"),
        ("1 kbytez", "size", "there is no unit 'kbytez'; known are"),
        ("12", "size", "has no unit; write '12 GiB'"),
        ("200 Gb", "rate", "is a size, not a rate such as '200 Gb/s'"),
        ("a lot", "size", "write a number and a unit, such as '1 GiB'"),
        ("-1 GiB", "size", "at least 0"),
        ("1e999 GiB", "size", "finite"),
        ("", "time", "such as '5 ms'"),
    ],
)
def test_what_is_unclear_is_refused_with_the_remedy(text: str, dimension: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        units.parse(text, dimension)


@given(st.text(max_size=12), st.sampled_from(["size", "rate", "time"]))
def test_any_text_is_read_or_refused(text: str, dimension: str) -> None:
    try:
        assert units.parse(text, dimension).dimension == dimension
    except ValueError as error:
        assert str(error)


def test_a_size_is_not_given_in_seconds() -> None:
    with pytest.raises(ValueError, match="is a size and cannot be given in ms"):
        Quantity(1, "GiB").to("ms")


def test_one_gib_over_200_gigabits_takes_43_ms() -> None:
    found = transfer(size="1 GiB", rate="200 Gb/s")
    assert found["wire_time"].value == pytest.approx(42.95, abs=0.01)
    assert found["time_if_bits_were_bytes"].value == pytest.approx(5.37, abs=0.01)
    assert found["time_if_powers_of_ten"].value == pytest.approx(40)


@given(st.floats(0.01, 1), st.floats(0, 100), st.floats(0, 100))
def test_no_overhead_makes_a_transfer_shorter_than_its_bytes(efficiency: float, latency: float, hidden: float) -> None:
    found = transfer(efficiency=efficiency, latency=Quantity(latency, "ms"), hidden=Quantity(hidden, "ms"))
    assert found["time"].value >= found["wire_time"].value
    assert 0 <= found["exposed_time"].value <= found["time"].value


@pytest.mark.parametrize("given_", [{"rate": "0 Gb/s"}, {"efficiency": 0.0}, {"efficiency": 1.5}, {"size": "200 Gb/s"}])
def test_an_impossible_link_is_refused(given_: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"must be above 0|expected a share|not a size"):
        transfer(**given_)  # type: ignore[arg-type]


def test_the_documents_example_is_128_kib_a_token_and_1_gib() -> None:
    found = kv_bytes(layers=32, kv_heads=8, head_dim=128, tokens=8192)
    assert found["per_token"].to("KiB") == Quantity(128, "KiB")
    assert found["total"] == Quantity(1, "GiB")


def test_mla_is_whole_on_every_rank_and_gqa_is_not() -> None:
    gqa, mla = (
        kv_bytes(layers=1, ranks=4, **shape)
        for shape in ({"kv_heads": 8, "head_dim": 128}, {"latent": 512, "rope_dim": 64})
    )
    assert gqa["per_token_and_rank"].value * 4 == gqa["per_token"].value
    assert mla["per_token_and_rank"] == mla["per_token"] == Quantity(1152, "B")


@given(few, few, st.integers(1, 4096), st.integers(1, 64), st.integers(1, 16), st.data())
def test_sharing_and_pages_stay_between_one_copy_and_one_each(
    layers: int, kv_heads: int, tokens: int, page: int, requests: int, data: st.DataObject
) -> None:
    shared = data.draw(st.integers(0, tokens))
    found = kv_bytes(
        layers=layers, kv_heads=kv_heads, head_dim=64, tokens=tokens, requests=requests, shared_tokens=shared,
        page_tokens=page,
    )  # fmt: skip
    held = found["tokens_held"].value
    assert tokens <= held <= requests * (tokens + page - 1)
    assert held % page == 0


@given(few, st.integers(1, 64))
def test_ranks_never_hold_less_than_the_whole(kv_heads: int, ranks: int) -> None:
    assume(max(kv_heads, ranks) % min(kv_heads, ranks) == 0)
    found = kv_bytes(layers=2, kv_heads=kv_heads, head_dim=64, ranks=ranks)
    assert found["over_all_ranks"].value == pytest.approx(found["total"].value * max(1, ranks / kv_heads))


@pytest.mark.parametrize(
    ("given_", "what"),
    [
        ({"layers": 0, "kv_heads": 8, "head_dim": 128}, "layers is 0"),
        ({"layers": 1, "kv_heads": 8}, "head_dim is 0"),
        ({"layers": 1, "kv_heads": 8, "head_dim": 128, "ranks": 3}, "8 KV heads cannot be split evenly over 3 ranks"),
        ({"layers": 1, "kv_heads": 8, "head_dim": 128, "shared_tokens": 2}, "shared_tokens is 2"),
    ],
)
def test_a_model_that_cannot_be_is_refused(given_: dict[str, int], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        kv_bytes(**given_)
