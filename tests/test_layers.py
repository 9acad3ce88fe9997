"""Which of the five layers an answer covers, and where that is shown."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from small_cards import CARD, FULL

from inferproof.grading import attempts
from inferproof.grading.glossary import glossary
from inferproof.grading.grade import grade
from inferproof.grading.layers import _CONCEPTS, LAYERS, layers_covered
from inferproof.grading.reading import readings
from inferproof.grading.result import Grade
from inferproof.questions.card import Language
from inferproof.questions.deck import load_deck
from inferproof.reports import terminal
from inferproof.reports.as_json import grade_json
from inferproof.reports.words import say
from inferproof.runners.ledger import Ledger


def covered(answer: str) -> tuple[str, ...]:
    return layers_covered(readings(answer))


@pytest.mark.parametrize(
    ("layer", "statement"),
    [
        ("semantics", "The output distribution stays that of the target model."),
        ("semantics", "The user sees exactly the same tokens."),
        ("semantics", "采样分布和目标模型一样，用户看到的结果不变。"),
        ("logical state", "A resumed request continues at 1008 computed tokens."),
        ("logical state", "Of 2080 prompt tokens 2064 hit."),
        ("logical state", "2080 个 token 里命中 2064 个。"),
        ("physical resources", "A preempted request gives up its KV blocks."),
        ("physical resources", "Cached blocks stay evictable until something holds a reference."),
        ("physical resources", "被抢占的请求会释放自己的 KV 块。"),
        ("execution", "The scheduler serves running requests first, and preempts the last one when it must."),
        ("execution", "调度器先安排 running 的请求，不够就抢占最后一个。"),
        ("performance", "TTFT rises because requests queue."),
        ("performance", "It doesn't reduce FLOPs, it only takes the launch overhead away."),
        ("performance", "排队变长，所以 TTFT 上升。"),
    ],
)
def test_a_statement_covers_the_layer_it_speaks_of(layer: str, statement: str) -> None:
    assert layer in covered(statement)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Semantics, logical state, physical resources, execution, performance.",
        "KV, block, release, scheduler, preempt, TTFT, increase, token, hit.",
        "块、KV、释放、调度器、抢占、TTFT、上升、token、命中。",
        "Does preemption free the KV blocks?",
        "抢占会不会释放 KV 块？",
        "A KV block.",
    ],
)
def test_words_alone_and_questions_cover_nothing(answer: str) -> None:
    assert covered(answer) == ()


def test_layers_come_in_their_order_whatever_the_answers_order() -> None:
    assert covered("TTFT rises because requests queue. A preempted request gives up its KV blocks.") == (
        "physical resources",
        "execution",
        "performance",
    )


def test_every_layer_is_made_of_concepts_of_the_glossary_and_no_concept_is_both_thing_and_event() -> None:
    for layer in _CONCEPTS.values():
        assert layer.what | layer.happens <= glossary().concepts
        assert not layer.what & layer.happens


def test_the_model_answer_on_the_method_covers_all_five_layers() -> None:
    card = load_deck()["answer-method"]
    languages: tuple[Language, ...] = ("en", "zh")
    for language in languages:
        answer = "\n".join(paragraph.text.of(language) for paragraph in card.answer)
        assert grade(card, answer, language, {}).layers == LAYERS


def test_a_grade_names_its_layers_in_json() -> None:
    graded = grade(CARD, "A preempted request gives up its KV blocks.", "en", {})
    expected = ["physical resources", "execution"]

    assert json.loads(json.dumps(grade_json(graded)))["layers"] == expected


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_terminal_says_which_layers_are_covered_and_which_are_not(language: Language) -> None:
    from rich.console import Console

    def shown(graded: Grade) -> str:
        console = Console(width=80, force_terminal=False)
        with console.capture() as capture:
            console.print(terminal.grade_view(CARD, graded, language))
        return capture.get()

    graded = grade(CARD, "TTFT rises because requests queue.", "en", {})
    text = shown(graded)

    assert say(language, "layers_covered", covered=say(language, "performance")) in text
    assert say(language, "semantics") in text.partition(say(language, "layers_open", open=""))[2]
    assert say(language, "layers_covered", covered="") not in shown(grade(CARD, "", "en", {}))


def test_attempts_from_before_layers_still_load(tmp_path: Path) -> None:
    graded = grade(CARD, FULL["en"], "en", {})
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        attempts.keep(ledger, CARD.id, FULL["en"], graded)
        old = asdict(graded)
        del old["layers"]
        ledger.append("attempt", CARD.id, {"card": CARD.id, "answer": "a", "at": "2026-11-01", "grade": old})
        new, before = attempts.kept(ledger)

    assert new.grade == graded
    assert before.grade.layers == ()


def test_reading_layers_costs_little() -> None:
    read = readings(FULL["en"] * 8)
    layers_covered(read)
    started = time.perf_counter()
    layers_covered(read)

    assert time.perf_counter() - started < 0.02
