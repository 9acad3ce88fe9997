"""Files that commands read; what cannot be read is an error of one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from inferproof.reports.commands.common import fail, t

MAX_ANSWER = 1 << 20


def read_bytes(file: Path) -> bytes:
    """All of a file."""
    try:
        return file.read_bytes()
    except OSError as error:
        fail(f"{file}: {error.strerror}")


def read_text(file: Path) -> str:
    """An answer in a file; - is stdin."""
    data = sys.stdin.buffer.read(MAX_ANSWER + 1) if str(file) == "-" else read_bytes(file)
    if len(data) > MAX_ANSWER:
        fail(t(f"{file}: larger than {MAX_ANSWER} bytes", f"{file}：超过 {MAX_ANSWER} 字节"))
    return data.decode("utf-8", "replace")


def open_file(file: Path) -> int:
    """The descriptor of a file to read."""
    try:
        return os.open(file, os.O_RDONLY)
    except OSError as error:
        fail(f"{file}: {error.strerror}")
