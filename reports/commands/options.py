"""Arguments and options that several commands take, and what a shell completes them to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferproof.reports.commands.common import t

CardsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--cards", help=t("Your own card file or folder, beside the shipped ones.", "自带的题卡文件或目录（可多次）。")
    ),
]
LangOption = Annotated[
    str | None, typer.Option("--lang", help=t("zh or en (default: your locale).", "zh 或 en（默认随系统语言）。"))
]
JsonOption = Annotated[
    bool, typer.Option("--json", help=t("Machine-readable output on stdout.", "在标准输出给出 JSON。"))
]


def cards_like(incomplete: str) -> list[str]:
    """Cards whose id starts so."""
    from inferproof.questions.headings import headings
    from inferproof.runners.paths import cache_dir

    return [card for card in headings(cache_dir() / "headings.json", []) if card.startswith(incomplete)]


def builds_like(incomplete: str) -> list[str]:
    """Builds whose name starts so."""
    from inferproof.runners.builds import load_builds

    return [build for build in load_builds() if build.startswith(incomplete)]


CardName = Annotated[str, typer.Argument(autocompletion=cards_like)]
BuildName = Annotated[str, typer.Argument(autocompletion=builds_like)]
ClaimNames = Annotated[
    list[str] | None, typer.Argument(metavar="[CARD|CARD/CLAIM|PROBE]...", autocompletion=cards_like)
]
RunOption = Annotated[
    bool,
    typer.Option(
        "--run",
        help=t(
            "Measure numbers stated under parameters of the answer's own (a 1040-token prompt).",
            "回答自带参数（如 1040 token 的提示词）时，按这些参数实测其中的数字。",
        ),
    ),
]
LevelOption = Annotated[str | None, typer.Option(help=t("Only at this level.", "只在这一层级运行。"))]
