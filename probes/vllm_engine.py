"""A whole vLLM engine in this process, driven step by step.

Level `engine` runs the model (random weights, `load_format=dummy`, eager); level `control` puts the null
executor in its place and is otherwise the same `LLM`. The config's keys are vLLM's own argument names, plus
`model`, a size of `model.py`. The engine core runs in this process (`VLLM_ENABLE_V1_MULTIPROCESSING=0`), so that a
probe can look at the scheduler between two steps.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferproof.probes import model
from inferproof.probes.core import Completion, Request, Unavailable

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; the pools of the probes are far smaller
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",  # threads that spin for each other make a tiny model ten times slower on two busy cores
}
"""Set before vLLM is first imported, since it reads most of these at import."""

DEFAULTS = {"model": "tiny", "load_format": "dummy", "enforce_eager": True, "disable_log_stats": False, "seed": 0}

RANDOM_WEIGHTS = "The model has random weights (load_format=dummy) and runs without compilation (enforce_eager)."
FROM_FILE = (
    "The model has random weights from a file of ours (weights.py) and runs without compilation (enforce_eager)."
)
RANDOM_ON_GPU = "The model has random weights (load_format=dummy)."
NO_FORWARD = "A null executor fabricates tokens in place of the forward pass."
FORCED_CPU = "vllm.platforms.current_platform is set to CpuPlatform: this CUDA build finds no platform on this machine."
FORCED_ASYNC = "async_scheduling is set to True behind the engine's back: the CPU platform switches it off."
WATCHED = "Scheduler.schedule is wrapped to record each plan that it returns."
"""What a probe that uses `Plans` adds to its run's modifications."""

_MADE_OF = {"control": NO_FORWARD, "engine": RANDOM_WEIGHTS, "cuda": RANDOM_ON_GPU}
"""Level -> what stands in for a served model there."""


def roomy(block_size: int, *, prefix_caching: bool = True) -> dict[str, Any]:
    """A config with room for prompts of up to 8192 tokens in one step; probes that ask for it share an engine."""
    return {
        "block_size": block_size,
        "enable_prefix_caching": prefix_caching,
        "num_gpu_blocks_override": 8192 // block_size + 1,
        "max_model_len": 8192,
        "max_num_batched_tokens": 8192,
    }


def start(
    config: Mapping[str, Any],
    *,
    level: str,
    source: Path | None,  # noqa: ARG001 - the same signature for every engine
    log: Path | None,  # noqa: ARG001
    models: Path | None,
) -> VllmEngine:
    """An engine of that config. Raises Unavailable for a level other than `control`, `engine` and `cuda`."""
    if level not in _MADE_OF:
        raise Unavailable(f"vLLM starts at level {', '.join(_MADE_OF)}, not {level}")
    if models is None:
        raise Unavailable("a folder for local model configs is needed")
    os.environ.update(ENVIRONMENT)
    arguments = {**DEFAULTS, **config}
    weighted = level == "engine" and arguments["load_format"] != "dummy"
    modifications = [FROM_FILE if weighted else _MADE_OF[level], *force_cpu()]
    arguments["model"] = str(model.make(models, arguments["model"]))
    if level == "control":
        from inferproof.probes.null_executor import null_executor

        arguments["distributed_executor_backend"] = null_executor()
    from vllm import LLM

    if not arguments.get("async_scheduling"):
        return VllmEngine(LLM(**arguments), level, modifications)
    with _forced_async():
        return VllmEngine(LLM(**arguments), level, [*modifications, FORCED_ASYNC])


