"""What a person is given to diagnose: the run's table, and the engine's own log lines where they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferproof.grading.diagnose import Exhibit
from inferproof.grading.workload import Language, Said, shown
from inferproof.reports.wrap import folded
from inferproof.runners.excerpt import abridged, batch_lines

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

_WORDS = {
    "en": {
        "task": "Name the bottleneck, and the evidence you would fetch next.",
        "log": "From the engine's log (some fields left out):",
        "cpu": "Measured on a CPU with a tiny random model: read counts, orders and ratios, not milliseconds.",
        "source": "{build}, level {level}: inferproof evidence show {evidence}",
    },
    "zh": {
        "task": "请指出瓶颈，并说明下一步要取什么证据。",
        "log": "引擎日志节选（略去部分字段）：",
        "cpu": "在 CPU 上用极小的随机模型测得：看次数、顺序和比例，不看毫秒本身。",
        "source": "{build}，层级 {level}：inferproof evidence show {evidence}",
    },
}


def exhibit_view(exhibit: Exhibit, logs: Path, language: Language) -> Group:
    """The case as a person sees it; it does not say which symptom it shows."""
    from rich.console import Group
    from rich.text import Text

    words, task = _WORDS[language], exhibit.evidence.task
    parts: list[RenderableType] = [Text(folded(said.of(language, exhibit.values))) for said in exhibit.case.says]
    parts += [Text(), _table(exhibit, language)]
    if lines := excerpt(exhibit, logs):
        parts += [Text(f"\n{words['log']}"), *(Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in lines)]
    source = words["source"].format(build=task["build"], level=task["level"], evidence=exhibit.evidence.id[:10])
    notes = [words["cpu"]] if task["level"] == "engine" else []
    parts += [Text("\n" + "\n".join(map(folded, [*notes, source])), style="dim")]
    return Group(*parts, Text(f"\n{words['task']}\n", style="bold"))


def _table(exhibit: Exhibit, language: Language) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for number, column in enumerate(exhibit.case.columns):
        table.add_column(column.of(language, {}), justify="right" if number else "left")
    for row in exhibit.case.rows(exhibit.values):
        table.add_row(*(str(_cell(value, language, shown)) for value in row))
    return table


def _cell(value: Any, language: Language, form: Any = lambda value, _: value) -> Any:
    return value.of(language, {}) if isinstance(value, Said) else form(value, language)


def excerpt(exhibit: Exhibit, logs: Path) -> list[str]:
    """The engine's log lines that the case shows."""
    return abridged(batch_lines(exhibit.evidence, logs)) if exhibit.case.log else []


def exhibit_json(exhibit: Exhibit, logs: Path, language: Language) -> dict[str, Any]:
    """The same as JSON values."""
    task, columns = exhibit.evidence.task, [column.of(language, {}) for column in exhibit.case.columns]
    rows = [[_cell(value, language) for value in row] for row in exhibit.case.rows(exhibit.values)]
    return {
        "case": exhibit.case.id,
        "point": exhibit.case.point,
        "says": [said.of(language, exhibit.values) for said in exhibit.case.says],
        "table": [dict(zip(columns, row, strict=True)) for row in rows],
        "log": excerpt(exhibit, logs),
        "workload": {name: task[name] for name in ("engine", "build", "level", "probe", "params")},
        "evidence": exhibit.evidence.id,
    }
