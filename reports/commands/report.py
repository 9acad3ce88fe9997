"""`report`: Markdown with pictures, or one HTML page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferproof.reports.commands.common import chosen_language, group, known, open_ledger, read_deck, t
from inferproof.reports.commands.options import CardName, CardsOption, LangOption

if TYPE_CHECKING:
    from inferproof.questions.card import Language

app = group("Reports with pictures, as Markdown or one HTML page.", "带图的报告：Markdown 或单个 HTML 页面。")

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help=t("Folder for Markdown and pictures (default: report).", "Markdown 与图的目录（缺省 report）。"),
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=t("Write one self-contained HTML page.", "写成一个自包含的 HTML 页面。")),
]


@app.command(
    "study",
    help=t(
        "Attempts, weak points, what the engines did, every card and claim.\n\n"
        "Examples: inferproof report study -o report --lang en | inferproof report study --html study.html",
        "作答、薄弱点、引擎实际做了什么、每张题卡与论断。\n\n"
        "例：inferproof report study -o report --lang zh | inferproof report study --html study.html",
    ),
)
def report_study(
    output: OutputOption = None, html: HtmlOption = None, cards: CardsOption = None, lang: LangOption = None
) -> None:
    """Write the study report."""
    from inferproof.grading.attempts import kept
    from inferproof.grading.verify import known_evidence, select
    from inferproof.questions.recorded import load_recorded
    from inferproof.reports.study import write
    from inferproof.runners.site import this_site

    language = chosen_language(lang)
    deck = read_deck(cards)
    site = this_site()
    with open_ledger() as ledger:
        verdicts, evidence = known_evidence(select(deck, []), site, ledger, language)
        attempts = kept(ledger)
    written = partial(
        write, deck=deck, verdicts=verdicts, evidence=evidence, attempts=attempts, identities=site.identities,
        recorded=load_recorded(), language=language,
    )  # fmt: skip
    _deliver(written, "report", output, html, language)


@app.command(
    "card",
    help=t(
        "One card: its claims on every build, your answers, the model answer.\n\n"
        "Example: inferproof report card prefix-cache-ttft --html card.html",
        "一张题卡：各构建上的论断、你的回答、参考答案。\n\n"
        "例：inferproof report card prefix-cache-ttft --html card.html",
    ),
)
def report_card(
    card: CardName,
    output: OutputOption = None,
    html: HtmlOption = None,
    cards: CardsOption = None,
    lang: LangOption = None,
) -> None:
    """Write the report of one card."""
    from inferproof.grading.attempts import kept
    from inferproof.grading.verify import known_evidence, select
    from inferproof.questions.recorded import load_recorded
    from inferproof.reports.card_report import write
    from inferproof.runners.site import this_site

    language = chosen_language(lang)
    deck = read_deck(cards)
    one = deck[known(card, deck)]
    with open_ledger() as ledger:
        verdicts, evidence = known_evidence(select(deck, [card]), this_site(), ledger, language)
        attempts = kept(ledger)
    written = partial(
        write, card=one, verdicts=verdicts, evidence=evidence, attempts=attempts, recorded=load_recorded(),
        language=language,
    )  # fmt: skip
    _deliver(written, f"report/{card}", output, html, language)


@app.command(
    "evidence",
    help=t(
        "What every probe observed on this machine.\n\nExample: inferproof report evidence --html evidence.html",
        "每个探针在本机上观测到什么。\n\n例：inferproof report evidence --html evidence.html",
    ),
)
def report_evidence(output: OutputOption = None, html: HtmlOption = None, lang: LangOption = None) -> None:
    """Write the report of the evidence."""
    from inferproof.reports.evidence_report import write

    language = chosen_language(lang)
    with open_ledger() as ledger:
        evidence = list(ledger.evidence())
    _deliver(partial(write, evidence=evidence, language=language), "report/evidence", output, html, language)


def _deliver(
    write: Callable[[Path], Path], folder: str, output: Path | None, html: Path | None, language: Language
) -> None:
    """Markdown in a folder, `folder` where none is named, unless only a page is wanted."""
    from inferproof.reports.page import deliver

    for path in deliver(write, output or (None if html else Path(folder)), html, language):
        typer.echo(t(f"report written to {path}", f"报告已写入 {path}"))
