"""The commands are modules of their own, imported when they are called."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest
from typer.testing import CliRunner

from inferproof.cli import COMMANDS, app
from inferproof.reports import commands


def test_every_module_that_holds_a_command_is_listed() -> None:
    modules = {
        found.name: import_module(f"{commands.__name__}.{found.name}") for found in iter_modules(commands.__path__)
    }

    assert sorted(COMMANDS) == sorted(name for name, module in modules.items() if hasattr(module, "app"))


def test_no_other_command_is_imported_than_the_one_that_is_called() -> None:
    program = (
        "import sys; sys.argv = ['inferproof', 'calc', 'kv']\n"
        "from inferproof.cli import COMMANDS, app\n"
        "app(standalone_mode=False)\n"
        "print([name for name in COMMANDS if f'inferproof.reports.commands.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "['calc']"


@pytest.mark.parametrize(("typed", "meant"), [("verfy", "verify"), ("build", "builds")])
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(typed: str, meant: str) -> None:
    done = CliRunner().invoke(app, [typed])

    assert done.exit_code == 2
    assert f"Did you mean '{meant}'?" in done.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_help_of_each_begins_with(name: str) -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    (line,) = [line.split(maxsplit=1)[1] for line in listed.splitlines() if line.startswith(f"  {name} ")]
    own = " ".join(CliRunner().invoke(app, [name, "--help"]).output.split())

    assert line.removesuffix("...").rstrip() in own
