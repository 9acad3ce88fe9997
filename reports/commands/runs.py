"""Runs of what is missing of the evidence, with their progress on the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from inferproof.reports.commands.common import INTERRUPTED

if TYPE_CHECKING:
    from inferproof.grading.verdict import Verdict
    from inferproof.grading.verify import Plan
    from inferproof.runners.ledger import Ledger
    from inferproof.runners.site import Site


def carry_out(
    plan: Plan, site: Site, ledger: Ledger, interrupted: Callable[[int], str], *, rerun: bool = False, quiet: bool
) -> list[Verdict]:
    """The plan's verdicts, kept or run now. Ctrl-C leaves what was recorded.

    interrupted  what to say then, of so many verdicts.
    """
    from inferproof.grading import verify
    from inferproof.reports.live import Live

    done = list(plan.not_run)
    try:
        with Live(total=sum(map(len, plan.claims_of.values())), quiet=quiet and not sys.stderr.isatty()) as bar:
            for batch in verify.carry_out(plan, site, ledger, rerun=rerun, listen=bar.event):
                bar.advance(len(batch))
                done += batch
    except KeyboardInterrupt:
        typer.echo(interrupted(len(done) - len(plan.not_run)), err=True)
        raise typer.Exit(INTERRUPTED) from None
    return done
