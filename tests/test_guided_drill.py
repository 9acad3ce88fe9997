"""A card whose points have prompts is asked step by step; a result needs the experiment behind it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from small_cards import CARD, EVIDENCE
from test_cli import run, said_until_it_ended, typing

from inferproof.grading.grade import grade
from inferproof.questions.deck import DeckError, load_deck, read_card
from inferproof.questions.headings import headings

DESIGN, STORY = "design-rag-cluster", "project-story"
STEPS = (
    "I ask for the p50, p95 and p99 of input and output lengths, and for the arrival rate with its bursts.",
    "The target is p99 TTFT below 2 s, measured at the client; the budget is 16 GPUs.",
    "KV is 128 KiB per token, so 500 requests fit on a GPU, and moving the KV over the network takes 43 ms.",
)


def test_a_piped_answer_has_a_line_for_each_step_and_is_graded_as_one() -> None:
    done = run("drill", DESIGN, "--lang", "en", stdin="\n".join(STEPS))

    assert done.returncode == 0
    assert [line[:2] for line in done.stdout.splitlines() if line[:1].isdigit()] == [f"{i}." for i in range(1, 9)]
    assert "workload (full)" in done.stdout and "slo-and-budget (full)" in done.stdout
    assert "you said 500; computed 60 requests" in done.stdout
    assert "inferproof calc capacity" in done.stdout


def test_json_has_the_grade_and_no_prompts() -> None:
    done = run("drill", DESIGN, "--lang", "en", "--json", stdin=STEPS[0])

    assert json.loads(done.stdout)["points"]["workload"]["award"] == 1.0


def test_typed_each_step_waits_for_its_own_answer() -> None:
    with typing("drill", DESIGN, "--lang", "en", waiting=b"> ") as (pid, terminal):
        os.write(terminal, f"{STEPS[0]}\n.\n".encode())
        second = _until(terminal, b"2. Targets")
        os.write(terminal, f"{STEPS[1]}\n\x04".encode())
        status, screen = said_until_it_ended(pid, terminal)

    assert "3. Capacity" not in second
    assert status == 0 and "slo-and-budget (full)" in screen


def _until(terminal: int, mark: bytes) -> str:
    screen = b""
    while mark not in screen:
        screen += os.read(terminal, 4096)
    return screen.decode("utf-8", "replace")


def test_prompts_stand_on_all_points_or_on_none(card_file: Path) -> None:
    said = card_file.read_text()
    card_file.write_text(said.replace("    points: 6\n", "    points: 6\n    prompt: {en: First?, zh: 第一步？}\n"))

    with pytest.raises(DeckError, match="either every point is a step with a prompt, or none is"):
        read_card(card_file)


def test_headings_know_the_prompts(tmp_path: Path) -> None:
    known = headings(tmp_path / "headings.json")

    assert len(known[DESIGN].prompts) == 8 and known[STORY].prompts == []
    assert headings(tmp_path / "headings.json") == known


def test_a_sentence_that_needs_backing_is_no_misconception_once_it_has_it() -> None:
    wrong = replace(CARD.misconceptions[0], unless=("match-granularity",))
    card = replace(CARD, misconceptions=(wrong,))
    bare = "Repeating the prompt skips the whole prefill and no forward is needed."
    backed = f"SGLang walks a radix tree with page size 1. {bare}"

    assert [f.misconception for f in grade(card, bare, "en", EVIDENCE).findings if f.misconception] == [wrong.id]
    assert [f.misconception for f in grade(card, backed, "en", EVIDENCE).findings if f.misconception] == []


def test_a_backing_point_must_be_on_the_card(card_file: Path) -> None:
    card_file.write_text(
        card_file.read_text().replace(
            "    refuted_by: [vllm-hit]\n", "    unless: [nowhere]\n    refuted_by: [vllm-hit]\n"
        )
    )

    with pytest.raises(DeckError, match="there is no rubric point 'nowhere'"):
        read_card(card_file)


@pytest.mark.parametrize(
    ("answer", "flagged"),
    [
        ("I added a cache tier and TTFT was reduced by 40%.", True),
        ("我做了缓存优化，TTFT 降低了 40%。", True),
        ("We halved the latency with 32 concurrent requests; profiling located the bottleneck in prefill.", True),
        ("TTFT would be reduced by 40%, but that is only a design and was not run.", False),
        (
            "At 32 concurrent requests a profile located the bottleneck in prefill. As a control I ran the same load"
            " with the cache switched off, and measured TTFT. TTFT was reduced by 40% with reuse.",
            False,
        ),
    ],
)
def test_a_result_without_an_experiment_is_flagged(answer: str, flagged: bool) -> None:
    result = grade(load_deck()[STORY], answer, "en", {})

    assert ("result-without-experiment" in {f.misconception for f in result.findings}) == flagged
