"""Probes are found by name, take checked parameters, and give canonical JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.probes import core
from inferproof.probes.core import LEVELS, Observations, Probe, Run, all_probes, canonical, find_probe, random_tokens

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def sample(
    run: Run,
    *,
    tokens: int,
    rate: float = 0.5,
    mixed: bool = False,
    salt: str | None = None,
    lengths: list[int] = [1],  # noqa: B006
) -> Observations:
    """Sample probe.

    More about it.
    """
    return {"tokens": tokens}


@pytest.fixture
def probe() -> Probe:
    return Probe(
        "mod.sample", "vllm", ("control",), {"tokens": "tokens"}, (), sample, lambda p: {"n": p["tokens"]}, 1.0
    )


def test_resolve_fills_in_the_defaults(probe: Probe) -> None:
    assert probe.resolve({"tokens": 3}) == {"tokens": 3, "rate": 0.5, "mixed": False, "salt": None, "lengths": [1]}
    assert probe.resolve({"tokens": 3, "rate": 2})["rate"] == 2  # an int is a float


@pytest.mark.parametrize(
    ("given_parameters", "message"),
    [
        ({"tokens": 1, "tokns": 2}, "has no parameter 'tokns'; it has: tokens, rate, mixed, salt, lengths"),
        ({}, "needs the parameter 'tokens'"),
        ({"tokens": "1"}, "'tokens' is '1', expected int"),
        ({"tokens": True}, "'tokens' is True, expected int"),
        ({"tokens": 1.0}, "'tokens' is 1.0, expected int"),
        ({"tokens": None}, "'tokens' is None, expected int"),
        ({"tokens": 1, "rate": False}, "'rate' is False, expected float"),
        ({"tokens": 1, "rate": float("nan")}, "'rate' is nan, expected float"),
        ({"tokens": 1, "rate": float("inf")}, "'rate' is inf, expected float"),
        ({"tokens": 1, "mixed": 1}, "'mixed' is 1, expected bool"),
        ({"tokens": 1, "salt": 5}, "'salt' is 5, expected str | None"),
        ({"tokens": 1, "lengths": 5}, r"'lengths' is 5, expected list\[int\]"),
        ({"tokens": 1, "lengths": [1, "2"]}, r"'lengths' is \[1, '2'\], expected list\[int\]"),
        ({"tokens": 1, "lengths": [True]}, r"'lengths' is \[True\], expected list\[int\]"),
    ],
)
def test_resolve_names_the_parameter_that_is_wrong(
    probe: Probe, given_parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        probe.resolve(given_parameters)


def test_a_probe_tells_its_summary_and_engine_config(probe: Probe) -> None:
    assert probe.summary == "Sample probe."
    assert probe.engine_config({"tokens": 7}) == {"n": 7}


def test_every_probe_is_named_after_its_module_and_fully_declared() -> None:
    probes = all_probes()

    assert {"prefix_cache.repeat_prompt", "beam_search.request_trace", "kv_pressure.overcommit"} <= {
        name for name, _ in probes
    }
    assert list(probes) == sorted(probes)
    for (name, engine), p in probes.items():
        assert name.partition(".")[0] == p.module.rpartition(".")[2]
        assert engine in ("vllm", "sglang", "none")
        assert p.levels and set(p.levels) <= set(LEVELS)
        assert p.summary and all(p.observes.values())
        assert {str(q.annotation) for q in p.parameters().values()} <= set(core._TYPES)
        defaults = {n: q.default for n, q in p.parameters().items() if q.default is not q.empty}
        assert defaults == {n: v for n, v in p.resolve(defaults | _required(p)).items() if n in defaults}


def _required(p: Probe) -> dict[str, Any]:
    by_type: dict[str, Any] = {
        "int": 1,
        "float": 1.0,
        "str": "a",
        "bool": True,
        "list[int]": [1],
        "list[str]": ["a"],
        "list[float]": [1.0],
    }
    return {n: by_type[str(q.annotation)] for n, q in p.parameters().items() if q.default is q.empty}


@pytest.mark.parametrize(
    "name", ["", ".", "nosuch.probe", "prefix_cache.nosuch", "os.path", "../core.x", "class.x", "core"]
)
def test_find_probe_raises_key_error_for_what_is_not_there(name: str) -> None:
    with pytest.raises(KeyError):
        find_probe(name, "vllm")


def test_find_probe_wants_the_right_engine() -> None:
    assert find_probe("beam_search.request_trace", "vllm").engine == "vllm"
    with pytest.raises(KeyError):
        find_probe("beam_search.request_trace", "sglang")


def test_an_unknown_level_and_a_second_probe_of_the_same_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_registry", {})

    def vllm_twice(run: Run) -> Observations:
        return {}

    def twice(run: Run) -> Observations:
        return {}

    register = core.probe(engine="vllm", levels=("control",), observes={})
    register(vllm_twice)
    register(vllm_twice)  # the same function again, as a re-imported module gives it
    with pytest.raises(ValueError, match="two probes are called"):
        register(twice)
    with pytest.raises(ValueError, match="unknown level 'warp'"):
        core.probe(engine="vllm", levels=("warp",), observes={})


@given(JSON)
def test_canonical_json_says_the_same_value_in_ascii(value: Any) -> None:
    text = canonical(value)

    assert json.loads(text) == value
    assert text.isascii()


def test_canonical_json_does_not_depend_on_the_order_of_keys_and_refuses_nan() -> None:
    assert (
        canonical({"b": 1, "a": [1.0, "中"]}) == canonical({"a": [1.0, "中"], "b": 1}) == '{"a":[1.0,"\\u4e2d"],"b":1}'
    )
    assert canonical("\ud800") == '"\\ud800"'  # even text that is no Unicode can be recorded
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"a": float("nan")})


@given(st.integers(0, 300), st.integers())
def test_random_tokens_depend_on_the_seed_alone(count: int, seed: int) -> None:
    tokens = random_tokens(count, seed)

    assert tokens == random_tokens(count, seed)
    assert len(tokens) == count
    assert all(16 <= t < 4096 for t in tokens)
    assert tokens == random_tokens(count + 5, seed)[:count]


def test_random_tokens_are_the_same_in_another_process() -> None:
    program = "from inferproof.probes.core import random_tokens; print(random_tokens(8, 7))"
    for hash_seed in ("0", "1"):
        environment = {"PYTHONPATH": str(Path(core.__file__).parents[2]), "PYTHONHASHSEED": hash_seed}
        out = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert json.loads(out.stdout) == random_tokens(8, 7)


def test_a_run_reads_what_was_logged_since_an_offset(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    run = Run(level="control", engine_name="vllm", version="0", log=log)
    offset = run.log_offset()
    with log.open("ab") as f:
        f.write(b"after \xff\n")

    assert run.log_since(offset) == "after \ufffd\n"
    assert Run(level="control", engine_name="vllm", version="0").log_since(0) == ""
