"""SGLang as a probe sees it: the whole engine on a CPU, its scheduler in a forked child process.

`start` is what a worker calls. Config keys are SGLang's own `ServerArgs` names (`max_total_tokens`,
`chunked_prefill_size`, `enable_mixed_chunk`, `disable_radix_cache`, ...), plus `model`, a size of `model.py`.
"""

from __future__ import annotations

import atexit
import importlib
import math
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferproof.probes import model
from inferproof.probes.core import Completion, Request, Unavailable

ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",  # without it the import looks for CUDA and then for vLLM, even with device="cpu"
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # a tiny model gains nothing from more, and spinning threads starve the other processes
}
"""What must be in the environment before sglang is imported."""

PLACEHOLDERS = ("torchvision", "triton", "sgl_kernel")

_ARGUMENTS: dict[str, Any] = {
    "load_format": "dummy", "device": "cpu", "attention_backend": "torch_native", "sampling_backend": "pytorch",
    "disable_cuda_graph": True, "mem_fraction_static": 0.1, "max_total_tokens": 16384, "max_running_requests": 64,
    "skip_tokenizer_init": True, "random_seed": 0, "log_level": "info", "decode_log_interval": 1,
    "enable_metrics": True, "host": "127.0.0.1",
}  # fmt: skip

_FLAGS = (
    "version", "device", "dtype", "kv_cache_dtype", "attention_backend", "sampling_backend", "load_format", "page_size",
    "max_total_num_tokens", "max_running_requests", "chunked_prefill_size", "enable_mixed_chunk", "max_prefill_tokens",
    "schedule_policy", "schedule_conservativeness", "disable_radix_cache", "disable_overlap_schedule",
    "disable_cuda_graph", "radix_eviction_policy", "speculative_algorithm", "random_seed", "tp_size",
)  # fmt: skip


def prepare() -> None:
    """Make `import sglang` possible on a CPU; call before the first import. Harmless when called again."""
    os.environ.update(ENVIRONMENT)


def placeholders() -> list[str]:
    """Names of the packages that are placeholders of ours in this environment, not the real ones."""
    return [name for name in PLACEHOLDERS if _is_placeholder(name)]


def _is_placeholder(name: str) -> bool:
    try:
        return hasattr(importlib.import_module(name), "INFERPROOF_PLACEHOLDER")
    except ImportError:
        return False


def start(
    config: Mapping[str, Any], *, level: str, source: Path | None, log: Path | None, models: Path | None
) -> SGLangEngine:
    """Start an engine with `config` over arguments that suit a CPU; ready when this returns.

    Raises Unavailable for a level other than `engine`, and for a page size that the placeholder Triton cannot serve.
    """
    del source, log  # an adapter's common signature; SGLang needs neither
    if level != "engine":
        raise Unavailable(f"SGLang runs at level engine (or component, without an engine), not {level}")
    prepare()
    if config.get("page_size", 1) > 1 and _is_placeholder("triton"):
        raise Unavailable("with pages above 1 SGLang's allocator launches Triton kernels; triton is a placeholder here")
    assert models is not None
    settings = dict(config)
    size = settings.pop("model", "tiny")
    place = {"model_path": str(model.make(models, size)), "port": _free_port()}
    return SGLangEngine({**_ARGUMENTS, **place, **settings}, size)


