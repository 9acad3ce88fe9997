"""What a captured graph is kept under, what is kept with it, and what happens while it is captured.

Question
    Is capturing a compiler that fuses kernels, does a graph hold a copy of the weights, and does it depend on a
    request's sampling parameters?
Watched
    The files that capture: the statements inside `with ...graph(...)`, the fields of the entry in which a graph is
    kept and of the key under which it is found, and every name that speaks of fusing.
Can mislead
    Kernels may have been fused before, by the compiler or by hand: the graph then records the fused ones, with the
    capture or without. On some backends a key holds more (LoRA, streams). Of SGLang only the backend for full graphs
    is read: its breakable graphs capture elsewhere.
Sources
    vLLM 0.25.1, 0.26.0 and 0.27.1: `compilation/cuda_graph.py`, `forward_context.py`. SGLang 0.5.15.post1 and 0.5.16:
    `srt/model_executor/runner_backend/full_cuda_graph_backend.py`, `srt/model_executor/runner/shape_key.py`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from inferproof.probes.core import Observations, Run, Unavailable, probe

_PARTS = {
    "captured": "statements inside the capture's `with`, as written, in order",
    "fusing": "names in the capturing file that speak of fusing",
    "key": "fields of the key under which a graph is found",
    "kept": "fields of the entry in which it is kept; empty where graphs stand in a plain dictionary",
}


@probe(
    engine="vllm",
    levels=("source",),
    observes=_PARTS,
    covers=("vllm.compilation.cuda_graph:CUDAGraphWrapper.__call__",),
)
def vllm_trace(run: Run) -> Observations:
    """Read what vLLM's wrapper captures and keeps, and the dispatcher's key."""
    path = "compilation/cuda_graph.py"
    return _parts(run, path, ("forward_context.py", "BatchDescriptor"), (path, "CUDAGraphEntry"))


@probe(
    engine="sglang",
    levels=("source",),
    observes=_PARTS,
    covers=("sglang.srt.model_executor.runner.shape_key:ShapeKey",),
)
def sglang_trace(run: Run) -> Observations:
    """Read what SGLang's backend for full graphs captures, and the key under which a runner finds a graph."""
    path = "srt/model_executor/runner_backend/full_cuda_graph_backend.py"
    return _parts(run, path, ("srt/model_executor/runner/shape_key.py", "ShapeKey"), None)


def _parts(run: Run, path: str, key: tuple[str, str], entry: tuple[str, str] | None) -> Observations:
    nodes = list(ast.walk(_tree(run, path)))
    found = [n for n in nodes if isinstance(n, ast.With) and any(_captures(item.context_expr) for item in n.items)]
    blocks = sorted(found, key=lambda block: block.lineno)
    if not blocks:
        raise Unavailable(f"{path} captures nothing in a with statement")
    names = {
        word
        for n in nodes
        for field in ("id", "attr", "name", "arg", "module")
        if isinstance(word := getattr(n, field, None), str)
    }
    return {
        "captured": [ast.unparse(statement) for block in blocks for statement in block.body],
        "fusing": sorted(name for name in names if "fus" in name.lower()),
        "key": _fields(run, *key),
        "kept": _fields(run, *entry) if entry else [],
    }


def _captures(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("graph", "graph_ctx")


def _tree(run: Run, path: str) -> ast.Module:
    if run.source is None or not (file := run.source / Path(path)).is_file():
        raise Unavailable(f"this build has no {path} in its package folder")
    return ast.parse(file.read_text(encoding="utf-8"))


def _fields(run: Run, path: str, owner: str) -> list[str]:
    found: list[Any] = [n for n in ast.walk(_tree(run, path)) if isinstance(n, ast.ClassDef) and n.name == owner]
    if not found:
        raise Unavailable(f"{path} has no class {owner}")
    return [ast.unparse(n.target) for n in found[0].body if isinstance(n, ast.AnnAssign)]
