"""What verify, drill, builds and doctor show at the terminal. Words carry the meaning; colour only repeats it.

Every function returns a rich renderable that reads well at 80 columns. rich is imported when one is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from inferproof.grading.result import Finding, Grade, PointGrade
from inferproof.grading.verdict import Verdict, best_reach, of_claim, summary
from inferproof.questions.card import Card, Language
from inferproof.reports import values
from inferproof.reports.shapes import indented as _indented
from inferproof.reports.shapes import table as _table
from inferproof.reports.shapes import text as _text
from inferproof.reports.words import say
from inferproof.runners.builds import Bilingual, Build

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    from inferproof.runners import doctor

_STYLES = {
    "holds": "green", "contradicted": "bold red", "inconclusive": "yellow", "not run": "dim", "error": "bold magenta",
    "ready": "green", "broken": "bold red", "not set up": "dim", "by hand": "dim",
    "ok": "green", "warn": "yellow", "no": "bold red",
}  # fmt: skip

BuildState = Literal["ready", "not set up", "broken"]
FEW_CARDS = 5
"""More cards than this are shown a line a card: nobody reads six hundred claims that hold."""


def claims_table(
    verdicts: Sequence[Verdict], deck: Mapping[str, Card], language: Language, *, verbose: bool = False
) -> Group:
    """A card at a time, a line a claim; `verbose` adds the sentence and a line a build. Then the count of all.

    Of more than a few cards there is a line a card, and why claims do not hold.
    """
    from rich.console import Group
    from rich.text import Text

    claims = values.by_claim(verdicts)
    if not verbose and len({card for card, _ in claims}) > FEW_CARDS:
        return Group(*_cards_in_short(claims, language), count_line(verdicts, language))
    widths = _widths(claims, language)
    parts: list[RenderableType] = []
    for card in dict.fromkeys(card for card, _ in claims):
        rows = {claim: of for (c, claim), of in claims.items() if c == card}
        parts.append(Text.assemble((card, "bold"), "  ", deck[card].title.of(language)))
        if verbose:
            for claim, of in rows.items():
                parts += _claim_in_full(claim, deck[card].claims[claim].says.of(language), of, language)
        else:
            parts += [_card_table(rows, language, widths), *_reasons(rows, language), Text()]
    return Group(*parts, count_line(verdicts, language))


def _cards_in_short(
    claims: Mapping[tuple[str, str], Sequence[Verdict]], language: Language
) -> Iterable[RenderableType]:
    """A line a card; below it the reasons of claims that do not hold, other than judgements, which cannot."""
    from rich.text import Text

    table = _table(language, "card", "verdict", "reach")
    reasons: list[RenderableType] = []
    for card in dict.fromkeys(card for card, _ in claims):
        rows = {claim: of for (c, claim), of in claims.items() if c == card}
        counts = summary([v for of in rows.values() for v in of])
        table.add_row(card, _counted(counts["verdicts"], language), _counted(counts["reach"], language))
        why = _reasons({claim: of for claim, of in rows.items() if of[0].kind != "judgement"}, language)
        if why:
            reasons += [Text.assemble("\n", (card, "bold")), *why]
    return [table, *reasons, Text()]


def _widths(claims: Mapping[tuple[str, str], Sequence[Verdict]], language: Language) -> tuple[int, int, int]:
    """Cells that the claim, verdict and reach columns need, the same for every card."""
    from rich.cells import cell_len

    ids = [cell_len(claim) for _, claim in claims]
    words = [cell_len(say(language, of_claim(of))) for of in claims.values()]
    reaches = [cell_len(_reach(language, best_reach(of))) for of in claims.values()]
    headings = [cell_len(say(language, key)) for key in ("claim", "verdict", "reach")]
    claim, verdict, reach = (max((heading, *of)) for heading, of in zip(headings, (ids, words, reaches), strict=True))
    return min(claim, 30), verdict, reach


def _card_table(rows: Mapping[str, Sequence[Verdict]], language: Language, widths: tuple[int, int, int]) -> Table:
    table = _table(language, "claim", "verdict", "reach", "observed vs expected", "seconds")
    for column, width in zip(table.columns, (*widths, None, 6), strict=True):
        column.width = width
    table.columns[4].justify = "right"
    for claim, of in rows.items():
        worst = of_claim(of)
        shown = next((v for v in of if v.verdict == worst), of[0])
        met = _text(values.filled(shown.expect, shown.observed) if shown.expect and shown.observed else "")
        met.no_wrap, met.overflow = True, "ellipsis"  # the cell, not the column, which must be the one that shrinks
        times = [v.seconds for v in of if v.seconds is not None]
        seconds = f"{sum(times):.1f}" if times else ""
        table.add_row(
            _text("\n".join(wrap(claim, widths[0]))),
            _word(language, worst),
            _reach(language, best_reach(of)),
            met,
            seconds,
        )
    return table


def _claim_in_full(claim: str, says: str, of: Sequence[Verdict], language: Language) -> list[RenderableType]:
    from rich.text import Text

    worst = of_claim(of)
    lines: list[RenderableType] = [Text.assemble((claim, "bold"), "  ", _word(language, worst)), _indented(says, 2)]
    if of[0].expect:
        lines.append(_indented(say(language, "expected", expect=of[0].expect), 2))
    for v in of:
        seconds = "" if v.seconds is None else f"{v.seconds:.1f} s"
        facts = (say(language, v.verdict), _reach(language, v.reach), v.level, seconds, values.short(v.evidence or ""))
        head = f"{v.build or '-'}{say(language, 'colon')}{say(language, 'comma').join(filter(None, facts))}"
        lines.append(_indented(head, 2, _STYLES[v.verdict]))
        lines += [_indented(text, 6) for text in (values.observed(v.observed), v.reason) if text]
    return [*lines, Text()]


def _reasons(rows: Mapping[str, Sequence[Verdict]], language: Language) -> list[RenderableType]:
    """Why claims do not hold: a line a reason, with the claims that share it."""
    shared: dict[tuple[str, str], dict[str, None]] = {}
    for claim, of in rows.items():
        worst = of_claim(of)
        for v in of:
            if worst != "holds" and v.verdict == worst:
                shared.setdefault((worst, _reason(v, language)), {})[claim] = None
    lines: list[RenderableType] = []
    for (verdict, reason), claims in shared.items():
        which = ", ".join(claims) if len(claims) <= 4 else say(language, "many_claims", count=len(claims))
        head = f"{say(language, verdict)} ({which}){say(language, 'colon')}"
        lines.append(_indented(f"{head}{reason}", 2, _STYLES[verdict]))
    return lines


def _reason(v: Verdict, language: Language) -> str:
    if v.verdict == "contradicted":
        return say(language, "expected_observed", expect=v.expect, observed=values.observed(v.observed), build=v.build)
    return v.reason


def count_line(verdicts: Sequence[Verdict], language: Language) -> Text:
    """How many claims, with which verdicts and reach, and how many rows were answered by kept evidence."""
    counts = summary(verdicts)
    total = "one_claim" if counts["claims"] == 1 else "claims_count"
    parts = [say(language, total, claims=counts["claims"], parts=_counted(counts["verdicts"], language))]
    if any(counts["reach"].values()):
        parts.append(say(language, "reach") + say(language, "colon") + _counted(counts["reach"], language))
    if counts["reused"]:
        parts.append(say(language, "reused_count", count=counts["reused"], rows=counts["rows"]))
    return _text("\n".join(parts))


def _counted(counts: Mapping[str, int], language: Language) -> str:
    """`holds 12, not run 1`: the words that occur, with how often."""
    comma = say(language, "comma")
    return comma.join(say(language, "count", count=n, word=say(language, word)) for word, n in counts.items() if n)


def grade_view(card: Card, grade: Grade, language: Language) -> Group:
    """The score, each point with the words that earned it, what the engines contradict, and the next question."""
    from rich.console import Group
    from rich.panel import Panel

    score = say(language, "score", score=f"{grade.score:.1f}")
    parts: list[RenderableType] = [
        Panel(_text(f"{score}\n{card.title.of(language)}", "bold"), title=card.id, title_align="left")
    ]
    criteria = {point.id: point.criterion.of(language) for point in card.rubric}
    for point in grade.points:
        parts += _point(point, criteria.get(point.point, ""), language)
    parts += _layers(grade, language)
    for title, found in _groups(grade.findings):
        if found:
            parts.append(_text(f"\n{say(language, title)}", "bold red" if "contradicted" in title else "bold"))
        for finding in found:
            parts += _finding(finding, language)
    for followup in card.followups:
        if followup.id == grade.followup:
            parts += [
                _text(f"\n{say(language, 'next_question')}", "bold"),
                _indented(followup.question.of(language), 2),
            ]
    return Group(*parts)


def _point(point: PointGrade, criterion: str, language: Language) -> list[RenderableType]:
    word = "full" if point.award >= 1 else "half" if point.award > 0 else "none"
    earned = values.value(float(point.award * point.points))
    style = {"full": "green", "half": "yellow", "none": "red"}[word]
    lines: list[RenderableType] = [_text(f"{earned:>3} / {point.points}  {point.point} ({say(language, word)})", style)]
    if point.span:
        lines.append(_indented(say(language, "quote", text=" ".join(point.span.split())), 9))
    if point.why and point.award < 1:
        lines.append(_indented(point.why, 9))
    if point.award < 1 and criterion:
        lines.append(_indented(say(language, "full_point", text=criterion), 9))
    return lines


def _layers(grade: Grade, language: Language) -> list[RenderableType]:
    """Which of the five layers the answer covers, and which it leaves out."""
    from inferproof.grading.layers import LAYERS

    lines: list[RenderableType] = []
    for key, part, covered in (("layers_covered", "covered", True), ("layers_open", "open", False)):
        named = [say(language, layer) for layer in LAYERS if (layer in grade.layers) == covered]
        if named:
            text = say(language, key, **{part: say(language, "comma").join(named)})
            lines.append(_text(f"\n{text}" if covered or not grade.layers else text))
    return lines


def _groups(findings: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Findings under their titles: against what was measured, published or computed, unproven errors, supported."""
    wrong = [f for f in findings if f.verdict == "contradicted"]
    return [
        ("contradicted_title", [f for f in wrong if not _is_computed(f) and not f.recorded]),
        ("recorded_contradicted_title", [f for f in wrong if f.recorded]),
        ("computed_contradicted_title", [f for f in wrong if _is_computed(f)]),
        ("unproven_title", [f for f in findings if f.verdict == "not checked" and f.misconception]),
        ("supported_title", [f for f in findings if f.verdict == "supported"]),
        ("not checked_title", [f for f in findings if _is_open(f)]),
    ]


