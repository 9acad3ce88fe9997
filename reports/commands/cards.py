"""`cards`: the question cards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferproof.reports.commands.common import USAGE, chosen_language, console, group, known, print_json, read_deck, t
from inferproof.reports.commands.options import CardName, CardsOption, JsonOption, LangOption

app = group("The question cards.", "题卡。")


@app.command(
    "lint",
    help=t("Check cards: form, references, probes, predicates, glossary.", "检查题卡：格式、引用、探针、谓词、词表。"),
)
def lint_cards(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...")] = None,
    examples: Annotated[
        bool,
        typer.Option("--examples", help=t("Grade the cards' own example sentences too.", "同时给题卡自带的例句评分。")),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Lint the shipped cards and those below the given paths."""
    from inferproof.grading.examples import count, misgraded
    from inferproof.grading.glossary import glossary
    from inferproof.grading.lint import lint
    from inferproof.questions.deck import DeckError, load_deck
    from inferproof.questions.recorded import load_recorded

    try:
        deck = load_deck(paths or [])
        problems = lint(deck, {f.id for f in load_recorded().figures}, set(glossary().concepts))
        problems += misgraded(deck) if examples and not problems else []
    except DeckError as error:
        deck, problems = {}, list(error.problems)
    if as_json:
        print_json({"cards": len(deck), "problems": [p._asdict() for p in problems]})
    elif problems:
        typer.echo("\n".join(map(str, problems)), err=True)
    else:
        said = t(f", {count(deck)} examples", f"，{count(deck)} 个例句") if examples else ""
        typer.echo(t(f"{len(deck)} cards{said}, no problems", f"{len(deck)} 张题卡{said}，没有问题"))
    if problems:
        raise typer.Exit(USAGE)


@app.command("list", help=t("Every card, with its claims counted.", "列出题卡。"))
def list_cards(as_json: JsonOption = False, cards: CardsOption = None, lang: LangOption = None) -> None:
    """List cards."""
    deck = read_deck(cards)
    language = chosen_language(lang)
    if as_json:
        from inferproof.reports.as_json import cards_json

        print_json(cards_json(deck.values(), language))
        return
    for card in deck.values():
        typer.echo(f"{card.id:<30} {len(card.claims):>3}  {card.title.of(language)}")


@app.command(
    "show",
    help=t("A card: question, rubric, claims; --answer adds the model answer.", "显示题卡；--answer 附参考答案。"),
)
def show_card(
    card: CardName,
    answer: Annotated[
        bool, typer.Option("--answer", help=t("Show the model answer too.", "同时显示参考答案。"))
    ] = False,
    cards: CardsOption = None,
    lang: LangOption = None,
) -> None:
    """Show a card."""
    from inferproof.reports.card_view import card_view

    deck = read_deck(cards)
    console().print(card_view(deck[known(card, deck)], chosen_language(lang), answer=answer))
