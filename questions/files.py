"""Where cards lie, and how a wrong card file is reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

SHIPPED = Path(__file__).parent
COLLECTIONS = ("engine-internals", "sglang", "design")
Location = tuple[str | int, ...]


class Problem(NamedTuple):
    """One thing that is wrong with a card file."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.field}: {self.message}"
            if self.field
            else f"{self.file}:{self.line}: {self.message}"
        )


class DeckError(ValueError):
    """Card files that cannot be used; `problems` says why, one by one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def card_files(extra: Iterable[Path] = ()) -> list[Path]:
    """The shipped card files, then those below the folders (or the files) in `extra`."""
    files = [f for collection in COLLECTIONS for f in sorted((SHIPPED / collection).glob("*.yaml"))]
    for path in extra:
        if path.is_dir():
            found = sorted(path.rglob("*.yaml"))
            if not found:
                raise DeckError([Problem(str(path), 0, "", "no card (*.yaml) is in this folder or below it")])
            files += found
        elif path.exists():
            files.append(path)
        else:
            raise DeckError(
                [Problem(str(path), 0, "", "no such file or folder (--cards takes a card file or a folder of them)")]
            )
    return files
