"""What probes observed under parameters that no claim speaks of: the observations, and no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inferproof.grading.own_parameters import Observed
from inferproof.questions.card import Language
from inferproof.reports import values
from inferproof.reports.words import say

if TYPE_CHECKING:
    from rich.console import Group
    from rich.padding import Padding

_FAILED = ("failed", "timed out", "died")


def observed_view(seen: Sequence[Observed], given: Mapping[str, Any], language: Language) -> Group:
    """A claim at a time, a line a build, and below it all that was observed there."""
    from rich.console import Group

    parts = [_line(say(language, "observed_only", given=values.observed(given)))]
    for claim in dict.fromkeys((one.card, one.claim) for one in seen):
        parts.append(_line(f"\n{'/'.join(claim)}", style="bold"))
        for one in seen:
            if (one.card, one.claim) == claim:
                parts.append(_line(_run(one, language), 2))
                parts += [_line(text, 6) for text in (one.reason, values.observed(one.observations)) if text]
    return Group(*parts)


def _run(one: Observed, language: Language) -> str:
    """`vllm-cpu: engine, 0.1 s, 87c24a92b1`."""
    ended = "" if one.ended == "ok" else say(language, "error" if one.ended in _FAILED else one.ended)
    seconds = "" if one.seconds is None else f"{one.seconds:.1f} s"
    kept = say(language, "from_kept") if one.reused else ""
    facts = (ended, one.level, seconds, values.short(one.evidence or ""), kept)
    return f"{one.build or '-'}{say(language, 'colon')}{say(language, 'comma').join(filter(None, facts))}"


def _line(text: str, indent: int = 0, style: str = "") -> Padding:
    """Text without control characters: an engine's own words may hold any."""
    from rich.padding import Padding
    from rich.text import Text

    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return Padding(Text(plain, style=style), (0, 0, 0, indent))
