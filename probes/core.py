"""The nouns that probes, workers and runners share.

This module runs on both sides: in inferproof's own environment, where claims are planned, and in the
engine environments, where probes run. Hence the standard library only, and Python 3.10 syntax.

A *probe* drives something real and returns *observations*: named JSON values. It never judges.
One behaviour is one module; each engine's function stands beside the other's under the same probe name::

    @probe(
        engine="vllm",
        levels=("control", "engine"),
        observes={"warm_cached_tokens": "tokens of the second send that came from the cache"},
        config=lambda p: {"block_size": p["block_size"]},
        covers=("vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",),
    )
    def repeat_prompt(run: Run, *, prompt_tokens: int = 2080, block_size: int = 16) -> Observations:
        ...

Two functions of one module cannot share a Python name, so each is named `vllm_repeat_prompt`,
`sglang_repeat_prompt`; the probe's name is `<module>.<function without the engine's prefix>`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import pkgutil
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Observations = dict[str, Any]
"""Named JSON values (numbers, strings, booleans, lists, mappings) that a probe observed."""

LEVELS = ("arithmetic", "source", "component", "control", "engine", "cuda")
"""From what is merely computed to what needs a GPU; a later level observes more of the real engine."""


class Inconclusive(Exception):
    """The validity gate failed: the condition that the claim speaks of did not come about."""


class Unavailable(Exception):
    """This build or machine cannot make the observation; the message says why."""


@dataclass(frozen=True)
class Request:
    """One request to an engine, in token ids (a probe never depends on a tokenizer)."""

    prompt: Sequence[int]
    max_tokens: int = 1
    salt: str | None = None
    """Part of the cache identity: vLLM's `cache_salt`, SGLang's `extra_key`."""
    ignore_eos: bool = True
    temperature: float = 0.0


@dataclass(frozen=True)
class Completion:
    """What came back for one `Request`."""

    tokens: tuple[int, ...]
    cached_tokens: int
    """Prompt tokens whose KV the engine reused, as the engine itself reports."""
    ttft_s: float | None = None
    """Seconds from submission to the first token; None where the level has no real time."""
    event_times_s: tuple[float, ...] = ()
    """Seconds from submission to each output event (an event may carry several tokens)."""
    meta: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """A running engine, started by a worker for one engine config and shared by that config's probes."""

    name: str
    level: str
    flags: Mapping[str, Any]
    """The engine's resolved settings, read back from the engine, not from what was asked."""
    modifications: Sequence[str]
    """Everything about this engine that a stock installation would not have, one sentence each."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Submit all requests at once, run until all have finished, return in order."""
        ...

    def flush(self) -> None:
        """Empty the prefix cache."""
        ...

    def counters(self) -> dict[str, float]:
        """The engine's own cumulative metrics by name; take differences."""
        ...

    def close(self) -> None:
        """Stop the engine and give its memory back."""
        ...


@dataclass
class Run:
    """What a probe is given: where it runs, its engine if it asked for one, a place for raw samples."""

    level: str
    engine_name: str
    version: str
    """Version of the engine build, e.g. `0.27.1`."""
    source: Path | None = None
    """The engine's package folder (`.../site-packages/vllm`), for probes of level `source`."""
    engine: Any = None
    """An `Engine` of the probe's config, when the probe has one."""
    log: Path | None = None
    """The worker's log file: all that the engine printed."""
    models: Path | None = None
    """Folder where local model configs are made (see `model.py`)."""
    samples: dict[str, Any] = field(default_factory=dict)
    """Raw series behind the observations, kept with the evidence; reports plot them."""
    modifications: list[str] = field(default_factory=list)
    """What this probe itself changed in or around the engine (wrapped methods, stand-ins)."""

    def log_since(self, offset: int) -> str:
        """What the engine printed after byte `offset` of the log (see `log_offset`)."""
        if self.log is None:
            return ""
        with self.log.open("rb") as f:
            f.seek(offset)
            return f.read().decode("utf-8", "replace")

    def log_offset(self) -> int:
        """The log's length now, in bytes."""
        return self.log.stat().st_size if self.log is not None else 0


