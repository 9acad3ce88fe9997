"""`inferproof verify --profile`, against a server that runs already."""

from __future__ import annotations

import json

import pytest
from fake_server import FakeVllm, serving
from typer.testing import CliRunner

from inferproof.cli import app

PROFILE = ("verify", "--profile", "a100", "--lang", "en")


def test_a_rehearsal_on_an_attached_server_gives_the_whole_table_and_runs_once() -> None:
    fake = FakeVllm(token_s=0.004)
    with serving(fake) as url:
        attached = (*PROFILE, "--rehearse", "--attach", f"vllm={url}")
        first = CliRunner().invoke(app, [*attached, "--json"])
        asked = fake.requests
        again = CliRunner().invoke(app, attached, env={"COLUMNS": "80"})

    assert (first.exit_code, again.exit_code) == (3, 3), first.output
    told = json.loads(first.stdout)
    measured = {f["id"] for f in told["figures"] if f["measured"] is not None}
    assert {"prefill-vllm-eager-256", "batching-vllm-c16-itl-p99", "interference-vllm-8192-gap-max"} <= measured
    reasons = {f["id"]: f["not_run"] for f in told["figures"]}
    assert "wanted is 512" in reasons["interference-vllm-512-gap-max"]
    assert reasons["prefill-sglang-eager-256"] == "no sglang build is set up: run inferproof builds setup"
    assert told["cells"]["vllm_agreement"]["observations"]["bench_missing"].startswith("the server is attached")
    assert fake.requests == asked > 0
    assert f"{len(measured)} of 118 figures have a measured one beside them" in again.stdout
    assert all(len(line) <= 80 for line in again.stdout.splitlines())


def test_without_a_gpu_the_profile_says_what_is_missing_and_runs_nothing() -> None:
    result = CliRunner().invoke(app, [*PROFILE], env={"COLUMNS": "200"})

    assert result.exit_code == 3
    for engine in ("vllm", "sglang"):
        assert f"no {engine} for a GPU is at hand: on a machine with a GPU, name a Python" in result.stdout
        assert f"--attach {engine}=http://HOST:PORT" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("verify", "--profile", "a200"), "there is no profile 'a200'; there is: a100"),
        (("verify", "--rehearse"), "go with --profile"),
        (("verify", "prefix-cache-ttft", "--profile", "a100"), "--profile is of no claim"),
        ((*PROFILE, "--attach", "tgi=http://h:1"), "--attach tgi=http://h:1: expected vllm=... or sglang=..."),
        ((*PROFILE, "--attach", "vllm=http://127.0.0.1:1"), "no vllm server answers at that address"),
        ((*PROFILE, "--python", "vllm=/no/python"), "that is no Python that runs"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(app, [*words])

    message = str(result.exception) if not isinstance(result.exception, SystemExit) else result.stderr
    assert result.exit_code != 0 and says in message
    assert "\n" not in message.strip()
