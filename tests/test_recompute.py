"""Arithmetic in an answer is worked out again with the answer's own numbers; in doubt nothing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferproof.grading.glossary import glossary
from inferproof.grading.grade import grade
from inferproof.grading.lint import lint
from inferproof.grading.result import Finding
from inferproof.questions.deck import load_deck

CARD = load_deck()["design-rag-cluster"]
MODEL = {
    "en": "The model has 40 layers and 8 KV heads of 128, in BF16.",
    "zh": "模型 40 层、8 个 KV head、128 维，BF16。",
}


def found(answer: str, claim: str) -> list[Finding]:
    return [f for f in grade(CARD, answer, "en", {}).findings if f.claim == claim]


@pytest.mark.parametrize(
    ("answer", "claim", "verdict", "observed"),
    [
        ("KV is 128 KiB per token.", "kv-per-token", "supported", "128 KiB"),
        ("KV is 256 KiB per token.", "kv-per-token", "contradicted", "128 KiB"),
        (f"{MODEL['en']} KV is 160 KiB per token.", "kv-per-token", "supported", "160 KiB"),
        (f"{MODEL['zh']}每 token 的 KV 是 128 KiB。", "kv-per-token", "contradicted", "160 KiB"),
        ("With FP8 it is 64 KiB of KV per token.", "kv-per-token", "supported", "64 KiB"),
        ("Each request takes 2 GiB of KV.", "kv-per-request", "contradicted", "1 GiB"),
        ("一个请求的 KV 是 1 GiB。", "kv-per-request", "supported", "1 GiB"),
        ("Weights are 30 GiB. 60 requests fit on a GPU.", "requests-that-fit", "contradicted", "45 requests"),
        ("权重 30 GiB，能放 45 个请求。", "requests-that-fit", "supported", "45 requests"),
        ("The KV transfer over the 200 Gb/s link takes 43 ms.", "transfer-time", "supported", "42.95 ms"),
        ("The KV transfer over a link of 25 GB/s takes 43 ms.", "transfer-time", "supported", "42.95 ms"),
        ("The KV transfer over the 200 Gb/s link takes 5 ms.", "transfer-time", "contradicted", "42.95 ms"),
    ],
)
def test_a_number_is_held_against_what_the_answers_own_figures_give(
    answer: str, claim: str, verdict: str, observed: str
) -> None:
    (finding,) = found(answer, claim)

    assert (finding.verdict, finding.observed) == (verdict, observed)
    assert finding.evidence is None
    assert finding.rerun.startswith("inferproof calc ")


@pytest.mark.parametrize(
    "answer",
    [
        "KV is perhaps 200 KiB per token, I am not sure.",
        "Inputs have a p50 of 2000 tokens. Each request takes 1 GiB of KV.",
        "The first model has 32 layers, the other 80 layers. KV is 320 KiB per token.",
        "The service gets 20 requests per second on a GPU.",
        "Is KV 256 KiB per token?",
    ],
)
def test_in_doubt_nothing_is_contradicted(answer: str) -> None:
    assert grade(CARD, answer, "en", {}).contradicted == ()


def test_what_is_left_over_is_no_parameter() -> None:
    said = "After 15 GiB of weights and 5 GiB of workspace 60 GiB are left, and 60 requests fit."

    assert [f.verdict for f in found(said, "requests-that-fit")] == ["supported"]


def test_a_wrong_result_leaves_half_of_its_point() -> None:
    right = "KV is {} KiB per token. 60 requests fit, that is 60 on a GPU. The KV transfer over 200 Gb/s takes 43 ms."
    awards = [
        next(p.award for p in grade(CARD, right.format(kib), "en", {}).points if p.point == "capacity-model")
        for kib in (128, 512)
    ]

    assert awards == [1.0, 0.5]


def test_the_command_computes_the_same_again() -> None:
    (finding,) = found("The model has 40 layers. KV is 128 KiB per token.", "kv-per-token")

    assert "calc capacity" in finding.rerun and "--layers 40" in finding.rerun and "--gpu '80 GiB'" in finding.rerun


@pytest.mark.parametrize(
    ("given", "said"),
    [({"layer": "count"}, "has no parameter 'layer'"), ({"layers": "heads"}, "'layers' is of kind 'heads'")],
)
def test_what_an_answer_may_give_is_checked_on_the_card(given: dict[str, str], said: str) -> None:
    claim = CARD.claims["kv-per-token"]
    assert claim.stated is not None
    wrong = replace(claim, stated=replace(claim.stated, given=given))
    problems = lint({CARD.id: replace(CARD, claims={"kv-per-token": wrong})}, set(), set(glossary().concepts))

    assert [said in problem.message for problem in problems] == [True]
