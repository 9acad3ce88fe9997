"""A Ray cluster as a site: its builds in place of this machine's own, its nodes to run on.

What this Python runs as `inferproof` is what the nodes run (docs/decisions/0006).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import inferproof
from inferproof.runners import node
from inferproof.runners.builds import Bilingual, Build
from inferproof.runners.ray_tasks import RayTasks
from inferproof.runners.site import Site

SURVEY_S = 120.0
"""How long a node may take to tell which builds it has."""


class ClusterError(RuntimeError):
    """There is no Ray, or no cluster at the address; the message says what to do."""


@contextlib.contextmanager
def on_cluster(site: Site, address: str | None) -> Iterator[Site]:
    """The site with the cluster's builds in place of this machine's own, and its nodes to run on.

    address  of the cluster (HOST:PORT); None: RAY_ADDRESS, else the one that this machine is a node of.
    Raises ClusterError.
    """
    with contextlib.redirect_stdout(sys.stderr):  # Ray's remarks on nodes, which no setting of Ray's silences
        ray = _connected(address)
        try:
            surveys = _surveys(ray)
            digests = {b: {s[b]["digest"] for s in surveys if b in s} for b in site.builds}
            yield replace(
                site,
                identities={
                    name: next((s[name] for s in surveys if name in s), {"digest": ""}) for name in site.builds
                },
                missing={b.name: why for b in site.builds.values() if (why := _refusal(b, digests[b.name]))},
                executor=RayTasks(ray, digests),
            )
        finally:
            ray.shutdown()


def _refusal(build: Build, digests: Collection[str]) -> Bilingual | None:
    """Why no node runs the build. One that none has yet is made by the node that needs it."""
    if build.refusal is None and build.checkout is not None and not digests:
        en, zh = f"{build.name}: no node of the cluster has this clone", f"{build.name}：集群中没有节点有这个克隆"
        return Bilingual(en, zh)
    return build.refusal


def _connected(address: str | None) -> Any:
    """The module `ray`, connected; `inferproof` as it is here goes to the nodes."""
    try:
        import ray
    except ImportError as error:
        raise ClusterError(f"--executor ray needs Ray ({error}); run: pip install 'inferproof[ray]'") from None
    where = address or os.environ.get("RAY_ADDRESS") or "auto"
    if where != "auto":
        _reach(where)
    package = str(Path(inferproof.__file__).parent)
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(
            address=where, log_to_driver=False, logging_level=logging.CRITICAL,
            runtime_env={"py_modules": [package], "excludes": ["**/__pycache__"]},
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        first = str(error).strip().partition("\n")[0]
        raise ClusterError(
            f"no Ray cluster can be used at {where} ({first}); this machine must be a node of it, if only one that "
            f"runs nothing: ray start --address HOST:PORT --num-cpus 0"
        ) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return ray


def _reach(where: str) -> None:
    """Find out at once that nothing listens there, for which Ray takes minutes. Raises ClusterError."""
    host, _, port = where.rpartition(":")
    if not host or "//" in host or not port.isdigit():  # Ray Client's ray://HOST:PORT streams no results
        raise ClusterError(f"the address '{where}' is not HOST:PORT of a Ray cluster's head, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"no Ray cluster answers at {where} ({error}); `ray status` on its head tells") from None


def _surveys(ray: Any) -> list[Mapping[str, Mapping[str, Any]]]:
    """What each node that answers has of builds, by name; the node that this runs on first."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    ask = ray.remote(node.identities)
    own = ray.get_runtime_context().get_node_id()
    nodes = sorted((n["NodeID"] for n in ray.nodes() if n["Alive"]), key=lambda n: (n != own, n))
    asked = [
        ask.options(num_cpus=0, max_retries=0, scheduling_strategy=On(node_id=n, soft=False)).remote() for n in nodes
    ]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=SURVEY_S)
    found = []
    for answer in asked:
        if answer in answered:
            with contextlib.suppress(ray.exceptions.RayError):  # what is wrong there, the tasks will tell
                found.append(ray.get(answer))
    return found
