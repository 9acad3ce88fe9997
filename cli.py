"""The command line: the commands, each from a module of its own, and what becomes of errors."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import inferproof
from inferproof.reports.commands.common import USAGE, group, t

COMMANDS = (
    "verify",
    "drift",
    "drill",
    "stats",
    "grade",
    "doctor",
    "builds",
    "cards",
    "evidence",
    "export",
    "calc",
    "report",
)


class Later(TyperCommand):
    """A command, or a group, of the module of its name: imported when its help is listed, built when it is called.

    To build all of them takes longer than a question needs to be on the screen.
    """

    def _module(self) -> typer.Typer:
        module = import_module(f"inferproof.reports.commands.{self.name}")
        app: typer.Typer = module.app
        return app

    def get_short_help_str(self, limit: int = 45) -> str:
        """The line of the list of commands."""
        app = self._module()
        self.help = app.info.help or app.registered_commands[0].help
        return super().get_short_help_str(limit)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself, in which everything else happens."""
        built = typer.main.get_group(self._module())
        return built.commands.get(str(self.name), built).make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """All commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: Later(name) for name in COMMANDS}


app = group(
    "Interview answers about LLM serving engines, graded against what the real engines do.",
    "大模型推理引擎面试训练：答案对不对，由真实引擎说了算。",
    cls=Commands,
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"inferproof {inferproof.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help=t("Show the version.", "显示版本。")),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point. Exceptions of ours and the system's are messages; any other is a bug, and is kept in a file."""
    for stop in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C, unless we were told to outlive it (nohup)
        if signal.getsignal(stop) is signal.SIG_DFL:
            signal.signal(stop, signal.default_int_handler)
    try:
        app()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(USAGE)
    except Exception as error:
        if not type(error).__module__.startswith("inferproof."):
            _report_bug()
        else:
            typer.echo(f"error: {error}", err=True)
        sys.exit(USAGE)


def _report_bug() -> None:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="inferproof-bug-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exc(file=file)
    typer.echo(
        t(
            f"error: a bug in inferproof; its traceback is in {file.name}",
            f"error: inferproof 自身出错，调用栈在 {file.name}",
        ),
        err=True,
    )


if __name__ == "__main__":
    main()
