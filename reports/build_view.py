"""A build at the terminal: what exactly it is, and how it stands to the pinned commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from inferproof.questions.card import Language
from inferproof.reports.words import say
from inferproof.runners.builds import Bilingual, Build
from inferproof.runners.identity import Identity

if TYPE_CHECKING:
    from rich.console import Group


def build_view(build: Build, identity: Identity | None, language: Language) -> Group:
    """The build's identity, a fact a line; for one that `setup` refuses, what is asked for and why it is refused."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a hash is shown whole
    for key, fact in _facts(build, identity, language):
        table.add_row(f"  {say(language, key)}", Text(fact))
    return Group(Text.assemble((build.name, "bold"), "  ", _of(build.about, language)), table)


def _facts(build: Build, identity: Identity | None, language: Language) -> Iterator[tuple[str, str]]:
    yield "engine", build.engine
    if identity is None:
        yield "fact_version", build.version
    else:
        yield from _installed(identity, language)
    yield "levels", ", ".join(build.levels)
    if build.engine != "none":
        stands = build.stands_to_pin
        relation = f"{say(language, stands.relation)}{say(language, 'colon')}" if stands else ""
        yield "fact_stands_to_pin", f"{relation}{_of(stands.how, language)}" if stands else say(language, "no_pin")
    if build.refusal is not None:
        yield "by hand", _of(build.refusal, language)


def _installed(identity: Identity, language: Language) -> Iterator[tuple[str, str]]:
    yield "fact_distribution", identity.distribution
    yield "fact_version", identity.version
    if identity.engine != "none":
        commit, source = identity.commit, identity.commit_from
        yield (
            "fact_commit",
            say(language, "commit_from", commit=commit, source=source) if commit else say(language, "no_commit"),
        )
        if identity.wheel_sha256 is not None:
            yield "fact_wheel_sha256", identity.wheel_sha256
        yield "fact_files", identity.files
    yield "fact_python", identity.python
    if identity.torch:
        yield "fact_torch", identity.torch
    if identity.placeholders:
        yield "fact_placeholders", ", ".join(identity.placeholders)
    if identity.env:
        yield "fact_env", " ".join(f"{name}={value}" for name, value in identity.env.items())
    if identity.packages:
        yield "fact_packages", say(language, "packages_count", count=len(identity.packages))


def _of(words: Bilingual, language: Language) -> str:
    return words.zh if language == "zh" else words.en
