"""What is running, and for how long: a progress bar on stderr while a verify or a setup is at work."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any


class Live:
    """A listener for `execute` and for a setup's steps. Where stderr is no terminal, a line as each part begins."""

    def __init__(self, total: int | None = None, *, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._console = Console(file=sys.stderr, quiet=quiet)
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._all = self._bars.add_task("", total=total)
        self._now = ""

    def __enter__(self) -> Live:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """An event of a run, see `runners/worker.py`."""
        if name == "worker":
            self._say(f"{fields['build']}: starting its worker")
        elif name == "node":
            self._say(f"{fields['build']}: on node {fields['node']}")
        elif name == "task":
            task = fields["task"]
            self._say(f"{task.build}: {task.probe} ({fields['number'] + 1} of {fields['of']})")
        elif name == "starting":
            self._bars.update(self._all, description=f"{self._now}: the engine starts")
        elif name == "observing":
            self._bars.update(self._all, description=self._now)

    def step(self, build: str, text: str, fraction: float | None = None) -> None:
        """A step of a setup."""
        if fraction is not None:
            self._bars.update(self._all, total=100, completed=round(100 * fraction))
        self._say(f"{build}: {text}")

    def advance(self, count: int = 1) -> None:
        """So many parts are done."""
        self._bars.advance(self._all, count)

    def _say(self, text: str) -> None:
        self._bars.update(self._all, description=text)
        if not self._console.is_terminal and text != self._now:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        self._now = text
