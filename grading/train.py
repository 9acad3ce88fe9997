"""Make the model files from the labelled sentences: `python -m inferproof.grading.train` (see `make model`).

`training/<card>.parts.yaml` says what each point consists of; `<card>.jsonl` holds passages with the parts that they
state and what in them is false; `<card>.answers.jsonl` whole answers, from which awards are learned together with the
tune part of the gold set. The same data gives the same files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from inferproof.grading.bench import overlap, places
from inferproof.grading.cues import SENTENCE
from inferproof.grading.features import FAMILIES, Facts, Features, facts_of, features, loudness, texts, together
from inferproof.grading.gold import GoldAnswer, read_gold
from inferproof.grading.grade import engines_of, rule_awards, statements_of
from inferproof.grading.learned import FALSE, MODELS, SCALE, award_inputs, contrary_inputs, model_of
from inferproof.grading.reading import readings
from inferproof.questions.card import Card, Language
from inferproof.questions.deck import load_deck
from inferproof.questions.recorded import load_recorded
from inferproof.runners.paths import write_atomically

TRAINING = Path(__file__).with_name("training")
_STRENGTH = 5.0
"""Inverse of the regularisation; a quarter or four times of it changes little."""
_KEPT = 1200
"""Strongest features kept for each head: the others are noise, and make the file large."""
_FEWEST = 4
"""Sentences that a claim or misconception needs to get a head of its own."""
_OWN = 4.0
"""Weight of the card's own sentences: the grader must get these right."""
_POINT_WEIGHT = 0.4
AWARDS = ("0", "0.5", "1")


@dataclass(frozen=True)
class Passage:
    """A labelled sentence or two."""

    text: str
    states: frozenset[str] | None
    """`point/part` of all parts that it states; None where nobody has said which."""
    false: str | None
    """The claim or misconception that tells what is false in it, or `other`."""
    weight: float = 1.0


def passages(card: Card) -> list[Passage]:
    """The labelled passages of a card, and its own example sentences."""
    rows = map(json.loads, (TRAINING / f"{card.id}.jsonl").read_text(encoding="utf-8").splitlines())
    found = [Passage(r["text"], frozenset(r["states"]), r["false"] or None) for r in rows]
    parts = {point: [f"{point}/{part}" for part in of["parts"]] for point, of in parts_of(card.id).items()}
    for point in card.rubric:
        for states, examples in ((parts[point.id], point.examples.earn), ((), point.examples.earn_nothing)):
            found += [Passage(s, frozenset(states), None, _OWN) for of in examples.values() for s in of]
    for misconception in card.misconceptions:
        for sentences in misconception.examples.values():
            found += [Passage(s, frozenset(), misconception.id, _OWN) for s in sentences]
    own = {text: None for of in texts(card) for text in (of.en, of.zh)}
    own.update((sentence.group().strip(), None) for text in list(own) for sentence in SENTENCE.finditer(text))
    return [*found, *(Passage(sentence, None, None, _OWN) for sentence in own if sentence)]


def parts_of(card: str) -> dict[str, Any]:
    """Point -> `full` and `parts`."""
    import yaml

    parts: dict[str, Any] = yaml.safe_load((TRAINING / f"{card}.parts.yaml").read_text(encoding="utf-8"))
    return parts


def trained_cards() -> list[str]:
    """Cards that have training data."""
    return sorted(file.name.removesuffix(".parts.yaml") for file in TRAINING.glob("*.parts.yaml"))


def model(card: Card) -> dict[str, Any]:
    """The content of the card's model file."""
    facts = facts_of(card, {f.id: f for f in load_recorded().figures})
    labelled = passages(card)
    seen = [_features(card, passage.text, facts) for passage in labelled]
    heads = list(_heads(card, labelled))
    known, matrix = _matrix(seen)
    names, bias, weights = list[str](), list[int](), {family: dict[str, list[int]]() for family in FAMILIES}
    for head in heads:
        rows = [i for i, p in enumerate(labelled) if p.states is not None or head.startswith(FALSE)]
        said = [_states(labelled[i], head) for i in rows]
        fitted, intercept = _fit(matrix[rows], said, [labelled[i].weight for i in rows])
        strongest = sorted(range(len(known)), key=lambda i: (-abs(fitted[i]), known[i]))[:_KEPT]
        for i in sorted(strongest, key=lambda i: known[i]):
            if weight := round(SCALE * fitted[i]):
                family, feature = known[i]
                weights[family].setdefault(feature, []).extend((len(names), weight))
        names.append(head)
        bias.append(round(SCALE * intercept))
    return {
        "card": card.id,
        "points": {p: {"full": of["full"], "parts": list(of["parts"])} for p, of in parts_of(card.id).items()},
        "facts": sorted(([value, engine] for value, engine in facts), key=lambda f: (f[0], f[1] or "")),
        "heads": names,
        "bias": bias,
        "weights": {family: dict(sorted(of.items())) for family, of in weights.items()},
    }


def _features(card: Card, text: str, facts: Facts) -> Features:
    read = readings(text, engines_of(card))
    return together([features(r, facts) for r in read]) if read else {family: frozenset() for family in FAMILIES}


def _heads(card: Card, labelled: Sequence[Passage]) -> Iterator[str]:
    yield from (f"{point}/{part}" for point, of in parts_of(card.id).items() for part in of["parts"])
    yield FALSE
    counts = Counter(p.false for p in labelled if p.false)
    named = [*card.claims, *(m.id for m in card.misconceptions)]
    yield from (f"{FALSE}:{name}" for name in named if counts[name] >= _FEWEST)