def _is_open(finding: Finding) -> bool:
    """Whether it is about parameters of the answer's own, and there is no evidence under those."""
    return finding.verdict == "not checked" and bool(finding.given)


def _is_computed(finding: Finding) -> bool:
    """Whether its number was worked out rather than measured."""
    return finding.evidence is None and finding.observed is not None


def _finding(finding: Finding, language: Language) -> list[RenderableType]:
    lines: list[RenderableType] = [_indented(say(language, "quote", text=" ".join(finding.span.split())), 2)]
    if finding.given:
        lines.append(_indented(say(language, "own_parameters", given=values.observed(finding.given)), 4))
    if _is_computed(finding):
        lines.append(_indented(say(language, "stated_computed", observed=finding.observed, stated=finding.stated), 4))
    elif finding.observed is not None:
        seen = values.value(finding.observed)
        said = {"stated": values.value(finding.stated)} if finding.stated is not None else {}
        where = say(
            language, "where_measured", build=finding.build or "-", evidence=values.short(finding.evidence or "-")
        )
        lines.append(
            _indented(f"{say(language, 'stated_measured' if said else 'measured', observed=seen, **said)} ({where})", 4)
        )
    for name in finding.recorded:
        lines.append(_indented(say(language, "recorded_figure", figure=_figure(name)), 4))
    if finding.verdict != "supported":
        if finding.instead and not _is_open(finding):
            lines.append(_indented(say(language, "instead", text=finding.instead), 4))
        lines += [_indented(say(language, _again(finding)), 4), _text(_command(finding.rerun), "cyan")]
    return lines


