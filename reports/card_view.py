"""A card at the terminal: question, rubric, claims, misconceptions; on demand the model answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferproof.questions.card import Card, Language
from inferproof.reports.words import say

if TYPE_CHECKING:
    from rich.console import Group, RenderableType


def card_view(card: Card, language: Language, *, answer: bool = False) -> Group:
    """The card, readable at 80 columns and without colour."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    def heading(key: str) -> RenderableType:
        return Text(f"\n{say(language, key)}", style="bold")

    def entry(head: str, body: str) -> RenderableType:
        return Padding(Text.assemble((head, "bold"), "  ", body), (0, 0, 0, 2), expand=False)

    parts: list[RenderableType] = [Text.assemble((card.id, "bold"), "  ", card.title.of(language)), Text()]
    parts += [Text(card.question.of(language).strip()), heading("rubric")]
    parts += [entry(f"{p.id} ({p.points})", p.criterion.of(language).strip()) for p in card.rubric]
    parts.append(heading("claims"))
    parts += [entry(name, claim.says.of(language).strip()) for name, claim in card.claims.items()]
    parts.append(heading("misconceptions"))
    parts += [
        entry(m.id, f"{m.says.of(language).strip()} → {m.instead.of(language).strip()}") for m in card.misconceptions
    ]
    parts.append(heading("followups"))
    parts += [entry(f.id, f.question.of(language).strip()) for f in card.followups]
    if answer:
        parts.append(heading("answer"))
        parts += [Padding(Text(p.text.of(language).strip()), (0, 0, 1, 2), expand=False) for p in card.answer]
    return Group(*parts)
