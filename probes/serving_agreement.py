"""Our client's times beside two others': the server's own histograms, and the engine's own benchmark client.

Question
    Does the client measure what it says?
Watched
    The same closed loop twice on one server: once by our client, once by `vllm bench serve` or `sglang.bench_serving`
    as a process of its own; each time the server's histograms before and after.
Can mislead
    The three do not count alike. A server counts from the arrival of the request at its front end, a client from the
    sending; vLLM's client takes the first chunk for the first token, and both clients a gap between two chunks for the
    time between two tokens. The benchmark client's own process shares the machine with the server. Its warm-up requests
    stand in the histograms too.
Sources
    vLLM 0.27.1 (`benchmarks/serve.py`), SGLang 0.5.15.post1 (`benchmark/serving.py`).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferproof.probes import load
from inferproof.probes.core import Observations, Run
from inferproof.probes.dialects import Ask
from inferproof.probes.load import figures
from inferproof.probes.prometheus import mean_ms
from inferproof.probes.serving import begin, keep, on_both, window

BENCH_S = 240
WITHOUT_DATASETS = "The benchmark client has an empty module `datasets`: it imports the package and does not use it."


@on_both({
    "ttft_ms": "our mean time to first token",
    "itl_ms": "our mean time between two tokens",
    "server_ttft_ms": "the same by the server's histogram, over the same requests",
    "server_itl_ms": "likewise",
    "bench_ttft_ms": "mean time to first token by the engine's benchmark client; None where it did not run",
    "bench_itl_ms": "mean time between two chunks by it",
    "bench_server_ttft_ms": "the server's histogram over the benchmark client's requests",
    "bench_server_itl_ms": "likewise",
    "bench_missing": "why the benchmark client did not run; empty where it ran",
    "ttft_ratio": "our mean time to first token over the server's",
    "itl_ratio": "our mean time between two tokens over the server's",
    "bench_ttft_ratio": "the benchmark client's mean time to first token over the server's, over its requests",
    "bench_itl_ratio": "likewise for the time between two chunks",
})  # fmt: skip
def clients(
    run: Run,
    *,
    server: str,  # noqa: ARG001
    places: int = 4,
    requests: int = 16,
    prompt_tokens: int = 256,
    max_tokens: int = 32,
) -> Observations:
    """The same load by our client and by the engine's, and what the server's histograms say of each."""
    prompts = begin(run, [prompt_tokens], max_tokens)
    asks = [Ask(prompts.cold(prompt_tokens), max_tokens) for _ in range(requests)]
    with window(run) as ours:
        replies = run.engine.run(load.closed_loop(run.engine.ask, asks, places))
    keep(run, "ours", replies)
    told = figures(replies)
    with window(run) as theirs:
        bench, missing = _bench(run, places, requests, prompt_tokens, max_tokens)
    run.samples["bench"] = bench
    ttft, itl = told["ttft_ms"]["mean"], told["itl_ms"]["mean"]
    bench_ttft, bench_itl = bench.get("mean_ttft_ms"), bench.get("mean_itl_ms")
    server_ttft, server_itl = _histograms(ours)
    bench_server_ttft, bench_server_itl = _histograms(theirs) if bench else (None, None)
    return {
        "ttft_ms": ttft, "itl_ms": itl, "server_ttft_ms": server_ttft, "server_itl_ms": server_itl,
        "bench_ttft_ms": bench_ttft, "bench_itl_ms": bench_itl,
        "bench_server_ttft_ms": bench_server_ttft, "bench_server_itl_ms": bench_server_itl, "bench_missing": missing,
        "ttft_ratio": _over(ttft, server_ttft), "itl_ratio": _over(itl, server_itl),
        "bench_ttft_ratio": _over(bench_ttft, bench_server_ttft), "bench_itl_ratio": _over(bench_itl, bench_server_itl),
    }  # fmt: skip


def _histograms(grown: Mapping[str, float]) -> tuple[float | None, float | None]:
    return mean_ms(grown, "time_to_first_token_seconds"), mean_ms(grown, "inter_token_latency_seconds")


def _over(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def _bench(run: Run, places: int, requests: int, prompt: int, output: int) -> tuple[dict[str, Any], str]:
    """(what the engine's benchmark client reports, why it did not run)."""
    server = run.engine
    if server.process is None:
        return {}, "the server is attached: its engine's client is not installed here"
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        options = {
            "--base-url": f"http://{server.host}:{server.port}", "--model": server.model, "--tokenizer": server.place,
            "--random-input-len": prompt, "--random-output-len": output, "--num-prompts": requests,
            "--max-concurrency": places, "--seed": int(run.samples["salt"], 16) % 2**31,
        }  # fmt: skip
        path = [os.environ.get("PYTHONPATH", "")]
        if server.name == "sglang":
            (Path(folder) / "datasets.py").write_text("load_dataset = None\n")
            path.append(folder)  # behind everything else, so that a real one is taken where it is installed
            run.modifications.append(WITHOUT_DATASETS)
        ended = subprocess.run(
            [sys.executable, *_CLIENT[server.name](result), *(str(w) for option in options.items() for w in option)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)}, cwd=folder, timeout=BENCH_S, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        print(ended.stdout)  # into the kept log
        if ended.returncode or not result.exists():
            last = ended.stdout.strip().rpartition("\n")[2][:300]
            return {}, f"it ended with status {ended.returncode}: {last}"
        told = json.loads(result.read_text().splitlines()[0])
    return {name: value for name, value in told.items() if isinstance(value, (int, float)) and math.isfinite(value)}, ""


_VLLM_BENCH = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
"""What `vllm bench serve` runs; the command itself wants a distribution whose name is vllm."""


def _vllm(result: Path) -> list[str]:
    module = ["-c", _VLLM_BENCH, "--backend", "openai", "--dataset-name", "random"]
    saved = ["--save-result", "--result-dir", str(result.parent), "--result-filename", result.name]
    # not told to be greedy it samples as the server likes, and the first sampled request may wait for a compiler
    return [*module, *saved, "--temperature", "0", "--num-warmups", "2", "--ignore-eos", "--disable-tqdm"]


def _sglang(result: Path) -> list[str]:
    module = ["-m", "sglang.bench_serving", "--backend", "sglang", "--dataset-name", "random-ids"]
    return [*module, "--random-range-ratio", "1", "--output-file", str(result), "--disable-tqdm"]


_CLIENT = {"vllm": _vllm, "sglang": _sglang}
