"""Numbers with their units, as people write and say them: `2064/2080`, `7k tokens`, thirty-two, 两千零六十四个."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from inferproof.grading.text import Text

_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_TENS = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10**4, "亿": 10**8}
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TIES = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SAID = {word: i for i, word in enumerate(_ONES)} | {word: 10 * i for i, word in enumerate(_TIES, 2)}
_HUNDREDS = {"hundred": 100, "thousand": 1000, "million": 10**6}
_WORDS = "|".join((*_SAID, *_HUNDREDS))
_LONGEST_SPOKEN = 32
"""Characters; 亿亿亿... goes beyond every float."""
_LONGEST_SAID = 100
"""Characters of English number words."""
_LONE = 10
"""English words up to this are numbers only before a unit."""
NUMERALS = "零〇一二两三四五六七八九十百千万亿"
_MULTIPLIERS = {"k": 1e3, "K": 1e3, "M": 1e6, "千": 1e3, "万": 1e4, "亿": 1e8}

_UNITS: tuple[tuple[str, str], ...] = (
    # Bits and bytes differ only in the case of one letter; everything else ignores case.
    ("GiB/s", r"GiB/s"), ("GB/s", r"GB/s|GBps"), ("Gb/s", r"Gb/s|Gbps|Gbit/s|gbps"),
    ("GiB", r"GiB|[gG]ibibytes?"), ("MiB", r"MiB"), ("KiB", r"KiB"),
    ("GB", r"GB|[gG]igabytes?|gb"), ("MB", r"MB|[mM]egabytes?|mb"), ("KB", r"KB|kB|kb"),
    ("tokens/s", r"(?i:tok(?:en)?s?\s?(?:/\s?s(?:ec)?|(?:per|a)\s(?:sec(?:ond)?|s\b)))"),
    ("tokens", r"(?i:(?:[a-z]+[ -])?tok(?:en)?s?\b)|词元"),
    ("requests", r"(?i:req(?:uest)?s?\b)|请求"),
    ("blocks", r"(?i:blocks?\b)|块"),
    ("us", r"(?i:us|µs|μs|microseconds?)\b|微秒"),
    ("ms", r"(?i:ms|milliseconds?|millis)\b|毫秒"),
    ("s", r"(?i:s|secs?|seconds?)\b|秒"),
    ("percent", r"%|(?i:percent|per\scent|pct)\b"),
    ("x", r"(?i:x|-?fold|times\s(?:faster|more|as))\b|倍"),
    ("times", r"(?i:times|(?:[a-z]+[ -])?(?:preemption|retraction|step|round|chunk|iteration)s?)\b|次|轮|步"),
)  # fmt: skip
_UNIT = "|".join(f"(?P<u{i}>{pattern})" for i, (_, pattern) in enumerate(_UNITS))
_NUMERAL = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?"
_NUMBER = re.compile(
    rf"""(?P<hundredth>百分之)?
    (?<![\dA-Za-z_.])(?:(?P<digits>{_NUMERAL})\s?(?P<multiplier>[kKM](?![A-Za-z])|[千万亿])?|(?P<chinese>[{NUMERALS}]+(?:点[{NUMERALS}]+)?)|
        (?P<english>\b(?i:(?:{_WORDS})(?:(?:[ -]|[ ]and[ ])(?:{_WORDS}))*(?:[ ]point(?:[ ](?:{_WORDS}))+)?)\b))
    (?:\s?(?:/|out\s+of|of(?=\s+(?:the\s+)?\d))\s?(?:the\s+)?(?P<whole>{_NUMERAL})(?![\d.]*\d))?
    (?P<unit>[\s-]?[个条]?\s?(?:{_UNIT}))?(?P<counter>[个条次种张路级段])?""",
    re.VERBOSE,
)
_ABOUT_BEFORE = re.compile(
    r"(?:about|around|roughly|approximately|nearly|almost|some|over|at least|at most|~|≈|"
    r"约|大概|大约|差不多|接近|将近|超过|至少|最多)\s*(?:the )?$",
    re.IGNORECASE,
)
_ABOUT_AFTER = re.compile(r"\s*(?:or so|左右|上下|多(?!少)|来个|以上)", re.IGNORECASE)
_RATIO_WORDS = re.compile(r"(?P<whole>\d+)\s*(?:个\s?)?(?:tokens?)?\s*(?:中|里面|里)[^\d，。,.]{0,12}$")


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number at [start, end) of the normalised text."""

    value: float
    unit: str | None
    start: int
    end: int
    whole: float | None = None
    """The 2080 of 2064/2080."""
    decimals: int = 0
    """Digits behind the point, as stated: what it may be compared at."""
    approximate: bool = False


