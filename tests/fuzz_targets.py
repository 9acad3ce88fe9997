"""What fuzz.py fuzzes: readers of what comes from outside, each with what must hold of anything that it is given.

A target takes bytes and raises where a promise is broken. `seeds` are good inputs to start from.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from test_attestation import record

from inferproof.grading import judge
from inferproof.grading.answers import answer_of
from inferproof.grading.grade import grade, statements_of
from inferproof.grading.learned import MODELS
from inferproof.grading.lint import lint
from inferproof.grading.numbers import NUMERALS, chinese_number, quantities
from inferproof.grading.predict import read as read_prediction
from inferproof.grading.reading import readings
from inferproof.grading.text import normalise
from inferproof.grading.verdict import judge as verdict_of
from inferproof.probes import units
from inferproof.probes.core import canonical
from inferproof.questions.card import Card, Language
from inferproof.questions.deck import DeckError, load_deck, read_card
from inferproof.reports.as_json import evidence_line, verdicts_json
from inferproof.reports.terminal import claims_table
from inferproof.runners.attestation import PREDICATE, STATEMENT, AttestationError, records
from inferproof.runners.builds import HERE, BuildError, shipped_builds
from inferproof.runners.evidence import Evidence, Task, content_id, evidence_from
from inferproof.runners.ledger import Ledger, LedgerError

FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-target-"))
atexit.register(shutil.rmtree, FOLDER)
SHIPPED = Path(__file__).with_name("conftest.py").read_text(encoding="utf-8").partition('CARD = """\\\n')[2]
SMALL = SHIPPED.partition('"""')[0]


class Target(NamedTuple):
    """One reader."""

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    made_of: Literal["lines", "words", "json", "bytes"]
    """What mutations cut the input into."""


@cache
def deck() -> dict[str, Card]:
    """The shipped cards that have a model, by id."""
    return {card.id: card for card in load_deck().values() if (MODELS / f"{card.id}.json").exists()}


def a_card(data: bytes) -> None:
    """A card, which can then be linted and answered, or errors that name the file."""
    file = FOLDER / "small-card.yaml"
    file.write_bytes(data)
    try:
        card = read_card(file)
    except DeckError as error:
        assert error.problems and all(p.file == str(file) and p.message for p in error.problems)
        return
    lint({card.id: card}, set(), set())
    assert 0 <= grade(card, "vLLM hits 2064 of 2080 tokens, whole blocks only. 尾部要重算。", "en", {}).score <= 10


def a_list_of_builds(data: bytes) -> None:
    """Builds, or an error that names the file."""
    file = FOLDER / "builds.yaml"
    file.write_bytes(data)
    try:
        builds = shipped_builds.__wrapped__(file)  # without its memory of what it read
    except BuildError as error:
        assert str(file) in str(error)
        return
    assert all("/" not in b.name and b.name not in ("", ".", "..") for b in builds.values())


def an_answer(data: bytes) -> None:
    """The same grade from 0 to 10 each time, that quotes nothing but the answer."""
    text = data.decode("utf-8", "replace")
    card = list(deck().values())[len(text) % len(deck())]
    language: Language = "zh" if len(text) % 2 else "en"
    given = grade(card, text, language, {})
    assert 0 <= given.score <= 10 and given == grade(card, text, language, {})
    assert all(reading.span in text for reading in statements_of(card, text))
    spans = (*(p.span for p in given.points), *(f.span for f in given.findings))
    assert all(_quotes(part, text) for span in spans if span for part in span.split(" … "))
    canonical(asdict(given))


def _quotes(said: str, text: str) -> bool:
    """Whether these are words of the text, or two passages of it with a blank between."""
    return said in text or any(said[:i] in text and said[i + 1 :] in text for i, c in enumerate(said) if c == " ")


def some_statements(data: bytes) -> None:
    """Statements in order, each the answer's own words; concepts and numbers lie within them."""
    text = data.decode("utf-8", "replace")
    read = readings(text, frozenset({"vllm"}) if len(text) % 2 else frozenset())
    assert all(a.statement.end <= b.statement.start for a, b in pairwise(read))
    for r in read:
        assert r.span in text and r.statement.start < r.statement.end <= len(r.text.plain)
        assert all(r.statement.start <= n.start < n.end for n in r.numbers)
        assert all(r.statement.start <= m.start < m.end for m in r.mentions)
        r.concepts, r.concepts_spoken, r.distinguishes  # noqa: B018


def some_numbers(data: bytes) -> None:
    """Finite numbers that stand where they say; an amount with a unit, or an error that quotes it."""
    text = data.decode("utf-8", "replace")
    read = normalise(text)
    assert len(read.plain) == len(read.cased) == len(read.origin)
    for n in quantities(read):
        assert math.isfinite(n.value) and (n.whole is None or math.isfinite(n.whole)), n
        assert read.plain[n.start : n.end].strip()
    spoken = "".join(c for c in text if c in f"{NUMERALS}点")
    for number in (chinese_number(spoken), read_prediction(text)):
        assert number is None or math.isfinite(number)
    for dimension in ("size", "rate", "time"):
        try:
            amount = units.parse(text, dimension)
        except ValueError as error:
            assert text in str(error)
            continue
        assert math.isfinite(amount.base) and str(units.readable(amount))


def a_record(data: bytes) -> None:
    """A record with this body, its ids made to match it: refused, or one that everything can show."""
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        data = _matching(json.loads(data))
    try:
        found = records([data.replace(b"\n", b" ")], "file")
    except AttestationError:
        return
    for body in found:  # none of a blank line
        _kept_and_shown(body)


