"""Markdown files from templates; the words are in `words.py`, what is escaped and how in `values.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferproof.questions.card import Language
from inferproof.questions.recorded import Figure
from inferproof.reports import plots, values
from inferproof.reports.words import say
from inferproof.runners.paths import write_atomically

TEMPLATES = Path(__file__).parent / "templates"


def write(folder: Path, file: str, template: str, language: Language, given: Mapping[str, Any]) -> Path:
    """Render `template` and write it into `folder`, whole or not at all; return its path. Raises OSError."""
    text = _template(template, language).render(language=language, **given)
    path = folder / file
    write_atomically(path, re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")
    return path


def _template(name: str, language: Language) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # no autoescape: the output is Markdown, and `plain`, `code` and `cell` escape what is not ours
    environment = Environment(  # noqa: S701
        loader=FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "plain": values.plain, "code": values.code, "cell": values.cell, "short": values.short, "value": values.value,
        "contents": values.contents, "quoted": values.quoted, "pairs": pairs, "amount": _amount,
    }  # fmt: skip
    environment.globals |= {"say": lambda key, **given: say(language, key, **given), "figure": _picture}
    return environment.get_template(name)


def pairs(of: Mapping[str, Any]) -> str:
    """`key=value` for each that has one."""
    return ", ".join(f"{key}={values.value(v)}" for key, v in of.items() if v is not None)


def _amount(figure: Figure) -> str:
    return (
        values.value(figure.value)
        if figure.unit in ("count", "ratio")
        else f"{values.value(figure.value)} {figure.unit}"
    )


def _picture(picture: plots.Picture) -> str:
    return f"![{values.plain(picture.title)}]({picture.file})\n\n*{picture.title}* — {picture.caption}"
