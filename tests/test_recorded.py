from collections import Counter
from pathlib import Path

import pytest

from inferproof.questions.deck import DeckError, load_deck
from inferproof.questions.recorded import SHIPPED, load_recorded

FIGURES_PER_SECTION = {
    2: 9,  # 3 rows of 3 lengths
    3: 12,  # 4 rows: cold, warm, hit
    5: 24,  # 6 rows: throughput, TTFT, TPOT, p99 ITL
    6: 16,  # 5 rows: two gaps and a latency; and the batches in a row
    7: 22,  # 2 rows of 3; 5 of vLLM's capture, 6 of SGLang's, the verify width; 4 prefill times
    8: 12,  # 2 rows of 6
    9: 23,  # 3 rows of 5; running requests without mixed; 7 of the retraction
}


def test_every_table_of_the_document_is_complete() -> None:
    assert Counter(f.section for f in load_recorded().figures) == FIGURES_PER_SECTION


def test_the_conditions_of_the_experiment_are_kept() -> None:
    recorded = load_recorded()

    assert recorded.hardware == {"gpu": "A100 PCIe 40 GB", "count": 1}
    assert recorded.date.isoformat() == "2026-07-17"
    assert recorded.commits == {"vllm": "d1d2f7535", "sglang": "9529c2e96"}


def test_figures_of_one_quantity_and_engine_differ_in_their_setting() -> None:
    told = Counter(
        (f.section, f.engine, f.quantity, *sorted(f.setting.items()))
        for f in load_recorded().figures
        if f.quantity != "new_token_ratio"
    )

    assert [key for key, times in told.items() if times > 1] == []


@pytest.mark.parametrize(
    ("figure", "value", "unit"),
    [
        ("kv-pressure-vllm-preemptions", 3, "count"),
        ("kv-pressure-sglang-mixed-ratio-after", 0.7063, "ratio"),
        ("prefix-vllm-graph-warm", 13.78, "ms"),
        ("interference-sglang-512-mixed-gap-max", 23.87, "ms"),
        ("graph-vllm-kv-capacity-graph", 244288, "tokens"),
        ("speculation-ordinary-accept-rate", 42.21, "percent"),
    ],
)
def test_a_figure_is_found_by_its_id(figure: str, value: float, unit: str) -> None:
    found = load_recorded()[figure]

    assert (found.value, found.unit) == (value, unit)


def test_recorded_quotients_agree_with_the_figures_they_are_made_of() -> None:
    recorded = load_recorded()
    for engine in ("vllm", "sglang"):
        eager, graph, speedup = (
            recorded[f"graph-{engine}-{k}"].value for k in ("throughput-eager", "throughput-graph", "speedup")
        )
        assert graph / eager == pytest.approx(speedup, abs=0.005)
    for prompt in ("repetitive", "ordinary"):
        base, ngram, speedup = (recorded[f"speculation-{prompt}-{k}"].value for k in ("baseline", "ngram", "speedup"))
        assert base / ngram == pytest.approx(speedup, abs=0.005)


def test_every_figure_that_a_card_cites_exists() -> None:
    known = {f.id for f in load_recorded().figures}
    cited = {
        (card.id, name, f)
        for card in load_deck().values()
        for name, claim in card.claims.items()
        for f in claim.recorded
    }

    assert cited
    assert {c for c in cited if c[2] not in known} == set()


@pytest.mark.parametrize(
    ("written", "instead", "field"),
    [
        ("unit: ms", "unit: furlongs", "figures.0.unit"),
        ("value: 41.66", "value: fast", "figures.0.value"),
        ("engine: vllm", "engine: vllm, colour: red", "figures.0.colour"),
        ("prefill-vllm-eager-1024,", "prefill-vllm-eager-256,", "figures.1.id"),
        ("model: Qwen", "models: Qwen", "model"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(tmp_path: Path, written: str, instead: str, field: str) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert written in text
    file = tmp_path / "recorded.yaml"
    file.write_text(text.replace(written, instead, 1), encoding="utf-8")

    with pytest.raises(DeckError) as error:
        load_recorded(file)

    assert {(p.file, p.field.removesuffix(".int").removesuffix(".float")) for p in error.value.problems} >= {
        (str(file), field)
    }


def test_text_that_is_not_yaml_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "recorded.yaml"
    file.write_text("figures: [", encoding="utf-8")

    with pytest.raises(DeckError, match="not valid YAML") as error:
        load_recorded(file)

    assert error.value.problems[0].file == str(file)
