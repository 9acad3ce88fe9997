"""A line of answers is read whole, or refused with what is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.answers import answer_of, language_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "card", "lang", "answer"]), inner),
)


@given(line=st.binary() | st.text() | VALUES.map(json.dumps))
def test_any_line_that_is_no_answer_to_a_known_card_is_a_value_error(line: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        answer_of(line, {"a card of another deck"})


@given(
    text=st.text(st.characters(codec="utf-8")), language=st.sampled_from(["en", "zh", None]), name=st.sampled_from("a1")
)
def test_a_line_gives_back_the_answer_in_it(text: str, language: str | None, name: str) -> None:
    line = json.dumps({"id": name, "card": "card", "lang": language, "answer": text})

    assert answer_of(line, {"card"}) == (name, "card", language or language_of(text), text)


@pytest.mark.parametrize(
    ("text", "language"), [("", "en"), ("whole blocks", "en"), ("只复用整块", "zh"), ("vLLM 的 block 命中率", "zh")]
)
def test_the_language_of_an_answer_is_read_from_its_characters(text: str, language: str) -> None:
    assert language_of(text) == language
