"""The number in a statement against the number that was observed: which number is meant, and whether they agree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from inferproof.grading.numbers import Quantity
from inferproof.grading.reading import Reading
from inferproof.questions.card import Claim, Stated

COUNTED = ("tokens", "requests", "blocks", "times", "count", "ratio", "percent")
"""Units of what does not depend on the machine: only these can contradict. A time on other hardware proves nothing."""
_ROUND = 100
"""Numbers from 1000 on that are multiples of this are taken as rounded."""
_HEADS = {
    "prompt": "prompt|input|提示|输入",
    "block": "block|块",
    "page": "page|页",
    "chunk": "chunk|块",
    "output": "output|generat|输出|生成",
    "requests": "request|concurren|请求|并发",
    "concurrency": "concurren|请求|并发",
    "pool": "pool|capacity|容量|池",
    "kv": "pool|capacity|kv|容量|池",
    "width": "width|beam|束宽|宽",
    "budget": "budget|预算",
}
"""Word of a parameter's name -> how an answer names the parameter beside its number."""
_BETWEEN = rf"(?:(?!hit|reus|match|命中|复用|匹配|{'|'.join(_HEADS.values())})[^\d,，。;])"
"""A character between a parameter's name and its number: no effect (a prompt hits 1024), no other parameter's name."""
_TAKEN = re.compile(r"\d[- ]?(?:tokens?)?[- ]?$")
"""What stands before a name that belongs to an earlier number (the blocks of `16-token blocks`)."""


def given_in(reading: Reading, stated: Stated) -> Iterator[tuple[str, float]]:
    """Parameters of the claim's probe that the statement sets: a number of the unit beside the parameter's name."""
    for name, unit in stated.given.items():
        for quantity in reading.numbers:
            if quantity.whole is not None and unit == "tokens" and name.startswith("prompt"):
                yield name, quantity.whole
            elif quantity.unit in (unit, None) and _is_beside(reading, quantity, name):
                yield name, quantity.value


def candidates(reading: Reading, claim: Claim, stated: Stated) -> list[Quantity]:
    """The numbers that can be the claim's value, the clearest first: of its unit, and no parameter of the probe."""
    settings = {float(v) for v in claim.params.values() if isinstance(v, int | float) and not isinstance(v, bool)}

    def is_parameter(q: Quantity) -> bool:
        named = (n for n, unit in stated.given.items() if q.unit in (unit, None) and _is_beside(reading, q, n))
        return q.whole is None and (q.value in settings or any(named))

    fitting = [q for q in reading.numbers if _fits(q, stated.unit) and not is_parameter(q)]
    return sorted(fitting, key=lambda q: q.unit is None and q.whole is None)


def agrees(number: Quantity, observed: Any, unit: str | None) -> bool:
    """Whether the number is the observed one: exact for counts, as the speaker rounds for what is measured."""
    if not is_number(observed):
        return False
    value, step = _scaled(number, unit)
    if unit in ("ratio", "percent"):
        return abs(value - observed) <= step  # rounded or cut off
    if number.approximate or (_is_rounded(number) and observed % _ROUND != 0):
        return abs(value - observed) <= 0.1 * abs(observed)
    if float(observed).is_integer():
        return value == observed
    return abs(value - observed) <= step


def can_contradict(number: Quantity, observed: Any, unit: str | None) -> bool:
    """Whether a number that does not agree speaks against the observed one.

    It must count something and be exact, and of the observed number's size: 0 hits where 2079 were seen is more likely
    said about another condition.
    """
    if unit not in COUNTED or number.approximate or _is_rounded(number) or not is_number(observed):
        return False
    return observed / 2 <= _scaled(number, unit)[0] <= observed * 2


def is_number(observed: Any) -> TypeGuard[float]:
    """Whether an observation is a number (true and false are not)."""
    return isinstance(observed, int | float) and not isinstance(observed, bool)


def _is_beside(reading: Reading, quantity: Quantity, name: str) -> bool:
    heads = [_HEADS[word] for word in name.split("_") if word in _HEADS] or [re.escape(name.replace("_", " "))]
    words, plain = "|".join(heads), reading.text.plain
    before = plain[max(reading.statement.start, quantity.start - 24) : quantity.start]
    after = plain[quantity.end : quantity.end + 16]
    for name_before in re.finditer(rf"(?:{words})(?={_BETWEEN}{{0,10}}$)", before):
        if not _TAKEN.search(before[: name_before.start()]):
            return True
    return bool(re.match(rf"{_BETWEEN}{{0,14}}(?:{words})", after))


def _fits(quantity: Quantity, unit: str | None) -> bool:
    bare = quantity.unit is None
    if unit in ("ratio", "percent"):
        share = bare and unit == "ratio" and quantity.value < 1
        return quantity.whole is not None or quantity.unit == "percent" or share
    if unit in ("count", "times", None):
        return bare or quantity.unit == "times"
    return quantity.unit == unit or (bare and quantity.decimals == 0)


def _scaled(number: Quantity, unit: str | None) -> tuple[float, float]:
    """The number in the observation's unit, and the last place it is stated to."""
    value, step = number.value, 10.0**-number.decimals
    if unit in ("ratio", "percent") and number.whole:
        scale = 100.0 if unit == "percent" else 1.0
        return scale * value / number.whole, scale * 5e-4
    if unit == "ratio" and number.unit == "percent":
        return value / 100, step / 100
    return value, step


def _is_rounded(number: Quantity) -> bool:
    return number.value >= 10 * _ROUND and number.value % _ROUND == 0
