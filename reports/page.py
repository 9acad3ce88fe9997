"""A Markdown report as one self-contained HTML page: nothing is loaded from elsewhere, and text stays text."""

from __future__ import annotations

import base64
import errno
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferproof.questions.card import Language
from inferproof.reports import values
from inferproof.reports.markdown import TEMPLATES
from inferproof.runners.paths import write_atomically

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def deliver(write: Callable[[Path], Path], output: Path | None, html: Path | None, language: Language) -> list[Path]:
    """Have `write` write its Markdown into `output`, the page of it into `html`; return the files. Raises OSError."""
    if html is None:
        return [write(output)] if output else []
    if html.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(html))
    html.parent.mkdir(parents=True, exist_ok=True)  # before the pictures, which take seconds
    if output:
        markdown = write(output)
        return [markdown, _keep(markdown, html, language)]
    with tempfile.TemporaryDirectory(prefix="inferproof-report-") as folder:
        return [_keep(write(Path(folder)), html, language)]


def _keep(markdown: Path, html: Path, language: Language) -> Path:
    write_atomically(html, page(markdown.read_text(encoding="utf-8"), markdown.parent, language))
    return html


def page(markdown: str, folder: Path, language: Language) -> str:
    """The whole page; pictures are taken from `folder`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    parser = _parser(folder)
    tokens = parser.parse(markdown)
    title = _anchored(tokens)
    body = parser.renderer.render(tokens, parser.options, {})
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    text: str = environment.get_template("page.html.j2").render(
        lang="zh-CN" if language == "zh" else "en",
        title=title,
        body=Markup(body),  # noqa: S704 - the parser escapes what is not its own
    )
    return text


def _parser(folder: Path) -> MarkdownIt:
    """CommonMark with tables and without HTML: a `<script>` in an answer is five letters and two brackets."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")

    def image(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
        from markupsafe import escape

        alt = escape(tokens[index].content.replace("\\", ""))
        file = folder / Path(str(tokens[index].attrs["src"])).name
        if file.suffix != ".png" or not file.is_file():
            return str(alt)
        data = base64.b64encode(file.read_bytes()).decode()
        return f'<span class="wide picture" tabindex="0"><img alt="{alt}" src="data:image/png;base64,{data}"></span>'

    parser.add_render_rule("image", image)
    parser.add_render_rule("table_open", lambda *_: '<div class="wide" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _anchored(tokens: Sequence[Token]) -> str:
    """Give every heading the anchor that the contents link to; return the first heading's text."""
    seen: dict[str, int] = {}
    title = ""
    for opening, text in pairwise(tokens):
        if opening.type == "heading_open":
            title = title or re.sub(r"[`*\\]", "", text.content)
            anchor = values.slug(text.content)
            if opening.tag != "h1":  # as in `values.contents`, which does not see the title
                count = seen[anchor] = seen.get(anchor, -1) + 1
                anchor += f"-{count}" if count else ""
            opening.attrSet("id", anchor)
    return title
