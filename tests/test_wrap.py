"""Lines fit their width in either language, and nothing of the text is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inferproof.reports.wrap import cells, wrapped

TEXT = st.text(st.sampled_from("a bc，。“”（）块重算 \n1.-"), max_size=200)


@given(text=TEXT, width=st.integers(10, 90))
def test_lines_fit_unless_one_word_is_longer_and_no_letter_is_lost(text: str, width: int) -> None:
    out = wrapped(text, width)

    assert "".join(out.split()) == "".join(text.split())
    assert len(out.splitlines()) >= len(text.rstrip().splitlines())
    longest = max((cells(word) for word in text.split()), default=0)
    assert all(cells(line) <= max(width, longest) for line in out.splitlines())


def test_chinese_breaks_between_characters_and_not_before_a_comma() -> None:
    assert wrapped("整块复用，最后一个 token 要重算", 11) == "整块复用，\n最后一个\ntoken 要重\n算"


def test_paragraphs_and_blank_lines_stay() -> None:
    assert wrapped("one\n\ntwo\n", 20) == "one\n\ntwo\n"
