"""Environments: complete or not there at all, quickly found again, and never taken for whole when they are not."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

import inferproof
from inferproof.runners import environment, paths, setup
from inferproof.runners.builds import Bilingual, Build, Wheel, find_build
from inferproof.runners.environment import (
    NotReady,
    StalePlaceholders,
    find,
    folder,
    ready,
    remove,
    state,
    worker_command,
)
from inferproof.runners.pip import SetupError, diagnosis, run, without_secrets
from inferproof.runners.setup import SetupInterrupted

ABOUT = Bilingual("A tiny engine.", "一个极小的引擎。")


def make_wheel(target: Path, distribution: str, version: str, files: dict[str, str]) -> Wheel:
    """A pure wheel with these files."""
    info = f"{distribution}-{version}.dist-info"
    contents = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text.encode())}\n"
    path = target / f"{distribution}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return Wheel(distribution, version, hashlib.sha256(path.read_bytes()).hexdigest())


@dataclass
class Shop:
    """Two builds of a tiny engine: one whole, one laid over it; and where their parts come from."""

    whole: Build
    over: Build
    placeholders: Path
    cache: Path


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    root = tmp_path_factory.mktemp("shop")
    for name in ("wheels", "locks", "placeholders/triton"):
        (root / name).mkdir(parents=True)
    (root / "placeholders/triton/__init__.py").write_text("stub = True\n")
    (root / "locks/tiny.txt").write_text("# what the engine needs\ntinydep==3.1\n")
    make_wheel(root / "wheels", "tinydep", "3.1", {"tinydep.py": "x = 1\n"})
    first = make_wheel(
        root / "wheels", "tinyengine", "1.0", {"vllm/__init__.py": "import tinydep\n__version__ = '1.0'\n"}
    )
    second = make_wheel(
        root / "wheels", "tinyengine", "2.0",
        {"vllm/__init__.py": "__version__ = '2.0'\n", "vllm/core/a.py": "a = 1\n", "vllm/core/_C.abi3.so": "\x7fELF"},
    )  # fmt: skip
    whole = Build(
        "whole", "vllm", ("source",), ABOUT, ">=3.11", "1.0", lock="tiny.txt", wheel=first, env={"VLLM_TINY": "1"}
    )
    over = replace(
        whole, name="over", version="2.0", lock=None, base="whole", placeholders=("triton",),
        wheel=replace(second, without=("*.so",)),
    )  # fmt: skip
    builds = {"whole": whole, "over": over}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(root / "wheels"))
        for module in (environment, setup):
            patch.setattr(module, "find_build", builds.__getitem__)
            patch.setattr(module, "LOCKS", root / "locks")
            patch.setattr(module, "PLACEHOLDERS", root / "placeholders")
        yield Shop(whole, over, root / "placeholders", root / "cache")


@pytest.fixture(autouse=True)
def shared_cache(shop: Shop, user_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for this module instead of one a test (`user_folders`): a virtual environment takes seconds to make."""
    monkeypatch.setenv("INFERPROOF_CACHE", str(shop.cache))


@pytest.fixture
def over(shop: Shop) -> Build:
    """The build that is laid over the other; both are ready."""
    setup.setup(shop.over)
    return shop.over


def python_in(build: Build, code: str) -> str:
    command, variables, _ = worker_command(build)
    return subprocess.run(
        [*command, "-c", code], env=variables, capture_output=True, text=True, check=True
    ).stdout.strip()


def edit_without_a_trace(path: Path, text: str) -> None:
    """Same size, same modification time, other content."""
    before = path.stat()
    assert len(text) == before.st_size
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def gone(pid: int) -> bool:
    """Whether the process ends within some seconds."""
    for _ in range(500):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.01)
    return False


def test_each_build_imports_its_own_engine_over_the_base_s_packages(shop: Shop, over: Build) -> None:
    assert python_in(shop.whole, "import vllm; print(vllm.__version__)") == "1.0"
    assert python_in(over, "import vllm, tinydep, triton; print(vllm.__version__, triton.stub)") == "2.0 True"
    assert python_in(over, "import inferproof.probes.core as c; print(c.LEVELS[0])") == "arithmetic"


def test_an_environment_holds_what_is_listed_and_nothing_of_ours(shop: Shop, over: Build) -> None:
    python = find(over).python
    frozen = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    names = sorted(line.partition("==")[0].partition(" @")[0] for line in frozen.splitlines())
    assert names == ["tinydep", "tinyengine"]