def _kept_and_shown(body: dict[str, Any]) -> None:
    with Ledger(FOLDER / "records.sqlite") as ledger:
        ledger.import_evidence([body])
        (kept,) = ledger.evidence(content_id(body))
        newest = ledger.newest(kept.key)
        assert kept == evidence_from(body) and (newest is not None or not kept.settled)
        list(ledger.of_probe(str(kept.task["probe"])))
    shown_everywhere(kept)


def _matching(body: Any) -> bytes:
    """A Statement of the body after its digests are put right, so that more than the digests is tried."""
    build = {k: v for k, v in body["build"].items() if k != "digest"}
    digest = hashlib.sha256(canonical(build).encode()).hexdigest()
    body["build"]["digest"] = body["task"]["build_digest"] = digest
    body["key"] = Task(**body["task"]).key
    subject = {"digest": {"sha256": content_id(body)}, "annotations": {"record": body}}
    return json.dumps({"_type": STATEMENT, "predicateType": PREDICATE, "subject": [subject]}).encode()


def shown_everywhere(evidence: Evidence) -> None:
    """What `evidence list`, `evidence show` and `verify` do with a record."""
    from rich.console import Console

    json.dumps([evidence_line(evidence), {"id": evidence.id, **evidence.body()}], ensure_ascii=False).encode()
    card = deck()["prefix-cache-ttft"]
    verdicts = [verdict_of(card, claim, evidence) for claim in ("vllm-repeat-hit", "sglang-repeat-hit")]
    json.dumps(verdicts_json(verdicts), ensure_ascii=False).encode()
    for language in ("en", "zh"):
        console = Console(file=io.StringIO(), width=80)
        console.print(claims_table(verdicts, {card.id: card}, language, verbose=True))


def a_ledger(data: bytes) -> None:
    """A ledger that is in order, or an error that says which file cannot be used."""
    file = FOLDER / "ledger.sqlite"
    for old in FOLDER.glob("ledger.sqlite*"):
        old.unlink()
    file.write_bytes(data)
    try:
        with Ledger(file) as ledger:
            ledger.check()
            assert all(content_id(e.body()) == e.id for e in ledger.evidence())
            assert ledger.newest(record().key) is None or ledger.counts("evidence")
            ledger.add_evidence(record(1).body())
    except LedgerError as error:
        assert str(file) in str(error)


def a_line(data: bytes) -> None:
    """A line of a batch of answers is one or a ValueError; a judge's reply is an opinion or none."""
    try:
        answer = answer_of(data, deck())
        json.dumps(answer, ensure_ascii=False).encode()
    except ValueError as error:
        assert str(error)
    card = deck()["prefix-cache-ttft"]
    reply: Any = {"choices": [{"message": {"content": data.decode("utf-8", "replace")}}]}
    with contextlib.suppress(ValueError, RecursionError):
        reply = [reply, json.loads(data)][len(data) % 2]
    try:
        awards, why = judge._read(reply, card)
    except judge._NoOpinion:
        return
    assert set(awards) == set(why) == {p.id for p in card.rubric} and set(awards.values()) <= {0.0, 0.5, 1.0}


def _small_ledger() -> bytes:
    file = Path(tempfile.mkdtemp(dir=FOLDER)) / "ledger.sqlite"
    with Ledger(file) as ledger:
        for number in range(3):
            ledger.add_evidence(record(number).body())
        ledger._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.read_bytes()


def _words_of(cards: Sequence[Card]) -> list[bytes]:
    """Everything that the cards give as an example of an answer."""
    said = [p.text.of(lang) for c in cards for p in c.answer for lang in ("en", "zh")]
    said += [text for c in cards for m in c.misconceptions for of in m.examples.values() for text in of]
    return [text.encode() for text in said]


def _lines() -> list[bytes]:
    points = {p.id: {"award": 0.5, "why": "Because."} for p in deck()["prefix-cache-ttft"].rubric}
    reply = {"choices": [{"message": {"content": json.dumps(points)}}]}
    answer = {"id": 1, "card": "prefix-cache-ttft", "lang": "en", "answer": "Whole blocks. 整块。"}
    return [json.dumps(one).encode() for one in (points, reply, answer)]


SEEN = {"warm_cached_tokens": 2064, "cold_cached_tokens": 0, "recomputed_tokens": [1, 16.5]}
_NUMBERS = (
    "2064/2080", "7k tokens", "两千零六十四个", "百分之九十九", "200 Gb/s", "约 3.5 毫秒", "1,024 GiB", "三千五",
    "1e9 B",
)  # fmt: skip

TARGETS = {
    "cards": Target(a_card, lambda: [SMALL.encode()], "lines"),
    "builds": Target(a_list_of_builds, lambda: [(HERE / "builds.yaml").read_bytes()], "lines"),
    "answers": Target(an_answer, lambda: _words_of([*deck().values()]), "words"),
    "statements": Target(some_statements, lambda: _words_of([*deck().values()]), "words"),
    "numbers": Target(some_numbers, lambda: [n.encode() for n in _NUMBERS], "words"),
    "evidence": Target(a_record, lambda: [json.dumps(record(observations=SEEN).body()).encode()], "json"),
    "ledger": Target(a_ledger, lambda: [_small_ledger()], "bytes"),
    "replies": Target(a_line, _lines, "json"),
}