class SGLangEngine:
    """One `sglang.Engine`; an `Engine` of `core`."""

    name = "sglang"
    level = "engine"

    def __init__(self, arguments: Mapping[str, Any], size: str) -> None:
        _fork_children()
        self._folder = _private_folder()
        from sglang.srt.entrypoints.engine import Engine

        self._engine = Engine(**arguments)
        info = self._engine.get_server_info()
        self.flags: dict[str, Any] = {"model": f"qwen3-{size}, random weights"}
        self.flags |= {name: info[name] for name in dict.fromkeys((*_FLAGS, *arguments)) if name in info}
        for place in ("model_path", "host", "port", "log_level"):  # of this run, not of the engine's behaviour
            self.flags.pop(place, None)
        self.modifications = [
            "The model has random weights (load_format=dummy).",
            "Child processes are forked, not spawned, so that a start takes seconds; the engine's code is unchanged.",
            *(f"The package {name} is a placeholder; the real one is not installed." for name in placeholders()),
        ]

    def generate(self, requests: Sequence[Request], *, stream: bool = True) -> list[Completion]:
        """Submit all requests in one call, run until all have finished, return in order.

        Every `Completion.meta` is the request's last `meta_info`, and with `stream` also `token_counts`: its output
        tokens at each of its `event_times_s`. Without `stream` nothing is timed, and a long decode costs less.
        """
        return self._engine.loop.run_until_complete(self._generate(requests, stream))  # type: ignore[no-any-return]

    async def _generate(self, requests: Sequence[Request], stream: bool) -> list[Completion]:
        from sglang.srt.managers.io_struct import GenerateReqInput

        salts = [r.salt for r in requests]
        batch = GenerateReqInput(
            input_ids=[list(r.prompt) for r in requests],
            sampling_params=[
                {"temperature": 0, "max_new_tokens": r.max_tokens, "ignore_eos": r.ignore_eos} for r in requests
            ],
            extra_key=salts if any(salts) else None,
            stream=stream,
        )
        flights = [_Flight() for _ in requests]
        started = time.perf_counter()
        async for answer in self._engine.tokenizer_manager.generate_request(batch, None):
            now = time.perf_counter() - started
            for i, chunk in [(answer["index"], answer)] if stream else enumerate(answer):
                flights[i].receive(chunk, now)
        return [flight.completion(timed=stream) for flight in flights]

    def flush(self) -> None:
        """Empty the prefix cache and wait until it is empty. Raises RuntimeError while requests are in flight."""
        deadline = time.monotonic() + 30
        while not self._engine.flush_cache().success:
            if time.monotonic() > deadline:
                raise RuntimeError("SGLang did not flush its cache within 30 s: requests are still in flight")
            time.sleep(0.05)

    def counters(self) -> dict[str, float]:
        """The engine's Prometheus counters and gauges by name without `sglang:`, summed over labels.

        A gauge is its latest value. A counter appears at its first increment: take an absent one for 0.
        """
        from prometheus_client import CollectorRegistry, multiprocess

        self._engine.get_server_info()  # the scheduler answers between two steps, when it has written what it knows
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, path=self._folder)
        totals: dict[str, float] = {}
        for metric in registry.collect():
            for sample in metric.samples if metric.type in ("counter", "gauge") else ():
                if math.isfinite(sample.value):
                    name = sample.name.removeprefix("sglang:")
                    totals[name] = totals.get(name, 0.0) + sample.value
        return totals

    def close(self) -> None:
        """Kill the engine's child processes, wait for their end, and remove its folder."""
        atexit.unregister(self._engine.shutdown)
        self._engine.shutdown()
        tempfile.tempdir = None
        shutil.rmtree(self._folder, ignore_errors=True)


class _Flight:
    """A request under way, and what has come back for it."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.events: list[tuple[float, int]] = []
        self.meta: dict[str, Any] = {}

    def receive(self, chunk: Mapping[str, Any], now: float) -> None:
        self.meta = chunk["meta_info"]
        total, ids = self.meta["completion_tokens"], chunk["output_ids"]
        # a chunk carries all tokens so far, or, with incremental_streaming_output, the new ones only
        self.tokens = list(ids) if len(ids) == total else self.tokens + list(ids)
        self.events.append((now, total))

    def completion(self, *, timed: bool) -> Completion:
        tokens, cached = tuple(self.tokens), self.meta["cached_tokens"]
        if not timed:
            return Completion(tokens, cached, meta=self.meta)
        meta = {**self.meta, "token_counts": [count for _, count in self.events]}
        return Completion(tokens, cached, self.events[0][0], tuple(t for t, _ in self.events), meta)


def _fork_children() -> None:
    """Let the engine fork its scheduler and detokenizer: they inherit the imports, which cost 14 s each."""
    import multiprocessing

    import sglang.srt.managers.detokenizer_manager
    import sglang.srt.managers.scheduler  # noqa: F401

    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.set_start_method = lambda *_, **__: None  # the engine is about to ask for spawn


def _private_folder() -> str:
    """A folder for the next engine's sockets and metrics, and prometheus_client made to forget the last engine's."""
    folder = tempfile.tempdir = tempfile.mkdtemp(prefix="sglang-")  # the engine leaves its sockets in tempfile's folder
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # read when prometheus_client is imported, hence before that
    from prometheus_client import REGISTRY, values

    values.ValueClass = values.MultiProcessValue()
    for collector in set(REGISTRY._names_to_collectors.values()):
        REGISTRY.unregister(collector)
    return folder


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
