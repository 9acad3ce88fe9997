"""Clones of an engine's repository at the pinned commit, given by the user, as builds of their own.

They are listed in `<data>/checkouts.json`, name -> {"engine", "folder"}. Such a build runs in the environment of the
release after the pin, the clone's package in place of the release's. What is compiled is not there: it has no
level above `control`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferproof.probes.core import LEVELS
from inferproof.runners import paths
from inferproof.runners.builds import Bilingual, Build, BuildError, shipped_builds

PACKAGES = {"vllm": "vllm", "sglang": "python/sglang"}
"""Where each engine's repository keeps its package."""
_LEVELS = LEVELS[: LEVELS.index("control") + 1]


class CheckoutError(ValueError):
    """A folder that is not a clean clone at the pinned commit, or a name that cannot be given to it."""


def added() -> dict[str, Build]:
    """The builds that the user added, by name. Raises BuildError."""
    try:
        return {name: _build(name, facts["engine"], Path(facts["folder"])) for name, facts in _listed().items()}
    except (KeyError, TypeError) as error:
        raise _unreadable(error) from error


def add(name: str, folder: Path) -> Build:
    """Check the clone and list it under that name. Raises CheckoutError."""
    folder = folder.resolve()
    engine = engine_in(folder)
    known = shipped_builds().get(name)
    if known is not None and (known.refusal is None or known.engine != engine):
        raise CheckoutError(f"{name} is a build of inferproof's own; give the clone another name, such as my-{engine}")
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or name.startswith("-"):
        raise CheckoutError(f"'{name}' is no name for a build: expected letters, digits, - and _")
    build = _build(name, engine, folder)
    check(build)
    _write({**_listed(), name: {"engine": engine, "folder": str(folder)}})
    return build


def forget(name: str) -> bool:
    """Take the build off the list; whether it was on it."""
    listed = _listed()
    if name in listed:
        _write({k: v for k, v in listed.items() if k != name})
    return name in listed


def engine_in(folder: Path) -> str:
    """Which engine's clone this is. Raises CheckoutError."""
    if not folder.is_dir():
        raise CheckoutError(f"there is no folder {folder}")
    for engine, package in PACKAGES.items():
        if (folder / package / "__init__.py").is_file():
            return engine
    raise CheckoutError(f"{folder}: neither {' nor '.join(f'{p}/' for p in PACKAGES.values())} is in it")


def check(build: Build) -> None:
    """The clone is at the pinned commit, and nothing in it was changed or added. Raises CheckoutError."""
    assert build.checkout is not None
    folder, pinned = Path(build.checkout), _standing(build.engine, "pinned").version
    head = _git(folder, "rev-parse", "HEAD")
    top = Path(_git(folder, "rev-parse", "--show-toplevel"))
    if top.resolve() != folder.resolve():
        raise CheckoutError(f"{folder} is not the top of a git repository (that is {top})")
    if not head.startswith(pinned):
        raise CheckoutError(
            f"{folder} is at commit {head[:9]}, expected {pinned}; run: git -C {folder} checkout {pinned}"
        )
    changed = _git(folder, "status", "--porcelain").splitlines()
    if changed:
        raise CheckoutError(
            f"{folder} is not clean: {len(changed)} files are changed or new, first {changed[0][3:]}; "
            f"put them aside, for instance with: git -C {folder} stash --include-untracked"
        )


def package_folder(build: Build) -> Path:
    """The engine's package in the clone."""
    assert build.checkout is not None
    return Path(build.checkout) / PACKAGES[build.engine]


def _build(name: str, engine: str, folder: Path) -> Build:
    before, pinned, after = (_standing(engine, relation) for relation in ("before", "pinned", "after"))
    return replace(
        after,
        name=name,
        version=f"{before.version}+{pinned.version}",  # newer than the release before, older than the one after
        about=Bilingual(
            f"Your clone of {engine} at the commit that the claims were written against: nothing compiled.",
            f"你克隆的 {engine} 仓库，位于各论断所依据的提交：不含编译部分。",
        ),
        wheel=None,
        levels=tuple(level for level in after.levels if level in _LEVELS),
        stands_to_pin=pinned.stands_to_pin,
        default=True,
        checkout=str(folder),
    )


def _standing(engine: str, relation: str) -> Build:
    """The shipped build of the engine that stands so to the pin."""
    return next(
        b
        for b in shipped_builds().values()
        if b.engine == engine and b.stands_to_pin and b.stands_to_pin.relation == relation
    )


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CheckoutError("git is not installed; a clone cannot be checked without it") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"git {arguments[0]} failed"]
        raise CheckoutError(f"{folder}: {said[0]}")
    return done.stdout.strip("\n")


def _file() -> Path:
    return paths.data_dir() / "checkouts.json"


def _listed() -> Mapping[str, Any]:
    try:
        listed = json.loads(_file().read_text(encoding="utf-8"))
    except (FileNotFoundError, paths.PathError):
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(error) from error
    if not isinstance(listed, dict):
        raise _unreadable(f"found {type(listed).__name__}")
    return listed


def _unreadable(why: object) -> BuildError:
    return BuildError(f"{_file()}: not a list of checkouts ({why}); delete it and add the clones again")


def _write(listed: Mapping[str, Any]) -> None:
    paths.write_atomically(_file(), json.dumps(listed, indent=1))