def test_files_that_the_build_leaves_out_are_not_unpacked_and_the_engine_is_compiled(over: Build) -> None:
    source = find(over).source
    assert source is not None
    names = {str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()}
    tag = sys.implementation.cache_tag
    assert names == {"__init__.py", "core/a.py", f"__pycache__/__init__.{tag}.pyc", f"core/__pycache__/a.{tag}.pyc"}


def test_a_second_setup_does_nothing_in_under_a_second(over: Build) -> None:
    steps: list[str] = []
    marker = (folder(over) / "build.json").stat()
    started = time.monotonic()
    setup.setup(over, lambda *step: steps.append(step[1]))
    assert time.monotonic() - started < 1.0
    assert steps == []
    assert (folder(over) / "build.json").stat().st_mtime_ns == marker.st_mtime_ns


def test_a_changed_engine_file_shows_even_with_its_old_time_and_size_and_setup_mends_it(over: Build) -> None:
    source = find(over).source
    assert source is not None
    edit_without_a_trace(source / "core/a.py", "a = 2\n")
    with pytest.raises(NotReady, match=r"files of the engine were changed.*inferproof builds setup over"):
        find(over)
    assert state(over) == "broken"
    setup.setup(over)
    assert (source / "core/a.py").read_text() == "a = 1\n"
    assert state(over) == "ready"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("overlay/vllm", "damaged"),
        ("build.json", "half-made"),
        ("placeholders/triton", "placeholder"),
    ],
)
def test_a_missing_part_is_noticed_and_made_again(over: Build, broken: str, said: str) -> None:
    part = folder(over) / broken
    part.rename(part.with_name("away"))
    with pytest.raises(NotReady, match=said):
        find(over)
    setup.setup(over)
    assert ready(over)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"recipe": 1}'])
def test_a_marker_that_is_garbage_is_no_marker(over: Build, content: str) -> None:
    marker = folder(over) / "build.json"
    whole = marker.read_text()
    marker.write_text(content)
    with pytest.raises(NotReady, match=r"build\.json cannot be read"):
        find(over)
    marker.write_text(whole)


def test_another_recipe_makes_an_environment_outdated(over: Build) -> None:
    assert over.wheel is not None
    for other in (replace(over, python="==3.*"), replace(over, wheel=replace(over.wheel, without=()))):
        with pytest.raises(NotReady, match="older recipe"):
            find(other)


def test_a_gone_interpreter_breaks_both_builds(shop: Shop, over: Build) -> None:
    python = find(over).python
    target = python.readlink()
    python.unlink()
    python.symlink_to("/nowhere/python3")
    for build in (shop.whole, over):
        with pytest.raises(NotReady, match=r"interpreter .* is gone"):
            find(build)
    python.unlink()
    python.symlink_to(target)
    assert ready(over)


def test_new_placeholders_are_put_in_without_making_the_environment_again(shop: Shop, over: Build) -> None:
    overlay = (folder(over) / "overlay").stat().st_ino
    (shop.placeholders / "triton/__init__.py").write_text("stub = 'new'\n")
    with pytest.raises(StalePlaceholders):
        find(over)
    setup.setup(over)
    assert python_in(over, "import triton; print(triton.stub)") == "new"
    assert (folder(over) / "overlay").stat().st_ino == overlay
    (shop.placeholders / "triton/__init__.py").write_text("stub = True\n")


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(over: Build) -> None:
    assert over.wheel is not None
    other = replace(over, name="other", wheel=replace(over.wheel, sha256="0" * 64))
    with pytest.raises(SetupError, match=f"SHA-256 is {over.wheel.sha256}, expected 0000") as error:
        setup.setup(other)
    assert "nothing was installed" in str(error.value)
    assert state(other) == "not set up"


def test_what_pip_said_is_told_when_it_fails_and_nothing_is_left(over: Build) -> None:
    assert over.wheel is not None
    other = replace(over, name="other", wheel=replace(over.wheel, version="9.9"))
    with pytest.raises(SetupError, match=r"(?s)other: pip download failed: no package index.*\n.*tinyengine==9\.9"):
        setup.setup(other)
    assert state(other) == "not set up"


