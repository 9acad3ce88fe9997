"""The environment of a build: made once, completely or not at all, found again in milliseconds.

    <cache>/builds/<name>/build.json     the marker, written last: an environment without it is half-made
                          venv/          a virtual environment with the lock and the engine's wheel, or
                          overlay/       the wheel unpacked, laid over the venv of the build's base; of a clone
                                         that the user added, a link to its package
                          placeholders/  stand-ins for packages that the engine imports and does not need here
                          home/          the engine's own caches (its processes have this folder as HOME)

Placeholders and overlays go on PYTHONPATH and never into the venv, so `pip freeze` there is the plain truth.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import inferproof
from inferproof.probes.core import canonical
from inferproof.runners import paths
from inferproof.runners.builds import LOCKS, PLACEHOLDERS, Bilingual, Build, find_build
from inferproof.runners.fingerprint import cached_python_digest, file_sha256, python_digest

FORMAT = 1
PASSED_ON = (
    "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
)  # fmt: skip
"""What an engine's process inherits: no secret and nothing that could change an engine unnoticed is among it."""


class NotReady(Exception):
    """The build has no usable environment; the message says why and which command makes it."""

    def __init__(self, build: Build, why: Bilingual) -> None:
        name, command = build.name, f"inferproof builds setup {build.name}"
        if build.checkout is not None:
            command = f"inferproof builds add --source {build.checkout} {name}"
        self.why = why
        self.words = Bilingual(f"{name}: {why.en}; run: {command}", f"{name}：{why.zh}；请运行：{command}")
        if build.refusal is not None:
            self.words = Bilingual(f"{name} cannot be set up: {why.en}", f"{name} 无法安装：{why.zh}")
        super().__init__(self.words.en)


class StalePlaceholders(NotReady):
    """Only the placeholder modules are not the ones that are shipped now."""


@dataclass(frozen=True)
class Environment:
    """Where a build runs."""

    folder: Path
    python: Path
    """The interpreter that runs it."""
    python_version: str
    site: Path | None
    """`site-packages` of that interpreter's venv; None for the host."""
    source: Path | None
    """The engine's package folder; None for the host."""
    files: str
    """Digest of the engine's `.py` files as they are now (see `fingerprint.python_digest`); empty for the host."""
    wheel_sha256: str | None
    path: tuple[Path, ...] = ()
    """What goes on PYTHONPATH, in order."""


class Command(NamedTuple):
    """How to start a Python process in a build."""

    python: list[str]
    environment: dict[str, str]
    """The process's whole environment."""
    source: Path | None
    """The engine's package folder."""


def folder(build: Build) -> Path:
    """Where the build's environment is or would be. Raises PathError."""
    return paths.builds_dir() / build.name


def ready(build: Build) -> Environment | None:
    """The build's environment if it is complete, unchanged and up to date, else None."""
    try:
        return find(build)
    except (NotReady, paths.PathError):
        return None


def state(build: Build) -> Literal["ready", "not set up", "broken"]:
    """How the build's environment stands; broken covers half-made, changed and outdated. Raises PathError."""
    if ready(build):
        return "ready"
    return "broken" if folder(build).exists() else "not set up"


def find(build: Build) -> Environment:
    """The build's environment, every engine file checked against what was installed. Raises NotReady, PathError."""
    if build.engine == "none":
        version = platform.python_version()
        return Environment(paths.builds_dir(), Path(sys.executable), version, None, None, "", None)
    if build.refusal is not None:
        raise NotReady(build, build.refusal)
    here, marker = folder(build), read_marker(build)
    runs_in = build if build.base is None else find_build(build.base)
    venv, interpreter = folder(runs_in), read_marker(runs_in)["python"]
    _check_interpreter(build, venv, interpreter)
    source, site = source_folder(build), site_packages(venv)
    try:
        files = cached_python_digest(source, here / "files.json")
    except OSError as error:
        where = f"{error.strerror}: {error.filename}"
        raise _not_ready(build, f"its engine folder is damaged ({where})", f"引擎目录已损坏（{where}）") from error
    if files != marker["files"]:
        changed = f"files of the engine were changed since it was installed, in {source}"
        raise _not_ready(build, changed, f"引擎的文件在安装后被改动，位于 {source}")
    if installed_placeholders(build) != marker["placeholders"] or shipped_placeholders(build) != marker["placeholders"]:
        stale = "its placeholder modules are not the ones that are shipped now"
        raise StalePlaceholders(build, Bilingual(stale, "占位模块与当前随附的不一致"))
    path = tuple(p for p in (here / "overlay", here / "placeholders") if p.is_dir())
    return Environment(
        here, venv / "venv/bin/python", interpreter["version"], site, source, files, marker["wheel"], path
    )


def read_marker(build: Build) -> dict[str, Any]:
    """What was written down when the environment was complete. Raises NotReady: absent, or of another recipe."""
    here = folder(build)
    try:
        marker = json.loads((here / "build.json").read_text(encoding="utf-8"))
        made_from, *_ = (marker[name] for name in ("recipe", "python", "files", "wheel", "placeholders"))
    except FileNotFoundError as error:
        if here.exists():
            raise _not_ready(build, "a half-made environment is there", "环境只做了一半") from error
        raise _not_ready(build, "it is not set up", "尚未安装") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _not_ready(build, "its marker build.json cannot be read", "标记文件 build.json 无法读取") from error
    if made_from != recipe(build):
        raise _not_ready(build, "it was made from an older recipe", "是按旧的清单安装的")
    assert isinstance(marker, dict)
    return marker


