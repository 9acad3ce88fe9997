"""Where answers come from: an editor of many lines at a terminal, or a pipe or file with a dot between answers."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inferproof.runners.paths import write_atomically

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from inferproof.questions.card import Language

_HINT = {
    "en": "Your answer (ends with a line of only “.”, or Ctrl-D; Ctrl-X Ctrl-E: editor):",
    "zh": "请作答（单独一行 . 或 Ctrl-D 结束；Ctrl-X Ctrl-E 打开编辑器）：",
}
_DRAFT = {
    "en": "What you typed last time is there again; Ctrl-O clears it.",
    "zh": "上次没答完的内容已放回；按 Ctrl-O 清空。",
}


def typed(
    language: Language,
    draft: Path,
    past: Path | None,
    *,
    until: float | None = None,
    status: Callable[[], str] | None = None,
) -> str:
    """What the person types, beginning with the draft if there is one; it stays a draft until the caller removes it.

    past    file of earlier answers, for the arrow keys; None: none are offered.
    until   reading of `time.monotonic` at which what is there is taken.
    status  a line below the text, shown anew each second.
    Raises KeyboardInterrupt; what was typed is in `draft` then.
    """
    before = draft.read_text(encoding="utf-8") if draft.exists() else ""
    for file in filter(None, (draft, past)):
        file.parent.mkdir(parents=True, exist_ok=True)
    # All of it stands there before the slow import; what is typed meanwhile waits in the terminal.
    print(_HINT[language], *([_DRAFT[language]] if before else []), "> ", sep="\n", end="", flush=True)
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.styles import Style

    print(end="\r", flush=True)
    session: PromptSession[str] = PromptSession(
        "> ",
        multiline=True,
        prompt_continuation=lambda _, __, wraps: "  " if wraps else "> ",
        history=FileHistory(str(past)) if past else None,
        key_bindings=_keys(),
        enable_open_in_editor=True,
        bottom_toolbar=status,
        refresh_interval=1 if status else 0,
        style=Style.from_dict({"bottom-toolbar": "noreverse"}),
    )

    def watch() -> None:
        if until is not None:
            session.app.create_background_task(_stop(session, until))

    try:
        return session.prompt(default=before, pre_run=watch)
    except EOFError:  # the terminal was closed
        raise KeyboardInterrupt from None
    finally:
        if session.default_buffer.text.strip():
            write_atomically(draft, session.default_buffer.text.rstrip())
        else:
            draft.unlink(missing_ok=True)


_STEP = {"en": "(a dot ends the step, Ctrl-D the answer)", "zh": "（单独一行 . 结束本步，Ctrl-D 结束作答）"}


def stepwise(language: Language, draft: Path, steps: Sequence[str]) -> str:
    """What the person types step by step: a lone dot ends a step, the end of input the answer.

    Raises KeyboardInterrupt; what was typed is in `draft` then.
    """
    lines: list[str] = []
    try:
        for step in steps:
            print(step, _STEP[language], sep="\n")
            while (line := input("> ")) != ".":
                lines.append(line)
    except EOFError:
        print()
    finally:  # also when the terminal was closed, and saying anything fails
        if lines:
            draft.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(draft, "\n".join(lines))
    return "\n".join(lines)


async def _stop(session: PromptSession[str], until: float) -> None:
    import asyncio

    await asyncio.sleep(max(0, until - time.monotonic()))
    if not session.app.is_done:
        session.app.exit(result=session.default_buffer.text)


def _keys() -> KeyBindings:
    """Enter after a lone dot, and Ctrl-D, end the answer."""
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line.strip() == "." and buffer.document.is_cursor_at_the_end:
            buffer.document = Document(buffer.text[: buffer.text.rindex(".")].rstrip())
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.document = Document()

    return keys


class Piped:
    """Answers from a pipe or a file: each ends with a line that holds only a dot, the last one with the input."""

    def __init__(self, descriptor: int, longest: int) -> None:
        self._from = descriptor
        self._longest = longest
        self._rest = b""
        self._open = True

    def take(self, until: float | None = None) -> str | None:
        """The next answer, or what there is of it at `until`; None where the input has ended."""
        while b"\n.\n" not in b"\n" + self._rest and self._open and len(self._rest) <= self._longest:
            if not _readable(self._from, until):
                break
            chunk = os.read(self._from, 1 << 16)
            self._open = bool(chunk)
            self._rest += chunk
        if not self._rest.strip():
            return None
        answer, _, self._rest = (b"\n" + self._rest).partition(b"\n.\n")
        return answer.decode("utf-8", "replace").removesuffix("\n.").strip()


def _readable(descriptor: int, until: float | None) -> bool:
    """Wait until there is something to read (or the end); False where the time was up before."""
    with contextlib.suppress(ValueError, OSError):  # a plain file under epoll: always readable
        wait = None if until is None else max(0.0, until - time.monotonic())
        return bool(select.select([descriptor], [], [], wait)[0])
    return True
