"""Pictures drawn from evidence, verdicts and attempts. What there is no evidence for is not drawn, and said in words.

matplotlib is an optional dependency: without it there are no pictures, and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from inferproof.grading.attempts import Attempt
from inferproof.grading.verdict import Verdict
from inferproof.questions.card import Language
from inferproof.reports import canvas, gantt, schedules, series, values
from inferproof.reports.canvas import BLUE, GREY, INK, ORANGE, RED, SAND
from inferproof.reports.words import say
from inferproof.runners.evidence import Evidence

MATRIX_ROWS = 48
"""Claims that one verdict matrix shows at most; more go on a further picture."""
_CELLS = {
    "holds": ("H", "#cfe3d4"), "contradicted": ("C", "#e7b3ad"), "inconclusive": ("I", "#f1e2b3"),
    "not run": ("–", "#f1f2f4"), "error": ("E", "#dcc5e3"),
}  # fmt: skip
Say = Callable[..., str]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One PNG file of a report."""

    file: str
    title: str
    caption: str
    section: Literal["engines", "attempts"]


def draw(
    folder: Path,
    verdicts: Sequence[Verdict],
    evidence: Sequence[Evidence],
    attempts: Sequence[Attempt],
    language: Language,
) -> tuple[list[Picture], list[str]]:
    """Write the PNG files that the data allows; return them, and a sentence for each missing one. Raises OSError."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        return [], [say(language, "no_matplotlib")]
    font = canvas.cjk_font() if language == "zh" else None
    inside: Say = partial(say, "zh" if font else "en")
    drawn: list[Picture] = []
    absent: list[str] = []
    with mpl.rc_context(canvas.style(font)):
        for name, figures in (
            ("cache", _cache(series.cache_sends(evidence), inside)),
            ("schedule", gantt.strips(schedules.schedules(evidence), inside)),
            ("pressure", _pressure(series.pressure_runs(evidence), inside)),
            ("beam", _beam(series.beam_search(evidence), inside)),
            ("prefill", _prefill(series.prefill_times(evidence), inside)),
            ("verdicts", _matrix(verdicts, inside)),
            ("scores", _scores(attempts, inside)),
        ):
            count = 0
            for count, figure in enumerate(figures, 1):
                file = f"{name}.png" if count == 1 else f"{name}-{count}.png"
                canvas.save(figure, folder / file)
                title, caption = say(language, f"picture_{name}_title"), say(language, f"caption_{name}")
                section: Literal["engines", "attempts"] = "attempts" if name == "scores" else "engines"
                drawn.append(Picture(file=file, title=title, caption=caption, section=section))
            if not count:
                absent.append(say(language, "picture_absent", title=say(language, f"picture_{name}_title")))
    return drawn, absent


def _cache(sends: Sequence[series.CacheSend], say: Say) -> Iterator[Any]:
    """How much of the second send came from the cache: a bar a case, the engines apart."""
    if not sends:
        return
    figure, (axes,) = canvas.figure(1.3 + 0.34 * (len(sends) + len({s.engine for s in sends})))
    place, places, labels = 0.0, [], []
    for engine in dict.fromkeys(send.engine for send in sends):
        axes.text(-0.01, place, engine, transform=axes.get_yaxis_transform(), ha="right", va="center", weight="bold")
        for send in (s for s in sends if s.engine == engine):
            place += 1
            share = 100 * send.cached / send.prompt
            axes.barh(place, share, color=BLUE, height=0.66)
            axes.barh(place, 100 - share, left=share, color=GREY, height=0.66)
            axes.text(101.5, place, f"{send.cached} / {send.prompt}", va="center")
            places.append(place)
            labels.append(send.case)
        place += 1.3
    axes.set_yticks(places, labels)
    axes.text(101.5, 0, say("picture_cache_counts"), va="center", fontsize=9)
    axes.set_ylim(max(places) + 0.7, -0.6)
    axes.set_xlim(0, 100)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(say("picture_cache_axis"))
    canvas.legend(axes, {say("picture_cache_hit"): BLUE, say("picture_cache_new"): GREY})
    yield figure


def _pressure(runs: Sequence[series.PressureRun], say: Say) -> Iterator[Any]:
    """Running and waiting requests over the run, a panel a run, all on one axis."""
    if not runs:
        return
    figure, grid = canvas.figure(1.0 + 1.75 * len(runs), panels=len(runs))
    top = max(run.most for run in runs) * 1.12
    for axes, run in zip(grid, runs, strict=True):
        axes.fill_between(run.progress, run.waiting, step="post", color=SAND, linewidth=0)
        axes.step(run.progress, run.running, where="post", color=BLUE, linewidth=1.8)
        for at in run.losses:
            axes.axvline(at, color=RED, linewidth=1.1, linestyle=(0, (2, 2)))
            axes.plot(at, top, marker="v", color=RED, markersize=7, clip_on=False)
        lost = say("picture_preempted" if run.engine == "vllm" else "picture_retracted")
        axes.set_title(f"{run.label}: {run.lost} {lost}", loc="left", fontsize=10, pad=10)
        axes.set_xlim(0, 100)
        axes.set_ylim(0, top)
        axes.set_ylabel(say("picture_requests"))
        axes.yaxis.get_major_locator().set_params(integer=True)
    grid[-1].set_xlabel(say("picture_step"))
    canvas.legend(
        grid[0], {say("picture_running"): BLUE, say("picture_waiting"): SAND, say("picture_lost"): RED}, above=1.24
    )
    yield figure


def _beam(search: series.BeamSearch | None, say: Say) -> Iterator[Any]:
    """Prompt tokens of every round, cached and computed, with how many requests carried them."""
    if search is None:
        return
    figure, (axes,) = canvas.figure(3.6)
    rounds = range(1, len(search.requests) + 1)
    computed = [p - c for p, c in zip(search.prompt, search.cached, strict=True)]
    axes.bar(rounds, search.cached, color=BLUE, width=0.66)
    axes.bar(rounds, computed, bottom=search.cached, color=ORANGE, width=0.66)
    for at, (requests, prompt, new) in enumerate(zip(search.requests, search.prompt, computed, strict=True), 1):
        axes.text(
            at, prompt, say("picture_beam_note", requests=requests, computed=new), ha="center", va="bottom", fontsize=9
        )
    axes.set_xticks(list(rounds))
    axes.set_ylim(0, max(search.prompt) * 1.22)
    axes.set_xlabel(f"{say('picture_round')} ({search.label})")
    axes.set_ylabel(say("picture_beam_tokens"))
    canvas.legend(axes, {say("picture_cache_hit"): BLUE, say("picture_cache_new"): ORANGE})
    yield figure


def _prefill(runs: Sequence[series.PrefillTimes], say: Say) -> Iterator[Any]:
    """Measured prefill times over the three parts of their fit, an engine a panel."""
    if not runs:
        return
    figure, panels = canvas.figure(2.4 * len(runs) + 0.6, len(runs))
    for axes, run in zip(panels, runs, strict=True):
        parts = (run.fixed, run.linear, run.quadratic)
        axes.stackplot(run.tokens, *parts, colors=(GREY, SAND, ORANGE))
        axes.plot(run.tokens, run.measured, "o", color=BLUE, markersize=5)
        axes.set_title(run.label, loc="left", fontsize=10)
        axes.set_ylabel("TTFT, ms")
        axes.set_xlim(0, run.tokens[-1] * 1.02)
        axes.set_ylim(0)
    panels[-1].set_xticks(runs[-1].tokens)
    panels[-1].set_xlabel(say("picture_prefill_axis"))
    colours = {"picture_measured": BLUE, "picture_fixed": GREY, "picture_linear": SAND, "picture_quadratic": ORANGE}
    canvas.legend(panels[0], {say(key): colour for key, colour in colours.items()}, above=1.12)
    yield figure


def _matrix(verdicts: Sequence[Verdict], say: Say) -> Iterator[Any]:
    """Claims down, builds across; a letter and a shade a cell."""
    claims = values.by_claim(v for v in verdicts if v.build)
    builds = list(dict.fromkeys(v.build for v in verdicts if v.build))
    names = list(claims)
    for start in range(0, len(names), MATRIX_ROWS):
        part = names[start : start + MATRIX_ROWS]
        cards = list(dict.fromkeys(card for card, _ in part))
        figure, (axes,) = canvas.figure(1.5 + 0.24 * (len(part) + 1.2 * len(cards)))
        row, places, labels = 0.0, [], []
        for card in cards:
            axes.text(-0.01, row, card, transform=axes.get_yaxis_transform(), ha="right", va="center", weight="bold")
            for name in (n for n in part if n[0] == card):
                row += 1
                places.append(row)
                labels.append(name[1])
                for v in claims[name]:
                    _matrix_cell(axes, builds.index(str(v.build)), row, v.verdict)
            row += 1.2
        axes.set_yticks(places, labels)
        axes.set_xticks(range(len(builds)), builds, rotation=20, ha="left")
        axes.xaxis.tick_top()
        axes.set_xlim(-0.5, len(builds) - 0.5)
        axes.set_ylim(row - 0.6, -0.7)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        axes.set_xlabel(say("picture_verdicts_key"), labelpad=8)
        yield figure


def _matrix_cell(axes: Any, column: int, row: float, verdict: str) -> None:
    letter, shade = _CELLS[verdict]
    axes.barh(row, 0.94, left=column - 0.47, height=0.86, color=shade)
    axes.text(column, row, letter, ha="center", va="center", fontsize=9, color=INK)


def _scores(attempts: Sequence[Attempt], say: Say) -> Iterator[Any]:
    """The score of every attempt in order, a line a card."""
    if not attempts:
        return
    figure, (axes,) = canvas.figure(2.8 + 0.2 * math.ceil(len({a.card for a in attempts}) / 3))
    for index, card in enumerate(dict.fromkeys(a.card for a in attempts)):
        points = [(at, a.grade.score) for at, a in enumerate(attempts, 1) if a.card == card]
        axes.plot(
            *zip(*points, strict=True),
            marker="osD^vP*X"[index % 8],
            linewidth=1.6,
            markersize=7,
            label=card,
            clip_on=False,
        )
    axes.set_xlim(0.7, len(attempts) + 0.3)
    axes.set_ylim(0, 10)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_xlabel(say("picture_attempt"))
    axes.set_ylabel(say("picture_score"))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, frameon=False)
    yield figure
