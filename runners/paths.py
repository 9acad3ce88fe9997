"""Where things live on this machine: what must be kept (data) and what can be made again (cache)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs


class PathError(Exception):
    """A folder that inferproof needs cannot be made or written; the message says which, why and what to do."""


def data_dir() -> Path:
    """The ledger and attempts: `$INFERPROOF_DATA`, else the user's data folder. Made when missing. Raises PathError."""
    return _folder("INFERPROOF_DATA", platformdirs.user_data_path("inferproof", appauthor=False))


def cache_dir() -> Path:
    """Builds, models, logs: `$INFERPROOF_CACHE`, else the user's cache folder. Made when missing. Raises PathError."""
    return _folder("INFERPROOF_CACHE", platformdirs.user_cache_path("inferproof", appauthor=False))


def ledger_file() -> Path:
    """The evidence ledger, whether or not it exists yet. Raises PathError."""
    return data_dir() / "ledger.sqlite"


def builds_dir() -> Path:
    """One folder for each build's environment. Raises PathError."""
    return _below(cache_dir(), "builds")


def models_dir() -> Path:
    """Local model configs (see `probes/model.py`). Raises PathError."""
    return _below(cache_dir(), "models")


def logs_dir() -> Path:
    """What workers printed. Raises PathError."""
    return _below(cache_dir(), "logs")


def write_atomically(path: Path, text: str, *, durably: bool = True) -> None:
    """Write the file whole or not at all; a reader never sees half of it. Raises OSError.

    durably  wait until it is on the disk, so that a power cut loses nothing either; a mere memory need not.
    """
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durably:
                os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk names no file, and the temporary one says nothing to anybody
        raise


def _below(parent: Path, name: str) -> Path:
    return _writable(parent / name, f"{parent} was found writable, but {name}/ in it is not: check its owner and mode")


def _folder(variable: str, default: Path) -> Path:
    given = os.environ.get(variable)
    path = Path(given).expanduser().absolute() if given else default
    return _writable(path, f"set {variable} to a folder that you can write to")


def _writable(path: Path, remedy: str) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PathError(f"cannot make the folder {path}: {error.strerror or error}; {remedy}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise PathError(f"the folder {path} is not writable; {remedy}")
    return path
