"""The ledger only grows, tells a changed record by its id, and never loses or deletes anything."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import inferproof
from inferproof.runners.evidence import Evidence, Task
from inferproof.runners.ledger import Ledger, LedgerError, keep_copy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder/ledger.sqlite"


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """The file behind the ledger's back."""
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def test_what_was_appended_is_there_when_it_is_opened_again(path: Path, make_evidence: Callable[..., Evidence]) -> None:
    evidence = make_evidence()
    with Ledger(path) as ledger:
        added = ledger.add_evidence(evidence.body())
    assert added == evidence

    with Ledger(path) as ledger:
        assert list(ledger.evidence()) == [evidence]
        assert list(ledger.evidence(evidence.id[:8])) == [evidence]
        assert list(ledger.evidence("%")) == list(ledger.evidence("zz")) == []
        assert list(ledger.of_probe(evidence.task["probe"])) == [evidence]
        assert list(ledger.of_probe("other.probe")) == []
        assert ledger.check() == 1


def test_the_same_body_is_one_record_and_a_changed_one_is_another(path: Path) -> None:
    with Ledger(path) as ledger:
        first = ledger.append("attempt", "card", {"answer": "整块", "n": 1})

        assert ledger.append("attempt", "card", {"n": 1, "answer": "整块"}) == first
        assert ledger.check() == 1
        assert ledger.append("attempt", "card", {"answer": "整块", "n": 2}) != first
        assert ledger.append("attempt", "other", {"answer": "\ud800"}) != first  # text that is no Unicode is kept too
        assert ledger.counts("attempt") == {"card": 2, "other": 1}
        assert ledger.counts("evidence") == {}
        assert [b["answer"] for b in ledger.bodies("attempt")] == ["整块", "整块", "\ud800"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET body = '{}'",
        "UPDATE record SET at = 'never'",
        "DELETE FROM record",
    ],
)
def test_records_can_be_neither_updated_nor_deleted(path: Path, statement: str) -> None:
    with Ledger(path) as ledger:
        ledger.append("attempt", "card", {"n": 1})
    with raw(path) as db, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    with Ledger(path) as ledger:
        assert ledger.check() == 1


def test_replacing_a_record_leaves_the_first_one(path: Path) -> None:
    with Ledger(path) as ledger:
        identity = ledger.append("attempt", "card", {"n": 1})
    with raw(path) as db:
        db.execute(
            "INSERT OR REPLACE INTO record (id, kind, key, at, body) VALUES (?, 'attempt', 'card', 'now', '{\"n\":2}')",
            (identity,),
        )
        db.execute(
            "REPLACE INTO record (seq, id, kind, key, at, body) VALUES (1, 'x', 'attempt', 'card', 'now', '{\"n\":2}')"
        )
    with Ledger(path) as ledger:
        assert list(ledger.bodies("attempt")) == [{"n": 1}]


def test_newest_skips_what_must_be_tried_again(path: Path, task: Task, make_evidence: Callable[..., Evidence]) -> None:
    with Ledger(path) as ledger:
        assert ledger.newest(task.key) is None
        ledger.add_evidence(make_evidence(ended="failed", reason="boom").body())
        assert ledger.newest(task.key) is None
        ledger.add_evidence(make_evidence(seconds=1.0).body())
        settled = ledger.add_evidence(make_evidence(seconds=2.0, ended="inconclusive").body())
        for ended in ("failed", "timed out", "died"):
            ledger.add_evidence(make_evidence(ended=ended).body())

        assert ledger.newest(task.key) == settled
        assert ledger.newest("another key") is None
        assert len(list(ledger.evidence())) == 6  # a run that failed is a record too


# --- damage


@pytest.fixture
def filled(path: Path) -> Path:
    """A ledger of several pages, closed."""
    with Ledger(path) as ledger:
        ledger._db.execute("BEGIN")  # one write to the disk, not 200
        for n in range(200):
            ledger.append("attempt", "card", {"n": n, "answer": "x" * 200})
        ledger._db.execute("COMMIT")
    return path


def _read_all(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.check()


def _damage_is_reported(path: Path) -> LedgerError:
    """Reading fails with an error that names a copy of the file as it was; the file itself stays."""
    damaged = path.read_bytes()
    with pytest.raises(LedgerError, match="is damaged") as caught:
        _read_all(path)
    copies = [f for f in path.parent.iterdir() if ".damaged-" in f.name and not f.name.endswith("-wal")]

    assert [c.read_bytes() for c in copies] == [damaged]
    assert path.read_bytes() == damaged
    assert str(copies[0]) in str(caught.value) and "Nothing was deleted" in str(caught.value)
    return caught.value


def test_one_changed_character_of_a_body_is_found(filled: Path) -> None:
    content = filled.read_bytes()
    at = content.index(b'"n":123')
    filled.write_bytes(content[:at] + b'"n":124' + content[at + 7 :])

    assert "does not match its id" in str(_damage_is_reported(filled))


@pytest.mark.parametrize("replacement", [b'"n":12\xff', b'"n":NaN', b'"n"x123', b'"n":12\x00'])
def test_a_body_that_is_no_json_is_damage(filled: Path, replacement: bytes) -> None:
    filled.write_bytes(filled.read_bytes().replace(b'"n":123', replacement))

    _damage_is_reported(filled)


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.1])
def test_a_truncated_file_is_damage(filled: Path, keep: float) -> None:
    size = filled.stat().st_size
    os.truncate(filled, int(size * keep))

    _damage_is_reported(filled)


