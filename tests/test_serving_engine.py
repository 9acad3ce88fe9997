"""A few cells of the rehearsal on both engines' own HTTP servers: the client against the server's histograms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferproof.grading.verify import task_on
from inferproof.probes.core import find_probe
from inferproof.runners.evidence import Evidence
from inferproof.runners.execute import execute
from inferproof.runners.ledger import Ledger
from inferproof.runners.site import this_site

pytestmark = pytest.mark.engine
SERVER = {"server": "model=tiny eager chunk=512 pool=4096"}
CELLS: dict[str, dict[str, Any]] = {
    "serving.lengths": {"lengths": [32, 1024], "repeats": 2},
    "serving.prefix": {"prompt_tokens": 2080, "repeats": 1},
    "serving.concurrency": {"places": 4, "requests": 8, "prompt_tokens": 32, "max_tokens": 16},
    "serving_interference.long_prefill": {"prefill_tokens": 2048, "stream_tokens": 96, "repeats": 1},
}


def measured(build: str, folder: Path) -> dict[str, Evidence]:
    subprocess.run([sys.executable, "-m", "inferproof.cli", "builds", "setup", build], check=True, capture_output=True)
    site = this_site()
    engine = site.builds[build].engine
    probes = {name: find_probe(name, engine) for name in CELLS}
    tasks = [task_on(site, build, p, "engine", p.resolve({**CELLS[name], **SERVER})) for name, p in probes.items()]
    with Ledger(folder / "ledger.sqlite") as ledger:
        results = execute(tasks, ledger, launcher=site.launch, identities=site.identities, logs=site.logs)
        return {result.task.probe: result.evidence for result in results if result.evidence is not None}


@pytest.mark.parametrize(("build", "hits"), [("vllm-cpu", 2064), ("sglang-cpu", 2079)])
def test_a_server_is_started_measured_over_http_and_stopped(build: str, hits: int, tmp_path: Path) -> None:
    before = {p.pid for p in psutil.process_iter()}
    evidence = measured(build, tmp_path)
    seen = {name: e.observations for name, e in evidence.items()}

    assert {name: (e.ended, e.reason) for name, e in evidence.items()} == dict.fromkeys(CELLS, ("ok", ""))
    assert seen["serving.lengths"]["ttft_ms"][0] < seen["serving.lengths"]["ttft_ms"][1]
    assert (seen["serving.prefix"]["cached_tokens"], seen["serving.prefix"]["counted_hits"]) == (hits, hits)
    assert (
        seen["serving_interference.long_prefill"]["gap_max_ms"]
        > seen["serving_interference.long_prefill"]["gap_base_ms"]
    )
    for one in evidence.values():
        assert (one.flags["max_total_num_tokens"], one.flags["version"]) == (4096, one.build["version"])
        assert one.samples["metrics"] and one.samples["requests"]
    _agrees(evidence["serving.concurrency"])
    left = [
        p
        for p in psutil.process_iter(["cmdline"])
        if p.pid not in before and ("launch_server" in str(p.info) or "api_server" in str(p.info))
    ]
    assert left == []


def _agrees(evidence: Evidence) -> None:
    """Our token times against the server's histogram of the same requests: one clock, two processes."""
    [window] = evidence.samples["metrics"]
    grown = {k: v - window["before"][k] for k, v in window["after"].items()}
    requests = evidence.samples["requests"]["concurrency 4"]
    spread = [(r["events_ms"][-1] - r["events_ms"][0], r["tokens"][-1] - r["tokens"][0]) for r in requests]
    ours = sum(ms for ms, _ in spread) / sum(tokens for _, tokens in spread)
    theirs = 1000 * grown["inter_token_latency_seconds_sum"] / grown["inter_token_latency_seconds_count"]
    assert grown["time_to_first_token_seconds_count"] == len(requests)
    assert 0.7 < ours / theirs < 1.4
