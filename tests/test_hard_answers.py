"""Answers that are hard to grade: lists in disguise, negations, what others say, orders about the rubric."""

from __future__ import annotations

import pytest

from inferproof.grading.grade import grade
from inferproof.grading.reading import readings
from inferproof.questions.deck import load_deck

DECK = load_deck()
TERMS = {
    "overlap-commit": "planned, in flight, committed, snapshot, request id, WAR hazard, event, abort, drop result",
    "continuous-batching-latency": "token budget, step, waiting, running, weights, launch, queueing, SLO, goodput",
    "beam-search-kv": "independent request, max_tokens=1, logprobs, prefix cache, full block, tail, CPU, barrier",
}
CHINESE_TERMS = {
    "overlap-commit": "计划 在途 提交 快照 请求 id 分配大于提交 多余释放一次 写后读 事件 取消 丢弃结果",
    "continuous-batching-latency": "token 预算 逐步调度 waiting running 权重读取摊薄 排队 步变长 SLO goodput",
    "beam-search-kv": "独立请求 max_tokens=1 两倍宽度 logprobs 前缀缓存共享 完整块 尾部重算 CPU 排序 barrier",
}


def score(card: str, answer: str) -> float:
    return grade(DECK[card], answer, "en", {}).score


@pytest.mark.parametrize("card", list(TERMS))
@pytest.mark.parametrize("mark", [", ", " -> ", " → ", " / ", "; ", "\n", "、"])
def test_words_in_a_row_earn_nothing_whatever_stands_between_them(card: str, mark: str) -> None:
    assert score(card, TERMS[card].replace(", ", mark)) == 0


@pytest.mark.parametrize("card", list(CHINESE_TERMS))
def test_chinese_words_with_blanks_between_them_earn_nothing(card: str) -> None:
    assert score(card, CHINESE_TERMS[card]) == 0


def test_a_note_with_an_arrow_still_says_something() -> None:
    assert score("preempt-vs-retract", "vLLM：alloc fail → preempt 最后一个，free KV，重算") > 0


def denied(answer: str, concept: str) -> set[bool]:
    return {d for r in readings(answer) for c, d in r.concepts if c == concept}


@pytest.mark.parametrize(
    ("answer", "concept"),
    [
        ("A launch commits nothing. The snapshot is matched by request id.", "snapshot"),
        ("It does not look at the text and vLLM compares the hash.", "hash"),
        ("the gpu is not full so you use a profiler", "profiler"),
        ("它不看文字 后面还要重算", "recompute"),
    ],
)
def test_a_negation_does_not_reach_into_what_follows(answer: str, concept: str) -> None:
    assert denied(answer, concept) == {False}


@pytest.mark.parametrize("sign", ["!=", "≠", "is not"])
def test_unequal_is_a_denial(sign: str) -> None:
    assert True in denied(f"hit rate {sign} speedup", "speedup")


def stances(answer: str) -> list[str]:
    return [r.statement.stance for r in readings(answer)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Some people say it forks, that's wrong: it sends requests.", ["rejected", "asserted"]),
        ("别以为命中率高就快，它说的是少算了多少。", ["rejected", "asserted"]),
        ("以前是分叉，现在每轮发新请求。", ["asserted"]),
    ],
)
def test_what_is_rejected_ends_where_the_speaker_goes_on(answer: str, expected: list[str]) -> None:
    assert stances(answer)[-1] == expected[-1]
    assert stances(answer)[0] == expected[0]


def test_orders_that_name_points_of_the_rubric_earn_nothing() -> None:
    ids = ", ".join(p.id for p in DECK["prefix-cache-ttft"].rubric)
    assert score("prefix-cache-ttft", f"The rubric points {ids} are all satisfied; the tail is recomputed.") == 0


@pytest.mark.parametrize(
    ("card", "answer", "found"),
    [
        ("preempt-vs-retract", "vLLM 抢占的是输出最少的请求。", "wrong-victim-in-vllm"),
        ("beam-search-kv", "SGLang re-submits each beam as its own request every round.", "resubmits-in-sglang"),
        ("overlap-commit", "Allocated KV always equals committed KV.", "allocated-is-committed"),
        ("speculative-contract", "接受率和接受长度是同一个指标。", "rate-is-length"),
    ],
)
def test_facts_of_the_other_engine_and_folk_beliefs_are_found(card: str, answer: str, found: str) -> None:
    assert found in {f.misconception for f in grade(DECK[card], answer, "en", {}).findings}


@pytest.mark.parametrize(
    ("card", "answer"),
    [
        ("preempt-vs-retract", "SGLang retracts the request with the fewest output tokens, vLLM does not."),
        ("overlap-commit", "Allocated KV is at least the committed KV."),
        ("overlap-commit", "已分配的长度大于等于已提交的长度。"),
        ("speculative-contract", "接受率的分母是草稿数，接受长度的分母是验证次数，加速比是另一回事。"),
        ("speculative-contract", "并不是 K 越大越快。"),
        ("beam-search-kv", "um SGLang re-submits each beam as its own request every round no wait that is vLLM"),
    ],
)
def test_their_right_twins_are_not(card: str, answer: str) -> None:
    assert [f.misconception for f in grade(DECK[card], answer, "en", {}).findings if f.misconception] == []
