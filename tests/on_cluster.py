"""Runs tasks on a Ray cluster as `verify --executor ray` does, with whatever package PYTHONPATH has; a test's driver.

    python on_cluster.py ADDRESS LEDGER <<< '[{"probe": ..., "level": ..., "params": ...}, ...]'

A line of JSON on stdout for each result.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from inferproof.probes.core import find_probe
from inferproof.runners.cluster import on_cluster
from inferproof.runners.evidence import Task, code_hash
from inferproof.runners.execute import execute
from inferproof.runners.ledger import Ledger
from inferproof.runners.site import Site, this_site


def task(site: Site, wanted: dict[str, object]) -> Task:
    engine, params = str(wanted.get("engine", "vllm")), dict(wanted["params"])  # type: ignore[call-overload]
    probe, build = find_probe(str(wanted["probe"]), engine), str(wanted.get("build", "host"))
    return Task(
        probe=probe.name, engine=engine, level=str(wanted["level"]), params=params, build=build,
        config=probe.engine_config(params), probe_code=code_hash(probe),
        build_digest=site.identities[build]["digest"], timeout_s=30,
    )  # fmt: skip


def main(address: str, ledger_file: str) -> None:
    asked = json.load(sys.stdin)
    with on_cluster(this_site(), address) as site, Ledger(Path(ledger_file)) as ledger:
        tasks = [task(site, wanted) for wanted in asked]
        print("connected", file=sys.__stdout__, flush=True)
        for r in execute(
            tasks, ledger, launcher=site.launch, identities=site.identities, logs=site.logs, executor=site.executor
        ):
            ended = r.evidence.ended if r.evidence else "not run"
            said = {"params": dict(r.task.params), "ended": ended, "reason": r.reason, "reused": r.reused}
            print(json.dumps(said), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
