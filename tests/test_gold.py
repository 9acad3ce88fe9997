"""The gold set is whole, and its two parts never mix."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from inferproof.grading.gold import KINDS, LANGS, GoldAnswer, GoldError, problems, read_gold
from inferproof.questions.deck import load_deck

GOLD = read_gold()


def test_the_gold_set_is_valid() -> None:
    assert problems(GOLD, load_deck()) == []


def test_the_gold_set_is_large_and_has_every_language_and_kind() -> None:
    assert len(GOLD) >= 240
    assert len({a.card for a in GOLD}) == 9
    assert set(Counter(a.lang for a in GOLD)) == set(LANGS)
    assert set(Counter(a.kind for a in GOLD)) == set(KINDS)


def test_keyword_lists_deserve_nothing() -> None:
    assert {award for a in GOLD if a.kind == "keyword-list" for award in a.points.values()} == {0}


def test_the_parts_are_halves_and_every_kind_stands_in_both() -> None:
    tune, check = ([a for a in GOLD if a.part == part] for part in ("tune", "check"))
    assert len(tune) + len(check) == len(GOLD)
    assert 0.4 < len(tune) / len(GOLD) < 0.6
    assert {a.kind for a in tune} == {a.kind for a in check} == set(KINDS)


@pytest.mark.parametrize(
    ("name", "part"),
    [("prefix-cache-ttft-01", "tune"), ("prefix-cache-ttft-03", "check"), ("beam-search-kv-02", "tune")],
)
def test_an_answer_stays_in_its_part_whatever_it_says(name: str, part: str) -> None:
    answer = next(a for a in GOLD if a.id == name)
    assert answer.part == replace(answer, answer="other words").part == part


def _sample() -> GoldAnswer:
    return next(a for a in GOLD if a.false)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "odd"}, "kind 'odd'"),
        ({"lang": "fr"}, "lang 'fr'"),
        ({"card": "no-card"}, "no card 'no-card'"),
        ({"points": {"a": 1}}, "points are not those of the card"),
        ({"false": ("nowhere in it",)}, "does not stand in the answer"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(change: dict[str, object], message: str) -> None:
    (found,) = problems([replace(_sample(), **change)], load_deck())  # type: ignore[arg-type]
    assert message in found


def test_an_id_that_stands_twice_is_found() -> None:
    assert problems([_sample(), _sample()], load_deck()) == [f"{_sample().id}: id stands twice"]


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "x"}\n', encoding="utf-8")
    with pytest.raises(GoldError, match=r"a\.jsonl:1: expected an object"):
        read_gold(tmp_path)