def _again(finding: Finding) -> str:
    """What its command is for."""
    if finding.recorded:
        return "recorded_again"
    return "measure" if _is_open(finding) else "compute_again" if _is_computed(finding) else "measure_again"


def _figure(name: str) -> str:
    from inferproof.questions.recorded import load_recorded

    figure = load_recorded()[name]
    setting = ", ".join(f"{key} {value}" for key, value in figure.setting.items())
    unit = "x" if figure.unit == "ratio" else f" {figure.unit}"
    return f"{figure.engine} {figure.quantity} {figure.value}{unit} ({setting})"


def _command(command: str) -> str:
    """A command that can be copied even where it takes two lines: not padded, since no space may follow a backslash."""
    return "    " + " \\\n      ".join(wrap(command, 70, break_long_words=False, break_on_hyphens=False))


def builds_table(builds: Iterable[Build], states: Mapping[str, BuildState], language: Language) -> Table:
    """Each build: its version, the levels it can run, whether it is there, how it stands to the pinned commit.

    states  build name -> "ready", "not set up" or "broken"; a build not in it is shown as not set up.
    """
    table = _table(language, "build", "version", "levels", "state", "stands")
    table.columns[3].no_wrap = True
    for build in builds:
        stands = say(language, build.stands_to_pin.relation) if build.stands_to_pin else ""
        state = _word(language, "by hand" if build.refusal else states.get(build.name, "not set up"))
        table.add_row(_text(build.name), _text(build.version), ", ".join(build.levels), state, stands)
    return table


def doctor_table(findings: Iterable[doctor.Finding], language: Language) -> Table:
    """Each thing looked at: how it stands, what was found, and the remedy below it where there is one."""
    table = _table(language, "check", "state", "found")
    table.columns[1].no_wrap = True
    for finding in findings:
        found = _text(_of(finding.message, language))
        if finding.remedy:
            found.append(f"\n{say(language, 'remedy', text=_of(finding.remedy, language))}", style="italic")
        table.add_row(_text(finding.subject), _word(language, finding.status), found)
    return table


def _of(words: Bilingual, language: Language) -> str:
    return words.zh if language == "zh" else words.en


def _word(language: Language, word: str) -> Text:
    return _text(say(language, word), _STYLES[word])


def _reach(language: Language, reach: str | None) -> str:
    return say(language, reach) if reach else ""