def recipe(build: Build) -> str:
    """SHA-256 over all that decides what gets installed; placeholders are followed apart, being cheap to renew."""
    return hashlib.sha256(
        canonical({
            "format": FORMAT,
            "lock": file_sha256(LOCKS / build.lock) if build.lock else None,
            "wheel": [build.wheel.distribution, build.wheel.sha256, *build.wheel.without] if build.wheel else None,
            "python": build.python,
            "base": recipe(find_build(build.base)) if build.base else None,
            **({"checkout": build.checkout} if build.checkout else {}),
        }).encode()
    ).hexdigest()  # fmt: skip


def interpreter_facts(python: Path, version: str) -> dict[str, Any]:
    """What tells this interpreter from one that was put in its place later. Raises OSError."""
    real = python.resolve(strict=True)
    stat = real.stat()
    return {"version": version, "path": str(real), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def site_packages(build_folder: Path) -> Path:
    """The venv's `site-packages`. A path that does not exist where there is none."""
    found = sorted((build_folder / "venv" / "lib").glob("python3.*/site-packages"))
    return found[0] if found else build_folder / "venv" / "lib" / "site-packages"


def source_folder(build: Build) -> Path:
    """The engine's package folder, whether or not it exists."""
    here = folder(build)
    return (site_packages(here) if build.base is None else here / "overlay") / build.package


def shipped_placeholders(build: Build) -> dict[str, str]:
    """Digest of each placeholder module as inferproof ships it."""
    return {name: python_digest(PLACEHOLDERS / name) for name in build.placeholders}


def installed_placeholders(build: Build) -> dict[str, str]:
    """Digest of each placeholder module in the environment; one that is missing is left out."""
    root = folder(build) / "placeholders"
    return {name: python_digest(root / name) for name in build.placeholders if (root / name).is_dir()}


def remove(build: Build) -> bool:
    """Delete the build's environment and its engine's caches; whether there was one. Raises PathError, OSError."""
    here = folder(build)
    if build.engine == "none" or not here.exists():
        return False
    (here / "build.json").unlink(missing_ok=True)  # first, so that an interrupted removal is no environment
    shutil.rmtree(here)
    return True


def worker_command(build: Build) -> Command:
    """How to start a Python process in the build. Raises NotReady, PathError."""
    found = find(build)
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment = {
        **inherited,
        "PYTHONPATH": os.pathsep.join(map(str, (_shelf(), *found.path))),
        "PYTHONSAFEPATH": "1",  # the current folder is nobody's package
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",  # probes read the log while the engine runs
        **_own_home(build, found, inherited),
        **build.env,
    }
    return Command([str(found.python)], environment, found.source)


def _own_home(build: Build, found: Environment, inherited: Mapping[str, str]) -> dict[str, str]:
    """Every cache of the engine (`~/.cache/vllm`, `~/.cache/huggingface`, ...) within the build's own folder."""
    home = paths.cache_dir() / "home" if build.engine == "none" else found.folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "XDG_CONFIG_HOME": str(home / ".config")}
    if build.engine == "none":
        return own
    return own | {
        "PATH": os.pathsep.join(filter(None, (str(found.python.parent), inherited.get("PATH")))),
        "HF_HOME": str(home / ".cache/huggingface"),
        "VLLM_CACHE_ROOT": str(home / ".cache/vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(home / ".cache/torchinductor"),
        "TRITON_CACHE_DIR": str(home / ".cache/triton"),
    }


def _shelf() -> Path:
    """A folder that holds the package `inferproof` and nothing else: never the host's whole site-packages."""
    package = Path(str(inferproof.__file__)).resolve().parent
    shelf = paths.cache_dir() / "shelf" / hashlib.sha256(str(package).encode()).hexdigest()[:12]
    link = shelf / "inferproof"
    if not link.is_symlink():
        for old in (other / link.name for other in shelf.parent.glob("*")):
            if old.is_symlink() and not old.exists():  # its package is gone, as one that came for a Ray job
                with contextlib.suppress(OSError):  # another process was first
                    old.unlink()
                    old.parent.rmdir()
        shelf.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another process was first
            link.symlink_to(package, target_is_directory=True)
    return shelf


def _check_interpreter(build: Build, venv: Path, recorded: Mapping[str, Any]) -> None:
    python = venv / "venv" / "bin" / "python"
    try:
        now = interpreter_facts(python, recorded["version"])
    except (OSError, KeyError, TypeError) as error:
        raise _not_ready(build, f"its interpreter {python} is gone", f"解释器 {python} 不见了") from error
    if now != recorded:
        raise _not_ready(build, f"the interpreter behind {python} was replaced", f"{python} 所指的解释器被换过")


def _not_ready(build: Build, en: str, zh: str) -> NotReady:
    return NotReady(build, Bilingual(en, zh))