@contextlib.contextmanager
def _forced_async() -> Iterator[None]:
    """Engines built inside schedule asynchronously, which a GPU platform would do when asked and the CPU's refuses."""
    from vllm.engine.arg_utils import EngineArgs

    create = EngineArgs.create_engine_config

    def forced(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = create(self, *args, **kwargs)
        config.scheduler_config.async_scheduling = True
        return config

    EngineArgs.create_engine_config = forced
    try:
        yield
    finally:
        EngineArgs.create_engine_config = create


def force_cpu() -> list[str]:
    """An official (CUDA) wheel on a machine without a GPU finds no platform at all; give it the CPU's."""
    import vllm.platforms as platforms

    if not platforms.resolve_current_platform_cls_qualname().endswith(".UnspecifiedPlatform"):
        return []
    from vllm.platforms.cpu import CpuPlatform

    platforms._current_platform = CpuPlatform()
    return [FORCED_CPU]


class VllmEngine:
    """An `Engine` (see `core.py`) over `vllm.LLM`."""

    name = "vllm"

    def __init__(self, llm: Any, level: str, modifications: Sequence[str]) -> None:
        self.llm, self.level, self.modifications = llm, level, modifications
        self.flags = self._flags()
        self._serial = itertools.count()

    @property
    def scheduler(self) -> Any:
        """The engine's own scheduler; its `kv_cache_manager.block_pool` is the real pool."""
        return self.llm.llm_engine.engine_core.engine_core.scheduler

    @property
    def block_pool(self) -> Any:
        """The engine's own pool of KV blocks. Block 0 is the null block and never used."""
        return self.scheduler.kv_cache_manager.block_pool

    def generate(
        self, requests: Sequence[Request], on_step: Callable[[], Sequence[Request] | None] | None = None
    ) -> list[Completion]:
        """Submit all requests at once, run until all have finished, return in order.

        `on_step` is called after each engine step; the scheduler's own state can be read then. Requests that it returns
        are submitted at once and come back behind the others. Seconds are measured at level `engine` only: from
        submission to the return of the step that carried the token.
        """
        engine, serial = self.llm.llm_engine, next(self._serial)
        flights: dict[str, _Flight] = {}

        def submit(request: Request) -> None:
            flight = _Flight(f"{serial}.{len(flights)}")
            flights[flight.id] = flight
            engine.add_request(flight.id, _prompt(request), _sampling(request))

        for request in requests:
            submit(request)
        while engine.has_unfinished_requests():
            outputs = engine.step()
            now = time.perf_counter()
            for output in outputs:
                flights[output.request_id].receive(output, now)
            for request in (on_step() if on_step else None) or ():
                submit(request)
        return [flight.completion(timed=self.level != "control") for flight in flights.values()]

    @staticmethod
    def index(request_id: str) -> int:
        """Position in `generate`'s argument of a request that the engine core calls `request_id`."""
        return int(request_id.partition("-")[0].partition(".")[2])

    def flush(self) -> None:
        """Empty the prefix cache."""
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM did not reset its prefix cache: some blocks are still in use")

    def counters(self) -> dict[str, float]:
        """Counters by name without `vllm:`, and each histogram's `<name>_sum` and `<name>_count`, over all labels.

        `LLMEngine.step` (0.25.1 to 0.27.1) records a step's statistics only when the step returned a token: those of a
        step that merely ran a chunk of a prompt are lost. Let prompts whose hits are counted fit the token budget.
        """
        totals: dict[str, float] = {}
        for metric in self.llm.get_metrics():
            name = metric.name.removeprefix("vllm:")
            kind = type(metric).__name__
            values = {name: metric.value} if kind == "Counter" else {}
            if kind == "Histogram":
                values = {f"{name}_sum": metric.sum, f"{name}_count": metric.count}
            for key, value in values.items():
                totals[key] = totals.get(key, 0) + value
        return totals

    def close(self) -> None:
        """Stop the engine core and give its memory back."""
        llm, self.llm = self.llm, None
        if llm is not None:
            llm.llm_engine.engine_core.shutdown()
        del llm
        gc.collect()

    def _flags(self) -> dict[str, Any]:
        config = self.llm.llm_engine.vllm_config
        sections = (
            (config.model_config, ("dtype", "max_model_len", "max_logprobs", "enforce_eager", "seed")),
            (config.cache_config, ("block_size", "num_gpu_blocks", "enable_prefix_caching")),
            (config.cache_config, ("prefix_caching_hash_algo",)),
            (config.scheduler_config, ("max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "policy")),
            (config.scheduler_config, ("long_prefill_token_threshold", "async_scheduling")),
            (config.parallel_config, ("tensor_parallel_size",)),
        )
        flags = {name: _plain(getattr(section, name)) for section, names in sections for name in names}
        flags["scheduler"] = type(self.scheduler).__name__
        flags["executor"] = type(self.llm.llm_engine.model_executor).__name__
        flags["device"] = str(config.device_config.device_type)
        flags["cudagraph_mode"] = config.compilation_config.cudagraph_mode.name
        return flags


class _Flight:
    """A request under way, and what has come back for it."""

    def __init__(self, request_id: str) -> None:
        self.id = request_id
        self.submitted = time.perf_counter()
        self.tokens: list[int] = []
        self.times: list[float] = []
        self.cached = 0
        self.finish_reason = ""

    def receive(self, output: Any, now: float) -> None:
        new = output.outputs[0].token_ids
        if new:
            self.tokens.extend(new)
            self.times.append(now - self.submitted)
        self.cached = output.num_cached_tokens or 0
        self.finish_reason = output.outputs[0].finish_reason or ""

    def completion(self, *, timed: bool) -> Completion:
        times = tuple(self.times) if timed else ()
        first = times[0] if times else None
        return Completion(tuple(self.tokens), self.cached, first, times, {"finish_reason": self.finish_reason})


class Plans:
    """While open, keeps the last `SchedulerOutput` that a scheduler returned; see `WATCHED`."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.last: Any = None

    def __enter__(self) -> Plans:
        schedule = self.scheduler.schedule

        def record(*args: Any, **kwargs: Any) -> Any:
            self.last = schedule(*args, **kwargs)
            return self.last

        self.scheduler.schedule = record
        return self

    def __exit__(self, *_: object) -> None:
        del self.scheduler.schedule  # uncovers the class's own method


def _prompt(request: Request) -> dict[str, Any]:
    prompt: dict[str, Any] = {"prompt_token_ids": list(request.prompt)}
    if request.salt is not None:
        prompt["cache_salt"] = request.salt
    return prompt


def _sampling(request: Request) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        ignore_eos=request.ignore_eos,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
