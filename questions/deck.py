"""The deck: YAML files to cards, with errors that name file, line, field and what was expected.

YAML is data: the safe loader, a size limit, no aliases (they make bombs), no duplicate keys.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast, get_args, get_origin, get_type_hints

from inferproof.questions.card import Card
from inferproof.questions.files import DeckError, Location, Problem, card_files

__all__ = ["DeckError", "Location", "Problem", "card_files", "load_deck", "locate", "read_card"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 20


class Memory(Protocol):
    """What was read before, by a hash of the file."""

    def recall(self, key: str) -> Any:
        """The value, or None."""
        ...

    def keep(self, key: str, value: Any) -> None:
        """Keep it."""
        ...


def load_deck(extra: Iterable[Path] = (), memory: Memory | None = None) -> dict[str, Card]:
    """All cards by id. Raises DeckError with every problem of every file, not only the first.

    memory  saves reading the YAML of a file that was read without a problem before.
    """
    cards: dict[str, Card] = {}
    problems: list[Problem] = []
    for file in card_files(extra):
        try:
            card = _recalled(file, memory) if memory is not None else read_card(file)
        except DeckError as error:
            problems += error.problems
            continue
        if card.id in cards:
            problems.append(
                Problem(
                    str(file), locate(file, ("id",)), "id", f"'{card.id}' is already the card in {cards[card.id].file}"
                )
            )
        cards[card.id] = card
    if problems:
        raise DeckError(problems)
    return cards


def _recalled(file: Path, memory: Memory) -> Card:
    """The card in one file; what was found right before is not checked again. Raises DeckError."""
    from pydantic import ValidationError

    try:
        key = hashlib.sha256(_reader() + str(file).encode() + b"\0" + file.read_bytes()).hexdigest()
    except OSError:
        return read_card(file)
    known = memory.recall(key)
    if known is not None:
        with contextlib.suppress(ValidationError):
            return cast("Card", _adapter().validate_python(known))
    card = read_card(file)
    memory.keep(key, _adapter().dump_python(card, mode="json"))
    return card


@cache
def _reader() -> bytes:
    """What a remembered card depends on besides its file: the code that reads it."""
    here = Path(__file__)
    return b"".join(hashlib.sha256(here.with_name(name).read_bytes()).digest() for name in ("card.py", here.name))


def read_card(file: Path) -> Card:
    """The card in one file. Raises DeckError."""
    data, lines = _read(file)
    if not isinstance(data, dict):
        raise DeckError([Problem(str(file), 1, "", "expected a mapping with id, title, question, claims, ...")])
    for claim in data["claims"].values() if isinstance(data.get("claims"), dict) else ():
        if isinstance(claim, dict):
            claim.update(
                {name: claim.pop(key) for key, name in (("params", "with"), ("with", "params")) if key in claim}
            )
    from pydantic import ValidationError

    try:
        card: Card = _adapter().validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        raise DeckError([_problem(file, lines, e["loc"], _mismatch(e)) for e in error.errors()]) from None
    wrong = [_problem(file, lines, where, message) for where, message in _inconsistencies(card, file)]
    if wrong:
        raise DeckError(wrong)
    return dataclasses.replace(card, collection=file.parent.name, file=str(file))


def _mismatch(error: Any) -> str:
    """What one of pydantic's errors says, in a card writer's words."""
    match error["type"]:
        case "missing":
            return "is missing"
        case "unexpected_keyword_argument":
            *parent, _ = error["loc"]
            return f"is not a known key; known here: {', '.join(_keys(parent))}"
        case "dict_type" | "dataclass_type":
            return f"expected a mapping (got {_short(error['input'])})"
        case "tuple_type":
            return f"expected a list (got {_short(error['input'])})"
    return f"{error['msg'].replace('Input should be', 'expected')} (got {_short(error['input'])})"


def _keys(location: Sequence[str | int]) -> list[str]:
    """The keys that a card file may have at that location."""
    kind: Any = Card
    for part in location:
        if dataclasses.is_dataclass(kind):
            kind = get_type_hints(kind)[str(part)]
            kind = (
                next((k for k in get_args(kind) if dataclasses.is_dataclass(k)), kind)
                if type(None) in get_args(kind)
                else kind
            )
        else:
            kind = get_args(kind)[1 if get_origin(kind) is not tuple else 0]
    return [
        "with" if f.name == "params" else f.name
        for f in dataclasses.fields(kind)
        if f.name not in ("collection", "file")
    ]


def locate(file: Path, location: Location) -> int:
    """1-based line of the field at that location, `("claims", "hit", "expect")`; its parent's where it is absent."""
    _, lines = _read(file)
    return _line(lines, location)


def _problem(file: Path, lines: dict[Location, int], location: Location, message: str) -> Problem:
    shown = location
    if location[:1] == ("claims",):  # back from the names in Claim to those in YAML, see read_card
        shown = (
            *location[:2],
            *({"params": "with", "with": "params"}.get(str(part), part) for part in location[2:3]),
            *location[3:],
        )
    return Problem(str(file), _line(lines, shown), ".".join(map(str, shown)), message)


