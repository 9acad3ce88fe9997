"""Published figures told of the wrong engine are contradicted, and called recorded."""

from __future__ import annotations

from io import StringIO

import pytest

from inferproof.grading.figures import misquoted
from inferproof.grading.grade import grade
from inferproof.grading.reading import readings
from inferproof.questions.card import Language
from inferproof.questions.deck import load_deck
from inferproof.questions.recorded import load_recorded
from inferproof.reports.terminal import grade_view

DECK = load_deck()
CARD = DECK["prefill-complexity"]


@pytest.mark.parametrize(
    "said",
    [
        "On that A100 SGLang went from 41.66 ms to 114.43 ms.",
        "A100 上 SGLang 从 41.66 毫秒涨到 114.43 毫秒。",
        "SGLang took 114.43 ms for a prompt of 4096 tokens.",
    ],
)
def test_a_figure_of_the_other_engine_is_contradicted_by_what_was_published(said: str) -> None:
    (found,) = (f for f in grade(CARD, said, "en", {}).findings if f.verdict == "contradicted")

    assert {load_recorded()[name].engine for name in found.recorded} == {"vllm"}
    assert (found.observed, found.build, found.evidence) == (None, None, None)


@pytest.mark.parametrize(
    "said",
    [
        "On that A100 vLLM went from 41.66 ms to 114.43 ms.",
        "On my H100 SGLang went from 12.01 ms to 30.4 ms.",
        "SGLang took 61.42 ms, vLLM 41.66 ms.",
        "Did SGLang go from 41.66 ms to 114.43 ms?",
        "Unlike vLLM with its 41.66 ms, SGLang needs 61.42 ms.",
        "SGLang needs 256 tokens.",
    ],
)
def test_a_figure_told_rightly_or_of_another_machine_is_not(said: str) -> None:
    assert not [f for f in grade(CARD, said, "en", {}).findings if f.recorded]


SPEEDUP = DECK["cuda-graph-limits"]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("vLLM got 65x faster in decode.", True),
        ("vLLM got 6.5x faster in decode.", False),
        ("vLLM went from 43.14 to 1937 tok/s.", True),
        ("vLLM went from 43.14 to 280.79 tok/s.", False),
        ("On my H100 vLLM got 4x faster in decode.", False),
        ("vLLM got much faster in decode.", False),
        ("Decode got 65x faster.", False),
    ],
)
def test_another_number_than_was_published_is_one_unless_it_is_of_a_run_of_ones_own(said: str, wrong: bool) -> None:
    assert misquoted(SPEEDUP, "vllm-decode-speedup", readings(said)[0], None) is wrong


@pytest.mark.parametrize(
    ("said", "contradicted"),
    [
        ("SGLang in turn needs half a minute of compiling on its first start.", True),
        ("On our H100 SGLang needs half a minute of compiling on its first start.", False),
        ("vLLM compiled for half a minute at the first start.", False),
    ],
)
def test_the_contrary_of_what_only_a_gpu_shows_is_contradicted_without_a_number(said: str, contradicted: bool) -> None:
    found = [f for f in grade(SPEEDUP, said, "en", {}).findings if f.verdict == "contradicted"]

    assert [f.claim for f in found] == (["capture-cost"] if contradicted else [])
    assert all(f.recorded and f.evidence is None for f in found)


def test_the_screen_calls_it_recorded() -> None:
    from rich.console import Console

    said: dict[Language, str] = {"en": "recorded, not run here", "zh": "仅有记录"}
    for language, words in said.items():
        console = Console(width=100, record=True, file=StringIO())
        console.print(grade_view(CARD, grade(CARD, "SGLang went from 41.66 ms to 114.43 ms.", language, {}), language))
        screen = console.export_text()
        assert words in screen and "vllm ttft 41.66 ms (mode eager, prompt_tokens 256)" in screen
