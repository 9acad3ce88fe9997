"""Claims over releases at the terminal: the ones that change, a column a release; the rest in a count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from inferproof.grading.drift import Drift
from inferproof.grading.verdict import Verdict
from inferproof.questions.card import Language
from inferproof.reports import values
from inferproof.reports.words import say
from inferproof.runners.builds import Build

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

_STYLES = {"holds": "green", "contradicted": "bold red", "inconclusive": "yellow", "error": "bold magenta"}
_WIDTH = 22
"""Letters of a claim's name on one line, so that four releases fit beside it."""
_FEW = 12
"""Up to so many claims are shown whether or not they change."""


def drift_view(rows: Sequence[Drift], builds: Sequence[Build], language: Language) -> Group:
    """A table for each engine, and below it what was seen where a claim changes."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for engine in dict.fromkeys(b.engine for b in builds):
        own = [row for row in rows if row.engine == engine and row.builds]
        changed = [row for row in own if row.changed_at]
        if not own:
            continue
        parts.append(
            Text(say(language, "drift_title", engine=engine, changed=len(changed), claims=len(own)), style="bold")
        )
        shown = own if len(own) <= _FEW else changed
        if shown:
            parts.append(_table(shown, [b for b in builds if b.engine == engine], language))
        parts += [Text(line, style=style) for line, style in _below(own, changed, language)]
        parts.append(Text())
    return Group(*parts[:-1])


def _table(rows: Sequence[Drift], builds: Sequence[Build], language: Language) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    asked = [b for b in builds if any(b.name in row.builds for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column(say(language, "claim"))
    for build in asked:
        table.add_column(Text(build.version))
    for row in rows:
        told = [say(language, "drift_told", versions=row.versions)] if row.versions else []
        claim = "\n".join([row.card, *(f"  {line}" for text in (row.claim, *told) for line in wrap(text, _WIDTH))])
        table.add_row(Text(claim), *(_cell(row.builds.get(b.name), language) for b in asked))
    return table


def _cell(verdict: Verdict | None, language: Language) -> RenderableType:
    from rich.text import Text

    return Text(say(language, verdict.verdict), style=_STYLES.get(verdict.verdict, "dim")) if verdict else ""


def _below(own: Sequence[Drift], changed: Sequence[Drift], language: Language) -> Iterator[tuple[str, str]]:
    """What was seen where a claim changes, how the others stand, and why something did not run."""
    for row in changed:
        alike: dict[str, list[str]] = {}
        for name, v in row.builds.items():
            if v.verdict == "contradicted":
                alike.setdefault(values.observed(v.observed), []).append(name)
        for seen, names in alike.items():
            expect, where = next(iter(row.builds.values())).expect, say(language, "comma").join(names)
            said = say(language, "expected_observed", expect=expect, observed=seen, build=where)
            yield f"  {row.claim}{say(language, 'colon')}{said}", ""
    same = Counter(next(iter(row.builds.values())).verdict for row in own if _one_verdict(row))
    for verdict, count in same.items():
        yield "  " + say(language, "drift_same", count=count, verdict=say(language, verdict)), "dim"
    if mixed := sum(not row.changed_at and not _one_verdict(row) for row in own):
        yield f"  {mixed} x {say(language, 'drift_undecided')}", "dim"
    why: dict[str, Counter[str]] = {}
    for row in own:
        for name, v in row.builds.items():
            if v.verdict not in ("holds", "contradicted"):
                why.setdefault(f"{say(language, v.verdict)}{say(language, 'colon')}{v.reason}", Counter())[name] += 1
    for reason, counts in sorted(why.items(), key=lambda item: -item[1].total()):
        where = say(language, "comma").join(f"{name} {count}" for name, count in counts.items())
        yield f"  {reason} ({where})", "dim"


def _one_verdict(row: Drift) -> bool:
    return len({v.verdict for v in row.builds.values()}) == 1
