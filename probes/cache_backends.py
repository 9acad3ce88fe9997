"""Which names an engine registers for moving KV and for storing it, and which part of Mooncake stands behind each.

Question
    Is Mooncake one thing to an engine, or two: something that moves KV between known memories, and something that finds
    it by key? Where does LMCache plug in, beside Mooncake or above it?
Watched
    The engine's own registries: storage backends, transfer backends, KV connectors. In its files: what is imported from
    the `mooncake` package where KV is handed over and where it is stored, and which of its operations are called.
Can mislead
    Neither Mooncake nor LMCache is installed, so nothing is moved or stored; what they do inside is not in these files.
    LMCache's own choice of a storage (Mooncake among others) is in its own configuration, which no engine reads.
Sources
    SGLang 0.5.15.post1, 0.5.16: `srt/mem_cache/storage/`, `srt/disaggregation/mooncake/`, `srt/distributed/device_communicators/`.
    vLLM 0.25.1 to 0.27.1: `distributed/kv_transfer/kv_connector/`.
"""  # noqa: E501

from __future__ import annotations

import ast
import os
from types import SimpleNamespace

from inferproof.probes import sglang_engine, vllm_engine
from inferproof.probes.core import Observations, Run, Unavailable, probe

_REGISTERED = {
    "storage": "names under which something may be registered that keeps KV to be found again",
    "transfer": "names under which something may be chosen that hands KV from a prefill to a decode server",
    "refused": "what the engine says when LMCache is asked for as a storage backend; empty where that is no choice",
}


@probe(
    engine="sglang",
    levels=("component",),
    observes=_REGISTERED,
    covers=("sglang.srt.mem_cache.storage.backend_factory:StorageBackendFactory",),
)
def sglang_registered(run: Run) -> Observations:  # noqa: ARG001 - every probe is given its run
    """List SGLang's storage backends and transfer backends, and ask for LMCache among the former."""
    sglang_engine.prepare()
    from sglang.srt.mem_cache.storage import StorageBackendFactory
    from sglang.srt.server_args import DISAGG_TRANSFER_BACKEND_CHOICES

    try:
        StorageBackendFactory.create_backend("lmcache", SimpleNamespace(extra_config=None), None)
        refused = ""
    except ValueError as refusal:
        refused = str(refusal)
    return {
        "storage": sorted(StorageBackendFactory._registry),
        "transfer": sorted(DISAGG_TRANSFER_BACKEND_CHOICES),
        "refused": refused,
    }


@probe(
    engine="vllm",
    levels=("component",),
    observes=_REGISTERED,
    covers=("vllm.distributed.kv_transfer.kv_connector.factory:KVConnectorFactory",),
)
def vllm_registered(run: Run) -> Observations:
    """List vLLM's KV connectors; it has one list for both purposes."""
    os.environ.update(vllm_engine.ENVIRONMENT)
    run.modifications += vllm_engine.force_cpu()
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    names = sorted(KVConnectorFactory._registry)
    return {"storage": names, "transfer": names, "refused": ""}


_PARTS = {
    "transfer_imports": "what the code that hands KV over imports from `mooncake`",
    "transfer_calls": "operations of Mooncake that it calls",
    "store_imports": "what the code that stores KV imports from `mooncake`",
    "store_calls": "operations of Mooncake that it calls",
}


@probe(engine="sglang", levels=("source",), observes=_PARTS)
def sglang_mooncake_parts(run: Run) -> Observations:
    """Read which part of Mooncake SGLang's transfer backend and its storage backend use."""
    engine = _use(run, "srt/distributed/device_communicators/mooncake_transfer_engine.py", "engine")
    store = _use(run, "srt/mem_cache/storage/mooncake_store/mooncake_store.py", "store")
    return dict(zip(_PARTS, (*engine, *store), strict=True))


@probe(engine="vllm", levels=("source",), observes=_PARTS)
def vllm_mooncake_parts(run: Run) -> Observations:
    """Read which part of Mooncake vLLM's two Mooncake connectors use."""
    home = "distributed/kv_transfer/kv_connector/v1/mooncake/"
    engine, store = _use(run, home + "mooncake_connector.py", "engine"), _use(run, home + "store/worker.py", "store")
    return dict(zip(_PARTS, (*engine, *store), strict=True))


def _use(run: Run, file: str, owned: str) -> tuple[list[str], list[str]]:
    """What a file imports from `mooncake`, and what it uses of its own `self.<owned>`."""
    if run.source is None or not (run.source / file).is_file():
        raise Unavailable(f"this build has no {file} in its package folder")
    return used((run.source / file).read_text(encoding="utf-8"), owned)


def used(code: str, owned: str) -> tuple[list[str], list[str]]:
    """What this code imports from `mooncake`, and what it uses of its `self.<owned>`, each sorted."""
    imports, calls = set(), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mooncake":
            imports |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == f"self.{owned}":
            calls.add(node.attr)
    return sorted(imports), sorted(calls)
