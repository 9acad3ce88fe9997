"""Which verdicts reach the pinned commit because the code that they rest on is the same there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from inferproof.grading.verdict import Verdict
from inferproof.probes.core import find_probe
from inferproof.questions.card import Card
from inferproof.runners.audit import named_tree, same_code
from inferproof.runners.site import Site


def reaching_the_pin(
    verdicts: Iterable[Verdict], claims: Sequence[tuple[Card, str]], site: Site
) -> set[tuple[str, str, str]]:
    """(card, claim, build) of the verdicts whose probe covers engine symbols that are all equal in the pinned source.

    Empty where no clone of the pin was added (`builds add`), and for probes that name no symbol.
    """
    pins = {
        site.builds[name].engine: name
        for name, relation in site.stands.items()
        if relation == "pinned" and name in site.identities
    }
    if not pins:
        return set()
    tree = cache(named_tree)

    @cache
    def same(build: str, pin: str, covers: tuple[str, ...]) -> bool:
        return same_code(tree(build), tree(pin), covers)

    cards = {card.id: card for card, _ in claims}
    found = set()
    for v in verdicts:
        claim = cards[v.card].claims[v.claim]
        if v.build is None or v.build not in site.identities or claim.probe is None:
            continue
        pin = pins.get(site.builds[v.build].engine)
        if pin is None or pin == v.build:
            continue
        if v.verdict in ("holds", "contradicted") and same(v.build, pin, find_probe(claim.probe, claim.engine).covers):
            found.add((v.card, v.claim, v.build))
    return found
