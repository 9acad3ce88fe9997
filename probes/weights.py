"""A weight file for a tiny model whose answers do depend on what it has read.

`load_format=dummy` fills a model with numbers so small that attention leaves no trace in the logits: any KV gives the
same answer. The probes that compare answers load this file instead. Random numbers of a fixed seed, written in the
safetensors format by hand: 8 bytes of header length, a JSON header, the tensors' bytes.
"""

from __future__ import annotations

import json
import random
import struct
from array import array
from collections.abc import Iterator
from typing import Any

SEED = 20261129
_SHARP = 3.0
"""Weight of the query norm: attention picks a few tokens instead of averaging over all."""


def tensors(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
    """(name, shape, mean, standard deviation) of each tensor of a Qwen3 model with tied embeddings."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), 0.0, 0.3
    yield "model.norm.weight", (hidden,), 1.0, 0.0
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", (hidden,), 1.0, 0.0
        yield f"{layer}.self_attn.q_norm.weight", (head,), _SHARP, 0.0
        yield f"{layer}.self_attn.k_norm.weight", (head,), 1.0, 0.0
        for part, rows, columns in (
            ("self_attn.q_proj", queries, hidden), ("self_attn.k_proj", keys, hidden),
            ("self_attn.v_proj", keys, hidden), ("self_attn.o_proj", hidden, queries),
            ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden), ("mlp.down_proj", hidden, inner),
        ):  # fmt: skip
            yield f"{layer}.{part}.weight", (rows, columns), 0.0, columns**-0.5


def safetensors(config: dict[str, Any]) -> bytes:
    """The weight file of a model of that config."""
    chance, header, body = random.Random(SEED), {}, bytearray()
    for name, shape, mean, deviation in tensors(config):
        count = 1
        for size in shape:
            count *= size
        data = array("f", (chance.gauss(mean, deviation) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + bytes(body)
