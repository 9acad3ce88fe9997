"""`stats`: what is due, and strengths and weak points over time."""

from __future__ import annotations

from inferproof.reports.commands.common import chosen_language, console, group, open_ledger, print_json, t
from inferproof.reports.commands.options import CardsOption, JsonOption, LangOption

app = group()


@app.command(
    help=t(
        "What is due, and your strengths and weak points over time.\n\n"
        "Examples: inferproof stats | inferproof stats --json",
        "哪些内容到期，以及强项和弱项的变化。\n\n例：inferproof stats | inferproof stats --json",
    )
)
def stats(as_json: JsonOption = False, cards: CardsOption = None, lang: LangOption = None) -> None:
    """Show statistics."""
    from datetime import UTC, datetime

    from inferproof.grading.attempts import kept
    from inferproof.grading.schedule import due, scheduled
    from inferproof.questions.headings import headings
    from inferproof.reports.stats import Stats, stats_json, stats_view
    from inferproof.runners.paths import cache_dir

    language, now = chosen_language(lang), datetime.now(UTC)
    points = {name: heading.points for name, heading in headings(cache_dir() / "headings.json", cards or []).items()}
    with open_ledger() as ledger:
        items = scheduled(ledger, points, now)
        attempts = [attempt for attempt in kept(ledger) if attempt.card in points]
    result = Stats(attempts=attempts, items=items, due=due(items, now), cards=len(points), now=now)
    if as_json:
        print_json(stats_json(result))
        return
    console().print(stats_view(result, language))
