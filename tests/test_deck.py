"""A wrong card file gets an error with file, line, field and what was expected; all of its problems at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferproof.questions import deck as deck_module
from inferproof.questions.card import Card
from inferproof.questions.deck import DeckError, Problem, card_files, load_deck, locate, read_card
from inferproof.questions.headings import headings

Broken = Callable[..., list[Problem]]


@pytest.fixture
def broken(card_file: Path, card_text: str) -> Broken:
    """The problems of the small card after replacing text in it."""

    def problems(*replacements: tuple[str, str]) -> list[Problem]:
        text = card_text
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new, 1)
        return _problems(card_file, text)

    return problems


def _problems(file: Path, content: str | bytes) -> list[Problem]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DeckError) as caught:
        read_card(file)
    assert all(p.file == str(file) for p in caught.value.problems)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return list(caught.value.problems)


def line_of(text: str, part: str) -> int:
    """1-based line of the first occurrence."""
    return text[: text.index(part)].count("\n") + 1


def test_a_valid_card_is_read_whole(card: Card, card_file: Path) -> None:
    assert card.id == "small-card"
    assert card.collection == "mine"
    assert card.file == str(card_file)
    assert card.claims["vllm-hit"].engine == "vllm"
    assert card.claims["vllm-hit"].probe_params == {"prompt_tokens": 2080, "block_size": 16}
    assert card.claims["worth-it"].engine == "none"
    assert card.rubric[1].evidence_of.full == 1
    assert card.title.of("zh") == "前缀命中" and card.title.of("en") == "Prefix hits"


def test_every_shipped_card_is_valid() -> None:
    deck = load_deck()

    assert [card.id for card in deck.values()] == [f.stem for f in card_files()]


# --- the text itself


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", 1, "expected a mapping"),
        ("# only a comment\n", 1, "expected a mapping"),
        ("- a\n- b\n", 1, "expected a mapping"),
        ("just text", 1, "expected a mapping"),
        ("id: a\ntitle: [\n", 3, "is not valid YAML: while parsing a flow"),
        ("id: a\n\ttitle: b\n", 2, "is not valid YAML"),
        ("id: a\nb: c: d\n", 2, "is not valid YAML: mapping values are not allowed"),
        ("id: a\n---\nid: b\n", 2, "is not valid YAML: expected a single document"),
        ("id: a\nx: \x01\n", 2, "is not valid YAML: control characters are not allowed"),
        (b"id: a\ntitle: \xff\xfe\n", 1, "is not UTF-8 text"),
        ("你好".encode("gbk"), 1, "is not UTF-8 text"),
        ("id: a\nx: !!python/object/apply:os.system [ls]\n", 2, "could not determine a constructor for the tag"),
        ('id: a\nx: !!int ""\n', 1, "a value does not fit its type"),
        ("id: a\nx: !!bool maybe\n", 1, "a value does not fit its type"),
        ("id: a\nx: 2026-13-45\n", 1, "a value does not fit its type: month must be in 1..12"),
        ("a: " + "[" * 100_000, 1, "exceeded maximum nesting depth"),
    ],
)
def test_text_that_is_no_yaml_mapping_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, line: int, message: str
) -> None:
    (problem,) = _problems(tmp_path / "a.yaml", content)

    assert message in problem.message
    assert problem.line == line


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(alphabet="ab:-[]{},&*!?|>#\"'% \n\t\\<0", max_size=80).map(str.encode))
def test_any_bytes_give_a_deck_error_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    _problems(tmp_path / "a.yaml", content)


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path / "a.yaml", "#" * (deck_module.MAX_BYTES + 1))

    assert problem.message == "larger than 1048576 bytes"


def test_a_missing_file_and_a_folder_in_its_place_are_said(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for name, reason in (("none.yaml", "No such file or directory"), ("folder.yaml", "Is a directory")):
        with pytest.raises(DeckError, match=f"{name}:0: cannot be read: {reason}"):
            read_card(tmp_path / name)


def test_aliases_are_refused_so_that_a_bomb_does_not_go_off(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40))
    problems = _problems(tmp_path / "a.yaml", bomb)

    assert problems[0] == Problem(
        str(tmp_path / "a.yaml"), 1, "a1.0", "YAML aliases are not allowed in cards: write the value out"
    )
    assert len(_problems(tmp_path / "a.yaml", "a: &a [*a]\n")) == 1


def test_duplicate_keys_are_refused_at_the_second_one(broken: Broken, card_text: str) -> None:
    (problem,) = broken(("    kind: performance\n", "    kind: performance\n    kind: mechanism\n"))

    assert (problem.field, problem.message) == ("kind", "the key stands twice in the same mapping")
    assert problem.line == line_of(card_text, "kind: performance") + 1


@pytest.mark.parametrize("key", ["1", "no", "2026-07-17", "? [a, b]\n", "? {a: b}\n", "<<", "null"])
def test_a_key_that_is_no_name_is_refused(tmp_path: Path, key: str) -> None:
    (problem,) = _problems(tmp_path / "a.yaml", f"id: a\n{key}: {{x: y}}\n")

    assert (problem.line, problem.message) == (2, "expected a name as the key; quote it")


def test_nesting_has_a_limit(broken: Broken) -> None:
    (problem,) = broken(("section: 3", f"section: {'[' * 25}{']' * 25}"))

    assert problem.message == "nested deeper than 20 levels"
    assert problem.field == "source.section.0.0..."


# --- fields and types


@pytest.mark.parametrize(
    ("old", "new", "at", "field", "message"),
    [
        ("id: small-card\n", "id: 5\n", "id:", "id", "expected a valid string (got 5)"),
        ("kind: mechanism", "kind: magic", "kind: mech", "claims.vllm-hit.kind", "'judgement' (got \"magic\")"),
        ("points: 6", 'points: "6"', "points: 6", "rubric.0.points", 'expected a valid integer (got "6")'),
        ("points: 6", "points: yes", "points: 6", "rubric.0.points", "expected a valid integer (got true)"),
        ("points: 6", "points: 6.0", "points: 6", "rubric.0.points", "expected a valid integer"),
        (
            "claims: [vllm-hit]\n    evidence",
            "claims: vllm-hit\n    evidence",
            "claims: [v",
            "rubric.0.claims",
            "expected a list",
        ),
        ("with: {engine: vllm", "with: [{engine: vllm", "with: {", "claims.vllm-hit.with", ""),
        (
            "    probe: prefix",
            "    prob: prefix",
            "probe: prefix",
            "claims.vllm-hit.prob",
            "is not a known key; known here: says, kind, probe, with,",
        ),
        ("    with: {", "    params: {", "with: {", "claims.vllm-hit.params", "is not a known key"),
        ("full: 1", "ful: 1", "full: 1", "rubric.1.evidence_of.ful", "is not a known key; known here: ideas, full"),
        (
            "about: vllm, value",
            "abut: vllm, value",
            "stated: {when",
            "claims.vllm-hit.stated.abut",
            "known here: when, about, value, unit, given",
        ),
        ("section: 3}", "section: 3}\nextra: 1", "source:", "extra", "is not a known key; known here: id, title"),
        (
            '{en: "Whole blocks only.", zh: "只有整块。"}',
            "Whole blocks.",
            "criterion:",
            "rubric.0.criterion",
            'expected a mapping (got "Whole',
        ),
        ('{en: "Prefix hits", zh: "前缀命中"}', '{en: "Prefix hits"}', "title:", "title.zh", "is missing"),
        ("question:", "qestion:", "id:", "question", "is missing"),
        (
            'earn: {en: ["Whole',
            'earn: {fr: ["Whole',
            "examples: {earn",
            "rubric.0.examples.earn.fr.[key]",
            "expected 'en' or 'zh'",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_line_and_what_was_expected(
    broken: Broken, card_text: str, old: str, new: str, at: str, field: str, message: str
) -> None:
    if new.startswith("with: ["):
        problems = broken((old, new), ("block_size: 16}\n", "block_size: 16}]\n"))
        message = "expected a mapping"
    else:
        problems = broken((old, new))
    found = [p for p in problems if p.field == field]

    assert found, problems
    assert message in found[0].message
    if field != "extra":
        assert found[0].line == line_of(card_text, at)


def test_dates_in_text_stay_text(card_file: Path, card_text: str) -> None:
    card_file.write_text(card_text.replace('{en: "Prefix hits",', "{en: 2026-07-17,"), encoding="utf-8")

    assert read_card(card_file).title.en == "2026-07-17"


# --- what the types cannot say


@pytest.mark.parametrize(
    ("old", "new", "at", "field", "message"),
    [
        ("id: small-card", "id: other-card", "id:", "id", "'other-card' must equal the file's name, 'small-card'"),
        ("section: 3}", "section: 3, }\ncollection: x", "source:", "collection", "is not a known key"),
        ("points: 6", "points: 5", "rubric:", "rubric", "the points add up to 9, expected 10"),
        (
            "claims: [vllm-hit]\n    evidence",
            "claims: [gone]\n    evidence",
            "claims: [vllm-hit]",
            "rubric.0.claims",
            "there is no claim 'gone' on this card",
        ),
        (
            "refuted_by: [vllm-hit]",
            "refuted_by: [gone]",
            "refuted_by",
            "misconceptions.0.refuted_by",
            "there is no claim 'gone' on this card",
        ),
        (
            "claims: [vllm-hit]}\nfollow",
            "claims: [gone]}\nfollow",
            "  - {text:",
            "answer.0.claims",
            "there is no claim 'gone' on this card",
        ),
        (
            "claims: [vllm-hit]\n    after",
            "claims: [gone]\n    after",
            "claims: [vllm-hit]\n    after",
            "followups.0.claims",
            "there is no claim 'gone' on this card",
        ),
        ("after: [granularity]", "after: [gone]", "after:", "followups.0.after", "there is no rubric point 'gone'"),
        ("id: cost", "id: granularity", "id: cost", "rubric.1.id", "'granularity' stands twice"),
        (
            "full: 1",
            "full: 3",
            "evidence_of:\n      full",
            "rubric.1.evidence_of",
            "'full' between 1 and their number (here 2)",
        ),
        (
            "full: 1",
            "full: 0",
            "evidence_of:\n      full",
            "rubric.1.evidence_of",
            "'full' between 1 and their number (here 2)",
        ),
        (
            "    expect: warm_cached_tokens == 2064 && cold_cached_tokens == 0\n",
            "",
            "vllm-hit:",
            "claims.vllm-hit.expect",
            "needs a predicate",
        ),
        (
            "expect: warm_cached_tokens == 2064 && cold_cached_tokens == 0",
            'expect: " "',
            "expect:",
            "claims.vllm-hit.expect",
            "needs a predicate",
        ),
        ("    recorded: [saved-ms]\n", "", "on-a-gpu:", "claims.on-a-gpu", "expected a probe with a predicate"),
        (
            '    reason: {en: "Worth depends on the service.", zh: "是否值得取决于业务。"}\n',
            "",
            "worth-it:",
            "claims.worth-it.reason",
            "why no probe can decide",
        ),
        (
            "kind: judgement",
            "kind: judgement\n    expect: a == 1",
            "worth-it:",
            "claims.worth-it.probe",
            "has no probe and no predicate",
        ),
    ],
)
def test_an_inconsistent_card_is_refused_with_the_line_to_mend(
    broken: Broken, card_text: str, old: str, new: str, at: str, field: str, message: str
) -> None:
    (problem,) = broken((old, new))

    assert (problem.field, problem.line) == (field, line_of(card_text, at) + (field == "collection"))
    assert message in problem.message


def test_points_below_one_do_not_make_up_a_sum(broken: Broken) -> None:
    fields = [p.field for p in broken(("points: 6", "points: 12"), ("points: 4", "points: -2"))]

    assert fields == ["rubric.1.points"]


def test_all_problems_are_reported_at_once(broken: Broken, card_text: str) -> None:
    types = broken(("kind: mechanism", "kind: magic"), ("points: 6", "points: six"), ("full: 1", "ful: 1"))
    assert {p.field for p in types} == {"claims.vllm-hit.kind", "rubric.0.points", "rubric.1.evidence_of.ful"}

    meaning = broken(("points: 6", "points: 1"), ("after: [granularity]", "after: [gone]"), ("id: small-card", "id: x"))
    assert [p.field for p in meaning] == ["id", "rubric", "followups.0.after"]
    assert meaning[2].line == line_of(card_text, "after:")


# --- several files


def test_a_deck_names_the_problems_of_every_file(card_file: Path, card_text: str) -> None:
    (card_file.parent / "one.yaml").write_text("id: [", encoding="utf-8")
    (card_file.parent / "two.yaml").write_text(card_text, encoding="utf-8")
    with pytest.raises(DeckError) as caught:
        load_deck([card_file.parent])

    assert {Path(p.file).name for p in caught.value.problems} == {"one.yaml", "two.yaml"}


def test_the_same_id_in_two_folders_is_refused_naming_both(card_file: Path, card_text: str, tmp_path: Path) -> None:
    other = tmp_path / "other/small-card.yaml"
    other.parent.mkdir()
    other.write_text("# another\n" + card_text, encoding="utf-8")
    with pytest.raises(DeckError) as caught:
        load_deck([card_file.parent, other.parent])

    assert caught.value.problems == (Problem(str(other), 2, "id", f"'small-card' is already the card in {card_file}"),)


def test_cards_come_from_files_and_from_folders_below(card_file: Path) -> None:
    shipped = card_files()

    assert card_files([card_file]) == card_files([card_file.parent.parent]) == [*shipped, card_file]
    assert load_deck([card_file])["small-card"].collection == "mine"


def test_a_place_without_cards_is_said(tmp_path: Path) -> None:
    with pytest.raises(DeckError, match="no such file or folder"):
        card_files([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DeckError, match=r"no card \(\*\.yaml\) is in this folder"):
        card_files([tmp_path / "empty"])


def test_locate_gives_the_line_of_a_field_or_of_what_holds_it(card_file: Path, card_text: str) -> None:
    assert locate(card_file, ("claims", "vllm-hit", "expect")) == line_of(card_text, "expect:")
    assert locate(card_file, ("claims", "on-a-gpu", "expect")) == line_of(card_text, "on-a-gpu:")
    assert locate(card_file, ("rubric", 1, "id")) == line_of(card_text, "id: cost")
    assert locate(card_file, ("nothing",)) == 1


# --- headings


def test_headings_are_remembered_until_the_file_changes(
    card_file: Path, card_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "headings.json"
    first = headings(memory, [card_file])
    assert first["small-card"].title == {"en": "Prefix hits", "zh": "前缀命中"}
    assert first["small-card"].file == str(card_file)

    with monkeypatch.context() as patch:
        patch.setattr(deck_module, "read_card", None)  # nothing is read again
        assert headings(memory, [card_file]) == first

    card_file.write_text(card_text.replace("Prefix hits", "Other title"), encoding="utf-8")
    assert headings(memory, [card_file])["small-card"].title["en"] == "Other title"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"[1]", b"5", b"\xff", b'{"FILE": 1}', b'{"FILE": {"stamp": 1}}', b'{"FILE": {}}'],
)
def test_a_damaged_memory_of_headings_is_made_again(card_file: Path, tmp_path: Path, content: bytes) -> None:
    memory = tmp_path / "headings.json"
    memory.write_bytes(content.replace(b"FILE", str(card_file).encode()))

    assert headings(memory, [card_file])["small-card"].id == "small-card"
    assert str(card_file) in json.loads(memory.read_text(encoding="utf-8"))


def test_headings_do_not_need_their_memory(card_file: Path, tmp_path: Path) -> None:
    assert "small-card" in headings(tmp_path / "no-such-folder/headings.json", [card_file])


def test_headings_of_a_broken_card_say_what_is_wrong(card_file: Path, tmp_path: Path) -> None:
    card_file.write_text("id: [", encoding="utf-8")
    with pytest.raises(DeckError, match="is not valid YAML"):
        headings(tmp_path / "headings.json", [card_file])
