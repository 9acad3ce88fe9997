"""The ledger: an append-only, content-addressed SQLite file of evidence and attempts.

A record's id is the SHA-256 of its content, so a changed record shows. Nothing is ever updated or deleted;
triggers refuse it. A file that SQLite or the ids say is damaged is reported, copied aside and left alone.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from inferproof.probes.core import canonical
from inferproof.runners.evidence import Evidence, content_id, evidence_from

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  at TEXT NOT NULL,
  body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS record_key ON record (kind, key, seq);
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON record
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_replace BEFORE INSERT ON record
  WHEN EXISTS (SELECT 1 FROM record WHERE id = NEW.id OR seq = NEW.seq) BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON record
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""

_REFUSALS = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What SQLite raises; of a damaged file even its message may be no text."""


class LedgerError(RuntimeError):
    """The ledger cannot be used; the message says why, what was kept, and what to do."""


class Ledger:
    """An open ledger file. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name='no_delete'").fetchone():
                self._db.executescript(_SCHEMA)
        except _REFUSALS as error:
            raise self._failed("opened", error, "is its folder writable and the disk not full?") from None
        except OSError as error:
            raise LedgerError(f"the ledger's folder {path.parent} cannot be made: {error.strerror}") from None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def append(self, kind: str, key: str, body: Mapping[str, Any]) -> str:
        """Append one record and return its id; it is on disk when this returns. A record that is there stays once."""
        identity = content_id(body)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = (identity, kind, key, now, canonical(body))
        try:
            self._db.execute("INSERT OR IGNORE INTO record (id, kind, key, at, body) VALUES (?, ?, ?, ?, ?)", row)
        except _REFUSALS as error:
            raise self._failed("written", error, "the run's result was not recorded") from None
        return identity

    def add_evidence(self, body: Mapping[str, Any]) -> Evidence:
        """Append one evidence record, its body as `Evidence.body()` gives it."""
        self.append("evidence", str(body["key"]), body)
        return evidence_from(json.loads(canonical(body)))

    def import_evidence(self, bodies: Iterable[Mapping[str, Any]]) -> int:
        """Append all of these records or, on an error, none; how many were not there yet."""
        before = self._db.total_changes
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for body in bodies:
                self.append("evidence", str(body["key"]), body)
            self._db.execute("COMMIT")
        except _REFUSALS as error:
            raise self._failed("written", error, "nothing was imported") from None
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        return self._db.total_changes - before

    def newest(self, key: str) -> Evidence | None:
        """The newest settled evidence with that key: what is up to date for a task."""
        for body in self._bodies(
            "SELECT id, body FROM record WHERE kind='evidence' AND key=? ORDER BY seq DESC", (key,)
        ):
            evidence = evidence_from(body)
            if evidence.key != key:
                raise self._damaged(f"record {evidence.id[:12]} stands under another task's key")
            if evidence.settled:
                return evidence
        return None

    def evidence(self, prefix: str = "") -> Iterator[Evidence]:
        """Evidence whose id starts with `prefix`, oldest first."""
        query = "SELECT id, body FROM record WHERE kind='evidence' AND substr(id, 1, ?) = ? ORDER BY seq"
        for body in self._bodies(query, (len(prefix), prefix)):
            yield evidence_from(body)

    def of_probe(self, probe: str) -> Iterator[Evidence]:
        """Evidence of one probe, oldest first."""
        query = (
            "SELECT id, body FROM record WHERE kind='evidence' AND json_extract(body, '$.task.probe') = ? ORDER BY seq"
        )
        for body in self._bodies(query, (probe,)):
            yield evidence_from(body)

    def counts(self, kind: str) -> dict[str, int]:
        """How many records of a kind there are, by key."""
        try:
            return dict(
                self._db.execute("SELECT key, count(*) FROM record WHERE kind=? GROUP BY key", (kind,)).fetchall()
            )
        except _REFUSALS as error:
            raise self._failed("read", error, "is another program using it?") from None

    def bodies(self, kind: str) -> Iterator[dict[str, Any]]:
        """All records of a kind, oldest first."""
        yield from self._bodies("SELECT id, body FROM record WHERE kind=? ORDER BY seq", (kind,))

    def check(self) -> int:
        """Check the file's structure, and every record against its id; the number of records. Raises LedgerError."""
        try:
            found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except _REFUSALS as error:
            raise self._failed("read", error, "is another program using it?") from None
        if found != "ok":
            raise self._damaged(found)
        return sum(1 for _ in self._bodies("SELECT id, body FROM record ORDER BY seq", ()))

    def _bodies(self, query: str, values: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
        try:
            for identity, text in self._db.execute(query, values):
                body = json.loads(text)
                if content_id(body) != identity:
                    raise self._damaged(f"record {identity[:12]} does not match its id")
                yield body
        except _REFUSALS as error:
            raise self._failed("read", error, "is another program using it?") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damaged(f"a record is not JSON: {error}") from None

    def _failed(self, done: str, error: Exception, hint: str) -> LedgerError:
        """The error for what SQLite said: the file is damaged, or merely of no use now (locked, full, read-only)."""
        code = getattr(error, "sqlite_errorcode", None)  # none where a value could not be decoded: it is damaged too
        if code is None or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            return self._damaged(str(error))
        return LedgerError(f"the ledger {self.path} cannot be {done}: {error}; {hint}")

    def _damaged(self, what: str) -> LedgerError:
        """Keep a copy of the damaged file beside it (once per content), and say so."""
        try:
            copy = f"A copy is kept at {keep_copy(self.path)}."
        except OSError as error:
            copy = f"No copy could be made ({error.strerror})."
        return LedgerError(
            f"the ledger {self.path} is damaged ({what}). {copy} "
            f"Nothing was deleted: move {self.path} away to start a new ledger, or restore it from a backup."
        )


def keep_copy(path: Path) -> Path:
    """A copy of the file and of SQLite's write-ahead log, under a name that tells its content; made only once."""
    import hashlib
    import shutil

    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    kept = path.with_name(f"{path.name}.damaged-{digest[:12]}")
    if not kept.exists():
        log = path.with_name(f"{path.name}-wal")
        if log.exists():
            shutil.copyfile(log, kept.with_name(f"{kept.name}-wal"))
        partial = kept.with_name(f".{kept.name}.{os.getpid()}")
        shutil.copyfile(path, partial)
        partial.replace(kept)
    return kept
