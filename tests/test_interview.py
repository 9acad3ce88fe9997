"""An interviewer presses on what is wrong, then on what is missing, and stops in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_cards import CARD, EVIDENCE, FULL

from inferproof.grading.debrief import debrief
from inferproof.grading.grade import grade
from inferproof.grading.interview import FOLLOWUPS, Asked, Interview, Times, Turn
from inferproof.grading.layers import LAYERS
from inferproof.grading.result import Grade
from inferproof.questions.card import Card
from inferproof.questions.headings import Heading, least_answered, vars_of

WRONG = "A repeated prompt hits 100% and skips the whole prefill, no forward is needed."
TAKEN_BACK = "vLLM reuses whole blocks only, found by hash: of 2080 repeated tokens 2064 hit."


def heading(name: str = CARD.id, collection: str = "engine-internals") -> Heading:
    return Heading(
        name, vars_of(CARD.title), vars_of(CARD.question), [p.id for p in CARD.rubric], f"/{collection}/x.yaml"
    )


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def held(
    answers: list[str], minutes: float = 30, takes: float = 10, questions: int = 1
) -> tuple[Interview, list[Asked], list[Turn]]:
    """An interview in which each answer takes so many seconds."""
    asked: list[Asked] = []
    kept: list[Turn] = []
    clock = Clock()
    rest = iter(answers)

    def ask(question: Asked, times: Times) -> str | None:
        asked.append(question)
        clock.now = min(clock.now + takes, times.end)
        return next(rest, None)

    def graded(card: Card, text: str) -> Grade:
        return grade(card, text, "en", EVIDENCE)

    interview = Interview(
        headings=[heading()] * questions,
        card=lambda _: CARD,
        grade=graded,
        keep=kept.append,
        minutes=minutes,
        clock=clock,
    )
    interview.hold(ask)
    return interview, asked, kept


def test_a_wrong_statement_is_taken_up_first_in_the_persons_own_words() -> None:
    _, asked, _ = held([WRONG, TAKEN_BACK])

    assert [a.id for a in asked[:2]] == [CARD.id, "challenge"]
    assert "skips the whole prefill" in asked[1].question["en"]
    assert "skips the whole prefill" in asked[1].question["zh"]
    assert asked[1].points == ("match-granularity",)


def test_a_statement_that_is_taken_back_counts_no_more_and_one_that_is_repeated_does() -> None:
    for answer, wrong in ((TAKEN_BACK, 0), (WRONG, 1), ("I do not know.", 1)):
        interview, _, _ = held([WRONG, answer])

        assert len(debrief(interview).wrong) == wrong


def test_the_first_score_stays_as_it_was_without_help() -> None:
    interview, _, _ = held([WRONG, TAKEN_BACK])
    result = debrief(interview)

    assert result.score.first == 0 < result.score.last


def test_what_is_missing_is_asked_for_by_the_cards_own_followups_and_then_by_layer() -> None:
    assert [a.id for a in held(["Well.", "Hm."])[1]] == [CARD.id, "half-block", "salt"]
    _, asked, _ = held([FULL["en"], "x"])

    assert asked[1].id in LAYERS


def test_a_skipped_question_is_not_pressed_on() -> None:
    _, asked, kept = held(["", "An answer."], questions=2)

    assert [a.id for a in asked[:2]] == [CARD.id, CARD.id]
    assert kept[0].grade.score == 0


@given(
    answers=st.lists(st.sampled_from(["", WRONG, TAKEN_BACK, FULL["en"], "Hm."]), max_size=12),
    minutes=st.floats(0.1, 5),
    takes=st.floats(0.1, 200),
    questions=st.integers(1, 4),
)
def test_it_stops_in_time_and_keeps_every_answer(
    answers: list[str], minutes: float, takes: float, questions: int
) -> None:
    interview, asked, kept = held(answers, minutes, takes, questions)

    turns = [turn for q in interview.questions for turn in q.turns]
    assert interview.seconds <= 60 * minutes + 1e-6
    assert turns == kept
    assert [t.answer for t in turns] == answers[: len(turns)]
    assert len(asked) <= len(turns) + 1
    assert all(len(q.turns) <= 1 + FOLLOWUPS for q in interview.questions)
    assert len(interview.questions) <= questions


def test_no_followup_is_asked_once_a_question_has_had_its_share_of_the_time() -> None:
    interview, _, _ = held(["Well."] * 9, minutes=1, takes=31, questions=2)

    assert [len(q.turns) for q in interview.questions] == [1, 1]


def test_an_interview_that_is_broken_off_keeps_what_was_answered() -> None:
    interview, _, _ = held([])

    def ask(_: Asked, times: Times) -> str:
        if interview.questions:
            raise KeyboardInterrupt
        return "Well."

    with pytest.raises(KeyboardInterrupt):
        interview.hold(ask)
    assert debrief(interview).missed[0].award == 0


def test_the_debrief_scores_each_topic_and_each_layer() -> None:
    interview, _, _ = held([WRONG])
    q = interview.questions[0]
    interview.questions.append(replace(q, card=replace(CARD, collection="sglang")))
    result = debrief(interview)

    assert set(result.topics) == {"", "sglang"}
    assert tuple(result.layers) == LAYERS
    assert {layer: touched.first for layer, touched in result.layers.items() if touched.first} == {
        "logical state": 2,
        "execution": 2,
    }


@pytest.mark.parametrize(
    ("attempts", "count", "chosen"),
    [
        ({}, 3, ["a", "c", "b"]),
        ({"a": 1}, 2, ["b", "c"]),
        ({}, 9, ["a", "c", "b"]),
        ({"a": 1, "b": 2, "c": 5}, 1, ["a"]),
    ],
)
def test_the_cards_answered_least_are_asked_from_each_collection_in_turn(
    attempts: dict[str, int], count: int, chosen: list[str]
) -> None:
    headings = [heading("a", "one"), heading("b", "one"), heading("c", "two")]

    assert [h.id for h in least_answered(headings, attempts, count)] == chosen
