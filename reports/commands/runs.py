"""Runs of what is missing of the evidence, with their progress on the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import typer

from inferproof.reports.commands.common import INTERRUPTED, fail, t

if TYPE_CHECKING:
    from inferproof.grading.verdict import Verdict
    from inferproof.grading.verify import Plan
    from inferproof.runners.ledger import Ledger
    from inferproof.runners.site import Site


def executing(site: Site, executor: str, ray_address: str | None) -> AbstractContextManager[Site]:
    """The site that --executor and --ray-address mean: this machine, or a cluster while the context lasts."""
    if executor == "ray":
        from inferproof.runners.cluster import on_cluster

        typer.echo(
            t("asking the nodes of the Ray cluster for their builds", "正在询问 Ray 集群各节点有哪些构建"), err=True
        )
        return on_cluster(site, ray_address)
    if executor != "local":
        fail(t(f"--executor is '{executor}', expected local or ray", f"--executor 是“{executor}”，应为 local 或 ray"))
    if ray_address is not None:
        fail(t("--ray-address goes with --executor ray", "--ray-address 须与 --executor ray 同用"))
    return nullcontext(site)


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
