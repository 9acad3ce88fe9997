"""A worker's folder for temporary files, which goes with the worker, or with the next one where its runner was killed.

A lock that ends with the runner's process tells a folder in use from one that was left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "ip-run-"


class Scratch:
    """A folder of its own for temporary files; its path is short, since engines make sockets in it."""

    def __init__(self) -> None:
        root = Path(tempfile.gettempdir())
        whole = os.open(root, os.O_RDONLY)
        try:
            fcntl.flock(whole, fcntl.LOCK_EX)  # nobody sees a folder that is made and not yet locked
            _sweep(root)
            self.name = tempfile.mkdtemp(prefix=PREFIX, dir=root)
            self._lock = os.open(self.name, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(whole)

    def remove(self) -> None:
        """Remove the folder; doing it twice is once."""
        if self._lock >= 0:
            shutil.rmtree(self.name, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _sweep(root: Path) -> None:
    """Remove the folders of this user's runners that are gone."""
    for folder in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, another user's, or gone by now
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
