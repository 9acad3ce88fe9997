"""Predictions: questions come again from their seed, ask what probes observe, and are scored as they say."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.predict import BUILDS, credit, read, score
from inferproof.grading.workload import Kind, Language, Question, all_kinds, questions, shown
from inferproof.probes.core import find_probe
from inferproof.reports.predict_view import question_text, result_text
from inferproof.reports.wrap import cells, folded
from inferproof.runners.builds import load_builds
from inferproof.runners.evidence import Evidence
from inferproof.runners.ledger import Ledger

TOOL = str(Path(sys.executable).with_name("inferproof"))
BOTH = ["vllm", "sglang"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
KINDS = {kind.id: kind for kind in all_kinds()}
seeds = st.integers(0, 10**6)


def first(seed: int, count: int = 25) -> list[Question]:
    return list(islice(questions(seed, BOTH), count))


@given(seeds)
def test_a_seed_asks_the_same_questions_again(seed: int) -> None:
    once, again = first(seed), first(seed)

    assert [(q.kind.id, q.params, q.ask.name) for q in once] == [(q.kind.id, q.params, q.ask.name) for q in again]


def test_seeds_differ_and_a_kind_comes_again_only_when_all_had_their_turn() -> None:
    asked = first(1, 2 * len(KINDS))

    assert {q.kind.id for q in asked[: len(KINDS)]} == set(KINDS)
    assert [q.params for q in asked] != [q.params for q in first(2, 2 * len(KINDS))]
    assert {q.engine for q in islice(questions(1, ["vllm"]), 30)} == {"vllm"}


@given(seeds)
def test_every_workload_can_be_run_by_its_probe_on_the_build_that_answers(seed: int) -> None:
    for question in first(seed):
        probe = find_probe(question.kind.probe, question.engine)
        assert question.params.items() <= probe.resolve(question.params).items()
        assert question.kind.level in probe.levels
        assert question.kind.level in load_builds()[BUILDS[question.engine]].levels
        assert question.ask.observation in probe.observes


@given(seeds)
def test_a_question_reads_in_both_languages_at_80_columns(seed: int) -> None:
    for question in first(seed):
        for language in LANGUAGES:
            text = question_text(question, language)
            assert all(cells(line) <= 80 for line in text.splitlines())
            assert not {"{", "}"} & set(text)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_explanation_names_only_what_the_run_holds_and_the_same_in_both_languages(kind: Kind) -> None:
    probe = find_probe(kind.probe, kind.engine)
    held = {*probe.parameters(), *probe.observes}
    for said in (*kind.workload, *kind.why):
        names = [{name for _, name, _, _ in Formatter().parse(text) if name} for text in (said.en, said.zh)]
        assert names[0] == names[1]
        assert names[0] <= held
    assert kind.asks and kind.why


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("2064", 2064), (" 2,064 tokens", 2064), ("about 3", 3), ("2064/2080", 2064), ("85%", 0.85), ("0.7063", 0.7063),
        ("三次", 3), ("三", 3), ("两千零六十四", 2064), ("十五步", 15), ("0", 0), ("零", 0),
        ("", None), ("no idea", None), ("不知道", None), ("3 or 4", None),
    ],
)  # fmt: skip
def test_a_prediction_is_the_one_number_of_the_line(line: str, number: float | None) -> None:
    assert read(line) == number


@given(st.integers(0, 10**7))
def test_any_count_is_read_as_it_is_written(number: int) -> None:
    assert read(str(number)) == read(f"{number:,}") == number


@given(st.text(max_size=60))
def test_no_line_breaks_the_reader(line: str) -> None:
    assert read(line) is None or isinstance(read(line), int | float)


def of_kind(kind: str, asks: str) -> Question:
    return next(q for q in questions(3, BOTH) if q.kind.id == kind and q.ask.name == asks)


def test_exact_earns_all_near_earns_half_and_far_earns_nothing() -> None:
    steps = of_kind("vllm-interference", "prefill_steps")

    assert [credit(steps, said, 14) for said in (14, 13, 15, 12, None)] == [1, 0.5, 0.5, 0, 0]


def test_nothing_is_near_zero() -> None:
    preempted = of_kind("vllm-overcommit", "preemptions")

    assert [credit(preempted, *said) for said in ((1, 0), (0, 1), (0, 0), (1, 2))] == [0, 0, 1, 0.5]


def test_near_may_be_a_parameter_or_a_share() -> None:
    hit, search = of_kind("vllm-repeat", "warm_cached_tokens"), of_kind("vllm-beam", "prefilled_tokens")
    block = hit.params["block_size"]

    assert [credit(hit, 5 * block + off, 5 * block) for off in (0, block, block + 1)] == [1, 0.5, 0]
    assert [credit(search, said, 1000) for said in (1000, 901, 899)] == [1, 0.5, 0]


def test_a_ratio_is_exact_to_the_decimals_that_are_asked() -> None:
    ratio = of_kind("sglang-ratio", "after_decay")

    assert [credit(ratio, said, 0.70634) for said in (0.71, 0.7063, 0.7, 0.5)] == [1, 1, 0.5, 0]


def evidence_for(question: Question, make: object, **fields: object) -> Evidence:
    probe = find_probe(question.kind.probe, question.engine)
    task = {
        "probe": probe.name, "engine": probe.engine, "level": question.kind.level, "build": BUILDS[question.engine],
        "params": probe.resolve(question.params),
    }  # fmt: skip
    return make(task=task, **fields)  # type: ignore[operator,no-any-return]


def test_the_score_quotes_the_run_that_answered(make_evidence: object) -> None:
    question = of_kind("vllm-repeat", "warm_cached_tokens")
    seen = {"warm_cached_tokens": 2064, "hit_tokens": 2064.0, "queried_tokens": 2080.0, "recomputed_tokens": 16}
    evidence = evidence_for(question, make_evidence, observations=seen)
    one = score(question, 2064, evidence, "en")

    assert (one.observed, one.credit, one.evidence) == (2064, 1.0, evidence.id)
    assert any("2080 queried and 2064 hit" in said for said in one.why)
    assert "Observed: 2064. You predicted 2064: credit 1." in result_text(one, evidence, "en")


def test_a_run_whose_condition_did_not_come_about_costs_no_credit(make_evidence: object) -> None:
    question = of_kind("vllm-overcommit", "preemptions")
    evidence = evidence_for(question, make_evidence, observations={}, ended="inconclusive", reason="it never filled")
    one = score(question, 3, evidence, "en")

    assert (one.observed, one.credit, one.why) == (None, None, ("it never filled",))
    assert "no credit lost" in result_text(one, evidence, "en")


def test_equal_values_in_a_row_are_shown_once() -> None:
    assert shown([2047, 2047, 2047, 1027], "en") == "2047 ×3, 1027"
    assert shown([], "zh") == "无"
    assert len(shown(list(range(100)), "en").split(", ")) < 10


@given(st.text(st.characters(exclude_categories=["C", "Z", "M"]) | st.just(" "), max_size=300), st.integers(20, 100))
def test_folded_text_loses_nothing_and_keeps_the_width(text: str, width: int) -> None:
    lines = folded(text, width=width).splitlines()

    assert "".join("".join(lines).split()) == "".join(text.split())
    words = text.split()
    if all(cells(word) < width // 4 for word in words):
        assert all(cells(line) <= width for line in lines)


def drill(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, "drill", "--mode", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "INFERPROOF_LANG": "en", **environment},
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("guess",), "'guess' is not one of 'drill', 'mock', 'predict', 'diagnose'"),
        (("predict", "--engine", "trt"), "there is no engine 'trt'; known: vllm, sglang"),
        (("predict", "--engine", "vllm"), "run: inferproof builds setup vllm-cpu"),
        (("predict",), "run: inferproof builds setup vllm-cpu sglang-cpu"),
        (("predict", "beam-search-kv"), "--mode predict takes no CARD"),
        (("diagnose",), "run: inferproof verify diagnose-bottleneck"),
    ],
)
def test_what_a_mode_lacks_is_answered_with_the_remedy(arguments: tuple[str, ...], said: str) -> None:
    done = drill(*arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.engine
def test_piped_predictions_are_answered_by_runs_of_this_session(tmp_path: Path) -> None:
    done = drill(
        "predict", "--engine", "vllm", "--questions", "4", "--seed", "7", "--json",
        stdin="100\n\nwhat?\n2,064 tokens\n", INFERPROOF_DATA=str(tmp_path),
    )  # fmt: skip
    rows = json.loads(done.stdout)["questions"]

    assert [row["predicted"] for row in rows] == [100, None, None, 2064]
    assert set(rows[0]) == {"workload", "asks", "predicted", "observed", "credit", "evidence", "why"}
    assert "Question 4, vLLM" in done.stderr
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        kept = {e.id: e for e in ledger.evidence()}
        assert len(list(ledger.bodies("prediction"))) == 4
    assert list(kept) == [row["evidence"] for row in rows]
    for row, question in zip(rows, islice(questions(7, ["vllm"]), 4), strict=True):
        evidence = kept[row["evidence"]]
        assert (evidence.ended, evidence.task["level"]) == ("ok", "control")
        assert row["workload"]["params"] == evidence.task["params"]
        assert row["observed"] == question.ask.observed(evidence.observations)
        assert evidence.seconds < 20


@pytest.mark.engine
def test_at_a_terminal_no_number_is_asked_again_and_ctrl_c_keeps_what_was_answered(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and so would its children
        os.environ.update(INFERPROOF_LANG="en", INFERPROOF_DATA=str(tmp_path), TERM="dumb", COLUMNS="80")
        os.execv(TOOL, [TOOL, "drill", "--mode", "predict", "--engine", "vllm", "--seed", "7"])
    seen = ""

    def until(words: str) -> None:
        nonlocal seen
        deadline = time.monotonic() + 300
        while words not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(terminal, 4096).decode("utf-8", "replace")
        seen = seen.partition(words)[2]

    until("Question 1, vLLM")
    until("> ")
    os.write(terminal, b"hm\n")
    until("one number, please")
    until("> ")
    os.write(terminal, b"12\n")
    until("You predicted 12")
    until("Question 2, vLLM")
    until("> ")
    os.write(terminal, b"\x03")
    until("what was answered is recorded")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)

    assert os.waitstatus_to_exitcode(status) == 130
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert [body["predicted"] for body in ledger.bodies("prediction")] == [12]
