"""The learned part of the grader: what it hears, what it may award, and that its files are made again as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading import labelled, train
from inferproof.grading.features import FAMILIES, facts_of, features
from inferproof.grading.findings import SURE
from inferproof.grading.gold import problems, read_gold
from inferproof.grading.grade import grade, rule_awards, statements_of
from inferproof.grading.learned import MODELS, among, contrary, model_of
from inferproof.grading.reading import readings
from inferproof.questions.deck import load_deck
from inferproof.questions.recorded import load_recorded

DECK = load_deck()
CARD = DECK["prefix-cache-ttft"]
POINTS = frozenset(p.id for p in CARD.rubric)


def test_a_wording_that_no_rule_knows_is_heard() -> None:
    said = "What gets looked up are the ids that the tokenizer gave, never the characters."
    point = next(p for p in grade(CARD, said, "en", {}).points if p.point == "key-identity")

    assert rule_awards(CARD, readings(said))["key-identity"] == 0
    assert point.award == 0.5 and point.span == said and "chained" in point.missing


def test_two_neighbours_are_quoted_as_they_stand_in_the_answer() -> None:
    said = "vLLM 只复用填满的整块，块大小是 16 个 token。SGLang 走的是基数树，页大小是 1 个 token。"
    model = model_of(CARD.id, POINTS)
    assert model is not None
    pairs = [heard for heard in model.hear(statements_of(CARD, said)) if len(heard.readings) == 2]

    assert pairs and all(heard.span in said for heard in pairs)


def test_a_false_statement_is_contrary_to_a_claim_and_its_true_twin_is_not() -> None:
    model = model_of(CARD.id, POINTS)
    assert model is not None
    for false, true in (
        ("A repeated prompt hits completely in vLLM, all 2080 tokens.", "A repeated prompt hits 2064 of 2080 in vLLM."),
        ("前缀缓存按文本相似度匹配。", "前缀缓存按 token id 精确匹配。"),
    ):
        (alone,), (twin,) = (contrary(model.judge(readings(said))) for said in (false, true))
        assert alone > SURE > twin


@given(st.lists(st.tuples(st.floats(-20, 20), st.booleans()), max_size=12))
def test_what_is_said_beside_a_statement_bears_on_it_by_what_is_asserted(said: list[tuple[float, bool]]) -> None:
    lights = among([x for x, _ in said], [asserted for _, asserted in said])

    assert len(lights) == len(said)
    for at, light in enumerate(lights):
        others = [x for i, (x, asserted) in enumerate(said) if i != at and asserted]
        assert bool(light) == bool(others)
        if light:
            surest, share = light
            assert surest == max(-1, min(1, max(others) / 4)) and 0 <= share <= 1


def test_an_award_has_words_that_earn_it() -> None:
    for answer in read_gold():
        graded = grade(DECK[answer.card], answer.answer, answer.language, {})
        assert all((p.span is not None) == (p.award > 0) for p in graded.points), answer.id


def test_a_grade_does_not_depend_on_the_order_of_sets() -> None:
    said = (
        "vLLM reuses whole blocks of 16 tokens, SGLang walks its radix tree; the tail is computed again for its logits."
    )
    script = (
        "import sys; from inferproof.questions.deck import load_deck; from inferproof.grading.learned import model_of;"
        "from inferproof.grading.reading import readings; c = load_deck()['prefix-cache-ttft'];"
        "m = model_of(c.id, frozenset(p.id for p in c.rubric));"
        "print([h.scores for h in m.hear(readings(sys.argv[1]))])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script, said],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1] and len(runs[0]) > 100


def test_a_model_for_other_points_is_not_used() -> None:
    assert model_of(CARD.id, POINTS) is not None
    assert model_of(CARD.id, POINTS | {"another"}) is None
    assert model_of("sglang-01", frozenset()) is None


def test_a_list_of_keywords_is_not_heard() -> None:
    model = model_of(CARD.id, POINTS)
    assert model is not None
    assert model.hear(readings("token ids, chained hash, salt, block, page, radix tree, LRU, lock, logits")) == []


def test_a_number_that_the_card_does_not_know_is_seen() -> None:
    facts = facts_of(CARD, {f.id: f for f in load_recorded().figures})
    known, unknown = (features(readings(f"vLLM hits {n} tokens of the prompt.")[0], facts)["f"] for n in (2064, 1937))
    assert "known" in known and "unknown" in unknown


@pytest.mark.parametrize("card", labelled.trained_cards())
def test_training_data_names_parts_claims_and_misconceptions_that_exist(card: str) -> None:
    parts = {f"{point}/{part}" for point, parts in labelled.parts_of(card).items() for part in parts}
    named = {*DECK[card].claims, *(m.id for m in DECK[card].misconceptions), "other", None}
    found = labelled.passages(DECK[card])

    assert set(labelled.parts_of(card)) == {p.id for p in DECK[card].rubric}
    assert all(p.text.strip() and (p.states or frozenset()) <= parts and p.false in named for p in found)
    assert all(len(parts) > 1 for parts in labelled.parts_of(card).values())
    assert problems(labelled.answers(card), DECK) == []


def test_no_answer_of_the_check_part_is_in_the_training_data() -> None:
    sentences = {p.text for card in labelled.trained_cards() for p in labelled.passages(DECK[card])}
    answers = {a.answer for card in labelled.trained_cards() for a in labelled.answers(card)}

    assert not any(gold.answer in sentences or gold.answer in answers for gold in read_gold() if gold.part == "check")


def test_the_same_data_gives_the_same_file() -> None:
    made = json.dumps(train.model(CARD), ensure_ascii=False, separators=(",", ":")) + "\n"

    assert made == (MODELS / f"{CARD.id}.json").read_text(encoding="utf-8")


def test_a_card_without_a_model_is_graded_by_its_rules() -> None:
    other = replace(CARD, id="no-such-model")
    assert model_of(other.id, POINTS) is None
    said = CARD.rubric[0].examples.earn["en"][0]
    assert next(p for p in grade(other, said, "en", {}).points if p.point == CARD.rubric[0].id).award == 1


def test_every_family_has_features() -> None:
    found = features(readings("vLLM does not hit 2,064 tokens in 前缀缓存 of the block.")[0], frozenset())
    assert all(found[family] for family in FAMILIES)
