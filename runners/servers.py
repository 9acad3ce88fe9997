"""Where a profile's servers come from: the site's builds, a Python of the user's own, or servers that run already.

An engine that the user installed (with CUDA, say) is started from its Python and is what its files are. A server that
is attached by its URL is what it says over HTTP: its version, model and resolved flags; its address is in no record.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from inferproof.probes.core import canonical
from inferproof.probes.http_server import ATTACH, connect
from inferproof.probes.sse import HttpError
from inferproof.runners.builds import Bilingual, Build, BuildError
from inferproof.runners.environment import PASSED_ON, Environment
from inferproof.runners.fingerprint import python_digest
from inferproof.runners.host import gpus
from inferproof.runners.identity import Identity, identify
from inferproof.runners.site import Site
from inferproof.runners.worker import Launch

ENGINES = ("vllm", "sglang")
OWN = (*PASSED_ON, "HOME", "HF_HOME", "XDG_CACHE_HOME", "CUDA_HOME", "LD_LIBRARY_PATH")
"""What a Python of the user's own inherits: where the weights are that the user has fetched."""
_ASK = """
import importlib.metadata, importlib.util, json, platform, sys
spec = importlib.util.find_spec(sys.argv[1])
names = importlib.metadata.packages_distributions().get(sys.argv[1], []) if spec else []
release = importlib.metadata.version(names[0]) if names else ""
print(json.dumps([platform.python_version(), spec and spec.origin, release]))
"""
_ABOUT = Bilingual("An engine that the user installed.", "用户自己安装的引擎。")


class Servers:
    """Which build serves an engine, who it is, and how its worker is started."""

    def __init__(self, site: Site, urls: Mapping[str, str] = {}, pythons: Mapping[str, str] = {}) -> None:
        """Both by engine. Raises BuildError for a URL or a Python that has no such engine."""
        self.site = site
        self.urls = {f"attached-{engine}": url for engine, url in urls.items()}
        self.identities: dict[str, Mapping[str, Any]] = dict(site.identities)
        self._own: dict[str, tuple[Build, Environment]] = {}
        for engine, url in urls.items():
            self.identities[f"attached-{engine}"] = _said(engine, url)
        for engine, python in pythons.items():
            build, environment = _installed(engine, Path(python))
            self._own[build.name] = build, environment
            identity = identify(build, environment)
            self.identities[build.name] = {**asdict(identity), "digest": identity.digest}

    def build_for(self, engine: str, level: str) -> tuple[str, str] | None:
        """(build, level it runs at): an attached server, else the user's own, else a ready default build, else None."""
        if f"attached-{engine}" in self.identities:
            return f"attached-{engine}", "engine"  # what hardware it runs on, it does not say
        own = [build for build, _ in self._own.values()]
        for build in (*own, *(b for b in self.site.builds.values() if b.default)):
            if build.engine == engine and level in build.levels and build.name in self.identities:
                return build.name, level
        return None

    def served(self, build: str) -> str | None:
        """The model that an attached server serves; None for a build that serves what it is told to."""
        return self.identities[build]["flags"]["model"] if build in self.urls else None

    def launch(self, name: str, log: Path) -> Launch:
        """How to start a build's worker; an attached server's is this very Python, told the address."""
        if name in self.urls:
            host = self.site.launch("host", log)
            return replace(host, environment={**host.environment, ATTACH: self.urls[name]})
        if name not in self._own:
            return self.site.launch(name, log)
        _, environment = self._own[name]
        host = self.site.launch("host", log)
        kept = ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONUNBUFFERED")
        variables = {k: host.environment[k] for k in kept} | {k: os.environ[k] for k in OWN if k in os.environ}
        variables["PATH"] = os.pathsep.join((str(environment.python.parent), os.environ.get("PATH", "")))
        return replace(
            host, python=[str(environment.python)], environment=variables, source=environment.source,
            version=str(self.identities[name]["version"]),
        )  # fmt: skip


def by_engine(option: str, given: Sequence[str]) -> dict[str, str]:
    """`vllm=VALUE` as {"vllm": VALUE}. Raises BuildError."""
    values = {}
    for one in given:
        engine, _, value = one.partition("=")
        if engine not in ENGINES or not value:
            raise BuildError(f"{option} {one}: expected vllm=... or sglang=...")
        values[engine] = value
    return values


def _said(engine: str, url: str) -> dict[str, Any]:
    try:
        flags = connect(engine, url).flags
    except (HttpError, LookupError, TypeError, ValueError) as error:
        raise BuildError(f"--attach: no {engine} server answers at that address: {error}") from None
    identity = Identity(
        build=f"attached-{engine}", engine=engine, distribution="attached server", version=str(flags["version"]),
        commit=None, commit_from=None, wheel_sha256=None, files="", python="", torch=None, placeholders={}, packages={},
        env={}, stands_to_pin=None,
    )  # fmt: skip
    told = {**asdict(identity), "flags": flags}
    return {**told, "digest": hashlib.sha256(canonical(told).encode()).hexdigest()}


def _installed(engine: str, python: Path) -> tuple[Build, Environment]:
    try:
        told = subprocess.run(
            [str(python), "-Ic", _ASK, engine], capture_output=True, text=True, timeout=60, check=True
        )
        version, origin, release = json.loads(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BuildError(f"--python {engine}={python}: that is no Python that runs: {error}") from None
    if origin is None:
        raise BuildError(f"--python {engine}={python}: {engine} is not installed there")
    source = Path(origin).parent
    build = Build(
        name=f"own-{engine}", engine="vllm" if engine == "vllm" else "sglang", about=_ABOUT, python=version,
        version=release, levels=("engine", "cuda") if gpus() else ("engine",),
    )  # fmt: skip
    files = python_digest(source)
    return build, Environment(source.parent, python.absolute(), version, source.parent, source, files, None)
