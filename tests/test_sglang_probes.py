"""What can be said of the SGLang probes without SGLang: how they read its log, and what the placeholders do."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import inferproof.runners
from inferproof.probes import kv_pressure, sglang_engine

PLACEHOLDERS = Path(inferproof.runners.__file__).resolve().parent / "placeholders"

LOG = """\
[2026-11-29 13:55:37] Prefill batch, #new-seq: 1, #new-token: 511, #cached-token: 0, token usage: 0.13, \
#running-req: 2, #queue-req: 6, #pending-token: 32, cpu graph: False, input throughput (token/s): 2257.40
[2026-11-29 13:55:37] Decode batch, #running-req: 3, #token: 2082, token usage: 0.51, cpu graph: False, \
gen throughput (token/s): 1.01, #queue-req: 5
[2026-11-29 14:13:22] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 338, \
#new_token_ratio: 0.0980 -> 0.7063
"""


def test_batch_lines_of_the_log_are_read_in_order() -> None:
    assert kv_pressure._batches(LOG) == [
        {"kind": "prefill", "new_tokens": 511, "running": 2, "waiting": 6, "kv_usage": 0.13},
        {"kind": "decode", "new_tokens": 0, "running": 3, "waiting": 5, "kv_usage": 0.51},
    ]


def test_a_retraction_line_gives_the_ratio_before_and_after() -> None:
    assert kv_pressure._retractions(LOG) == {
        "new_token_ratio_before": 0.098,
        "new_token_ratio_after": 0.7063,
        "tokens_gained": [338],
    }


def test_a_log_without_retraction_has_no_ratio() -> None:
    assert kv_pressure._retractions(LOG.partition("[2026-11-29 14:13:22]")[0]) == {
        "new_token_ratio_before": None,
        "new_token_ratio_after": None,
        "tokens_gained": [],
    }


@pytest.mark.parametrize(
    "code",
    [
        "from torchvision.io import decode_jpeg; from torchvision.transforms.v2 import functional",
        "import triton, triton.language as tl; f = triton.jit(len); assert f is len; assert triton.cdiv(5, 2) == 3",
        "import triton; assert triton.autotune(configs=[])(len) is len; assert triton.next_power_of_2(9) == 16",
        "from sgl_kernel.scalar_type import scalar_types; scalar_types.uint4b8",
        "import torchvision; assert torchvision.INFERPROOF_PLACEHOLDER",
        "import triton; assert triton.INFERPROOF_PLACEHOLDER",
        "import sgl_kernel; assert sgl_kernel.INFERPROOF_PLACEHOLDER",
    ],
)
def test_placeholders_import_as_the_real_packages_do(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(PLACEHOLDERS)})


@pytest.mark.parametrize("code", ["import triton; triton.jit(len)[1](2)", "import sgl_kernel; sgl_kernel.gelu([])"])
def test_a_placeholder_kernel_cannot_run(code: str) -> None:
    ran = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(PLACEHOLDERS)}, stderr=subprocess.PIPE)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].split(b":")[0] in (b"TypeError", b"NotImplementedError")


def test_an_engine_gets_a_port_that_nobody_holds() -> None:
    with contextlib.ExitStack() as held:
        taken = set()
        for _ in range(50):
            server = held.enter_context(socket.socket())
            server.bind(("127.0.0.1", 0))
            server.listen()
            taken.add(server.getsockname()[1])

        assert {sglang_engine._free_port() for _ in range(50)}.isdisjoint(taken)
