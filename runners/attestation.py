"""Evidence on its way to another machine: an in-toto Statement with the test-result predicate, one JSON line a record.

The subject is the record: its digest is the record's id, its annotation the record itself, so a reader can compare
them. Written after the published schema with plain JSON: the bindings on PyPI (in-toto-attestation 0.9.3, 2023) need
protobuf, whose numbers are all floats, so that a record would come back with another id. A Statement is not signed:
whoever imports one trusts where it came from, no more and no less than a ledger file.

    https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
    https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from inferproof.probes.core import canonical
from inferproof.runners.evidence import FORMAT, Evidence, Task, content_id

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
_RESULTS = {"ok": "PASSED", "inconclusive": "WARNED", "unavailable": "WARNED"}
"""How the run of the probe ended, never whether a claim holds: that is for whoever reads the observations."""


class AttestationError(ValueError):
    """A line that is no Statement of ours, or whose record does not match its id; nothing was imported."""


def statement(evidence: Evidence) -> dict[str, Any]:
    """The record as a Statement."""
    task, probe = evidence.task, str(evidence.task["probe"])
    result = _RESULTS.get(evidence.ended, "FAILED")
    return {
        "_type": STATEMENT,
        "subject": [
            {
                "name": f"evidence {evidence.id[:12]}",
                "digest": {"sha256": evidence.id},
                "mediaType": "application/json",
                "annotations": {"record": evidence.body()},
            }
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "result": result,
            "configuration": [
                {"name": f"probe {probe}", "digest": {"sha256": task["probe_code"]}},
                {"name": f"build {task['build']}", "digest": {"sha256": task["build_digest"]}},
            ],
            **{f"{name.lower()}Tests": [probe] if name == result else [] for name in ("PASSED", "WARNED", "FAILED")},
        },
    }


def records(lines: Iterable[bytes], source: str) -> list[dict[str, Any]]:
    """The bodies of the records in these JSON lines. Raises AttestationError for the first that is wrong."""
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_record(line))
            except ValueError as error:
                raise AttestationError(f"{source}:{number}: {error}; nothing was imported") from None
    return found


def _record(line: bytes) -> dict[str, Any]:
    """The body of the record in one line. Raises ValueError that says what is wrong."""
    try:
        said = json.loads(line)
        (subject,) = said["subject"]
        kinds, identity = (said["_type"], said["predicateType"]), subject["digest"]["sha256"]
        body = subject["annotations"]["record"]
        actual = content_id(body)
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ValueError("is not a line that `inferproof evidence export` writes") from None
    if kinds != (STATEMENT, PREDICATE):
        raise ValueError(f"expected {STATEMENT} with {PREDICATE}")
    if actual != identity:
        raise ValueError(f"the record does not match its id {str(identity)[:12]}: it was changed")
    if isinstance(body, dict) and body.get("format") != FORMAT:
        raise ValueError(f"the record's format is {body.get('format')!r}, this inferproof reads {FORMAT}: update it")
    _check(body)
    return dict(body)


def _check(body: Any) -> None:
    """A record that matches its id may still be one that no runner writes. Raises ValueError."""
    from pydantic import ValidationError

    try:
        for kind, value, apart in ((Evidence, body, "id"), (Task, body["task"], "timeout_s")):
            if set(value) != {f.name for f in dataclasses.fields(kind)} - {apart}:
                raise ValueError
        evidence = _adapter(Evidence).validate_json(canonical({**body, "id": ""}), strict=True)
        task = _adapter(Task).validate_json(canonical(body["task"]), strict=True)
        if not all(map(math.isfinite, (evidence.seconds, evidence.engine_start_s or 0.0))):
            raise ValueError
    except (ValidationError, ValueError, LookupError, TypeError, AttributeError):
        raise ValueError("the record's fields are not those of evidence") from None
    if task.key != evidence.key:
        raise ValueError("the record stands under another task's key")
    if not task.build_digest == evidence.build.get("digest") == _digest(evidence.build):
        raise ValueError("the record's build does not match the build's digest")


def _digest(build: Mapping[str, Any]) -> str:
    """The digest of a build's identity, as `identity.Identity.digest` has it."""
    return hashlib.sha256(canonical({k: v for k, v in build.items() if k != "digest"}).encode()).hexdigest()


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
