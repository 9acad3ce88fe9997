"""The offline grader: an answer in, awards and findings out. A function of values: no network, no clock, no chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferproof.grading.figures import misplaced
from inferproof.grading.findings import UNLIKELY, check_claims, check_heard, check_misconceptions
from inferproof.grading.layers import layers_covered
from inferproof.grading.learned import Heard, Model, award_inputs, contrary, model_of, words_for
from inferproof.grading.learned import award as decided
from inferproof.grading.reading import Reading, readings
from inferproof.grading.result import Finding, Grade, PointGrade, score
from inferproof.grading.statements import ENGINES
from inferproof.grading.text import bare
from inferproof.questions.card import Card, Idea, Language, RubricPoint
from inferproof.runners.evidence import Evidence

_SHORTEST_PASTE = 12
"""Letters from which on a statement that stands in the rubric is taken as copied from there."""
_WHY = {
    "en": {
        "full": "States all that is asked: {stated}.",
        "half": "States {stated}; not {missing}.",
        "none": "Nothing in the answer states it.",
        "against": "The answer says what speaks against it: “{span}”.",
        "wrong number": "States it with a number that the measurement contradicts: “{span}”.",
        "wrong figure": "States it with a number that the published figures contradict: “{span}”.",
    },
    "zh": {
        "full": "要点都讲到了：{stated}。",
        "half": "讲到了 {stated}；没有讲到 {missing}。",
        "none": "回答里没有讲到这一点。",
        "against": "回答里有与之矛盾的说法：“{span}”。",
        "wrong number": "讲到了，但数字与实测矛盾：“{span}”。",
        "wrong figure": "讲到了，但数字与已发布的数据矛盾：“{span}”。",
    },
}


def grade(card: Card, answer: str, language: Language, evidence: Mapping[str, Sequence[Evidence]]) -> Grade:
    """Grade an answer.

    language  of the explanations; the answer itself may be in either language or both.
    evidence  claim id -> newest settled records, one per build.
    """
    read = statements_of(card, answer)
    model = model_of(card.id, frozenset(p.id for p in card.rubric))
    heard = model.hear(read) if model else []
    findings = _findings(card, read, model, language, evidence)
    stated = {point.id: _by_rule(point, read) for point in card.rubric}
    if model is not None:
        stated = {point.id: _by_model(model, point, heard, stated[point.id]) for point in card.rubric}
    points = tuple(_point(card, point, stated[point.id], findings, language) for point in card.rubric)
    return Grade(
        card=card.id,
        language=language,
        score=score(points),
        points=points,
        findings=findings,
        followup=_followup(card, points),
        layers=layers_covered(read),
    )


def _findings(
    card: Card,
    read: Sequence[Reading],
    model: Model | None,
    language: Language,
    evidence: Mapping[str, Sequence[Evidence]],
) -> tuple[Finding, ...]:
    """Misconceptions first, by rule and as learned; then the claims that the other statements state."""
    whole = model.judge(read) if model else []
    judged = [(one.alone, against) for one, against in zip(whole, contrary(whole), strict=True)]
    facts = model.facts if model else None
    doubtful = _doubtful(read, judged)
    backed = {m.id for m in card.misconceptions if m.unless and _touches_all(card, m.unless, read)}
    said = (
        *check_misconceptions(card, doubtful, language, evidence),
        *misplaced(card, read, language, facts),
        *check_heard(card, judged, facts, language, evidence),
    )
    by_span: dict[str, Finding] = {}
    for finding in said:
        if finding.misconception not in backed:
            by_span.setdefault(finding.span, finding)
    claims = check_claims(card, [r for r in read if r.span not in by_span], language, evidence)
    return (*by_span.values(), *claims)


def _doubtful(read: Sequence[Reading], judged: Sequence[tuple[Heard, float]]) -> list[Reading]:
    """What a rule may take for a misconception: what the model does not take for true, and what it did not hear."""
    starts = [one.readings[0].statement.start for one, _ in judged]
    unheard = [r for r in read if not any(r.statement.start <= start < r.statement.end for start in starts)]
    said = [one.readings[0] for one, against in judged if against >= UNLIKELY]
    return sorted([*unheard, *said], key=lambda r: r.statement.start)


def statements_of(card: Card, answer: str) -> list[Reading]:
    """What the speaker says of his own: not the rubric given back, not orders about it."""
    criteria = [bare(text) for point in card.rubric for text in (point.criterion.en, point.criterion.zh)]
    read = readings(answer, engines_of(card))
    pasted = _pasted(read, criteria)
    return [r for r, is_pasted in zip(read, pasted, strict=True) if not is_pasted and not _names_points(r, card)]


def _pasted(read: Sequence[Reading], criteria: Sequence[str]) -> list[bool]:
    """Which statements are the rubric given back, word for word; short ones only beside a long one."""
    said = [bare(reading.span) for reading in read]
    copied = [any(words in criterion for criterion in criteria) for words in said]
    long = [a and len(words) >= _SHORTEST_PASTE for a, words in zip(copied, said, strict=True)]
    beside = [a or b for a, b in zip([False, *long[:-1]], [*long[1:], False], strict=True)] if long else []
    return [a or (b and c) for a, b, c in zip(long, copied, beside, strict=True)]


def _names_points(reading: Reading, card: Card) -> bool:
    """Whether the statement speaks of points of the rubric by their ids, which only somebody who asks for them does."""
    said = reading.span.lower()
    return sum(point.id in said for point in card.rubric) > 1


def engines_of(card: Card) -> frozenset[str]:
    """The engine that the question is about, where it names exactly one."""
    asked = f"{card.title.en} {card.question.en}".lower()
    named = frozenset(engine for engine in ENGINES if engine in asked)
    return named if len(named) == 1 else frozenset()


@dataclass(frozen=True)
class _Stated:
    """What of one point an answer states."""

    award: float
    by: Mapping[str, str]
    """Idea or part of the point -> the words that state it."""
    missing: tuple[str, ...]


def rule_awards(card: Card, read: Sequence[Reading]) -> dict[str, float]:
    """Point -> what the ideas on the card give."""
    return {point.id: _by_rule(point, read).award for point in card.rubric}


def _by_rule(point: RubricPoint, read: Sequence[Reading]) -> _Stated:
    by: dict[str, str] = {}
    for idea in point.evidence_of.ideas:
        if (reading := next((r for r in read if states(r, idea)), None)) is not None:
            by[idea.id] = reading.span
    full = point.evidence_of.full or len(point.evidence_of.ideas)
    award = 1.0 if len(by) >= full else 0.5 if 2 * len(by) >= full else 0.0
    return _Stated(award, by, tuple(idea.id for idea in point.evidence_of.ideas if idea.id not in by))


def _by_model(model: Model, point: RubricPoint, heard: Sequence[Heard], by_rule: _Stated) -> _Stated:
    """The learned opinion, to which the rules' award is one input."""
    strongest = model.strongest(heard, point.id)
    inputs = award_inputs(list(strongest.values()), by_rule.award)
    award = decided(model.card, point.id, inputs)
    quotes = {part: words_for(f"{point.id}/{part}", heard) for part in strongest}
    by = {part: words for part, words in quotes.items() if words is not None} or dict(by_rule.by)
    return _Stated(award if by else 0.0, by, tuple(part for part in strongest if part not in by))


