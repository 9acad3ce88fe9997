"""The benchmark: the grader over the gold set, measured by language and kind, beside the baselines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from inferproof.grading.baselines import BASELINES, NotRun
from inferproof.grading.gold import KINDS, LANGS, GoldAnswer
from inferproof.grading.grade import grade
from inferproof.grading.metrics import accuracy, bias, macro_f1, mean_absolute_error, share, weighted_kappa
from inferproof.grading.result import Grade
from inferproof.questions.card import Card
from inferproof.runners.evidence import Evidence

EvidenceOf = Mapping[str, Mapping[str, Sequence[Evidence]]]
"""Card id -> claim id -> evidence."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One graded answer beside its labels."""

    gold: GoldAnswer
    points: Mapping[str, float]
    weights: Mapping[str, int]
    right: int = 0
    """Contradicted statements that a marked false statement overlaps."""
    contradicted: int = 0
    found: int = 0
    """Marked false statements that a contradicted one overlaps."""
    seconds: float = 0.0

    def total(self, awards: Mapping[str, float]) -> float:
        """The score from 0 to 10 that these awards make."""
        return 10 * sum(awards[p] * w for p, w in self.weights.items()) / sum(self.weights.values())


@dataclass(frozen=True, kw_only=True)
class Row:
    """Measures over some answers; None where there is nothing to measure."""

    name: str
    answers: int
    point_accuracy: float | None
    macro_f1: float | None
    """Over the awards 0, half, full of all points."""
    kappa: float | None
    """Quadratic-weighted, of the totals from 0 to 10."""
    error: float | None
    """Mean absolute error of the total, in points."""
    bias: float | None
    """Mean of the total over the labelled total: what undeserved points come to."""
    recall: float | None
    """Of the marked false statements."""
    precision: float | None
    """Of the contradicted statements."""
    median_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """All rows of one run."""

    part: str
    rows: tuple[Row, ...]
    """All answers, then by language, then by kind."""
    baselines: tuple[Row, ...]
    not_run: Mapping[str, str]
    """Baseline -> why it did not run."""
    claims: int
    """Claims that a probe can decide, of the cards in the set."""
    claims_with_evidence: int


def run(deck: Mapping[str, Card], answers: Sequence[GoldAnswer], evidence: EvidenceOf, part: str) -> Benchmark:
    """Grade the answers of one part (`tune`, `check`, `all`); baselines are fitted to the tune part."""
    tune = [a for a in answers if a.part == "tune"]
    chosen = [a for a in answers if part in (a.part, "all")]
    scored = score(deck, chosen, evidence)
    rows, not_run = [], {}
    for name, baseline in BASELINES.items():
        try:
            awards = baseline(deck, tune, chosen)
        except NotRun as reason:
            not_run[name] = str(reason)
            continue
        rows.append(
            row(name, [Scored(gold=s.gold, points=a, weights=s.weights) for s, a in zip(scored, awards, strict=True)])
        )
    cards = [deck[name] for name in sorted({a.card for a in chosen})]
    decidable = [(card.id, claim) for card in cards for claim, c in card.claims.items() if c.probe is not None]
    return Benchmark(
        part=part,
        rows=tuple(_rows(scored)),
        baselines=tuple(rows),
        not_run=not_run,
        claims=len(decidable),
        claims_with_evidence=sum(bool(evidence.get(card, {}).get(claim)) for card, claim in decidable),
    )


def score(deck: Mapping[str, Card], answers: Sequence[GoldAnswer], evidence: EvidenceOf) -> list[Scored]:
    """Every answer graded. What is made once a process (glossary, converter) is made before the clock runs."""
    if answers:
        grade(deck[answers[0].card], answers[0].answer, "en", {})
    return [_scored(deck[a.card], a, evidence.get(a.card, {})) for a in answers]


def _scored(card: Card, gold: GoldAnswer, evidence: Mapping[str, Sequence[Evidence]]) -> Scored:
    start = time.perf_counter()
    given = grade(card, gold.answer, gold.language, evidence)
    seconds = time.perf_counter() - start
    said = contradicted_at(given, gold.answer)
    false = [place for statement in gold.false for place in places(statement, gold.answer)[:1]]
    return Scored(
        gold=gold,
        points={p.point: p.award for p in given.points},
        weights={p.id: p.points for p in card.rubric},
        right=sum(any(overlap(place, f) for f in false) for place in said),
        contradicted=len(said),
        found=sum(any(overlap(place, f) for place in said) for f in false),
        seconds=seconds,
    )


def contradicted_at(given: Grade, answer: str) -> list[tuple[int, int]]:
    """Where the contradicted statements stand, each statement once."""
    spans = dict.fromkeys(f.span for f in given.contradicted)
    return [place for span in spans for place in places(span, answer)[:1]]


def places(words: str, text: str) -> list[tuple[int, int]]:
    """[start, end) of every place where the words stand."""
    found, start = [], text.find(words)
    while words and start >= 0:
        found.append((start, start + len(words)))
        start = text.find(words, start + 1)
    return found


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two places share a character."""
    return one[0] < other[1] and other[0] < one[1]


def _rows(scored: Sequence[Scored]) -> Iterable[Row]:
    yield row("all", scored)
    yield from (row(lang, [s for s in scored if s.gold.lang == lang]) for lang in LANGS)
    yield from (row(kind, [s for s in scored if s.gold.kind == kind]) for kind in KINDS)


def row(name: str, scored: Sequence[Scored]) -> Row:
    """The measures over these answers."""
    pairs = [(s.points[point], label) for s in scored for point, label in s.gold.points.items()]
    given, labels = [a for a, _ in pairs], [b for _, b in pairs]
    totals, due = [s.total(s.points) for s in scored], [s.total(s.gold.points) for s in scored]
    times = [1000 * s.seconds for s in scored if s.seconds]
    return Row(
        name=name,
        answers=len(scored),
        point_accuracy=accuracy(given, labels),
        macro_f1=macro_f1(given, labels),
        kappa=weighted_kappa(totals, due),
        error=mean_absolute_error(totals, due),
        bias=bias(totals, due),
        recall=share(sum(s.found for s in scored), sum(len(s.gold.false) for s in scored)) if times else None,
        precision=share(sum(s.right for s in scored), sum(s.contradicted for s in scored)),
        median_ms=median(times) if times else None,
        p95_ms=quantiles(times, n=20)[-1] if len(times) > 1 else None,
    )
