"""A server's own metrics: read from its `/metrics` page, and taken as differences around what was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: -?\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class CounterReset(Exception):
    """A counter fell between two readings: the server was started anew meanwhile."""


def read_metrics(page: str) -> dict[str, float]:
    """Value by name without `vllm:` or `sglang:`, summed over labels; a histogram's `<name>_sum` and `<name>_count`."""
    totals: dict[str, float] = {}
    for line in page.splitlines():
        found = _SAMPLE.match(line)
        if found is None or found["name"].endswith(("_bucket", "_created")):
            continue
        name = found["name"].partition(":")[2] or found["name"]
        value = _number(found["value"])
        if math.isfinite(value):
            totals[name] = totals.get(name, 0.0) + value
    return totals


def labels_of(page: str, name: str) -> dict[str, str]:
    """The labels of the first sample of that full name: how vLLM tells its `cache_config_info`."""
    for line in page.splitlines():
        found = _SAMPLE.match(line)
        if found is not None and found["name"] == name:
            return dict(_LABEL.findall(found["labels"] or ""))
    return {}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What each counter and histogram has grown by; one that was not there before began at 0. Raises CounterReset."""
    grown = {}
    for name, value in after.items():
        if name.endswith(("_total", "_sum", "_count")):
            if value < before.get(name, 0.0):
                raise CounterReset(f"{name} fell from {before[name]:g} to {value:g}: the server was started anew")
            grown[name] = value - before.get(name, 0.0)
    return grown


def mean_ms(grown: Mapping[str, float], histogram: str) -> float | None:
    """Mean of a histogram in seconds over the time between two readings, in milliseconds; None without a sample."""
    count = grown.get(f"{histogram}_count", 0.0)
    return grown[f"{histogram}_sum"] / count * 1000 if count else None
