"""Which engine this really is: read from what is installed, without importing it."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from inferproof.probes.core import canonical
from inferproof.runners.builds import Build
from inferproof.runners.environment import Environment, installed_placeholders

_DIST_INFO = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)\.dist-info")
_NOT_FROZEN = ("pip", "setuptools", "wheel", "distribute")
"""What `pip freeze` leaves out."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The exact identity of a build, as JSON values; part of every evidence record."""

    build: str
    engine: str
    distribution: str
    version: str
    """As installed, not as asked."""
    commit: str | None
    """Where the installation records one; a release wheel often does not."""
    commit_from: str | None
    """What recorded it: direct_url.json, _version.py, the version itself, or a git checkout."""
    wheel_sha256: str | None
    files: str
    """SHA-256 over (path, SHA-256) of the engine's installed `.py` files."""
    python: str
    torch: str | None
    placeholders: Mapping[str, str]
    """Stand-in modules, name -> digest."""
    packages: Mapping[str, str]
    """Everything installed, as `pip freeze` names it."""
    env: Mapping[str, str]
    """Environment variables that the build sets for its engine."""
    stands_to_pin: str | None
    """before, after, pinned, or None."""

    @property
    def digest(self) -> str:
        """SHA-256 over all of it: evidence of another digest is of another build."""
        return hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()


def identify(build: Build, environment: Environment) -> Identity:
    """The identity of what is installed now. `environment` comes from `environment.find`, whose file check it uses."""
    packages = _packages(environment.site) if environment.site else {}
    distribution, version = "python", environment.python_version
    commit: tuple[str, str] | tuple[None, None] = (None, None)
    if environment.source is not None:
        site = environment.source.parent
        distribution = build.wheel.distribution if build.wheel else build.package
        if site != environment.site:  # laid over its base, whose own engine is not seen any more
            packages = {k: v for k, v in packages.items() if not _is_engine(k, build)} | _packages(site)
        version = packages.get(distribution, build.version)
        source = environment.source.resolve() if build.checkout else environment.source
        commit = _commit(source, site, distribution, version)
    return Identity(
        build=build.name, engine=build.engine, distribution=distribution, version=version,
        commit=commit[0], commit_from=commit[1], wheel_sha256=environment.wheel_sha256, files=environment.files,
        python=environment.python_version, torch=packages.get("torch"), placeholders=installed_placeholders(build),
        packages=packages, env=dict(build.env),
        stands_to_pin=build.stands_to_pin.relation if build.stands_to_pin else None,
    )  # fmt: skip


def _is_engine(distribution: str, build: Build) -> bool:
    return distribution == build.package or distribution.startswith(f"{build.package}-")


def _packages(site: Path) -> dict[str, str]:
    """Distribution name -> version, from the folders' names alone."""
    found = (_DIST_INFO.fullmatch(entry.name) for entry in site.iterdir())
    named = {m["name"].replace("_", "-").lower(): m["version"] for m in found if m}
    return {name: version for name, version in sorted(named.items()) if name not in _NOT_FROZEN}


def _commit(source: Path, site: Path, distribution: str, version: str) -> tuple[str, str] | tuple[None, None]:
    """The commit and what recorded it, from the most to the least direct record."""
    folder = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    if commit := direct_url_commit(folder / "direct_url.json"):
        return commit, "direct_url.json"
    if commit := version_file_commit(source / "_version.py"):
        return commit, "_version.py"
    if local := re.search(r"\+(?:.*\.)?g([0-9a-f]{7,40})\b", version):
        return local[1], "version"
    if commit := checkout_commit(source):
        return commit, "git checkout"
    return None, None


def direct_url_commit(file: Path) -> str | None:
    """`vcs_info.commit_id` of a PEP 610 file; None where there is none."""
    try:
        commit = json.loads(file.read_text(encoding="utf-8"))["vcs_info"]["commit_id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return commit if isinstance(commit, str) else None


def version_file_commit(file: Path) -> str | None:
    """The `commit_id` that setuptools-scm wrote, without its `g`; None where it wrote None or there is no such file."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if names & {"commit_id", "__commit_id__"}:
                return node.value.value.removeprefix("g")
    return None


def checkout_commit(source: Path) -> str | None:
    """HEAD of the git checkout that tracks this package, with `-dirty` where files were changed; else None."""
    if not any((parent / ".git").exists() for parent in source.parents):
        return None
    git = ["git", "-C", str(source)]
    tracked = subprocess.run([*git, "ls-files", "--error-unmatch", "__init__.py"], capture_output=True, check=False)
    if tracked.returncode != 0:  # only lies somewhere below a checkout, as a cache in a home under git does
        return None
    describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    described = subprocess.run(describe, capture_output=True, text=True, check=False)
    return described.stdout.strip() or None
