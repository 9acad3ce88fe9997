"""What this machine offers: which builds are ready, who they are, and how to start their workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferproof.runners.builds import Bilingual, Build
from inferproof.runners.worker import Launch

if TYPE_CHECKING:
    from inferproof.runners.execute import Executor

MEMORY_SHARE = 0.85
"""Part of the machine's memory that a worker's process group may use."""


@dataclass(frozen=True)
class Site:
    """Builds by name, split into those that are ready (with identity) and those that cannot run (with the reason)."""

    builds: Mapping[str, Build]
    identities: Mapping[str, Mapping[str, Any]]
    missing: Mapping[str, Bilingual]
    logs: Path
    executor: Executor | None = None
    """Where tasks run, if not here."""

    @property
    def stands(self) -> dict[str, str | None]:
        """Build name -> how it stands to the pinned commit."""
        return {b.name: b.stands_to_pin.relation if b.stands_to_pin else None for b in self.builds.values()}

    def launch(self, name: str, log: Path) -> Launch:
        """How to start the worker of a ready build."""
        import psutil

        from inferproof.runners import environment, paths

        python, variables, source = environment.worker_command(self.builds[name])
        return Launch(
            python=python,
            environment=variables,
            source=source,
            version=self.builds[name].version,
            models=paths.models_dir(),
            log=log,
            memory_bytes=int(psutil.virtual_memory().total * MEMORY_SHARE),
        )


def this_site() -> Site:
    """The site of this machine and user."""
    from inferproof.runners import environment, paths
    from inferproof.runners.builds import load_builds
    from inferproof.runners.identity import identify

    builds = load_builds()
    identities: dict[str, Mapping[str, Any]] = {}
    missing: dict[str, Bilingual] = {}
    for build in builds.values():
        if build.refusal is not None:
            missing[build.name] = build.refusal
            continue
        try:
            identity = identify(build, environment.find(build))
            identities[build.name] = {**asdict(identity), "digest": identity.digest}
        except environment.NotReady as error:
            missing[build.name] = error.words
    return Site(builds, identities, missing, paths.logs_dir())