def _states(passage: Passage, head: str) -> bool:
    if head == FALSE:
        return passage.false is not None
    return head in (passage.states or ()) or head == f"{FALSE}:{passage.false}"


def _matrix(seen: Sequence[Features]) -> tuple[list[tuple[str, str]], Any]:
    """(the features, sorted; a row of loudness for each passage)."""
    from scipy.sparse import csr_matrix

    known = sorted({(family, f) for one in seen for family in FAMILIES for f in one[family]})
    column = {feature: i for i, feature in enumerate(known)}
    rows = [
        sorted((column[family, f], loudness(family, len(one[family]))) for family in FAMILIES for f in one[family])
        for one in seen
    ]
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row))
    values, columns = [v for row in rows for _, v in row], [c for row in rows for c, _ in row]
    return known, csr_matrix((values, columns, ends), shape=(len(rows), len(known)))


def _fit(matrix: Any, labels: Sequence[bool], weights: Sequence[float]) -> tuple[Sequence[float], float]:
    """(weights, intercept) of a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(
        C=_STRENGTH, class_weight="balanced", solver="liblinear", dual=True, max_iter=5000, tol=1e-5, random_state=0
    ).fit(matrix, labels, weights)
    return fitted.coef_[0].tolist(), float(fitted.intercept_[0])


Answer = tuple[str, str, Mapping[str, float], float]
"""(card, text, point -> award, weight)."""
_MODEL_ANSWER = 10.0
"""Weight of a card's model answer: it must earn everything."""


def awarding(deck: Mapping[str, Card], answers: Iterable[Answer]) -> dict[str, Any]:
    """The content of `award.json`: how sure parts become 0, half or full."""
    from sklearn.linear_model import LogisticRegression

    rows, labels, names, weights = [], [], [], []
    for card, text, awards, weight in answers:
        for point, inputs in point_inputs(deck[card], text).items():
            rows.append(inputs)
            labels.append(AWARDS[int(2 * awards[point])])
            names.append(f"{card}/{point}")
            weights.append(weight)
    points = sorted(set(names))
    one_hot = [[_POINT_WEIGHT * (point == name) for point in points] for name in names]
    fitted = LogisticRegression(C=10, max_iter=20_000, tol=1e-8).fit(
        [[*row, *hot] for row, hot in zip(rows, one_hot, strict=True)], labels, weights
    )
    width = len(rows[0])
    return {
        name: {
            "inputs": [round(SCALE * w) for w in fitted.coef_[i][:width]],
            "bias": [round(SCALE * fitted.intercept_[i])],
            **{p: [round(SCALE * _POINT_WEIGHT * w)] for p, w in zip(points, fitted.coef_[i][width:], strict=True)},
        }
        for i, name in enumerate(fitted.classes_)
    }


def point_inputs(card: Card, answer: str) -> dict[str, list[float]]:
    """Point -> what its award is decided by, in this answer."""
    learned = model_of(card.id, frozenset(p.id for p in card.rubric))
    assert learned is not None, f"no model of {card.id} for these points; train it first"
    read = statements_of(card, answer)
    heard, by_rule = learned.hear(read), rule_awards(card, read)
    return {
        point: award_inputs([score for score, _ in learned.strongest(heard, point).values()], of.full, by_rule[point])
        for point, of in learned.points.items()
    }


def contraries(deck: Mapping[str, Card], answers: Iterable[GoldAnswer]) -> dict[str, Any]:
    """The content of `contrary.json`: when a statement is contrary to a claim."""
    from sklearn.linear_model import LogisticRegression

    rows, labels = [], []
    for answer in answers:
        card = deck[answer.card]
        false = [place for words in answer.false for place in places(words, answer.answer)[:1]]
        learned = model_of(card.id, frozenset(p.id for p in card.rubric))
        assert learned is not None, f"no model of {card.id} for these points; train it first"
        heard = learned.hear(statements_of(card, answer.answer))
        for one in heard:
            if len(one.readings) == 1 and one.readings[0].asserted:
                rows.append(contrary_inputs(one, heard))
                labels.append(any(overlap(at, f) for at in places(one.span, answer.answer)[:1] for f in false))
    fitted = LogisticRegression(C=1, max_iter=20_000, tol=1e-8).fit(rows, labels)
    return {"weights": [round(SCALE * w) for w in (*fitted.coef_[0], fitted.intercept_[0])]}


def main() -> None:
    """Write the model file of every card that has training data, then how awards and contraries are decided."""
    deck = load_deck()
    MODELS.mkdir(exist_ok=True)
    for card in trained_cards():
        _write(MODELS / f"{card}.json", model(deck[card]))
        sys.stderr.write(f"{card}\n")
    model_of.cache_clear()
    labelled = [a for a in read_gold() if a.part == "tune"]
    labelled += [a for name in trained_cards() for a in read_gold(TRAINING, f"{name}.answers.jsonl")]
    _write(MODELS / "award.json", awarding(deck, _answers(deck, labelled)))
    _write(MODELS / "contrary.json", contraries(deck, labelled))


def _answers(deck: Mapping[str, Card], labelled: Iterable[GoldAnswer]) -> Iterator[Answer]:
    """Whole answers with their awards; the model answers of the cards earn everything."""
    for name in trained_cards():
        card = deck[name]
        for language in get_args(Language):
            text = "\n\n".join(paragraph.text.of(language) for paragraph in card.answer)
            yield name, text, dict.fromkeys((p.id for p in card.rubric), 1.0), _MODEL_ANSWER
    yield from ((a.card, a.answer, a.points, 1.0) for a in labelled)


def _write(file: Path, content: Mapping[str, Any]) -> None:
    write_atomically(file, json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
