"""Which layers an engine cuts across ranks, which way, and who adds the parts up: read from its source.

Question
    Why does a decoder layer need exactly two all-reduces, and who does them?
Watched
    The classes that Qwen3's attention and MLP (Qwen2's) are made of, and the all-reduce calls in the parallel linear
    layers, the parallel embedding and SGLang's layer communicator, as syntax trees.
Can mislead
    A call that is written may be skipped at run time (one rank, a fused kernel); `tensor_parallel.two_ranks` counts the
    calls that are made.
Sources
    vLLM 0.25.1 to 0.27.1: `model_executor/layers/linear.py`, `vocab_parallel_embedding.py`, `models/qwen3.py`.
    SGLang 0.5.15.post1 and 0.5.16: `srt/layers/linear.py`, `srt/layers/communicator.py`, `srt/models/qwen3.py`.
"""

from __future__ import annotations

import ast
from pathlib import Path

from inferproof.probes.core import Observations, Run, Unavailable, probe

_SHARDING = {
    "row_parallel": "layers of a decoder layer cut by rows: each rank has a part of every sum",
    "column_parallel": "layers cut by columns: each rank has some of the outputs, whole",
    "left_to_communicator": "row-parallel layers that leave the sum to the layer's communicator (reduce_results=False)",
    "row_reduces": "all-reduce calls in RowParallelLinear",
    "column_reduces": "all-reduce calls in ColumnParallelLinear",
    "embedding_reduces": "all-reduce calls in VocabParallelEmbedding",
    "communicator_reduces": "all-reduce calls in LayerCommunicator's helpers (SGLang)",
}


@probe(engine="vllm", levels=("source",), observes=_SHARDING)
def vllm_by_model(run: Run) -> Observations:
    """Read which layers of Qwen3 (its MLP is Qwen2's) are cut, which way, and which of them sum over ranks."""
    return _sharding(run, "model_executor/layers", "model_executor/models")


@probe(engine="sglang", levels=("source",), observes=_SHARDING)
def sglang_by_model(run: Run) -> Observations:
    """Read which layers of Qwen3 are cut, which way, and who sums over ranks."""
    return _sharding(run, "srt/layers", "srt/models")


def _sharding(run: Run, layers: str, models: str) -> Observations:
    if run.source is None or not (run.source / layers / "linear.py").is_file():
        raise Unavailable(f"this build's source has no {layers}/linear.py")
    made = [
        made
        for file, cls in (("qwen3.py", "Qwen3Attention"), ("qwen2.py", "Qwen2MLP"))
        if (tree := _class(run.source / models / file, cls)) is not None
        for made in made_layers(tree)
    ]
    linear = run.source / layers / "linear.py"
    return {
        "row_parallel": [name for name, kind, _ in made if kind == "RowParallelLinear"],
        "column_parallel": [
            name for name, kind, _ in made if kind.endswith(("QKVParallelLinear", "ColumnParallelLinear"))
        ],
        "left_to_communicator": [name for name, _, given in made if given.get("reduce_results") == "False"],
        "row_reduces": all_reduces(_class(linear, "RowParallelLinear")),
        "column_reduces": all_reduces(_class(linear, "ColumnParallelLinear")),
        "embedding_reduces": all_reduces(
            _class(run.source / layers / "vocab_parallel_embedding.py", "VocabParallelEmbedding")
        ),
        "communicator_reduces": all_reduces(
            _class(run.source / layers / "communicator.py", "CommunicateWithAllReduceAndLayerNormFn")
        ),
    }


def _class(file: Path, name: str) -> ast.ClassDef | None:
    if not file.is_file():
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name), None)


def made_layers(cls: ast.ClassDef) -> list[tuple[str, str, dict[str, str]]]:
    """(`Class.attribute`, class of the layer, its keyword arguments) for each `self.attribute = Layer(...)`."""
    return [
        (
            f"{cls.name}.{node.targets[0].attr}",
            node.value.func.id,
            {k.arg: ast.unparse(k.value) for k in node.value.keywords if k.arg},
        )
        for node in ast.walk(cls)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    ]


def _calls(method: ast.FunctionDef) -> list[ast.Call]:
    return sorted((node for node in ast.walk(method) if isinstance(node, ast.Call)), key=lambda call: call.lineno)


def all_reduces(cls: ast.ClassDef | None) -> list[str]:
    """`method: call` for every call of a function called `...all_reduce`, but for those that ask whether to."""
    return [
        f"{method.name}: {name}"
        for method in (cls.body if cls else ())
        if isinstance(method, ast.FunctionDef)
        for call in _calls(method)
        if (name := ast.unparse(call.func)).endswith("all_reduce")
        if not name.startswith("should_")
    ]
