"""Quantities with their units: bits and bytes, powers of ten and of two, are never mixed up.

`Gb` is 10^9 bits, `GB` 10^9 bytes, `GiB` 2^30 bytes; a link is sold in `Gb/s`, memory in `GiB`. The case of one letter
is a factor of 8, so a spelling that leaves it open (`gb`, `GBit`, `G`) is refused, and the message names the remedy.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def _table() -> dict[str, tuple[str, float]]:
    sizes = {f"{p}B": float(f) for p, f in (_PREFIXES | _BINARY).items()}
    sizes |= {f"{p}b": f / 8 for p, f in (_PREFIXES | _BINARY).items()}
    times = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
    counts = ("", "tokens", "requests", "GPUs", "tokens/s", "requests/s")
    return (
        {name: ("size", factor) for name, factor in sizes.items()}
        | {f"{name}/s": ("rate", factor) for name, factor in sizes.items()}
        | {name: ("time", factor) for name, factor in times.items()}
        | {name: (name or "number", 1.0) for name in counts}
    )


_UNITS = _table()
"""Unit -> (what it measures, factor to its base unit: bytes, bytes a second, seconds, or itself)."""

_SPELLINGS = [
    (re.compile(r"[Kk](?=[Bb](?:/s)?$)"), "k"),
    (re.compile(r"(?:^|(?<=[kMGTi]))bits?(?=/s$|$)"), "b"),
    (re.compile(r"(?:^|(?<=[kMGTi]))[Bb]ytes?(?=/s$|$)"), "B"),
    (re.compile(r"(?<=[bB])ps$"), "/s"),
    (re.compile(r"^[µμ]s$"), "us"),
]
"""Other spellings whose meaning is just as plain: KB, Gbit/s, Gbps, GBps, bytes, µs."""

_TEXT = re.compile(r"\s*(?P<number>[-+]?(?:\d[\d_,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>\S*)\s*")
_EXAMPLE = {"size": "1 GiB", "rate": "200 Gb/s", "time": "5 ms"}


@dataclass(frozen=True)
class Quantity:
    """A number and its unit, which is one that `units.py` knows. Raises ValueError for any other."""

    value: float
    unit: str

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise ValueError(_no_such(self.unit))

    @property
    def dimension(self) -> str:
        """What it measures: `size`, `rate`, `time`, or the thing it counts."""
        return _UNITS[self.unit][0]

    @property
    def base(self) -> float:
        """In bytes, bytes a second or seconds; a count as it is."""
        return self.value * _UNITS[self.unit][1]

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit. Raises ValueError where that measures something else."""
        dimension, factor = _UNITS[Quantity(0, unit).unit]
        if dimension != self.dimension:
            raise ValueError(f"'{self}' is a {self.dimension} and cannot be given in {unit}, a {dimension}")
        return self if unit == self.unit else Quantity(self.base / factor, unit)

    def __str__(self) -> str:
        number = f"{self.value:,.0f}" if float(self.value).is_integer() else f"{self.value:,.4g}"
        return f"{number} {self.unit}".rstrip()


def parse(amount: str | Quantity, dimension: str) -> Quantity:
    """The `size`, `rate` or `time` that the text states, or a quantity as it is, if it measures that.

    Raises ValueError, with what to write instead, for a number without a unit, a unit that could mean two things, one
    that measures something else, and a negative or endless amount.
    """
    quantity = _read(amount, _EXAMPLE[dimension]) if isinstance(amount, str) else amount
    if quantity.dimension != dimension:
        raise ValueError(f"'{amount}' is a {quantity.dimension}, not a {dimension} such as '{_EXAMPLE[dimension]}'")
    if quantity.value < 0 or not math.isfinite(quantity.value):
        raise ValueError(f"'{amount}' must be a finite amount of at least 0")
    return quantity


def _read(text: str, example: str) -> Quantity:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no quantity; write a number and a unit, such as '{example}'")
    number, unit = re.sub("[_,]", "", match["number"]), match["unit"]
    if unit == "":
        raise ValueError(f"'{text}' has no unit; write '{number} {example.split()[1]}' if that is what is meant")
    for pattern, plain in _SPELLINGS:
        unit = pattern.sub(plain, unit)
    try:
        return Quantity(float(number), unit)
    except ValueError as error:
        raise ValueError(f"'{text}': {error}") from None


def readable(quantity: Quantity) -> Quantity:
    """The same in the unit that people would choose: memory in powers of two, rates in powers of ten of bytes."""
    ladder = {
        "size": ("TiB", "GiB", "MiB", "KiB"), "rate": ("TB/s", "GB/s", "MB/s", "kB/s"),
        "time": ("h", "min", "s", "ms", "us"),
    }.get(quantity.dimension)  # fmt: skip
    if ladder is None:
        return quantity
    smallest = {"size": "B", "rate": "B/s", "time": "ns"}[quantity.dimension]
    return quantity.to(next((unit for unit in ladder if quantity.to(unit).value >= 1), smallest))


def _no_such(unit: str) -> str:
    """Why there is no such unit, and which are near it."""
    per_second = "/s" if re.search(r"(?i)(?:/s|ps)$", unit) else ""
    stem = re.sub(r"(?i)(?:/s|ps)$", "", unit)
    if (prefix := re.fullmatch(r"([kKmMgGtT])i?[bB]?(?:its?|ytes?)?", stem)) is not None:
        p, power = prefix[1].upper().replace("K", "k"), {"K": 3, "M": 6, "G": 9, "T": 12}[prefix[1].upper()]
        two = {3: "KiB", 6: "MiB", 9: "GiB", 12: "TiB"}[power]
        return (
            f"'{unit}' could be bits or bytes; write {p}b{per_second} (10^{power} bits), {p}B{per_second} "
            f"(10^{power} bytes) or {two}{per_second} (2^{power // 3 * 10} bytes)"
        )
    return (
        f"there is no unit '{unit}'; known are B and b with k, M, G, T, Ki, Mi, Gi or Ti before and /s behind, such as "
        "GiB and Gb/s, and ns, us, ms, s, min, h"
    )
