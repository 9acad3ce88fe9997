"""Lint finds what a card's form does not show: probes, predicates, figures and concepts that are not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inferproof.grading.lint import claim_problems, lint
from inferproof.questions.card import Card
from inferproof.questions.deck import Problem, read_card

FIGURES = {"hit-tokens", "saved-ms"}
CONCEPTS = {"hit", "block", "tail"}
Linted = Callable[..., list[Problem]]


@pytest.fixture
def linted(card_file: Path, card_text: str) -> Linted:
    """What lint says after replacing text in the small card."""

    def problems(*replacements: tuple[str, str]) -> list[Problem]:
        text = card_text
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new, 1)
        card_file.write_text(text, encoding="utf-8")
        card = read_card(card_file)
        return lint({card.id: card}, FIGURES, CONCEPTS)

    return problems


def line_of(text: str, part: str) -> int:
    """1-based line of the first occurrence."""
    return text[: text.index(part)].count("\n") + 1


def test_a_sound_card_has_no_problems(card: Card) -> None:
    assert lint({card.id: card}, FIGURES, CONCEPTS) == []
    assert claim_problems({card.id: card}) == []


@pytest.mark.parametrize(
    ("old", "new", "at", "field", "message"),
    [
        (
            "probe: prefix_cache.repeat_prompt",
            "probe: prefix_cache.repeat",
            "probe:",
            "probe",
            "there is no probe 'prefix_cache.repeat'; did you mean prefix_cache.repeat_prompt",
        ),
        ("engine: vllm", "engine: trtllm", "with:", "with.engine", "has no 'trtllm' side; its engines: sglang, vllm"),
        ("engine: vllm, ", "", "with:", "with.engine", "has no 'none' side; its engines: sglang, vllm"),
        (
            "prompt_tokens: 2080",
            "prompt_token: 2080",
            "with:",
            "with",
            "has no parameter 'prompt_token'; it has: prompt_tokens,",
        ),
        ("prompt_tokens: 2080", 'prompt_tokens: "2080"', "with:", "with", "'prompt_tokens' is '2080', expected int"),
        ("prompt_tokens: 2080", "prompt_tokens: .inf", "with:", "with", "'prompt_tokens' is inf, expected int"),
        (
            "warm_cached_tokens == 2064",
            "warm_tokens == 2064",
            "expect:",
            "expect",
            "does not observe 'warm_tokens'; it observes: prompt_tokens,",
        ),
        (
            "warm_cached_tokens == 2064",
            "warm_cached_tokens = 2064",
            "expect:",
            "expect",
            "the predicate does not parse: 1:20: ",
        ),
        (
            "warm_cached_tokens == 2064",
            "warm_cached_tokens == (2064",
            "expect:",
            "expect",
            "the predicate does not parse: ",
        ),
        (
            "value: warm_cached_tokens",
            "value: warm_tokens",
            "stated:",
            "stated.value",
            "does not observe 'warm_tokens'",
        ),
        (
            "    with: {",
            "    level: warp\n    with: {",
            "with:",
            "level",
            "'warp' is not a level; levels are arithmetic, source,",
        ),
        (
            "    with: {",
            '    versions: "0.27+"\n    with: {',
            "with:",
            "versions",
            "'0.27+' is not a version specifier such as '<0.27'",
        ),
        (
            "recorded: [hit-tokens]",
            "recorded: [hit-tokens, gone]",
            "recorded:",
            "recorded",
            "there is no recorded figure 'gone'",
        ),
        (
            "when: [[hit]]",
            "when: [[hit], [hit, hti|=x]]",
            "stated:",
            "stated.when.1",
            "there is no concept 'hti' in the glossary (write '=hti'",
        ),
    ],
)
def test_a_wrong_claim_is_named_with_file_line_field_and_what_was_expected(
    linted: Linted, card_file: Path, card_text: str, old: str, new: str, at: str, field: str, message: str
) -> None:
    (problem,) = linted((old, new))

    assert (problem.file, problem.line) == (str(card_file), line_of(card_text, at))
    assert problem.field == f"claims.vllm-hit.{field}"
    assert message in problem.message
    assert "\n" not in str(problem)


def test_a_claim_on_another_probe_is_checked_against_that_probe(linted: Linted) -> None:
    problems = linted(("probe: prefix_cache.repeat_prompt", "probe: beam_search.source_trace"))

    assert {(p.field, p.message.partition(";")[0]) for p in problems} == {
        ("claims.vllm-hit.with", "beam_search.source_trace (vllm) has no parameter 'prompt_tokens'"),
        ("claims.vllm-hit.expect", "beam_search.source_trace does not observe 'warm_cached_tokens'"),
        ("claims.vllm-hit.expect", "beam_search.source_trace does not observe 'cold_cached_tokens'"),
        ("claims.vllm-hit.stated.value", "beam_search.source_trace does not observe 'warm_cached_tokens'"),
    }


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        (
            "states: [[tail]]",
            "states: [[tail], [tial]]",
            "rubric.1.evidence_of.ideas.0.states.1",
            "there is no concept 'tial'",
        ),
        (
            "stated: {when: [[hit]]}",
            "stated: {when: [[miss]]}",
            "misconceptions.0.stated.when.0",
            "there is no concept 'miss'",
        ),
        ('zh: ["整块。"]}', "zh: []}", "rubric.0.examples", "in zh"),
        ('en: ["Whole blocks."]', "en: []", "rubric.0.examples", "in en"),
    ],
)
def test_a_wrong_rubric_is_named(linted: Linted, old: str, new: str, field: str, message: str) -> None:
    (problem,) = linted((old, new))

    assert problem.field == field
    assert message in problem.message


def test_several_problems_come_at_once_in_the_files_order(linted: Linted) -> None:
    problems = linted(
        ("states: [[tail]]", "states: [[tial]]"),
        ("== 2064", "== ("),
        ("prompt_tokens: 2080", "prompt_token: 1"),
        ("[saved-ms]", "[gone]"),
    )

    assert [p.field for p in problems] == [
        "claims.vllm-hit.with",
        "claims.vllm-hit.expect",
        "claims.on-a-gpu.recorded",
        "rubric.1.evidence_of.ideas.0.states.0",
    ]
    assert problems == sorted(problems)


def test_what_keeps_claims_from_running_is_found_without_glossary_and_figures(card_file: Path, card_text: str) -> None:
    card_file.write_text(card_text.replace("[[tail]]", "[[tial]]").replace("== 2064", "== nothing"), encoding="utf-8")
    card = read_card(card_file)

    assert [(p.field, p.line) for p in claim_problems({card.id: card})] == [
        ("claims.vllm-hit.expect", line_of(card_text, "expect:"))
    ]
