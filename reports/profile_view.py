"""A profile at the terminal and as JSON: each published figure beside the measured one, relations, agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from inferproof.grading.profile import Comparison, Related, Row
from inferproof.questions.card import Language

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_WORDS = {
    "title": ("Profile {name}{where}", "配置 {name}{where}"),
    "where": (", measured on {builds}", "，实测于 {builds}"),
    "rehearsal": (
        "A rehearsal: the same code on another machine; ratios of times say nothing about the published one. {how}",
        "这是演练：同一套代码，机器不同于发表数据的机器，时间比值不说明任何问题。{how}",
    ),
    "section": ("Section {n}: {title}", "第 {n} 节：{title}"),
    "figure": ("published figure", "已发表的数据"),
    "published": ("published", "发表值"),
    "measured": ("measured", "实测值"),
    "ratio": ("ratio", "比值"),
    "not run": ("not run", "未运行"),
    "counts": (
        "{measured} of {all} figures have a measured one beside them; not run:",
        "{all} 个数据中有 {measured} 个有实测值；未运行的原因：",
    ),
    "relations": ("Relations: what must hold whatever the machine", "关系：无论什么机器都应成立"),
    "relations here": (
        "Relations, as they came out here (no verdict on the A100)",
        "关系：在本机的结果（不是对 A100 的判定）",
    ),
    "holds": ("holds", "成立"),
    "contradicted": ("contradicted", "被推翻"),
    "differs": ("differs here", "本机不同"),
    "agreement": (
        "Our client beside the server's histograms (means, ms; ratio = client / server)",
        "本工具的客户端与服务自身直方图对照（均值，毫秒；比值 = 客户端 / 服务）",
    ),
    "client": ("client", "客户端"),
    "ours": ("{engine}, ours", "{engine}，本工具"),
    "bench": ("{engine}, its own bench", "{engine}，自带压测"),
    "server": ("server", "服务"),
}

_UNITS = {"count": "", "ratio": "x", "percent": "%", "tokens/s": "tok/s"}
_WIDTHS = (41, 15, 10, 9)
"""Of the columns; with a space between them they fit 80."""
_AGREEMENT = (
    ("ours", ("ttft_ms", "server_ttft_ms", "ttft_ratio", "itl_ms", "server_itl_ms", "itl_ratio")),
    (
        "bench",
        (
            "bench_ttft_ms", "bench_server_ttft_ms", "bench_ttft_ratio",
            "bench_itl_ms", "bench_server_itl_ms", "bench_itl_ratio",
        ),
    ),
)  # fmt: skip


def profile_view(comparison: Comparison, language: Language) -> Group:
    """The whole comparison."""
    from rich.console import Group
    from rich.text import Text

    profile = comparison.planned.profile
    told = [*(row.reason for row in comparison.rows), *(related.reason for related in comparison.relations)]
    reasons = list(dict.fromkeys(filter(None, told)))
    letters = dict(zip(reasons, ascii_lowercase, strict=False))
    builds = ", ".join(sorted({_where(e.build) for e in comparison.evidence.values()}))
    where = _say("where", language, builds=builds) if builds else ""
    parts: list[RenderableType] = [Text(_say("title", language, name=profile.name, where=where), style="bold")]
    if comparison.planned.rehearse:
        parts.append(Text(_say("rehearsal", language, how=getattr(profile.rehearsed, language)), style="yellow"))
    for section, title in profile.sections.items():
        rows = [row for row in comparison.rows if row.figure.section == section]
        head = _say("section", language, n=section, title=getattr(title, language))
        parts += [Text(), Text(head, style="bold"), _figures(rows, letters, language)]
    measured = sum(row.measured is not None for row in comparison.rows)
    parts += [Text(), *_relations(comparison, letters, language), *_agreement(comparison, language)]
    parts += [Text(), Text(_say("counts", language, measured=measured, all=len(comparison.rows))), _legend(letters)]
    return Group(*parts)


def _legend(letters: Mapping[str, str]) -> Table:
    from rich.table import Table

    legend = Table.grid(padding=(0, 1))
    for reason, letter in letters.items():
        legend.add_row(f" {letter}", reason, style="dim")
    return legend


def _where(build: Mapping[str, Any]) -> str:
    return f"{build['build']} {build['version']}"


def _table(*columns: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    for head, justify in columns:
        table.add_column(head, justify=justify, no_wrap=justify == "right", overflow="fold")  # type: ignore[arg-type]
    return table


def _figures(rows: Sequence[Row], letters: Mapping[str, str], language: Language) -> RenderableType:
    from rich.text import Text

    heads = [_say(word, language) for word in ("figure", "published", "measured", "ratio")]
    table = _table((heads[0], "left"), *((head, "right") for head in heads[1:]))
    for column, width in zip(table.columns, _WIDTHS, strict=True):
        column.width = width  # the same in every section
    for row in rows:
        if row.measured is None:
            measured = Text(f"{_say('not run', language)} {letters.get(row.reason, '')}", style="dim")
        else:
            measured = Text(number(row.measured))
        unit = _UNITS.get(row.figure.unit, row.figure.unit)
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        table.add_row(row.figure.id, f"{row.figure.value} {unit}".strip(), measured, ratio)
    return table


def _relations(comparison: Comparison, letters: Mapping[str, str], language: Language) -> list[RenderableType]:
    from rich.text import Text

    rehearse = comparison.planned.rehearse
    table = _table(("", "left"), ("", "left"))
    table.show_header = False
    for related in comparison.relations:
        word, style = _verdict(related, rehearse, letters, language)
        seen = ", ".join(number(v) for v in related.observed.values() if v is not None)
        says = Text(getattr(related.relation.says, language))
        table.add_row(Text(word, style=style), says.append(f"  {seen}", style="dim"))
    return [Text(_say("relations here" if rehearse else "relations", language), style="bold"), table]


def _verdict(related: Related, rehearse: bool, letters: Mapping[str, str], language: Language) -> tuple[str, str]:
    if related.verdict == "not run":
        return f"{_say('not run', language)} {letters.get(related.reason, '')}".strip(), "dim"
    if related.verdict == "holds":
        return _say("holds", language), "green"
    return (_say("differs", language), "yellow") if rehearse else (_say("contradicted", language), "bold red")


def _agreement(comparison: Comparison, language: Language) -> list[RenderableType]:
    from rich.text import Text

    found = {k: e for k, e in comparison.evidence.items() if e.task["probe"] == "serving_agreement.clients"}
    if not found:
        return []
    server, ratio = _say("server", language), _say("ratio", language)
    heads = ("TTFT", server, ratio, "ITL", server, ratio)
    table = _table((_say("client", language), "left"), *((head, "right") for head in heads))
    below = []
    for evidence in found.values():
        engine = str(evidence.task["engine"])
        for client, names in _AGREEMENT:
            seen = [evidence.observations[name] for name in names]
            table.add_row(_say(client, language, engine=engine), *("-" if v is None else number(v) for v in seen))
        if missing := evidence.observations["bench_missing"]:
            below.append(Text(f"  {_say('bench', language, engine=engine)}: {missing}", style="dim"))
    return [Text(), Text(_say("agreement", language), style="bold"), table, *below]


def profile_json(comparison: Comparison) -> dict[str, Any]:
    """The same for programs, with the evidence behind every number."""
    planned = comparison.planned
    return {
        "profile": planned.profile.name,
        "rehearsal": planned.rehearse,
        "builds": sorted({_where(e.build) for e in comparison.evidence.values()}),
        "figures": [
            {**asdict(row.figure), "measured": row.measured, "ratio": row.ratio, "not_run": row.reason,
             "cells": list(row.cells), "evidence": list(row.evidence)}
            for row in comparison.rows
        ],
        "relations": [
            {"id": r.id, "says": asdict(r.relation.says), "expect": r.relation.expect,
             "recorded": list(r.relation.recorded), "outcome": r.verdict, "verdict": not planned.rehearse,
             "not_run": r.reason, "observed": r.observed}
            for r in comparison.relations
        ],
        "cells": {
            name: {"evidence": e.id, "build": e.task["build"], "level": e.task["level"], "probe": e.task["probe"],
                   "params": e.task["params"], "observations": e.observations, "flags": e.flags}
            for name, e in comparison.evidence.items()
        },
        "not_run": dict(planned.missing),
    }  # fmt: skip


def number(value: float) -> str:
    """Four significant digits; whole numbers whole."""
    if isinstance(value, int) or (value.is_integer() and abs(value) >= 1000):
        return str(int(value))
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _say(key: str, language: Language, **values: object) -> str:
    return _WORDS[key][language == "zh"].format(**values)
