"""What files are, by content: hashes of packages and folders, computed again only when a file's stat has changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from inferproof.runners.paths import write_atomically


def file_sha256(path: Path) -> str:
    """SHA-256 of one file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def python_digest(package: Path) -> str:
    """SHA-256 over (relative path, SHA-256) of every `.py` file below `package`, sorted by path. Raises OSError."""
    paths = sorted(relative for relative, _ in _python_files(package))
    lines = [f"{relative}\0{file_sha256(package / relative)}\n" for relative in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def cached_python_digest(package: Path, memory: Path) -> str:
    """`python_digest`, remembered in the file `memory` together with every file's size, change time and inode.

    Looking at 2,000 unchanged files takes some 20 ms. It is the change time that counts, which no tool can set
    back: a file edited in place shows even when its modification time was restored. Raises OSError.
    """
    seen = [f"{p}\0{s.st_size} {s.st_ctime_ns} {s.st_ino}\n" for p, s in _python_files(package)]
    signature = hashlib.sha256("".join(sorted(seen)).encode()).hexdigest()
    try:
        remembered = json.loads(memory.read_text(encoding="utf-8"))
        if remembered["signature"] == signature:
            return str(remembered["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing remembered, or nothing readable: it is only a memory
    content = python_digest(package)
    with contextlib.suppress(OSError):
        write_atomically(memory, json.dumps({"signature": signature, "digest": content}))
    return content


def _python_files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """(path relative to `root`, stat) of every `.py` file. Raises FileNotFoundError when `root` is missing."""
    folders = [""]
    while folders:
        folder = folders.pop()
        # by handle: half the time of looking up every path from the root
        handle = os.open(f"{root}/{folder}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(handle) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        yield folder + entry.name, entry.stat()
                    elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                        folders.append(f"{folder}{entry.name}/")
        finally:
            os.close(handle)
