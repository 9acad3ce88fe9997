"""How long an amount of data is on a link at the least, and what a misread unit makes of it.

Question
    What does it take to move the KV of a prompt: 1 GiB over 200 Gb/s?
Watched
    Nothing runs: size over rate, with the units kept apart by `units.py`.
Can mislead
    It is a lower bound. Protocol, queueing, registration, host-device copies and synchronisation come on top, and what
    runs beside prefill or decode costs no latency at all; only the exposed part counts, and that must be measured.
Sources
    IEC 80000-13 (Gi is 2^30) and the SI prefixes (G is 10^9); links are rated in bits, memory in bytes.
"""

from __future__ import annotations

from inferproof.probes import units
from inferproof.probes.core import Observations, Run, probe
from inferproof.probes.units import Quantity


def transfer(
    *, size: str | Quantity = "1 GiB", rate: str | Quantity = "200 Gb/s", efficiency: float = 1.0,
    latency: str | Quantity = "0 s", hidden: str | Quantity = "0 s",
) -> dict[str, Quantity]:  # fmt: skip
    """What it takes to move `size` over a link of `rate`.

    efficiency  share of the rate that payload gets, above 0 and up to 1.
    latency     fixed part before the first byte.
    hidden      how much of the time runs beside other work and so delays nobody.

    Raises ValueError for an amount without a clear unit, a rate of 0 and an efficiency outside (0, 1].
    """
    data, link = units.parse(size, "size"), units.parse(rate, "rate")
    if not link.base:
        raise ValueError(f"nothing moves over a link of {link}; the rate must be above 0")
    if not 0 < efficiency <= 1:
        raise ValueError(f"efficiency is {efficiency}, expected a share above 0 and up to 1 (0.8 for 80 %)")
    wire = data.base / link.base
    total = units.parse(latency, "time").base + wire / efficiency
    return {
        "size": data,
        "rate": link.to("GB/s"),
        "wire_time": Quantity(wire * 1e3, "ms"),
        "time": Quantity(total * 1e3, "ms"),
        "exposed_time": Quantity(max(0.0, total - units.parse(hidden, "time").base) * 1e3, "ms"),
        "time_if_bits_were_bytes": Quantity(wire / 8 * 1e3, "ms"),
        "time_if_powers_of_ten": Quantity(wire / _binary_over_decimal(data) * 1e3, "ms"),
    }


def _binary_over_decimal(data: Quantity) -> float:
    """How much larger the size is than what the same figure would be in powers of ten: 1 GiB over 1 GB."""
    return data.base / Quantity(data.value, data.unit.replace("Ki", "k").replace("i", "")).base if data.base else 1.0


@probe(
    engine="none",
    levels=("arithmetic",),
    observes={
        "size_bytes": "bytes to move",
        "rate_gbyte_s": "the link's rate in GB/s (10^9 bytes a second)",
        "wire_ms": "milliseconds that the bytes are on the link at its full rate: the lower bound",
        "time_ms": "milliseconds with `efficiency` and `latency`",
        "exposed_ms": "of these, what is not hidden behind other work",
        "wire_ms_if_bits_were_bytes": "lower bound if the rate were bytes where it is bits",
        "wire_ms_if_powers_of_ten": "lower bound if the size were in powers of ten (1 GB for 1 GiB)",
    },
)
def none_link(
    run: Run,  # noqa: ARG001 - every probe is given its run
    *,
    size: str = "1 GiB",
    rate: str = "200 Gb/s",
    efficiency: float = 1.0,
    latency: str = "0 s",
    hidden: str = "0 s",
) -> Observations:
    """Compute the time on a link, and what it would be with the units misread."""
    found = transfer(size=size, rate=rate, efficiency=efficiency, latency=latency, hidden=hidden)
    return {
        "size_bytes": found["size"].base,
        "rate_gbyte_s": found["rate"].value,
        "wire_ms": found["wire_time"].value,
        "time_ms": found["time"].value,
        "exposed_ms": found["exposed_time"].value,
        "wire_ms_if_bits_were_bytes": found["time_if_bits_were_bytes"].value,
        "wire_ms_if_powers_of_ten": found["time_if_powers_of_ten"].value,
    }
