"""The A100 profile: its data against the published figures and the probes, and what it makes of evidence."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import CONFIG, FakeVllm, serving
from rich.console import Console

from inferproof.grading.profile import Comparison, carry_out, compare, known, plan, with_earlier
from inferproof.grading.verdict import compiled, evaluate, free_names
from inferproof.probes.core import Inconclusive, find_probe
from inferproof.probes.dialects import Reply
from inferproof.questions.card import Language
from inferproof.questions.deck import DeckError
from inferproof.questions.profile import SHIPPED, Profile, load_profile
from inferproof.questions.recorded import load_recorded
from inferproof.reports.profile_view import profile_json, profile_view
from inferproof.runners.builds import BuildError, find_build
from inferproof.runners.ledger import Ledger
from inferproof.runners.paths import logs_dir
from inferproof.runners.servers import Servers, by_engine
from inferproof.runners.site import Site, this_site

A100 = load_profile(SHIPPED["a100"])
READS = re.compile(r"(\w+)\.(\w+)(?:\[(\d)\])?")


def expressions() -> list[str]:
    return [f.value for f in A100.figures.values()] + [r.expect for r in A100.relations.values()]


def published() -> dict[str, dict[str, Any]]:
    """Observations as the document gives them, for every number that it gives plainly."""
    recorded, observed = load_recorded(), dict[str, dict[str, Any]]()
    for name, beside in A100.figures.items():
        if found := READS.fullmatch(beside.value):
            cell, observation, index = found.groups()
            value = recorded[name].value
            if index is None:
                observed.setdefault(cell, {})[observation] = value
            else:
                observed.setdefault(cell, {}).setdefault(observation, [0.0, 0.0, 0.0])[int(index)] = value
    return observed


def test_every_published_figure_and_no_other_has_a_number_beside_it() -> None:
    figures = {f.id for f in load_recorded().figures}

    assert set(A100.figures) == figures
    assert {i for r in A100.relations.values() for i in r.recorded} <= figures
    assert {f.section for f in load_recorded().figures} == set(A100.sections)


def test_cells_name_probes_with_parameters_that_they_have_and_expressions_what_they_observe() -> None:
    for cell in A100.cells.values():
        probe = find_probe(cell.probe, A100.servers[cell.server].engine)
        for params in (cell.params, {**cell.params, **cell.rehearsed}):
            assert probe.resolve({**params, "server": "x"})
    for expression in expressions():
        assert set(free_names(expression)) <= set(A100.cells), expression
        for cell, observation, _ in READS.findall(expression):
            if cell in A100.cells:
                probe = find_probe(A100.cells[cell].probe, A100.servers[A100.cells[cell].server].engine)
                assert observation in probe.observes, expression


def test_the_published_figures_themselves_satisfy_every_relation_that_they_can_decide() -> None:
    observed, undecided = published(), set()
    for name, relation in A100.relations.items():
        reads = [(c, o) for c, o, _ in READS.findall(relation.expect) if c in A100.cells]
        if all(o in observed.get(c, {}) for c, o in reads):
            assert evaluate(_as_measured(relation.expect), observed), name
        else:
            undecided.add(name)
    assert undecided == {
        "vllm_hit_is_whole_blocks", "vllm_p99_rises_under_interference", "sglang_p99_rises_under_interference",
        "vllm_queue_counts", "sglang_queue_counts", "vllm_speculation_pays",
    }  # fmt: skip


def _as_measured(predicate: str) -> str:
    """The document gives whole numbers where a measurement gives fractions; CEL does not mix them."""
    return predicate.replace("gauge_after == 0.0", "gauge_after == 0")


def fake_profile() -> Profile:
    """Two figures and one relation over a vLLM that runs already."""
    small: dict[str, dict[str, Any]] = {
        "vllm_lengths_eager": {"lengths": [32, 64, 1024], "repeats": 2},
        "vllm_prefix_eager": {"prompt_tokens": 512, "repeats": 1},
    }
    cells = {name: replace(A100.cells[name], params={}, rehearsed=params) for name, params in small.items()}
    relations = {
        k: A100.relations[k] for k in ("vllm_ttft_grows", "vllm_warm_is_no_slower", "vllm_hit_is_whole_blocks")
    }
    return replace(A100, cells={**A100.cells, **cells}, relations=relations)


def measured(
    profile: Profile, url: str, ledger: Ledger, cells: Sequence[str], *, rehearse: bool = True
) -> tuple[Comparison, list[bool]]:
    site = Site({"host": find_build("host")}, {}, {}, logs_dir())
    servers = Servers(site, {"vllm": url})
    planned = plan(profile, servers, rehearse=rehearse)
    planned = replace(planned, tasks={k: t for k, t in planned.tasks.items() if k in cells})
    results = with_earlier(list(carry_out(planned, servers, ledger)), ledger)
    return compare(planned, results, load_recorded()), [r.reused for r in results]


CELLS = ("vllm_lengths_eager", "vllm_prefix_eager")


def test_an_attached_server_is_measured_recorded_and_not_measured_again(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger, serving(FakeVllm()) as url:
        first, reused = measured(fake_profile(), url, ledger, CELLS)
        again, reused_again = measured(fake_profile(), url, ledger, CELLS)
        kept = list(ledger.evidence())

    assert (reused, reused_again, len(kept)) == ([False, False], [True, True], 2)
    rows = {row.figure.id: row for row in first.rows}
    assert [row.measured for row in again.rows] == [row.measured for row in first.rows]
    ttft = rows["prefill-vllm-eager-4096"]
    assert ttft.measured is not None and ttft.ratio == pytest.approx(ttft.measured / 114.43)
    assert ttft.evidence == (first.evidence["vllm_lengths_eager"].id,)
    assert rows["prefix-vllm-eager-hit"].measured == 512
    assert rows["prefix-vllm-graph-hit"].reason == "CUDA graphs need a GPU"
    relations = {r.id: r.verdict for r in first.relations}
    assert relations == {
        "vllm_ttft_grows": "holds", "vllm_warm_is_no_slower": "holds", "vllm_hit_is_whole_blocks": "not run",
    }  # fmt: skip
    assert first.exit_status == 3
    for evidence in kept:
        assert evidence.build["distribution"] == "attached server" and evidence.flags["enforce_eager"] is True
        assert {"metrics", "requests", "salt"} <= set(evidence.samples)
        assert evidence.modifications == ("The server was running already; it was started by somebody else.",)
        assert url.removeprefix("http://") not in json.dumps(evidence.body())


def test_what_a_server_of_other_settings_gave_stays_in_the_table(tmp_path: Path) -> None:
    graphs = replace(A100.servers["vllm_eager"], rehearsed="chunk=8192")
    other = replace(fake_profile(), servers={**A100.servers, "vllm_eager": graphs})
    with Ledger(tmp_path / "ledger.sqlite") as ledger, serving(FakeVllm()) as url:
        refused, _ = measured(other, url, ledger, CELLS[:1])
        CONFIG["model_config"]["enforce_eager"] = False
        try:
            taken, _ = measured(other, url, ledger, CELLS[:1])
        finally:
            CONFIG["model_config"]["enforce_eager"] = True
        kept, _ = measured(other, url, ledger, CELLS[:1])

    [reason] = {row.reason for row in refused.rows if row.figure.id == "prefill-vllm-eager-256"}
    assert "the attached server is not set up for this: its enforce_eager is True, wanted is False" in reason
    assert list(kept.evidence) == list(taken.evidence) == ["vllm_lengths_eager"]
    assert kept.evidence["vllm_lengths_eager"].id == taken.evidence["vllm_lengths_eager"].id


def test_a_cold_prompt_that_hits_makes_a_run_inconclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Warm(FakeVllm):
        def events(self, ask: Mapping[str, Any]) -> Any:
            self.known.add(tuple(ask["prompt"]))
            yield from super().events(ask)

    with Ledger(tmp_path / "ledger.sqlite") as ledger, serving(Warm()) as url:
        comparison, _ = measured(fake_profile(), url, ledger, CELLS[:1])

    [row] = [r for r in comparison.rows if r.figure.id == "prefill-vllm-eager-256"]
    assert row.measured is None and "inconclusive: a cold prompt of 32 tokens hit 32 in the cache" in row.reason


def test_an_output_that_is_shorter_than_asked_is_no_measurement(tmp_path: Path) -> None:
    class Short(FakeVllm):
        def events(self, ask: Mapping[str, Any]) -> Any:
            yield from super().events({**ask, "max_tokens": 1})

    with Ledger(tmp_path / "ledger.sqlite") as ledger, serving(Short()) as url:
        comparison, _ = measured(fake_profile(), url, ledger, ("vllm_c1",))

    [row] = [r for r in comparison.rows if r.figure.id == "batching-vllm-c1-throughput"]
    assert row.measured is None and row.reason == "failed: HttpError: asked for 16 tokens, got 1"


def test_a_long_prefill_that_disturbs_nobody_is_inconclusive() -> None:
    from inferproof.probes.serving_interference import _gaps

    stream = Reply(0.0, (0.1, 0.2, 0.3, 1.4, 1.5), (1, 2, 3, 4, 5), 64, 0)
    before, during = _gaps(stream, Reply(0.35, (1.0,), (1,), 7168, 0))
    assert before == pytest.approx([100.0]) and during == pytest.approx([1100.0])
    with pytest.raises(Inconclusive, match="the stream ended before the long prefill"):
        _gaps(stream, Reply(0.35, (5.0,), (1,), 7168, 0))
    with pytest.raises(Inconclusive, match="before the stream had two gaps"):
        _gaps(stream, Reply(0.05, (0.5,), (1,), 7168, 0))


def test_without_a_rehearsal_another_model_is_not_measured(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger, serving(FakeVllm()) as url:
        comparison, ran = measured(A100, url, ledger, tuple(A100.cells), rehearse=False)

    assert ran == []
    reasons = {row.figure.engine: row.reason for row in comparison.rows}
    assert reasons["vllm"] == "the attached server serves tiny, the published figures are of Qwen/Qwen3-0.6B"
    assert reasons["sglang"].startswith("no sglang for a GPU is at hand")


@pytest.mark.parametrize("given", ["vllm", "tgi=http://h:1", "vllm="])
def test_an_attachment_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(BuildError, match=r"--attach .*: expected vllm=... or sglang=..."):
        by_engine("--attach", [given])


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://127.0.0.1:1"])
def test_a_server_that_does_not_answer_is_told(url: str) -> None:
    with pytest.raises(BuildError, match="no vllm server answers at that address"):
        Servers(this_site(), {"vllm": url})


@pytest.mark.parametrize(("python", "says"), [("/no/python", "no Python that runs"), (sys.executable, "not installed")])
def test_a_python_without_the_engine_is_told(python: str, says: str) -> None:
    with pytest.raises(BuildError, match=says):
        Servers(this_site(), {}, {"sglang": python})


def shown(comparison: Comparison, language: Language) -> str:
    console = Console(width=80, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    console.print(profile_view(comparison, language))
    console.file.close()
    return console.export_text()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_figure_stands_on_one_line_of_80_columns_in_both_languages(language: Language, tmp_path: Path) -> None:
    servers = Servers(this_site())
    planned = plan(A100, servers, rehearse=True, language=language)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        text = shown(compare(planned, known(planned, ledger), load_recorded()), language)

    lines = text.splitlines()
    for figure in load_recorded().figures:
        assert any(line.split()[:2] == [figure.id, str(figure.value)] for line in lines)
    for title in A100.sections.values():
        assert getattr(title, language) in text


def test_the_json_holds_every_figure_with_its_reason_or_its_evidence(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger, serving(FakeVllm()) as url:
        comparison, _ = measured(fake_profile(), url, ledger, CELLS)
    told = json.loads(json.dumps(profile_json(comparison)))

    assert len(told["figures"]) == 118 and told["rehearsal"] is True
    assert all((f["measured"] is None) == bool(f["not_run"]) == (not f["evidence"]) for f in told["figures"])
    grows = told["relations"][0]
    assert grows["verdict"] is False  # a rehearsal gives none
    assert list(grows["observed"]) == ["vllm_lengths_eager.ttft_ms[0]", "vllm_lengths_eager.ttft_ms[2]"]
    assert set(told["cells"]) == set(CELLS)


@pytest.mark.parametrize(
    ("written", "instead", "field"),
    [
        ("server: vllm_eager,", "server: vllm_eagre,", "cells.vllm_lengths_eager.server"),
        ("not_rehearsed: ngram}", "not_rehearsed: engram}", "servers.sglang_ngram.not_rehearsed"),
        ("model: Qwen", "models: Qwen", "model"),
    ],
)
def test_a_wrong_name_is_told_with_its_field(tmp_path: Path, written: str, instead: str, field: str) -> None:
    text = SHIPPED["a100"].read_text(encoding="utf-8")
    assert written in text
    file = tmp_path / "a100.yaml"
    file.write_text(text.replace(written, instead, 1), encoding="utf-8")

    with pytest.raises(DeckError) as error:
        load_profile(file)

    assert field in {p.field for p in error.value.problems}


def test_an_expression_over_two_cells_is_a_quotient() -> None:
    value = compiled(A100.figures["graph-vllm-speedup"].value).execute(published())

    assert value == pytest.approx(6.51, abs=0.005)
