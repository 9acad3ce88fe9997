"""The glossary: which concepts of the field a text mentions, and where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from inferproof.grading.needed import needed
from inferproof.grading.text import CJK, Text

_TOKEN = re.compile(rf"[a-z0-9θ]+(?:'[a-z]+)?|[{CJK}]|[^\sa-z0-9]", re.IGNORECASE)
_JOINERS = frozenset("-_`*\"'()/")
"""Marks that may stand between the words of one phrase."""
_FILLERS = frozenset(["the", "a", "an", "of", "its", "their", "的", "了", "掉", "着", "其"])
_UNSTEMMED = frozenset(
    ["running", "waiting", "need", "speed", "seed", "feed", "string", "during", "process", "always", "this", "us"]
)
_LONGEST_SKIP = 2


@dataclass(frozen=True)
class Mention:
    """A concept at [start, end) of the normalised text."""

    concept: str
    start: int
    end: int
    pattern: str = ""
    """The regular expression that found it; empty for a phrase."""


@dataclass
class _Node:
    children: dict[str, _Node] = field(default_factory=dict)
    concepts: list[str] = field(default_factory=list)


class GlossaryError(ValueError):
    """A glossary file that is not what it should be; the message names file, concept and remedy."""


class Glossary:
    """Concept id -> phrases, ready for look-up."""

    def __init__(self, concepts: Mapping[str, Iterable[str]]) -> None:
        self.concepts = frozenset(concepts)
        self._root = _Node()
        self._patterns: list[tuple[str, re.Pattern[str], frozenset[str]]] = []
        for concept, phrases in concepts.items():
            for phrase in phrases:
                if phrase.startswith("re:"):
                    self._patterns.append((concept, re.compile(phrase[3:]), needed(phrase[3:])))
                else:
                    self._add(concept, phrase)

    def _add(self, concept: str, phrase: str) -> None:
        tokens = [t for t, _, _ in _tokens(phrase.lower())]
        joined = "".join(tokens)
        for form in (
            tokens,
            [joined] if len(tokens) > 1 and len(joined) > 5 and joined.isascii() and joined.isalnum() else [],
        ):
            node = self._root
            for token in form:
                node = node.children.setdefault(token, _Node())
            if form and concept not in node.concepts:
                node.concepts.append(concept)

    def mentions(self, text: Text) -> list[Mention]:
        """All mentions of all concepts, by place; mentions may overlap ("KV cache" is also "KV")."""
        tokens = _tokens(text.plain)
        found = {m for i in range(len(tokens)) for m in self._from(tokens, i)}
        found.update(
            Mention(c, m.start(), m.end(), p.pattern)
            for c, p, words in self._patterns
            if not words or any(word in text.plain for word in words)
            for m in p.finditer(text.plain)
            if m.end() > m.start()
        )
        return sorted(found, key=lambda m: (m.start, m.end, m.concept))

    def _from(self, tokens: list[tuple[str, int, int]], first: int) -> Iterator[Mention]:
        start = tokens[first][1]
        if first + 1 < len(tokens):  # "pre-fill" for "prefill"
            pair = self._root.children.get(_stem(_bare(tokens[first]) + _bare(tokens[first + 1])))
            for concept in pair.concepts if pair else ():
                yield Mention(concept, start, tokens[first + 1][2])
        node, skipped, i = self._root, 0, first
        while i < len(tokens):
            child = node.children.get(tokens[i][0])
            if child is not None:
                node, skipped = child, 0
                for concept in node.concepts:
                    yield Mention(concept, start, tokens[i][2])
            elif node is not self._root and tokens[i][0] in _FILLERS and skipped < _LONGEST_SKIP:
                skipped += 1
            else:
                return
            i += 1


def _bare(token: tuple[str, int, int]) -> str:
    return token[0] if token[0].isascii() and token[0].isalpha() and len(token[0]) > 1 else "\0"


def _tokens(plain: str) -> list[tuple[str, int, int]]:
    """(stem, start, end): words by their stem, Chinese by character, other marks as they are."""
    return [(_stem(m.group()), m.start(), m.end()) for m in _TOKEN.finditer(plain) if m.group() not in _JOINERS]


@cache
def _stem_of(word: str) -> str:
    word = word.removesuffix("'s")
    if word in _UNSTEMMED or len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for suffix in ("ing", "ied", "ed"):
        if word.endswith(suffix) and len(word) > len(suffix) + 2:
            word = word[: -len(suffix)] + ("y" if suffix == "ied" else "")
            if word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _stem(word: str) -> str:
    return _stem_of(word) if len(word) < 30 and word[0].isascii() else word


def read_glossary(path: Path) -> Glossary:
    """The glossary in that file. Raises GlossaryError."""
    import yaml

    try:
        loader = yaml.CSafeLoader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        content: Any = loader.construct_document(node) if node else {}
    except yaml.YAMLError as error:
        raise GlossaryError(f"{path}: not YAML: {error}") from None
    names = Counter(key.value for key, _ in node.value) if isinstance(node, yaml.MappingNode) else Counter()
    if twice := [name for name, count in names.items() if count > 1]:
        raise GlossaryError(
            f"{path}: {twice[0]}: stands twice, and YAML would keep only the last; rename one or join them"
        )
    phrases: dict[str, list[str]] = {}
    for concept, languages in content.items():
        if not isinstance(languages, dict) or not set(languages) <= {"en", "zh"}:
            raise GlossaryError(f"{path}: {concept}: expected lists `en` and `zh`")
        words = [w for listed in languages.values() for w in listed or ()]
        if wrong := [w for w in words if not isinstance(w, str) or not w.strip()]:
            raise GlossaryError(f"{path}: {concept}: {wrong[0]!r} is not a phrase; put it in quotes")
        for word in words:
            _check_pattern(path, concept, word)
        phrases[concept] = words
    return Glossary(phrases)


def _check_pattern(path: Path, concept: str, word: str) -> None:
    if word.startswith("re:"):
        try:
            re.compile(word[3:])
        except re.error as error:
            raise GlossaryError(f"{path}: {concept}: {word}: {error}") from None


@cache
def glossary() -> Glossary:
    """The glossary of the field, read once."""
    return read_glossary(Path(__file__).with_name("glossary.yaml"))
