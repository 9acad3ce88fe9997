"""Local models are whole, made once, and may be made by several workers at the same time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inferproof.probes.model import SIZES, VOCABULARY, config, make


@pytest.mark.parametrize("size", SIZES)
def test_a_config_is_consistent(size: str) -> None:
    c = config(size)

    assert c["num_attention_heads"] % c["num_key_value_heads"] == 0
    assert c["vocab_size"] == VOCABULARY
    assert {c["bos_token_id"], c["eos_token_id"], c["pad_token_id"]} == {0, 1, 2}


def test_an_unknown_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        make(tmp_path, "huge")


def test_the_tokenizer_maps_each_word_to_its_own_id(tmp_path: Path) -> None:
    path = make(tmp_path, "tiny")
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]

    assert sorted(vocabulary.values()) == list(range(VOCABULARY))
    assert vocabulary["t4095"] == 4095
    assert {t["content"]: t["id"] for t in tokenizer["added_tokens"]} == {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}


def test_a_second_make_changes_nothing_and_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    path = make(tmp_path, "tiny")
    before = {f.name: f.stat().st_mtime_ns for f in path.iterdir()}
    assert {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"} == set(before)

    make(tmp_path, "tiny")
    assert {f.name: f.stat().st_mtime_ns for f in path.iterdir()} == before

    (path / "config.json").write_text("{")
    make(tmp_path, "tiny")
    assert json.loads((path / "config.json").read_text()) == config("tiny")


def test_a_half_written_file_of_a_killed_worker_is_in_nobodys_way(tmp_path: Path) -> None:
    folder = tmp_path / "qwen3-tiny"
    folder.mkdir()
    (folder / ".config.json.tmp").write_text("{")

    assert json.loads((make(tmp_path, "tiny") / "config.json").read_text()) == config("tiny")


def test_different_sizes_stand_side_by_side(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        paths = list(pool.map(lambda size: make(tmp_path, size), SIZES))

    assert len(set(paths)) == len(SIZES)
    assert [json.loads((p / "config.json").read_text())["hidden_size"] for p in paths] == [64, 256, 512, 64]