def quantities(text: Text, start: int = 0, end: int | None = None) -> list[Quantity]:
    """All numbers in [start, end) of the text, in order."""
    cased = text.cased[: len(text.cased) if end is None else end]
    found = []
    for match in _NUMBER.finditer(cased, start):
        quantity = _quantity(match, cased)
        if quantity is not None:
            found.append(quantity)
    return found


def _quantity(match: re.Match[str], cased: str) -> Quantity | None:
    unit = next((name for i, (name, _) in enumerate(_UNITS) if match[f"u{i}"] is not None), None)
    digits, spoken = match["digits"], match["chinese"]
    decimals = 0
    if digits is not None:
        value = float(digits.replace(",", ""))
        decimals = len(digits.partition(".")[2])
        if match["multiplier"]:
            value *= _MULTIPLIERS[match["multiplier"]]
    elif match["english"] is not None:
        parsed = english_number(match["english"])
        if parsed is None or (parsed <= _LONE and not match["unit"]):
            return None  # "one of them", "two engines": words as often as numbers
        value, decimals = parsed, len(match["english"].lower().partition(" point ")[2].split())
    else:
        # 一 and 两 alone are words as often as numbers (一般, 一致): a lone numeral needs something that it counts.
        if len(spoken) == 1 and not (unit or match["counter"] or match["hundredth"]):
            return None
        parsed = chinese_number(spoken)
        if parsed is None:
            return None
        value = parsed
        decimals = len(spoken.partition("点")[2])
    whole = float(match["whole"].replace(",", "")) if match["whole"] else None
    if whole is None and (ratio := _RATIO_WORDS.search(cased, max(0, match.start() - 40), match.start())):
        whole = float(ratio["whole"])
    if not (isfinite(value) and isfinite(whole or 0)):  # hundreds of digits are a joke, no number
        return None
    return Quantity(
        value=value,
        unit="percent" if match["hundredth"] else unit,
        start=match.start(),
        end=match.end(),
        whole=whole,
        decimals=decimals,
        approximate=bool(
            match["multiplier"] in ("k", "K")  # of 1000 or of 1024
            or _ABOUT_BEFORE.search(cased, max(0, match.start() - 20), match.start())
            or _ABOUT_AFTER.match(cased, match.end())
        ),
    )


def english_number(spoken: str) -> float | None:
    """Thirty-two -> 32, two thousand and sixty four -> 2064, two point seven -> 2.7; None where it is no number."""
    if len(spoken) > _LONGEST_SAID:
        return None
    body, point, fraction = spoken.lower().replace("-", " ").partition(" point ")
    whole = _english_integer([word for word in body.split() if word != "and"])
    if whole is None or not point:
        return whole
    digits = [_SAID.get(word, 10) for word in fraction.split()]
    return float(f"{int(whole)}." + "".join(map(str, digits))) if digits and max(digits) < 10 else None


def _english_integer(words: Sequence[str]) -> float | None:
    total = group = 0
    room = 10**9  # what may still follow is smaller than this: "sixteen twenty" is no number
    for word in words:
        if word in _HUNDREDS:
            size = _HUNDREDS[word]
            group = max(group, 1) * size
            if size > 100:
                total, group = total + group, 0
            room = size
            continue
        if word not in _SAID or _SAID[word] >= room:
            return None
        group += _SAID[word]
        room = 10 if word in _TIES else 1
    return float(total + group)


def chinese_number(spoken: str) -> float | None:
    """两千零六十四 -> 2064, 二零六四 -> 2064, 三点五 -> 3.5, 三千五 -> 3500; None where it is no number."""
    if len(spoken) > _LONGEST_SPOKEN:
        return None
    body, point, fraction = spoken.partition("点")
    whole = _chinese_integer(body)
    if whole is None or not point:
        return whole
    if not fraction or any(c not in _DIGITS for c in fraction):
        return None
    return float(f"{int(whole)}." + "".join(str(_DIGITS[c]) for c in fraction))


def _chinese_integer(spoken: str) -> float | None:
    if not spoken:
        return None
    if len(spoken) > 1 and all(c in _DIGITS for c in spoken):
        return float("".join(str(_DIGITS[c]) for c in spoken)) if len(spoken) > 2 else None
    total = section = 0
    digit: int | None = None
    unit = 1  # of the last 十, 百, 千 or 万 read: 三千五 means 3500
    for c in spoken:
        if c in _DIGITS:
            if digit:
                return None
            digit, unit = _DIGITS[c], 1 if c in "零〇" else unit
        elif c in _TENS:
            section += (1 if digit is None else digit) * _TENS[c]
            digit, unit = None, _TENS[c]
        else:
            total = (total + section + (digit or 0)) * _MYRIADS[c]
            section, digit, unit = 0, None, _MYRIADS[c]
    return float(
        total + section + (digit or 0) * (unit // 10 if unit > 10 and spoken[-2:-1] not in ("零", "〇") else 1)
    )
