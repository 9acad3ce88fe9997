"""`export`: the cards in other programs' formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferproof.reports.commands.common import chosen_language, fail, group, read_deck, t
from inferproof.reports.commands.options import CardsOption

app = group("The cards in other programs' formats.", "把题卡导出为其他程序的格式。")


@app.command(
    "anki",
    help=t(
        "An Anki package: questions, follow-ups and misconceptions, a deck a language. "
        "Importing a later export updates the notes.",
        "Anki 牌组：题目、追问和常见误解，每种语言一个牌组。再次导入会更新原有笔记。",
    ),
)
def export_anki(
    file: Annotated[Path, typer.Argument(metavar="FILE.apkg")],
    lang: Annotated[
        str | None, typer.Option("--lang", help=t("zh or en only (default: both).", "只导出 zh 或 en（默认两种）。"))
    ] = None,
    cards: CardsOption = None,
) -> None:
    """Export to Anki."""
    from inferproof.reports.anki import write

    if not file.absolute().parent.is_dir():
        fail(t(f"there is no folder {file.parent}", f"没有文件夹 {file.parent}"))
    count = write(file, read_deck(cards).values(), [chosen_language(lang)] if lang else ["en", "zh"])
    typer.echo(t(f"{count} notes written to {file}", f"{count} 条笔记已写入 {file}"))
