"""A memory of what was worked out from files, by a hash of what it was worked out from. Losing it costs time only."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from inferproof.runners.paths import PathError, cache_dir, write_atomically

MOST = 20_000
"""Entries of one kind; beyond that they are all forgotten and come back as they are needed."""


class Memory:
    """JSON values of one kind, one small file each below the cache folder; safe to share between processes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._folder: Path | None = None
        self._entries: int | None = None

    def recall(self, key: str) -> Any:
        """What was kept under the key; None where nothing was, or nothing readable."""
        try:
            return json.loads((self._where() / key).read_bytes())
        except (OSError, ValueError, PathError):
            return None

    def keep(self, key: str, value: Any) -> None:
        """Keep a value that is not None; where the folder cannot be written, nothing is kept."""
        with contextlib.suppress(OSError, PathError):
            folder = self._where()
            folder.mkdir(parents=True, exist_ok=True)
            if self._entries is None:  # counted once: listing the folder for every entry would be quadratic
                self._entries = sum(1 for _ in folder.iterdir())
            if self._entries >= MOST:
                for file in folder.iterdir():
                    file.unlink(missing_ok=True)
                self._entries = 0
            self._entries += 1
            write_atomically(folder / key, json.dumps(value, ensure_ascii=False), durably=False)

    def _where(self) -> Path:
        if self._folder is None:
            self._folder = cache_dir() / "memory" / self.kind
        return self._folder


def key_of(*contents: bytes) -> str:
    """The key of what is worked out from these contents."""
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()