def _point(
    card: Card, point: RubricPoint, stated: _Stated, findings: Sequence[Finding], language: Language
) -> PointGrade:
    award = stated.award
    why = "none" if award == 0 else "full" if award == 1 else "half"
    said = list(dict.fromkeys(stated.by.values()))
    span = " … ".join(s for s in said if not any(s != other and s in other for other in said)) if award else None
    if (against := _against(card, point, findings)) is not None:
        award, why, span = 0.0, "against", against.span
    elif award and (wrong := _wrong_number(point, said, findings)) is not None:
        award, why, span = 0.5, "wrong figure" if wrong.recorded else "wrong number", wrong.span
    return PointGrade(
        point=point.id,
        points=point.points,
        award=award,
        span=None if why == "against" else span,
        why=_WHY[language][why].format(stated=", ".join(stated.by), missing=", ".join(stated.missing), span=span),
        missing=stated.missing if award < 1 else (),
    )


def states(reading: Reading, idea: Idea) -> bool:
    """Whether the statement states the idea: asserted, about its engine, its concepts related (or denied)."""
    return reading.speaks_of(idea.about) and any(
        reading.states(alternative, denied=idea.denied) for alternative in idea.states
    )


def _touches_all(card: Card, points: Sequence[str], read: Sequence[Reading]) -> bool:
    """Whether the answer states at least one idea of each of these points."""
    return all(
        any(states(r, idea) for idea in point.evidence_of.ideas for r in read)
        for point in card.rubric
        if point.id in points
    )


def _against(card: Card, point: RubricPoint, findings: Sequence[Finding]) -> Finding | None:
    """A misconception in the answer that is refuted by a claim this point rests on."""
    refuted_by = {m.id: m.refuted_by for m in card.misconceptions}
    return next(
        (f for f in findings if f.misconception and not set(refuted_by[f.misconception]).isdisjoint(point.claims)), None
    )


def _wrong_number(point: RubricPoint, said: Sequence[str], findings: Sequence[Finding]) -> Finding | None:
    """A number that was compared with the point's own, or a contradicted statement among those that earned it."""
    wrong = (f for f in findings if f.verdict == "contradicted" and f.misconception is None and f.claim in point.claims)
    return next(
        (
            f
            for f in wrong
            if (f.stated is not None and not f.recorded) or any(f.span in words or words in f.span for words in said)
        ),
        None,
    )


def _followup(card: Card, points: Sequence[PointGrade]) -> str | None:
    """The first follow-up that presses on a point not fully awarded, else the first."""
    weak = {p.point for p in points if p.award < 1}
    pressing = [f.id for f in card.followups if not weak.isdisjoint(f.after)]
    return next(iter(pressing or [f.id for f in card.followups]), None)
