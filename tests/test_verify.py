"""Planning: which build each claim is tried on when nobody names one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from inferproof.grading.verify import plan
from inferproof.questions.card import Card
from inferproof.runners.builds import Bilingual, Build
from inferproof.runners.site import Site

WORDS = Bilingual(en="a build", zh="构建")


def build(name: str, version: str, *, default: bool = False, refusal: Bilingual | None = None) -> Build:
    return Build(
        name=name,
        engine="vllm",
        levels=("control", "engine"),
        about=WORDS,
        python=">=3.11",
        version=version,
        refusal=refusal,
        default=default,
    )


def site(*builds: Build, missing: tuple[str, ...] = ()) -> Site:
    by_name = {b.name: b for b in builds}
    not_set_up = dict.fromkeys(missing, Bilingual("not set up", "尚未安装"))
    return Site(by_name, {n: {"digest": n} for n in by_name}, not_set_up, Path())


def claim_of(card: Card, versions: str | None) -> list[tuple[Card, str]]:
    claim = dataclasses.replace(card.claims["vllm-hit"], versions=versions)
    return [(dataclasses.replace(card, claims={**card.claims, "vllm-hit": claim}), "vllm-hit")]


USUAL = build("usual", "0.27.1", default=True)
LATEST = build("latest", "0.32.0")
PINNED = build("pinned", "d1d2f7535", refusal=WORDS)


@pytest.mark.parametrize(
    ("versions", "ran_on"),
    [(None, ["usual"]), ("<0.30", ["usual"]), (">=0.30", ["latest"]), (">=0.27", ["usual"])],
)
def test_another_build_runs_only_what_no_default_build_can_answer(
    card: Card, versions: str | None, ran_on: list[str]
) -> None:
    made = plan(claim_of(card, versions), site(PINNED, USUAL, LATEST))
    assert [task.build for task in made.tasks] == ran_on
    assert not made.not_run


def test_a_build_that_is_named_stands_for_itself(card: Card) -> None:
    made = plan(claim_of(card, ">=0.30"), site(USUAL, LATEST), builds=["usual"])
    assert not made.tasks
    assert "no chosen build offers engine vllm >=0.30" in made.not_run[0].reason


def test_a_default_build_that_is_not_set_up_is_not_replaced(card: Card) -> None:
    made = plan(claim_of(card, None), site(USUAL, LATEST, missing=("usual",)))
    assert not made.tasks
    assert [(v.build, v.reason) for v in made.not_run] == [("usual", "not set up")]


def test_a_build_that_cannot_be_made_here_never_stands_in(card: Card) -> None:
    made = plan(claim_of(card, ">=0.30"), site(PINNED, USUAL))
    assert not made.tasks
    assert made.not_run[0].build is None
