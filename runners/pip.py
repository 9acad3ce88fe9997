"""The processes that make an environment: run whole, followed line by line, explained when they fail."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator

from inferproof.runners import paths

PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
EXACTLY = ("--no-deps", "--only-binary=:all:")
"""Only what is listed, and nothing compiled from source."""

_ADDRESS = re.compile(r"(\w+://)(?:[^/\s'\"<>]*@)?([^/\s'\"<>@?#:]+(?::\d+)?)[^\s'\"<>]*")
_PASSWORD = re.compile(r"[^/\s'\"]{1,256}:[^/\s'\"]{1,256}@")


class SetupError(Exception):
    """The environment could not be made; the message says why, with the tail of what pip said, and what to do."""


def run(build: str, command: list[str], follow: Callable[[str], None] | None = None) -> None:
    """Run to the end. Raises SetupError with the last lines of what it said, OSError where it cannot be started."""
    tail: deque[str] = deque(maxlen=12)
    code = 0
    with contextlib.closing(_lines(command)) as lines:
        for line in lines:
            if isinstance(line, int):
                code = line
                break
            tail.append(line)
            if follow is not None:
                follow(line)
    if code:
        said = "\n".join(f"  {text}" for text in tail)
        what = " ".join([word for word in command[1:] if not word.startswith("-")][:2])
        raise SetupError(f"{build}: {what} failed: {diagnosis(said)}\n{said}")


def clean_environment() -> dict[str, str]:
    """Ours without PYTHON*: bytecode must be written, no path of ours leak in. pip's and proxies' settings stay."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def without_secrets(said: str) -> str:
    """The same with only scheme and host of each address: some indexes have their token in the path or the query.

    pip itself hides the password of a well-formed address and nothing else.
    """
    return _PASSWORD.sub("****@", _ADDRESS.sub(r"\1\2/****", said))


def diagnosis(said: str) -> str:
    """What went wrong and what to do, from the last lines of pip or venv."""
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return f"the disk of {paths.cache_dir()} is full; free some space or set INFERPROOF_CACHE, and run it again"
    if re.search(r"Connection|name resolution|Max retries|timed out|ProxyError|SSLError", said):
        return "the package index cannot be reached; check the network or proxy and run it again"
    if "No matching distribution" in said:
        return "no package index that pip is set up for has this exact version for this machine"
    if "ensurepip" in said:
        return "this Python cannot make virtual environments; install its venv package (Debian: python3-venv)"
    return "its last lines say"


def os_words(error: OSError) -> str:
    """The same for a file operation of our own."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return diagnosis("No space left on device")
    return f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")


def _lines(command: list[str]) -> Generator[str | int, None, None]:
    """Every line that the command prints, then its exit code; its whole process group is killed if we stop early."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env=clean_environment(),
        start_new_session=True, preexec_fn=_ends_with_its_parent(),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        with process.stdout:
            for line in process.stdout:
                yield without_secrets(line.rstrip())
        yield process.wait()
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ends_with_its_parent() -> Callable[[], None] | None:
    """What the child does first, so that no pip goes on writing into a folder whose setup was killed (Linux)."""
    if sys.platform != "linux":
        return None
    prctl, parent_death_signal = ctypes.CDLL(None).prctl, 1
    return lambda: prctl(parent_death_signal, signal.SIGKILL)
