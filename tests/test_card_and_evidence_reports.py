"""The reports of one card and of the evidence, over values made by hand; no number here is shown to a user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import test_reports as made

from inferproof.questions.card import Language
from inferproof.questions.recorded import load_recorded
from inferproof.reports import card_report, evidence_report, schedules
from inferproof.runners.evidence import Evidence


def _card(folder: Path, language: Language = "en", **other: Any) -> str:
    own = {e.id: e for e in made.RUNS if e.task["probe"] == "prefix_cache.repeat_prompt"}
    given_ = {
        "card": made.PREFIX, "verdicts": [v for v in made.VERDICTS if v.card == made.PREFIX.id], "evidence": own,
        "attempts": made.ATTEMPTS, "recorded": load_recorded(), "language": language,
    }  # fmt: skip
    return card_report.write(folder, **{**given_, **other}).read_text(encoding="utf-8")


def test_a_card_s_report_has_rubric_answers_claims_and_its_own_pictures(tmp_path: Path) -> None:
    answered = replace(made.ATTEMPTS[0], answer="<script>x</script>\n- all of it")
    text = _card(tmp_path, attempts=[answered, *made.ATTEMPTS[1:]])
    assert text.startswith("# A 99% prefix hit")
    assert "- **2** · A hit rate is no speed-up" in text
    assert "> \\<script\\>x\\</script\\>\\\n> \\- all of it" in text
    assert text.index("Score 8.0 / 10") < text.index("Score 3.0 / 10")
    assert "warm_cached_tokens = 2064" in text
    assert {f.name for f in tmp_path.iterdir()} == {
        "prefix-cache-ttft.md", "cache.png", "verdicts.png", "scores.png"
    }  # fmt: skip
    assert "No picture" not in text


def test_another_card_s_answers_are_not_shown(tmp_path: Path) -> None:
    text = _card(tmp_path, attempts=[replace(a, card="other") for a in made.ATTEMPTS])
    assert "`inferproof drill prefix-cache-ttft`" in text
    assert "Score" not in text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_evidence_of_equal_observations_shares_an_entry(tmp_path: Path, language: Language) -> None:
    text = evidence_report.write(tmp_path, evidence=made.RUNS, language=language).read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "vllm-cpu" in line and "vllm-after-pin" in line)
    assert f"`{made.RUNS[2].id[:10]}`" in line
    assert text.count("warm_cached_tokens = 2064") == 1
    for probe in {e.task["probe"] for e in made.RUNS}:
        assert f"### {probe}" in text


def test_of_a_repeated_run_the_newest_record_is_shown(tmp_path: Path) -> None:
    old = made._repeat("vllm", "vllm-cpu", 2048)
    text = evidence_report.write(tmp_path, evidence=[old, made.RUNS[0]], language="en").read_text(encoding="utf-8")
    assert "2048" not in text
    assert "2064" in text


def test_an_empty_ledger_is_a_report_that_says_what_to_do(tmp_path: Path) -> None:
    text = evidence_report.write(tmp_path, evidence=[], language="en").read_text(encoding="utf-8")
    assert "run `inferproof verify` first" in text


def _interference(mixed: bool, tokens: int) -> Evidence:
    decode = [["decode", 0]]
    order = [["prefill", 64], *decode * 9, *[["prefill", 511]] * 3, *decode * 9]
    return made._evidence(
        "chunked_prefill.interference", "sglang", "sglang-cpu", "engine",
        {"prefill_batches": 3, "tokens_during_prefill": tokens}, {"order": order},
        mixed_chunk=mixed, chunk_tokens=512, prompt_tokens=1533,
    )  # fmt: skip


@pytest.mark.parametrize(("mixed", "tokens", "advances"), [(False, 1, False), (True, 4, True), (True, 1, False)])
def test_a_stream_advances_in_mixed_batches_only_where_its_events_account_for_it(
    mixed: bool, tokens: int, advances: bool
) -> None:
    (run,) = schedules.schedules([_interference(mixed, tokens)])
    stream = {cell.step for cell in run.cells if cell.lane == 0}
    assert {cell.step for cell in run.cells if cell.prefill} == {0, 1, 2}
    assert ({0, 1, 2} <= stream) == advances
    assert {-4, -1, 3, 6} <= stream
    assert max(cell.step for cell in run.cells) == 2 + schedules.AROUND


def test_vllm_s_plans_show_which_tokens_are_prefill_even_when_the_last_chunk_is_one_token() -> None:
    plans = [[[0, 16]], [[0, 1]], [[0, 1], [1, 4]], [[0, 1], [1, 4]], [[0, 1], [1, 1]], [[0, 1], [1, 1]]]
    (run,) = schedules.schedules(
        [
            made._evidence(
                "batching.step_plans", "vllm", "vllm-cpu", "control", {}, {"plans": plans},
                decodes=1, prompts=1, prompt_tokens=9, token_budget=5,
            )
        ]
    )  # fmt: skip
    late = [(cell.step, cell.tokens, cell.prefill) for cell in run.cells if cell.lane == 1]
    assert late == [(0, 4, True), (1, 4, True), (2, 1, True), (3, 1, False)]
    assert [cell.prefill for cell in run.cells if cell.lane == 0] == [True, False, False, False, False, False]


def test_a_prompt_that_was_not_cut_is_no_strip() -> None:
    whole = made._evidence(
        "chunked_prefill.interference", "vllm", "vllm-cpu", "control", {"long_tokens": [7168], "stream_tokens": [1]},
        token_budget=8192,
    )  # fmt: skip
    assert schedules.schedules([whole]) == []