@pytest.mark.parametrize("start", [0, 4096, 20_000])
def test_garbage_is_damage(filled: Path, start: int) -> None:
    content = bytearray(filled.read_bytes())
    content[start : start + 8192] = b"garbage!" * 1024
    filled.write_bytes(content)

    _damage_is_reported(filled)


def test_a_file_that_never_was_a_ledger_is_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("my notes, not a database " * 100)

    _damage_is_reported(path)


def test_damage_is_copied_only_once_and_appending_does_not_hide_it(filled: Path) -> None:
    filled.write_bytes(b"garbage" * 1000)
    for _ in range(2):
        with pytest.raises(LedgerError, match="is damaged"), Ledger(filled) as ledger:
            ledger.append("attempt", "card", {"n": 1})

    assert len([f for f in filled.parent.iterdir() if ".damaged-" in f.name]) == 1


def test_a_copy_has_the_records_that_sqlite_had_not_yet_moved_into_the_file(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.append("attempt", "card", {"n": 1})
        kept = keep_copy(path)
    with Ledger(kept) as ledger:
        assert list(ledger.bodies("attempt")) == [{"n": 1}]


def test_evidence_under_another_tasks_key_is_damage(path: Path, make_evidence: Callable[..., Evidence]) -> None:
    with Ledger(path) as ledger:
        ledger.append("evidence", "another key", make_evidence().body())
        with pytest.raises(LedgerError, match="stands under another task's key"):
            ledger.newest("another key")


def test_counting_in_a_damaged_file_is_a_ledger_error_too(filled: Path) -> None:
    content = filled.read_bytes()
    filled.write_bytes(content[:4096] + b"garbage!" * ((len(content) - 4096) // 8))
    with Ledger(filled) as ledger, pytest.raises(LedgerError, match="is damaged"):
        ledger.counts("attempt")


# --- what keeps it from being used


@contextmanager
def _not_as_root() -> Iterator[None]:
    """Root may write anywhere, so drop its rights for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Ledger(folder / "ledger.sqlite") as ledger:
            ledger.append("attempt", "card", {"n": 1})
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_read_only_folder_is_said_and_is_no_damage(read_only_folder: Path) -> None:
    with _not_as_root():
        for name, message in (
            ("ledger.sqlite", "cannot be opened"),
            ("new.sqlite", "cannot be opened"),
            ("a/b.sqlite", "cannot be made"),
        ):
            with pytest.raises(LedgerError, match=message), Ledger(read_only_folder / name) as ledger:
                ledger.append("attempt", "card", {"n": 2})

    assert [f.name for f in read_only_folder.iterdir()] == ["ledger.sqlite"]


def test_a_folder_in_the_files_place_or_a_file_in_the_folders_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot be opened: unable to open database file"):
        Ledger(tmp_path)
    with pytest.raises(LedgerError, match=r"folder .* cannot be made"):
        Ledger(tmp_path / "file/ledger.sqlite")


def test_a_full_disk_is_said_and_loses_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.append("attempt", "card", {"n": 1})
        pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
        ledger._db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own "disk is full"
        with pytest.raises(
            LedgerError, match="cannot be written: database or disk is full; the run's result was not recorded"
        ):
            ledger.append("attempt", "card", {"answer": "x" * 100_000})
        assert list(ledger.bodies("attempt")) == [{"n": 1}]
    assert not any(".damaged-" in f.name for f in path.parent.iterdir())


def test_a_lock_that_is_never_given_back_is_said_and_is_no_damage(path: Path) -> None:
    with Ledger(path) as ledger, raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        ledger._db.execute("PRAGMA busy_timeout = 50")
        with pytest.raises(LedgerError, match="cannot be written: database is locked"):
            ledger.append("attempt", "card", {"n": 1})
        other.execute("COMMIT")
        ledger.append("attempt", "card", {"n": 1})


def test_processes_that_open_and_append_at_once_lose_nothing(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from inferproof.runners.ledger import Ledger\n"
        "sys.stdin.readline()\n"
        "with Ledger(Path(sys.argv[1])) as ledger:\n"
        "    for n in range(25): ledger.append('attempt', sys.argv[2], {'who': sys.argv[2], 'n': n})\n"
    )
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(Path(inferproof.__file__).parents[1])}
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(path), who], stdin=subprocess.PIPE, env=environment)
        for who in "abc"
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()  # all start now
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]

    with Ledger(path) as ledger:
        assert ledger.counts("attempt") == {"a": 25, "b": 25, "c": 25}
        assert ledger.check() == 75
