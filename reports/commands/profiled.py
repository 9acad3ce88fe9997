"""`verify --profile`: the published experiments over HTTP, each published figure beside the measured one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import typer

from inferproof.reports.commands.common import INTERRUPTED, console, fail, open_ledger, print_json, t

if TYPE_CHECKING:
    from inferproof.grading.profile import Comparison, Planned
    from inferproof.questions.card import Language
    from inferproof.runners.execute import Result
    from inferproof.runners.ledger import Ledger
    from inferproof.runners.servers import Servers


def measure(
    name: str,
    attach: Sequence[str],
    python: Sequence[str],
    *,
    rehearse: bool,
    rerun: bool,
    explain: bool,
    as_json: bool,
    language: Language,
) -> NoReturn:
    """Measure what is missing of the profile's cells, and show the whole comparison."""
    from inferproof.grading.profile import compare, plan, with_earlier
    from inferproof.questions.profile import SHIPPED, load_profile
    from inferproof.questions.recorded import load_recorded
    from inferproof.runners.servers import Servers, by_engine
    from inferproof.runners.site import this_site

    if name not in SHIPPED:
        have = ", ".join(SHIPPED)
        fail(t(f"there is no profile '{name}'; there is: {have}", f"没有名为“{name}”的配置；可用：{have}"))
    servers = Servers(this_site(), by_engine("--attach", attach), by_engine("--python", python))
    planned = plan(load_profile(SHIPPED[name]), servers, rehearse=rehearse, language=language)
    with open_ledger() as ledger:
        if explain:
            _explain(planned, ledger, language)
        results = with_earlier(_carry_out(planned, servers, ledger, rerun=rerun, quiet=as_json), ledger)
    comparison = compare(planned, results, load_recorded())
    _show(comparison, as_json=as_json, language=language)
    raise typer.Exit(comparison.exit_status)


def _carry_out(planned: Planned, servers: Servers, ledger: Ledger, *, rerun: bool, quiet: bool) -> list[Result]:
    from inferproof.grading.profile import carry_out
    from inferproof.reports.live import Live

    done: list[Result] = []
    total = len({task.key for task in planned.tasks.values()})
    try:
        with Live(total=total, quiet=quiet and not sys.stderr.isatty()) as bar:
            for result in carry_out(planned, servers, ledger, rerun=rerun, listen=bar.event):
                bar.advance(1)
                done.append(result)
    except KeyboardInterrupt:
        typer.echo(
            t(
                f"\ninterrupted; {len(done)} of {total} cells are recorded, the same command goes on from there",
                f"\n已中断；{total} 个单元中已记录 {len(done)} 个，重新执行同一命令即可继续",
            ),
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    return done


def _explain(planned: Planned, ledger: Ledger, language: Language) -> NoReturn:
    from inferproof.grading.verify import explain

    for cell, task in planned.tasks.items():
        typer.echo(f"{cell}  {task.build} ({task.params['server']}): {explain(task, ledger, language)}")
    for cell, reason in planned.missing.items():
        typer.echo(f"{cell}  {t('not run', '未运行')}: {reason}")
    raise typer.Exit


def _show(comparison: Comparison, *, as_json: bool, language: Language) -> None:
    from inferproof.reports.profile_view import profile_json, profile_view

    if as_json:
        print_json(profile_json(comparison))
    else:
        console().print(profile_view(comparison, language))
