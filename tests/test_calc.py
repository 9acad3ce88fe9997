"""`inferproof calc`: units in, units out, errors that name the option and the remedy."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.grading.recompute import CALCULATORS
from inferproof.probes.core import find_probe
from inferproof.reports import calc_view

COMMANDS = ("kv", "transfer", "capacity", "pd", "tp", "experts")


def calc(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["calc", *arguments])
    return done.exit_code, done.output


def result(*arguments: str) -> dict[str, dict[str, float]]:
    code, output = calc(*arguments, "--json")
    assert code == 0, output
    return dict(json.loads(output)["result"])


def test_the_same_data_takes_eight_times_as_long_in_bits_as_in_bytes() -> None:
    bits, as_bytes = (result("transfer", "--size", "1 GiB", "--rate", rate) for rate in ("200 Gb/s", "200 GB/s"))

    assert bits["wire_time"]["value"] == pytest.approx(42.95, abs=0.01)
    assert bits["wire_time"]["value"] == pytest.approx(8 * as_bytes["wire_time"]["value"])
    assert bits["time_if_powers_of_ten"]["value"] == pytest.approx(40)


def test_each_calculator_answers_in_both_languages_and_in_json() -> None:
    for name in COMMANDS:
        assert result(name)
        english, chinese = (calc(name, "--lang", language) for language in ("en", "zh"))
        assert english[0] == chinese[0] == 0
        assert not any("\u4e00" <= c <= "\u9fff" for c in english[1])
        assert any("\u4e00" <= c <= "\u9fff" for c in chinese[1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("transfer", "--rate", "200"), "--rate: '200' has no unit; write '200 Gb/s'"),
        (("transfer", "--rate", "200 gb/s"), "could be bits or bytes"),
        (("transfer", "--size", "43 ms"), "--size: '43 ms' is a time, not a size"),
        (("transfer", "--latency", "1 GiB"), "--latency: "),
        (("capacity", "--weights", "140 GiB"), "use more ranks, a larger GPU or smaller weights"),
        (("tp", "--gpus", "8", "--ranks", "3"), "ranks must divide gpus"),
        (("experts", "--rows", "1,x"), "--rows is '1,x', expected numbers"),
        (("kv", "--layers", "0"), "layers is 0"),
        (("kv", "--tokens", "9" * 400), "too large or too small to compute with"),
        (("capacity", "--value-bytes", "1e-320"), "too large or too small to compute with"),
        (("kv", "--lang", "fr"), "expected en or zh"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named_with_its_remedy(arguments: tuple[str, ...], said: str) -> None:
    code, output = calc(*arguments)

    assert code == 2
    assert said in output.replace("\n", " ")


def test_a_model_with_a_latent_shows_no_heads() -> None:
    _, output = calc("kv", "--latent", "512", "--rope-dim", "64", "--layers", "61", "--lang", "en")

    assert "KV heads" not in output and "MLA latent 512" in output.replace("\n", " ")


def test_every_calculator_of_a_probe_takes_the_probes_parameters_and_every_result_has_a_label() -> None:
    """The command that a finding names must be one that runs."""
    for name, command in CALCULATORS.items():
        _, help_ = calc(command, "--help")
        for parameter in find_probe(name, "none").parameters():
            assert f"--{parameter.replace('_', '-')}" in help_
    for name in COMMANDS:
        assert set(result(name)) <= set(calc_view._LABELS)
