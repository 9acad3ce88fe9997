from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from inferproof import grading
from inferproof.grading.glossary import Glossary, GlossaryError, glossary, read_glossary
from inferproof.grading.gold import read_gold
from inferproof.grading.needed import needed
from inferproof.grading.text import normalise


def found(text: str, concepts: Glossary | None = None) -> set[str]:
    return {m.concept for m in (concepts or glossary()).mentions(normalise(text))}


@pytest.mark.parametrize(
    ("text", "concept"),
    [
        ("full-blocks", "full-block"),
        ("FULL BLOCK", "full-block"),
        ("完整的 block", "full-block"),
        ("it recomputed the tail", "recompute"),
        ("re-computing", "recompute"),
        ("preempting", "preempt"),
        ("two requests were preempted", "preempt"),
        ("被搶占", "preempt"),
        ("pre-fill", "prefill"),
        ("做 CoW", "copy-on-write"),
        ("prefix cache 命中", "prefix-cache"),
        ("前綴快取", "prefix-cache"),
        ("O(N²)", "n-squared"),
        ("Θ(N^2)", "n-squared"),
        ("N(N+1)/2", "pair-count"),
        ("max_tokens=1", "max-tokens-1"),
        ("the last token's logits", "last-token-logits"),
        ("最后一个 token 的 logits", "last-token-logits"),
    ],
)
def test_the_field_is_recognised_as_people_write_it(text: str, concept: str) -> None:
    assert concept in found(text)


@pytest.mark.parametrize(
    ("text", "concept"),
    [("the webpages", "page"), ("rehashing", "hash"), ("a chit", "hit"), ("we run it", "running-queue")],
)
def test_a_word_inside_another_word_is_no_mention(text: str, concept: str) -> None:
    assert concept not in found(text)


def test_small_words_may_stand_inside_a_phrase_and_punctuation_may_not() -> None:
    concepts = Glossary({"tail": ["end of prompt"]})
    assert found("end of the prompt", concepts) == {"tail"}
    assert found("end, prompt", concepts) == set()


def test_a_mention_covers_the_words_that_are_meant() -> None:
    text = normalise("so Full-Blocks hit")
    (mention,) = Glossary({"full-block": ["full block"]}).mentions(text)
    assert text.span(mention.start, mention.end) == "Full-Blocks"


def test_the_glossary_is_simplified_and_half_width() -> None:
    import yaml

    from inferproof.grading import glossary as module

    content = yaml.safe_load(Path(module.__file__).with_name("glossary.yaml").read_text(encoding="utf-8"))
    phrases = [
        w for languages in content.values() for words in languages.values() for w in words if not w.startswith("re:")
    ]
    assert [w for w in phrases if normalise(w).plain != w.lower()] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: {en: [no], zh: []}", "a: False is not a phrase"),
        ("a: {de: [x]}", "a: expected lists `en` and `zh`"),
        ("a: {en: ['re:(']}", "a: re:("),
        ("a: [", "not YAML"),
    ],
)
def test_a_wrong_glossary_is_refused_with_file_and_concept(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "glossary.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(GlossaryError) as error:
        read_glossary(file)
    assert message in str(error.value)
    assert str(file) in str(error.value)


def test_a_concept_that_stands_twice_is_refused_rather_than_half_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "glossary.yaml"
    file.write_text("block: {en: [block]}\npage: {en: [page]}\nblock: {en: [chunk]}\n", encoding="utf-8")

    with pytest.raises(GlossaryError, match="block: stands twice"):
        read_glossary(file)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"re-?run", {"run"}),
        (r"\bcuda orders the (?:reads|writes)", {"cuda orders the "}),
        (r"(?:换出|swap)[^。]{0,12}(?:主机|host)", {"换出", "swap"}),
        (r"(?<!not )block 1?6", {"block "}),
        (r"a*b?c{0,2}", set()),
        (r"full|", set()),
    ],
)
def test_words_that_every_match_holds_are_found(pattern: str, words: set[str]) -> None:
    assert needed(pattern) == words


def test_no_pattern_of_the_glossary_matches_without_its_words() -> None:
    concepts = yaml.safe_load(Path(grading.__file__).with_name("glossary.yaml").read_text(encoding="utf-8"))
    phrases = [p for concept in concepts.values() for of in concept.values() for p in of]
    texts = [normalise(answer.answer).plain for answer in read_gold()[::5]]
    for pattern in (str(p)[3:] for p in phrases if str(p).startswith("re:")):
        words = needed(pattern)
        found = [m.group() for text in texts if not any(w in text for w in words) for m in re.finditer(pattern, text)]
        assert not words or not any(found), pattern
