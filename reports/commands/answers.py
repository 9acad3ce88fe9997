"""Where answers come from: a file, a pipe, an editor, or the person at the prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from inferproof.reports.commands.common import INTERRUPTED, fail, t
from inferproof.reports.commands.files import MAX_ANSWER, open_file, read_text

if TYPE_CHECKING:
    from inferproof.questions.card import Language
    from inferproof.reports.sitting import Take


def take_answer(file: Path | None, editor: bool, language: Language, draft: Path, steps: Sequence[str] = ()) -> str:
    """One answer, which says something."""
    text = _answer(file, editor, language, draft, steps)
    if not text.strip():
        fail(t("the answer is empty; nothing was graded", "回答为空，未评分"))
    return text


def _answer(file: Path | None, editor: bool, language: Language, draft: Path, steps: Sequence[str]) -> str:
    if file is not None:
        return read_text(file)
    if not sys.stdin.isatty():
        return sys.stdin.buffer.read(MAX_ANSWER + 1).decode("utf-8", "replace")
    if editor:
        return _edited(draft)
    return _typed(language, draft, steps=steps)


def _typed(
    language: Language,
    draft: Path,
    until: float | None = None,
    status: Callable[[], str] | None = None,
    steps: Sequence[str] = (),
) -> str:
    """What the person types. It stays a draft until it is graded and kept."""
    from inferproof.reports.prompt import stepwise, typed

    past = None if until else draft.parent.with_name("history") / draft.name
    try:
        return stepwise(language, draft, steps) if steps else typed(language, draft, past, until=until, status=status)
    except KeyboardInterrupt:
        kept = t(f"; what you typed is kept in {draft}", f"；已输入的内容保存在 {draft}") if draft.exists() else ""
        typer.echo(t("\ninterrupted", "\n已中断") + kept, err=True)
        raise typer.Exit(INTERRUPTED) from None


def _edited(draft: Path) -> str:
    """What the person wrote in $VISUAL or $EDITOR, going on from a draft that was not graded yet."""
    import shlex
    import subprocess

    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.touch()
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        status = subprocess.run([*command, str(draft)], check=False).returncode
    except OSError as error:
        fail(
            t(
                f"the editor {command[0]} cannot be started: {error.strerror}",
                f"无法启动编辑器 {command[0]}：{error.strerror}",
            )
        )
    if status != 0:
        fail(
            t(
                f"the editor ended with status {status}; what you wrote is in {draft}",
                f"编辑器退出码 {status}；内容在 {draft}",
            )
        )
    return read_text(draft)


def answers(file: Path | None, editor: bool, language: Language) -> Take:
    """Where the answers of a sitting come from: a file or a pipe, else the person."""
    from inferproof.reports.prompt import Piped
    from inferproof.runners.paths import data_dir

    drafts = data_dir() / "drafts"
    if file is not None or not sys.stdin.isatty():
        piped = Piped(sys.stdin.fileno() if file is None else open_file(file), MAX_ANSWER)
        return lambda _, until, __: piped.take(until)
    if editor:
        return lambda name, _, __: _edited(drafts / f"{name}.txt")
    return lambda name, until, status: _typed(language, drafts / f"{name}.txt", until, status)