@dataclass(frozen=True)
class Probe:
    """A probe's function for one engine, with what a plan needs to know about it."""

    name: str
    engine: str
    levels: tuple[str, ...]
    observes: Mapping[str, str]
    covers: tuple[str, ...]
    function: Callable[..., Observations]
    config: Callable[[dict[str, Any]], dict[str, Any]] | None
    timeout_s: float

    @property
    def summary(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def module(self) -> str:
        """The module that defines the probe, e.g. `inferproof.probes.prefix_cache`."""
        return self.function.__module__

    def parameters(self) -> dict[str, inspect.Parameter]:
        """The keyword parameters that `with` may set, by name."""
        return {
            n: p
            for n, p in inspect.signature(self.function).parameters.items()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` over the defaults, every parameter present.

        Raises ValueError naming the parameter that is unknown, missing or of another type.
        """
        known = self.parameters()
        for name in given:
            if name not in known:
                raise ValueError(f"{self.name} ({self.engine}) has no parameter '{name}'; it has: {', '.join(known)}")
        resolved: dict[str, Any] = {}
        for name, parameter in known.items():
            if name in given:
                resolved[name] = _checked(self.name, name, given[name], str(parameter.annotation))
            elif parameter.default is inspect.Parameter.empty:
                raise ValueError(f"{self.name} ({self.engine}) needs the parameter '{name}'")
            else:
                resolved[name] = parameter.default
        return resolved

    def engine_config(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """The engine config that these parameters need, or None for a probe that starts no engine."""
        return None if self.config is None else self.config(params)


_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,),
    "int | None": (int, type(None)), "float | None": (int, float, type(None)), "str | None": (str, type(None)),
    "list[int]": (list,), "list[str]": (list,), "list[float]": (list,),
}  # fmt: skip


def _checked(probe_name: str, name: str, value: Any, annotation: str) -> Any:
    expected = _TYPES[annotation]
    wrong_bool = isinstance(value, bool) and bool not in expected
    items = {"list[int]": (int,), "list[float]": (int, float), "list[str]": (str,)}.get(annotation, (object,))
    wrong_item = isinstance(value, list) and any(isinstance(v, bool) or not isinstance(v, items) for v in value)
    wrong_number = isinstance(value, float) and not math.isfinite(value)
    if wrong_bool or wrong_item or wrong_number or not isinstance(value, expected):
        raise ValueError(f"{probe_name}: parameter '{name}' is {value!r}, expected {annotation}")
    return value


_registry: dict[tuple[str, str], Probe] = {}


def probe(
    *,
    engine: str,
    levels: tuple[str, ...],
    observes: Mapping[str, str],
    config: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    covers: tuple[str, ...] = (),
    timeout_s: float = 600.0,
) -> Callable[[Callable[..., Observations]], Callable[..., Observations]]:
    """Register the decorated function as a probe.

    engine     "vllm", "sglang", or "none" for pure arithmetic.
    levels     the levels it can run at; a plan takes the highest that the build offers too.
    observes   observation name -> what it is, with its unit; a claim's predicate may use these names only.
    config     parameters -> engine config; probes of equal config share one started engine.
    covers     engine symbols (`module:Qualified.name`) that the claim rests on.
    timeout_s  seconds after which the worker is killed; the engine's start is not counted.
    """
    unknown = [level for level in levels if level not in LEVELS]
    if unknown:
        raise ValueError(f"unknown level {unknown[0]!r}; levels are {', '.join(LEVELS)}")

    def register(function: Callable[..., Observations]) -> Callable[..., Observations]:
        module = function.__module__.rpartition(".")[2]
        name = f"{module}.{function.__name__.removeprefix(engine + '_')}"
        known = _registry.get((name, engine))
        if known is not None and _origin(known.function) != _origin(function):
            raise ValueError(f"two probes are called {name} ({engine})")
        _registry[name, engine] = Probe(name, engine, levels, observes, covers, function, config, timeout_s)
        return function

    return register


def _origin(function: Callable[..., Observations]) -> tuple[str, str]:
    """File and name: the same for a module that was imported twice, another for a second probe."""
    return function.__code__.co_filename, function.__code__.co_name


def all_probes() -> dict[tuple[str, str], Probe]:
    """Every probe, by (name, engine); importing the probe modules is what registers them."""
    package = importlib.import_module(__package__)
    for info in pkgutil.iter_modules(package.__path__):
        if not info.name.startswith("_"):
            importlib.import_module(f"{__package__}.{info.name}")
    return dict(sorted(_registry.items()))


def find_probe(name: str, engine: str) -> Probe:
    """The probe of that name for that engine. Raises KeyError."""
    module = name.partition(".")[0]
    if (name, engine) not in _registry and module.isidentifier():
        try:
            importlib.import_module(f"{__package__}.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"{__package__}.{module}":
                raise
    return _registry[name, engine]


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces, in ASCII: equal values, equal bytes. Raises ValueError on NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def random_tokens(count: int, seed: int, vocabulary: int = 4096) -> list[int]:
    """`count` token ids that depend on the seed alone; 0..15 are left to special tokens."""
    return random.Random(seed).choices(range(16, vocabulary), k=count)
