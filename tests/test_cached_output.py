"""How two answers are compared, and what the weight file behind them is."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from inferproof.probes.cached_output import Answer, compare
from inferproof.probes.model import config, make
from inferproof.probes.same_text import leading
from inferproof.probes.weights import safetensors, tensors


def test_equal_answers_do_not_part() -> None:
    answer = Answer((5, 6, 7), (-1.0, -2.0, -3.0), cached_tokens=16)

    seen = compare(answer, Answer((5, 6, 7), (-1.0, -2.25, -3.0), cached_tokens=0))

    assert seen == {"cached_tokens": 16, "uncached_tokens": 0, "first_divergence": -1, "logprob_error": 0.25}


def test_what_follows_the_first_other_token_is_not_compared() -> None:
    cached, uncached = Answer((5, 6, 7), (-1.0, -2.0, -9.0), 16), Answer((5, 8, 9), (-1.0, -2.5, -1.0), 0)

    seen = compare(cached, uncached)

    assert (seen["first_divergence"], seen["logprob_error"]) == (1, 0.5)


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [([1, 2, 3], [1, 2, 3], 3), ([1, 2, 3], [1, 9, 3], 1), ([1, 2], [1, 2, 3], 2), ([1], [2], 0), ([], [1], 0)],
)
def test_leading_ids_are_counted_from_the_first_on(first: list[int], second: list[int], common: int) -> None:
    assert leading(first, second) == common


def test_the_weight_file_holds_each_tensor_once_without_gaps() -> None:
    content = safetensors(config("weighted"))
    [length] = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    offsets = sorted(entry["data_offsets"] for entry in header.values())

    assert header.keys() == {name for name, *_ in tensors(config("weighted"))}
    assert header["model.embed_tokens.weight"]["shape"] == [4096, 64]
    assert [start for start, _ in offsets] == [0, *(end for _, end in offsets[:-1])]
    assert offsets[-1][1] == len(content) - 8 - length


def test_only_the_weighted_model_has_a_weight_file(tmp_path: Path) -> None:
    assert (make(tmp_path, "weighted") / "model.safetensors").is_file()
    assert not (make(tmp_path, "tiny") / "model.safetensors").exists()
