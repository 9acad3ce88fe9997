"""SGLang as a probe sees it: the whole engine on a CPU, its scheduler in a forked child process.

`start` is what a worker calls. Config keys are SGLang's own `ServerArgs` names (`max_total_tokens`,
`chunked_prefill_size`, `enable_mixed_chunk`, `disable_radix_cache`, ...), plus `model`, a size of `model.py`, and
`trace_scheduler`, true for an engine that writes the order of its work into its log (`scheduler_trace.py`).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import math
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferproof.probes import model, scheduler_trace
from inferproof.probes.core import Completion, Request, Unavailable

ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",  # without it the import looks for CUDA and then for vLLM, even with device="cpu"
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # a tiny model gains nothing from more, and spinning threads starve the other processes
}
"""What must be in the environment before sglang is imported."""

FORKED = "Child processes are forked, not spawned, so that a start takes seconds; the engine's code is unchanged."

PLACEHOLDERS = ("torchvision", "triton", "sgl_kernel")

_ARGUMENTS: dict[str, Any] = {
    "load_format": "dummy", "device": "cpu", "attention_backend": "torch_native", "sampling_backend": "pytorch",
    "disable_cuda_graph": True, "mem_fraction_static": 0.1, "max_total_tokens": 16384, "max_running_requests": 64,
    "skip_tokenizer_init": True, "random_seed": 0, "log_level": "info", "decode_log_interval": 1,
    "enable_metrics": True, "host": "127.0.0.1",
}  # fmt: skip

_ON_GPU: dict[str, Any] = {
    "device": "cuda", "attention_backend": None, "sampling_backend": None, "disable_cuda_graph": False,
    "mem_fraction_static": None,
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
    """Start an engine with `config` over arguments that suit a CPU, or at level `cuda` a GPU; ready when this returns.

    Raises Unavailable for a level other than these two, and for a page size that the placeholder Triton cannot serve.
    """
    del source, log  # an adapter's common signature; SGLang needs neither
    if level not in ("engine", "cuda"):
        raise Unavailable(f"SGLang runs at level engine or cuda (or component, without an engine), not {level}")
    if level == "engine":
        prepare()
    if config.get("page_size", 1) > 1 and _is_placeholder("triton"):
        raise Unavailable("with pages above 1 SGLang's allocator launches Triton kernels; triton is a placeholder here")
    assert models is not None
    settings = dict(config)
    size, traced = settings.pop("model", "tiny"), settings.pop("trace_scheduler", False)
    place = {"model_path": str(model.make(models, size)), "port": _free_port()}
    with scheduler_trace.installed() if traced else contextlib.nullcontext():
        engine = SGLangEngine({**_ARGUMENTS, **(_ON_GPU if level == "cuda" else {}), **place, **settings}, size, level)
    engine.modifications += [scheduler_trace.TRACED] if traced else []
    return engine


class SGLangEngine:
    """One `sglang.Engine`; an `Engine` of `core`."""

    name = "sglang"

    def __init__(self, arguments: Mapping[str, Any], size: str, level: str) -> None:
        self.level = level
        if level == "engine":  # a forked child cannot use a GPU that its parent has touched
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
            "The model has random weights "
            + ("(load_format=dummy)." if arguments["load_format"] == "dummy" else "from a file of ours (weights.py)."),
            *([FORKED] if level == "engine" else ()),
            *(f"The package {name} is a placeholder; the real one is not installed." for name in placeholders()),
        ]

    def generate(
        self, requests: Sequence[Request], *, stream: bool = True, concurrency: int | None = None
    ) -> list[Completion]:
        """Submit all requests in one call, run until all have finished, return in order.

        Every `Completion.meta` is the request's last `meta_info`, and with `stream` also `token_counts`: its output
        tokens at each of its `event_times_s`. Without `stream` nothing is timed, and a long decode costs less. With
        `concurrency` each request is a call of its own, made as soon as fewer than that many are in flight.
        """
        work = self._generate(requests, stream) if concurrency is None else self._in_turn(requests, stream, concurrency)
        return self._engine.loop.run_until_complete(work)  # type: ignore[no-any-return]

    async def _in_turn(self, requests: Sequence[Request], stream: bool, concurrency: int) -> list[Completion]:
        places = asyncio.Semaphore(concurrency)

        async def call(request: Request) -> Completion:
            async with places:
                return (await self._generate([request], stream))[0]

        return await asyncio.gather(*map(call, requests))

    def interrupt(self, first: Request, second: Request, *, after_tokens: int) -> tuple[Completion, Completion]:
        """Stream `first`, submit `second` at its `after_tokens`-th token, and run until both have finished."""
        return self._engine.loop.run_until_complete(self._interrupt(first, second, after_tokens))  # type: ignore[no-any-return]

    def cancel(self, request: Request, *, after_tokens: int) -> Completion:
        """Stream `request`, abort it at its `after_tokens`-th token, and run until the engine has ended the stream."""

        def see(flight: _Flight) -> None:
            if flight.events[-1][1] >= after_tokens:
                self._engine.tokenizer_manager.abort_request(flight.meta["id"])

        [done] = self._engine.loop.run_until_complete(self._generate([request], True, see))
        return done  # type: ignore[no-any-return]

    async def _interrupt(self, first: Request, second: Request, after_tokens: int) -> tuple[Completion, Completion]:
        due = asyncio.Event()

        def see(flight: _Flight) -> None:
            if flight.events[-1][1] >= after_tokens:
                due.set()

        streaming = asyncio.ensure_future(self._generate([first], True, see))
        due_or_over = asyncio.ensure_future(due.wait())
        await asyncio.wait([streaming, due_or_over], return_when=asyncio.FIRST_COMPLETED)
        due_or_over.cancel()
        [after] = await self._generate([second], True)
        [before] = await streaming
        return before, after

    async def _generate(
        self, requests: Sequence[Request], stream: bool, on_event: Callable[[_Flight], None] | None = None
    ) -> list[Completion]:
        from sglang.srt.managers.io_struct import GenerateReqInput

        salts = [r.salt for r in requests]
        batch = GenerateReqInput(
            input_ids=[list(r.prompt) for r in requests],
            sampling_params=[
                {"temperature": r.temperature, "max_new_tokens": r.max_tokens, "ignore_eos": r.ignore_eos}
                for r in requests
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
                if on_event:
                    on_event(flights[i])
        return [flight.completion(timed=stream) for flight in flights]

    def answer(self, request: Any) -> list[dict[str, Any]]:
        """Run a `GenerateReqInput` of the probe's own making, not streamed; what SGLang answers to each prompt."""
        return self._engine.loop.run_until_complete(self._answer(request))  # type: ignore[no-any-return]

    async def _answer(self, request: Any) -> Any:
        return [answer async for answer in self._engine.tokenizer_manager.generate_request(request, None)][-1]

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
        self._engine.get_server_info()  # the scheduler answers between two steps, when it has written what it knows
        return self.metrics()

    def metrics(self) -> dict[str, float]:
        """The same as last written, without asking the scheduler: callable from a thread while requests run."""
        from prometheus_client import CollectorRegistry, multiprocess

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
    """A free port that SGLang accepts: it takes port + 10000 for gRPC and refuses one above 65535."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            if (port := int(s.getsockname()[1])) <= 55_535:
                return port