def _line(lines: dict[Location, int], location: Location) -> int:
    while location not in lines and location:
        location = location[:-1]
    return lines.get(location, 1)


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Card)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _read(file: Path) -> tuple[Any, dict[Location, int]]:
    """The file's data, and the line of every field."""
    import yaml

    try:
        with file.open("rb") as f:
            raw = f.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise DeckError([Problem(str(file), 1, "", f"larger than {MAX_BYTES} bytes")])
        loader = yaml.CSafeLoader(raw.decode("utf-8"))
        node = loader.get_single_node()
        lines: dict[Location, int] = {}
        problems = list(_walk(str(file), node, (), lines, set()))
        if problems:
            raise DeckError(problems)
        return _constructed(loader, node), lines
    except OSError as error:
        raise DeckError([Problem(str(file), 0, "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise DeckError([Problem(str(file), 1, "", "is not UTF-8 text")]) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        what = ": ".join(filter(None, (error.context, error.problem)))
        raise DeckError([Problem(str(file), line, "", f"is not valid YAML: {what}")]) from None
    except yaml.reader.ReaderError as error:
        line = raw.decode("utf-8").count("\n", 0, error.position) + 1
        raise DeckError([Problem(str(file), line, "", f"is not valid YAML: {error.reason}")]) from None


def _constructed(loader: Any, node: Any) -> Any:
    """The node's value. What its tag cannot hold (`!!int ""`, the date 2026-13-45) makes the loader raise anything."""
    import yaml

    try:
        return None if node is None else loader.construct_document(node)
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        raise yaml.constructor.ConstructorError(
            None, None, f"a value does not fit its type: {error}", node.start_mark
        ) from None


def _walk(file: str, node: Any, at: Location, lines: dict[Location, int], seen: set[int]) -> Iterator[Problem]:
    """Record every field's line; complain of aliases, duplicate keys and absurd depth."""
    import yaml

    if node is None:
        return
    line = node.start_mark.line + 1
    lines.setdefault(at, line)
    if id(node) in seen:
        yield Problem(file, line, ".".join(map(str, at)), "YAML aliases are not allowed in cards: write the value out")
        return
    seen.add(id(node))
    if len(at) > MAX_DEPTH:
        yield Problem(file, line, ".".join(map(str, at[:4])) + "...", f"nested deeper than {MAX_DEPTH} levels")
        return
    if isinstance(node, yaml.MappingNode):
        keys = set()
        for key, value in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                yield Problem(
                    file, key.start_mark.line + 1, ".".join(map(str, at)), "expected a name as the key; quote it"
                )
                continue
            if key.value in keys:
                yield Problem(file, key.start_mark.line + 1, str(key.value), "the key stands twice in the same mapping")
            keys.add(key.value)
            lines[(*at, key.value)] = key.start_mark.line + 1
            yield from _walk(file, value, (*at, key.value), lines, seen)
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            yield from _walk(file, item, (*at, i), lines, seen)


def _inconsistencies(card: Card, file: Path) -> Iterator[tuple[Location, str]]:
    """What the types cannot say: references, sums, which fields belong together."""
    if card.id != file.stem:
        yield ("id",), f"'{card.id}' must equal the file's name, '{file.stem}'"
    for name in ("collection", "file"):
        if getattr(card, name):
            yield (name,), "is not a known key (the deck sets it from the file's place)"
    for i, point in enumerate(card.rubric):
        needed, ideas = point.evidence_of.full, len(point.evidence_of.ideas)
        if point.points < 1:
            yield ("rubric", i, "points"), f"is {point.points}, expected at least 1"
        if not ideas or (needed is not None and not 1 <= needed <= ideas):
            yield (
                ("rubric", i, "evidence_of"),
                f"needs at least one idea, and 'full' between 1 and their number (here {ideas})",
            )
    total = sum(p.points for p in card.rubric)
    if total != 10:
        yield ("rubric",), f"the points add up to {total}, expected 10"
    for where, ids in (("rubric", card.rubric), ("misconceptions", card.misconceptions), ("followups", card.followups)):
        names = [item.id for item in ids]
        for i, name in enumerate(names):
            if name in names[:i]:
                yield (where, i, "id"), f"'{name}' stands twice"
    for claim_id, claim in card.claims.items():
        at: Location = ("claims", claim_id)
        if claim.kind == "judgement":
            if claim.reason is None:
                yield (*at, "reason"), "a judgement claim says why no probe can decide it"
            if claim.probe or claim.expect:
                yield (*at, "probe"), "a judgement claim has no probe and no predicate"
        elif claim.probe is None:
            if not claim.recorded:
                yield (
                    at,
                    "expected a probe with a predicate (expect), or recorded figures, or kind: judgement with a reason",
                )
        elif not (claim.expect or "").strip():
            yield (*at, "expect"), "a claim with a probe needs a predicate over its observations"
    points = {p.id for p in card.rubric}
    prompted = [p.prompt is not None for p in card.rubric]
    if any(prompted) and not all(prompted):
        yield ("rubric", prompted.index(False)), "has no prompt; either every point is a step with a prompt, or none is"
    for i, misconception in enumerate(card.misconceptions):
        for missing in (point_id for point_id in misconception.unless if point_id not in points):
            yield ("misconceptions", i, "unless"), f"there is no rubric point '{missing}'"
    for where, index, cited in (
        *(("rubric", i, p.claims) for i, p in enumerate(card.rubric)),
        *(("answer", i, p.claims) for i, p in enumerate(card.answer)),
        *(("followups", i, f.claims) for i, f in enumerate(card.followups)),
        *(("misconceptions", i, m.refuted_by) for i, m in enumerate(card.misconceptions)),
    ):
        for claim_id in cited:
            if claim_id not in card.claims:
                field = "refuted_by" if where == "misconceptions" else "claims"
                yield (where, index, field), f"there is no claim '{claim_id}' on this card"
    for i, followup in enumerate(card.followups):
        for missing in (point_id for point_id in followup.after if point_id not in points):
            yield ("followups", i, "after"), f"there is no rubric point '{missing}'"
