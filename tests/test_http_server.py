"""Servers: what they are started with, what they say of themselves, and one that runs already."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_server import FakeVllm, serving

from inferproof.probes import http_server
from inferproof.probes.core import Unavailable
from inferproof.probes.server_arguments import ARGUMENTS, parse_settings
from inferproof.probes.server_flags import differing
from inferproof.probes.sse import HttpError


def words(engine: str, settings: str, *, gpu: bool) -> str:
    made = ARGUMENTS[engine](parse_settings(f"model=m {settings}"), "m", gpu)
    return " ".join(made[0])


@pytest.mark.parametrize(
    ("engine", "settings", "has", "has_not"),
    [
        ("vllm", "", "--served-model-name m", "--enforce-eager"),
        ("vllm", "eager", "--enforce-eager", "dummy"),
        ("vllm", "chunk=512", "--max-num-batched-tokens 512", "override"),
        ("vllm", "pool=4096", "--max-model-len 4080 --num-gpu-blocks-override 256", "speculative"),
        ("vllm", "ngram=8", '"num_speculative_tokens": 7', "override"),
        ("sglang", "", "--enable-metrics", "--disable-cuda-graph"),
        ("sglang", "eager", "--disable-cuda-graph", "--max-total-tokens"),
        ("sglang", "chunk=512 mixed", "--enable-mixed-chunk", "--device cpu"),
        ("sglang", "pool=4096", "--max-total-tokens 4096", "mixed"),
        ("sglang", "ngram=8", "--speculative-num-draft-tokens 8", "mixed"),
    ],
)
def test_settings_become_the_engines_own_arguments(engine: str, settings: str, has: str, has_not: str) -> None:
    on_gpu = words(engine, settings, gpu=True)

    assert has in on_gpu and has_not not in on_gpu
    assert "--load-format dummy" in words(engine, settings, gpu=False)


@pytest.mark.parametrize(
    ("settings", "flags", "wrong"),
    [
        ("eager", {"enforce_eager": True}, []),
        ("", {"enforce_eager": True}, ["its enforce_eager is True, wanted is False"]),
        ("eager chunk=512", {"max_num_batched_tokens": 8192}, ["its max_num_batched_tokens is 8192, wanted is 512"]),
        ("eager ngram=8", {}, ["its speculative_method is None, wanted is True"]),
        ("eager pool=4096", {"max_total_num_tokens": 4096}, []),
    ],
)
def test_a_running_server_that_is_set_otherwise_is_told(
    settings: str, flags: dict[str, object], wrong: list[str]
) -> None:
    told = {"enforce_eager": True, "speculative_method": None, **flags}

    assert differing("vllm", parse_settings(settings), told) == wrong


def test_a_server_that_does_not_tell_its_flags_measures_nothing() -> None:
    assert differing("vllm", {}, {})[0] == (
        "it does not tell its enforce_eager (vLLM does when started with VLLM_SERVER_DEV_MODE=1)"
    )


def test_an_attached_server_is_asked_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(FakeVllm()) as url:
        monkeypatch.setenv(http_server.ATTACH, url)
        config = {"engine": "vllm", "settings": "model=tiny eager"}
        server = http_server.start(config, level="engine", source=None, log=None, models=None)
        assert server.flags["version"] == "0.27.1" and server.flags["max_total_num_tokens"] == 8192
        assert server.modifications == [http_server.ATTACHED]
        server.close()
        with pytest.raises(Unavailable, match="its enforce_eager is True"):
            http_server.start({**config, "settings": "model=tiny"}, level="engine", source=None, log=None, models=None)


@pytest.mark.parametrize("url", ["https://h:1", "http://user:secret@h:1", "http://h:1/v1", "nonsense"])
def test_an_address_that_is_none_is_refused_without_its_secret(url: str) -> None:
    with pytest.raises(HttpError, match="expected http://HOST:PORT") as error:
        http_server.connect("vllm", url)
    assert "secret" not in str(error.value)


def test_closing_ends_the_children_of_a_server_that_will_not_end() -> None:
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", parent])
    give_up = time.monotonic() + 20
    while not (children := http_server._descendants(process.pid)) and time.monotonic() < give_up:
        time.sleep(0.05)
    time.sleep(0.5)

    http_server.Server("vllm", "127.0.0.1", 1, process).close()

    assert process.returncode == -signal.SIGTERM
    [(pid, born)] = children
    while http_server._birth(pid) == born and time.monotonic() < give_up:  # a zombie until init takes it
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    assert time.monotonic() < give_up