@pytest.mark.parametrize(
    "index",
    [
        "http://me:s3cr3t-word@127.0.0.1:9/simple", "http://127.0.0.1:9/simple?token=s3cr3t-word",
        "http://127.0.0.1:9/s3cr3t-word/simple", "me:s3cr3t-word@127.0.0.1:9/simple",
    ],
)  # fmt: skip
def test_a_secret_in_pip_s_settings_is_in_no_message_and_no_file(
    over: Build, shop: Shop, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PIP_NO_INDEX": "0", "PIP_RETRIES": "0", "PIP_VERBOSE": "1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, index)
    assert over.wheel is not None
    steps: list[object] = []
    with pytest.raises(SetupError, match=r"other: pip download failed") as error:
        setup.setup(replace(over, name="other"), lambda *step: steps.append(step))
    files = [f for f in shop.cache.rglob("*") if f.is_file() and f.stat().st_size < 1 << 20]

    assert "s3cr3t" not in f"{error.value}{steps}{error.value.__context__}"
    assert "127.0.0.1:9/****" in str(error.value) or "****@127.0.0.1" in str(error.value)
    assert files and [f for f in files if b"s3cr3t" in f.read_bytes()] == []


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Looking in indexes: https://me:****@host:8/a?t=b http://x", "https://host:8/**** http://x/****"),
        ("Collecting torch==2.13.0 (from -r /tmp/a.txt (line 3))", "Collecting torch==2.13.0 (from -r /tmp/a.txt"),
        ("Processing file:///wheels/a.whl", "Processing file:///wheels/a.whl"),
        ("'proxy: me:word@host:80'", "****@host:80"),
        ("at http://me:wo/rd@host/", "at http://me/****"),
        ("at https://token@host", "at https://host/****"),
    ],
)
def test_of_an_address_only_the_host_is_shown(said: str, shown: str) -> None:
    assert shown in without_secrets(said)


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(over: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extract", full)
    other = replace(over, name="other")
    with pytest.raises(SetupError, match=r"other: the disk of .* is full; free some space or set INFERPROOF_CACHE"):
        setup.setup(other)
    assert state(other) == "not set up"


def test_an_interrupt_is_an_error_without_traceback_and_leaves_nothing(over: Build) -> None:
    def stop(build: str, step: str, fraction: float | None) -> None:
        if step.startswith("unpacking"):
            raise KeyboardInterrupt

    other = replace(over, name="other")
    with pytest.raises(SetupInterrupted, match="nothing half-made is kept"):
        setup.setup(other, stop)
    assert state(other) == "not set up"


def test_a_folder_left_by_a_killed_setup_is_recognised_and_made_again(over: Build) -> None:
    other = replace(over, name="other")
    (folder(other) / "overlay/vllm").mkdir(parents=True)
    with pytest.raises(NotReady, match="half-made"):
        find(other)
    setup.setup(other)
    assert ready(other)
    assert remove(other)
    assert state(other) == "not set up"
    assert not remove(other)


def test_two_setups_of_one_build_at_once_wait_for_each_other(over: Build) -> None:
    other = replace(over, name="other")
    steps: list[str] = []
    with FileLock(paths.builds_dir() / "other.lock"):
        thread = threading.Thread(target=setup.setup, args=(other, lambda *step: steps.append(step[1])))
        thread.start()
        while not steps:
            time.sleep(0.01)
        assert steps == ["waiting for another setup of it to end"]
        assert state(other) == "not set up"
    thread.join(timeout=60)
    assert ready(other)
    remove(other)


def test_an_engine_gets_its_own_home_and_none_of_the_caller_s_secrets_or_settings(
    over: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers = (
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "VLLM_ATTENTION_BACKEND",
        "SGLANG_X",
        "HF_HOME",
        "LD_PRELOAD",
        "OMP_NUM_THREADS",
    )
    for name in (*strangers, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "outside")
    monkeypatch.setenv("PYTHONPATH", "/outside")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    _, variables, _ = worker_command(over)
    assert {name for name, value in variables.items() if "outside" in value} == {"CUDA_VISIBLE_DEVICES"}
    assert "PYTHONDONTWRITEBYTECODE" not in variables
    assert variables["VLLM_TINY"] == "1"
    for name in ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "HF_HOME"):
        assert Path(variables[name]).is_relative_to(folder(over))


def test_the_host_is_always_ready_and_cannot_be_removed(shop: Shop) -> None:
    host = Build("host", "none", ("arithmetic",), ABOUT, ">=3.11")
    assert setup.setup(host).python == Path(sys.executable)
    assert python_in(host, "import inferproof.probes.core as c; print(c.LEVELS[0])") == "arithmetic"
    assert not remove(host)


def test_a_build_that_is_made_by_hand_is_refused_with_its_reason(shop: Shop) -> None:
    pinned = Build("pinned", "vllm", ("cuda",), ABOUT, ">=3.11", refusal=Bilingual("it needs CUDA", "需要 CUDA"))
    with pytest.raises(SetupError, match="pinned cannot be set up: it needs CUDA"):
        setup.setup(pinned)
    with pytest.raises(NotReady, match="it needs CUDA"):
        find(pinned)


def test_a_python_that_is_not_there_is_named(shop: Shop) -> None:
    with pytest.raises(SetupError, match=r"old needs Python ==3\.2\.\*; this is"):
        setup.setup(replace(shop.whole, name="old", python="==3.2.*"))


@pytest.mark.parametrize(
    "name", ["nvidia_cublas-13.0.dist-info", "triton-3.9.0.dist-info", "cuda_bindings-13.0.dist-info"]
)
def test_a_cuda_package_or_triton_in_a_cpu_environment_is_an_error(shop: Shop, name: str) -> None:
    fat = replace(shop.whole, name="fat")
    (folder(fat) / "venv/lib/python3.11/site-packages" / name).mkdir(parents=True)
    with pytest.raises(SetupError, match=name):
        setup._check_slim(fat)
    remove(fat)


@pytest.mark.parametrize(("cuda", "slim"), [("None", True), ("'13.0'", False)])
def test_a_cuda_build_of_torch_is_an_error(shop: Shop, cuda: str, slim: bool) -> None:
    fat = replace(shop.whole, name="fat", torch="2.13.0")
    torch = folder(fat) / "venv/lib/python3.11/site-packages/torch"
    torch.mkdir(parents=True)
    (torch / "version.py").write_text(f"debug = False\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n")
    if slim:
        setup._check_slim(fat)
    else:
        with pytest.raises(SetupError, match=r"CUDA build of torch 2\.13\.0"):
            setup._check_slim(fat)
    remove(fat)


def test_an_interrupted_step_takes_its_whole_process_group_with_it() -> None:
    seen: list[int] = []
    code = "import subprocess as s,sys; p=s.Popen(['sleep','60']); print(p.pid, flush=True); p.wait()"

    def stop(line: str) -> None:
        seen.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("x", [sys.executable, "-c", code], stop)
    assert gone(seen[0])


def test_a_killed_setup_leaves_no_pip_behind_that_goes_on_writing() -> None:
    code = (
        "import sys; from inferproof.runners.pip import run; "
        "run('x', [sys.executable, '-c', 'import os,time; print(os.getpid(), flush=True); time.sleep(60)'], print)"
    )
    shelf = str(Path(str(inferproof.__file__)).parent.parent)
    command = [sys.executable, "-u", "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": shelf}
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    assert gone(child)


def test_a_link_to_a_package_that_is_gone_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERPROOF_CACHE", str(tmp_path / "cache"))  # no link of ours is there yet
    shelves = paths.cache_dir() / "shelf"
    for name, package in (("gone", tmp_path / "nowhere"), ("there", tmp_path)):
        (shelves / name).mkdir(parents=True)
        (shelves / name / "inferproof").symlink_to(package)

    environment.worker_command(find_build("host"))

    assert not (shelves / "gone").exists()
    assert (shelves / "there/inferproof").is_symlink()
    assert len(list(shelves.iterdir())) == 2


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "full"),
        ("WARNING: Retrying after connection broken by 'NewConnectionError'", "cannot be reached"),
        ("ERROR: No matching distribution found for x==1", "exact version"),
        ("The virtual environment was not created successfully because ensurepip is not available.", "python3-venv"),
    ],
)
def test_a_failure_is_explained(said: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERPROOF_CACHE", str(tmp_path))
    assert meant in diagnosis(said)


@pytest.mark.parametrize(
    ("variable", "place"), [("INFERPROOF_CACHE", paths.cache_dir), ("INFERPROOF_DATA", paths.data_dir)]
)
def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_remedy(
    variable: str, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "yes" / "deeper"))
    assert place().is_dir()
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(variable, str(tmp_path / "file" / "deeper"))
    with pytest.raises(paths.PathError, match=f"cannot make the folder .*deeper: .*set {variable}"):
        place()
