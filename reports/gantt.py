"""The schedule as strips: requests down, steps across, prefill and decode in two colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from inferproof.reports import canvas
from inferproof.reports.canvas import BLUE, ORANGE
from inferproof.reports.schedules import Schedule

UNSEEN = "#eceef1"
"""Steps of other runs, of which this one has no record or shows none."""


def strips(runs: Sequence[Schedule], say: Callable[..., str]) -> Iterator[Any]:
    """One picture, a panel a run, all on one axis of steps."""
    if not runs:
        return
    heights = [run.streams + run.prompts + 1.6 for run in runs]
    figure, panels = canvas.figure(0.9 + 0.3 * sum(heights), len(runs), heights)
    steps = [cell.step for run in runs for cell in run.cells]
    for axes, run in zip(panels, runs, strict=True):
        _strip(axes, run, say)
        own = [cell.step for cell in run.cells]
        for start, end in ((min(steps), min(own)), (max(own) + 1, max(steps) + 1)):
            axes.axvspan(start - 0.5, end - 0.5, color=UNSEEN, linewidth=0)
        axes.set_xlim(min(steps) - 0.5, max(steps) + 0.5)
    panels[-1].tick_params(axis="x", labelbottom=True)
    panels[-1].set_xlabel(say("picture_schedule_axis"))
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    colours = {say("picture_prefill"): ORANGE, say("picture_decode"): BLUE, say("picture_unseen"): UNSEEN}
    canvas.legend(panels[0], colours, above=1.18)
    yield figure


def _strip(axes: Any, run: Schedule, say: Callable[..., str]) -> None:
    for cell in run.cells:
        axes.barh(cell.lane, 0.92, left=cell.step - 0.46, height=0.8, color=ORANGE if cell.prefill else BLUE)
        if cell.prefill:
            axes.text(cell.step, cell.lane, str(cell.tokens), ha="center", va="center", fontsize=7.5)
    lanes = [*_numbered(say("picture_stream"), run.streams), *_numbered(say("picture_prompt"), run.prompts)]
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.tick_params(length=0)
    axes.tick_params(axis="x", labelbottom=False)
    axes.set_title(run.label, loc="left", fontsize=10)


def _numbered(word: str, count: int) -> list[str]:
    return [word] if count == 1 else [f"{word} {n}" for n in range(1, count + 1)]
