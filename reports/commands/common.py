"""What commands share: the texts' language, exit codes, errors, and what they open and print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from typer.core import TyperGroup

    from inferproof.questions.card import Card, Language
    from inferproof.runners.ledger import Ledger

HOLDS, CONTRADICTED, USAGE, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 3, 130

_LOCALE = os.environ.get("INFERPROOF_LANG") or os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
CHINESE = _LOCALE.lower().startswith("zh")


def t(en: str, zh: str) -> str:
    """The text in the language of the locale."""
    return zh if CHINESE else en


def group(en: str = "", zh: str = "", cls: type[TyperGroup] | None = None) -> typer.Typer:
    """A group of commands; one without a text only holds the command that its module is named by."""
    return typer.Typer(
        cls=cls, help=t(en, zh), no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )


def tell(text: str) -> None:
    """Show text, in lines that fit where it is shown on a terminal."""
    if sys.stdout.isatty():
        import shutil

        from inferproof.reports.wrap import wrapped

        text = wrapped(text, min(shutil.get_terminal_size().columns, 100) - 1)
    typer.echo(text)


def chosen_language(given: str | None) -> Language:
    """The language of --lang, else of the locale."""
    if given not in (None, "en", "zh"):
        fail(f"--lang is '{given}', expected en or zh")
    return "zh" if given == "zh" or (given is None and CHINESE) else "en"


def read_deck(extra: list[Path] | None = None) -> dict[str, Card]:
    """The shipped cards, and those of --cards."""
    from inferproof.questions.deck import load_deck
    from inferproof.runners.memory import Memory

    return load_deck(extra or [], Memory("cards"))


def check_claims(deck: Mapping[str, Card]) -> None:
    """Refuse to run anything for a card whose claims cannot be decided."""
    from inferproof.grading.lint import claim_problems
    from inferproof.questions.deck import DeckError

    problems = claim_problems(deck)
    if problems:
        raise DeckError(problems)


def known(card: str, deck: Mapping[str, Any]) -> str:
    """The card's id, where there is such a card."""
    if card not in deck:
        from inferproof.grading.verify import unknown

        raise unknown("card", card, list(deck))
    return card


def open_ledger() -> Ledger:
    """The person's ledger, as a context."""
    from inferproof.runners.ledger import Ledger
    from inferproof.runners.paths import data_dir

    return Ledger(data_dir() / "ledger.sqlite")


def console() -> Console:
    """Where views are printed."""
    from rich.console import Console

    return Console(highlight=False)


def print_json(value: Any) -> None:
    """The answer to --json."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=1))


def fail(message: str) -> NoReturn:
    """End with an error of one line."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(USAGE)
