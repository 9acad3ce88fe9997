"""The HTML page of a report, read by a parser: whole by itself, and what a person wrote stays text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import test_reports as made
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from inferproof.questions.recorded import load_recorded
from inferproof.reports import page, study, values

ANSWER = '<script>alert("x")</script>\n1. whole *blocks* only\n- & <b>that</b> is\n\n# all'


class Read(HTMLParser):
    """Tags with attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module", params=["en", "zh"])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Read:
    folder = tmp_path_factory.mktemp("page")
    made._write(folder, request.param)
    return Read(page.page((folder / "report.md").read_text(encoding="utf-8"), folder, request.param))


def test_the_page_asks_for_nothing_from_elsewhere(read: Read) -> None:
    addresses = [attrs[name] or "" for _, attrs in read.tags for name in ("src", "href", "srcset") if name in attrs]
    assert addresses
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in addresses)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "embed", "base"}
    assert any("default-src 'none'" in (meta.get("content") or "") for meta in read.all("meta"))


def test_the_page_has_one_title_a_language_a_viewport_and_named_pictures(read: Read) -> None:
    assert len(read.all("h1")) == len(read.all("title")) == 1
    assert read.all("html")[0]["lang"] in ("en", "zh-CN")
    assert any(meta.get("name") == "viewport" for meta in read.all("meta"))
    assert read.all("img")
    assert all(picture["alt"] for picture in read.all("img"))


def test_no_mark_of_emphasis_is_left_in_the_text(read: Read) -> None:
    assert "**" not in read.text


def test_every_link_of_the_page_leads_to_something_on_it(read: Read) -> None:
    names = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(names) == len(set(names))
    assert {unquote(str(link["href"]))[1:] for link in read.all("a")} <= set(names)


def test_a_wrong_statement_with_markup_in_it_is_shown_as_written(read: Read) -> None:
    assert made.WRONG.span in read.text


def test_an_answer_is_quoted_line_by_line_and_is_no_markup(tmp_path: Path) -> None:
    html = page.page(values.quoted(ANSWER), tmp_path, "en")
    shown = Read(html)
    for line in ANSWER.splitlines():
        assert line in shown.text
    assert "&lt;script&gt;" in html
    assert not shown.all("b") and not shown.all("em") and not shown.all("ol") and not shown.all("li")


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1).filter(str.strip))
def test_whatever_is_quoted_stays_one_paragraph_of_that_text(line: str) -> None:
    tokens = MarkdownIt("commonmark").parse(values.quoted(line))
    assert [t.type for t in tokens] == [
        "blockquote_open", "paragraph_open", "inline", "paragraph_close", "blockquote_close",
    ]  # fmt: skip
    assert "".join(t.content for t in tokens[2].children or ()) == " ".join(line.split())


def test_a_picture_that_is_not_beside_the_report_is_its_words_only(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    shown = Read(page.page("![far](https://host.example/a.png) ![near](secret.txt)", tmp_path, "en"))
    assert not shown.all("img")
    assert "far" in shown.text and "near" in shown.text


def test_only_a_page_is_wanted_and_no_folder_is_left(tmp_path: Path) -> None:
    def write(folder: Path) -> Path:
        return study.write(
            folder, deck=made.DECK, verdicts=[], evidence={}, attempts=[], identities={},
            recorded=load_recorded(), language="en",
        )  # fmt: skip

    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        page.deliver(write, None, tmp_path, "en")
    file = tmp_path / "new" / "page.html"
    assert page.deliver(write, None, file, "en") == [file]
    assert list(tmp_path.iterdir()) == [file.parent]
    assert page.deliver(write, tmp_path / "r", file, "en") == [tmp_path / "r" / "report.md", file]
