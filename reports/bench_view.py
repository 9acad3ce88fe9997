"""The benchmark's table for a terminal."""

from __future__ import annotations

from typing import Any

from inferproof.grading.bench import Benchmark, Row
from inferproof.questions.card import Language

_HEAD = {
    "en": ("", "n", "acc", "F1", "kappa", "MAE", "bias", "rec", "prec", "ms", "p95"),
    "zh": ("", "份数", "准确", "F1", "kappa", "误差", "偏差", "召回", "精确", "ms", "p95"),
}
_NOTE = {
    "en": "part: {part}; claims with evidence: {have} of {all}",
    "zh": "部分：{part}；有证据的论断：{have}/{all}",
}
_NOT_RUN = {"en": "{name}: not run: {why}", "zh": "{name}：未运行：{why}"}


def bench_view(result: Benchmark, language: Language) -> Any:
    """Rows by language and kind, then the baselines."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for i, title in enumerate(_HEAD[language]):
        table.add_column(title, justify="right" if i else "left", no_wrap=True)
    for rows in (result.rows[:1], result.rows[1:4], result.rows[4:], result.baselines):
        for row in rows:
            table.add_row(*_cells(row))
        table.add_section()
    note = _NOTE[language].format(part=result.part, have=result.claims_with_evidence, all=result.claims)
    missing = (Text(_NOT_RUN[language].format(name=name, why=why)) for name, why in result.not_run.items())
    return Group(table, note, *missing)


def _cells(row: Row) -> list[str]:
    measures = (row.point_accuracy, row.macro_f1, row.kappa, row.error, row.bias, row.recall, row.precision)
    times = (row.median_ms, row.p95_ms)
    return [
        row.name,
        str(row.answers),
        *("-" if m is None else f"{m:.2f}" for m in measures),
        *("-" if t is None else f"{t:.0f}" for t in times),
    ]
