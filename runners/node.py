"""What one machine of a cluster does for a verify that runs elsewhere: tell its builds, prepare one, run tasks of it.

Nothing is recorded here. Records go back as in-toto Statements, and are checked against their ids where they arrive.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, NamedTuple

from inferproof.probes.core import canonical, find_probe
from inferproof.runners import paths
from inferproof.runners.attestation import statement
from inferproof.runners.builds import BuildError, find_build
from inferproof.runners.environment import NotReady
from inferproof.runners.evidence import Evidence, Task, code_hash, evidence_from
from inferproof.runners.execute import run_build
from inferproof.runners.identity import identify
from inferproof.runners.pip import SetupError
from inferproof.runners.setup import setup
from inferproof.runners.site import Site, this_site
from inferproof.runners.worker import silent


class Message(NamedTuple):
    """What a node sends: its name as it begins, then a record, or why there is none, for each task in their order."""

    kind: Literal["begins", "record", "reason"]
    text: str = ""


def identities() -> dict[str, Mapping[str, Any]]:
    """Who the builds are that are ready on this machine."""
    return dict(this_site().identities)


def run(name: str, tasks: Sequence[Task]) -> Iterator[Message]:
    """Make the build's environment here where it is not ready, and run the tasks, which are all of that build."""
    yield Message("begins", platform.node())
    try:
        site = _prepared(name)
        changed = sorted({t.probe for t in tasks if code_hash(find_probe(t.probe, t.engine)) != t.probe_code})
    except (SetupError, NotReady, BuildError, paths.PathError) as error:
        first, *rest = str(error).splitlines()  # pip's last line is the one that says what it did not like
        yield from [Message("reason", " … ".join([first, *(line.strip() for line in rest[-1:])]))] * len(tasks)
        return
    if changed:
        why = f"its inferproof has other code of {', '.join(changed)}: install the same version there"
        yield from [Message("reason", why)] * len(tasks)
        return
    identity = site.identities[name]
    own = [replace(task, build_digest=identity["digest"]) for task in tasks]
    for result in run_build(name, own, _kept, site.launch, identity, site.logs, silent):
        if result.evidence is None:
            yield Message("reason", result.reason)
        else:
            yield Message("record", json.dumps(statement(result.evidence)))


def _prepared(name: str) -> Site:
    """This machine as a site with that one build. Setting it up is atomic, and one process at a time does it."""
    build = find_build(name)
    identity = identify(build, setup(build))
    known = {**asdict(identity), "digest": identity.digest}
    return Site({name: build}, {name: known}, {}, paths.logs_dir())


def _kept(body: Mapping[str, Any]) -> Evidence:
    """The record as it will be read, without a ledger."""
    return evidence_from(json.loads(canonical(body)))
