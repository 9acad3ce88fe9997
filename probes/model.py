"""Local model configs with random weights: small enough for two CPU cores, real enough for the real engines.

The engines load them with `load_format=dummy`, so there is no weight file, but for `weighted` (see `weights.py`). The
tokenizer maps the word `t<i>` to token id i, which lets text-only entry points (beam search, chat) be driven in token
ids too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from inferproof.probes import weights

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32},
    "small": {"hidden_size": 256, "layers": 4, "heads": 4, "kv_heads": 4, "head_dim": 64},
    "mid": {"hidden_size": 512, "layers": 8, "heads": 8, "kv_heads": 4, "head_dim": 64},
    "weighted": {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32},
}
VOCABULARY = 4096


def config(size: str) -> dict[str, Any]:
    """`config.json` of a Qwen3 model of that size (the architecture of the A100 experiments)."""
    s = SIZES[size]
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "float32",
        "hidden_size": s["hidden_size"], "intermediate_size": 2 * s["hidden_size"],
        "num_hidden_layers": s["layers"], "num_attention_heads": s["heads"],
        "num_key_value_heads": s["kv_heads"], "head_dim": s["head_dim"],
        "vocab_size": VOCABULARY, "max_position_embeddings": 16384, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0,
        "tie_word_embeddings": True, "use_cache": True, "initializer_range": 0.02,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip


def make(folder: Path, size: str) -> Path:
    """Write the model's folder below `folder` if it is not there yet; return its path."""
    path = folder / f"qwen3-{size}"
    files = {
        "config.json": config(size),
        "generation_config.json": {"eos_token_id": 2, "bos_token_id": 1},
        **_tokenizer(),
    }
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content, indent=1)
        if not (path / name).exists() or (path / name).read_text() != text:
            _write(path / name, text.encode())
    if size == "weighted" and not (path / "model.safetensors").exists():
        _write(path / "model.safetensors", weights.safetensors(config(size)))
    return path


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # two workers may make the same model at once
    temporary.write_bytes(content)
    temporary.replace(path)


def _tokenizer() -> dict[str, Any]:
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3} | {f"t{i}": i for i in range(4, VOCABULARY)}
    special = [
        {
            "id": i,
            "content": w,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for w, i in list(words.items())[:4]
    ]
    return {
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 16384,
            "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
            "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
        },
    }  # fmt: skip


def write_weights(folder: Path, size: str) -> None:
    """Random weights in a file of the model's folder, for `load_format=safetensors`.

    Weights that an engine makes up while loading differ with the number of ranks, and are so small that a layer
    changes nothing for the next one.
    """
    path = folder / "model.safetensors"
    if path.exists():
        return
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(0)
    made = {}
    for name, shape in _shapes(config(size)).items():
        norm = len(shape) == 1
        made[name] = torch.ones(shape) if norm else torch.randn(shape, generator=generator) * shape[-1] ** -0.5
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    save_file(made, temporary)
    temporary.replace(path)


def _shapes(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The parameters of a Qwen3 checkpoint with tied embeddings."""
    hidden, inner, dim = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    query, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (query, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, query), "self_attn.q_norm": (dim,), "self_attn.k_norm": (dim,),
        "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
        "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
    }  # fmt: skip
    layers = range(c["num_hidden_layers"])
    shapes = {f"model.layers.{i}.{name}.weight": shape for i in layers for name, shape in layer.items()}
    return shapes | {"model.embed_tokens.weight": (c["vocab_size"], hidden), "model.norm.weight": (hidden,)}
