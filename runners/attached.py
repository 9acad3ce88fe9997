"""A server that somebody else started, as a build of its own kind: it is what it says it is over HTTP.

Its version, model and resolved flags are its identity; its address is in no record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inferproof.probes.core import canonical
from inferproof.probes.http_server import ATTACH, connect
from inferproof.probes.sse import HttpError
from inferproof.runners.builds import Bilingual, Build, BuildError, find_build
from inferproof.runners.identity import Identity
from inferproof.runners.site import Site
from inferproof.runners.worker import Launch

ENGINES = ("vllm", "sglang")


class Attached:
    """The site's builds and, in the place of those of their engine, servers by URL."""

    def __init__(self, site: Site, urls: Mapping[str, str]) -> None:
        """`urls` by engine. Raises BuildError for one that does not answer as that engine's server."""
        self.site, self.urls = site, {name_of(engine): url for engine, url in urls.items()}
        self.identities: dict[str, Mapping[str, Any]] = dict(site.identities)
        for engine, url in urls.items():
            self.identities[name_of(engine)] = _identity(engine, url)

    def launch(self, name: str, log: Path) -> Launch:
        """How to start a build's worker; a server's is this very Python, told the address by its environment."""
        if name not in self.urls:
            return self.site.launch(name, log)
        from dataclasses import replace

        host = self.site.launch("host", log)
        return replace(host, environment={**host.environment, ATTACH: self.urls[name]})

    def model(self, engine: str) -> str | None:
        """What the attached server of that engine serves; None where none is attached."""
        identity = self.identities.get(name_of(engine))
        return None if identity is None else str(identity["flags"]["model"])


def name_of(engine: str) -> str:
    """The name of an engine's attached server among builds."""
    return f"attached-{engine}"


def parse(given: list[str]) -> dict[str, str]:
    """`vllm=http://HOST:PORT` by engine. Raises BuildError."""
    urls = {}
    for one in given:
        engine, _, url = one.partition("=")
        if engine not in ENGINES or not url.startswith("http://"):
            raise BuildError(f"--attach {one}: expected ENGINE=http://HOST:PORT, where ENGINE is vllm or sglang")
        urls[engine] = url
    return urls


def _identity(engine: str, url: str) -> dict[str, Any]:
    try:
        flags = connect(engine, url).flags
    except (HttpError, LookupError, TypeError, ValueError) as error:
        raise BuildError(f"--attach {engine}={url}: no {engine} server answers there: {error}") from None
    identity = Identity(
        build=name_of(engine), engine=engine, distribution="attached server", version=str(flags["version"]),
        commit=None, commit_from=None, wheel_sha256=None, files="", python="", torch=None, placeholders={}, packages={},
        env={}, stands_to_pin=None,
    )  # fmt: skip
    told = {**asdict(identity), "flags": flags}
    return {**told, "digest": hashlib.sha256(canonical(told).encode()).hexdigest()}


def as_build(engine: str) -> Build:
    """The attached server among builds; what hardware it runs on, it does not say."""
    about = Bilingual("A server that was attached by its URL.", "按 URL 接入的服务。")
    host = find_build("host")
    return Build(
        name=name_of(engine), engine="vllm" if engine == "vllm" else "sglang", levels=("engine",), about=about,
        python=host.python,
    )  # fmt: skip
