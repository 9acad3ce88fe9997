"""The wheel holds all of the tree, and what runs inside engine environments needs nothing but Python."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("questions", "probes", "runners", "grading", "reports")
STATES = ("__pycache__", ".*", "build", "dist", "*.egg-info", "tests", "report", "demo")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a wheel built from a copy of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", symlinks=True, ignore=shutil.ignore_patterns(*STATES))
    alone = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "wheel", *alone, "--wheel-dir", str(folder), str(folder / "tree")]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("inferproof-*.whl")
    with zipfile.ZipFile(file) as archive:
        return set(archive.namelist())


def _tree(*patterns: str) -> set[str]:
    """Names under which files of the tree belong into the wheel."""
    files = {f for folder in FOLDERS for pattern in patterns for f in (ROOT / folder).rglob(pattern)}
    return {f"inferproof/{f.relative_to(ROOT)}" for f in files if "__pycache__" not in f.parts}


def test_the_wheel_holds_every_module(wheel: set[str]) -> None:
    modules = _tree("*.py") | {"inferproof/cli.py", "inferproof/__init__.py"}

    assert modules == {name for name in wheel if name.endswith(".py")}


@pytest.mark.parametrize(
    ("pattern", "one"),
    [
        ("*.yaml", "inferproof/questions/engine-internals/prefix-cache-ttft.yaml"),
        ("*.yaml", "inferproof/questions/recorded.yaml"),
        ("*.yaml", "inferproof/runners/builds.yaml"),
        ("*.jsonl", "inferproof/grading/gold/prefix-cache-ttft.jsonl"),
        ("*.txt", "inferproof/runners/locks/vllm-cpu.txt"),
        ("*.txt", "inferproof/runners/locks/sglang-cpu.txt"),
        ("*.j2", "inferproof/reports/templates/study.md.j2"),
        ("*.py", "inferproof/runners/placeholders/triton/__init__.py"),
    ],
)
def test_the_wheel_holds_all_data(wheel: set[str], pattern: str, one: str) -> None:
    assert one in wheel
    assert _tree(pattern) - wheel == set()


def test_the_wheel_is_typed_and_holds_nothing_else(wheel: set[str]) -> None:
    assert "inferproof/py.typed" in wheel
    strange = {
        n for n in wheel if n.partition("/")[0] != "inferproof" and not n.partition("/")[0].endswith(".dist-info")
    }
    assert strange == set()
    assert not [n for n in wheel if n.endswith((".pyc", ".pyi", ".log", ".sqlite"))]


def test_the_command_is_installed_by_the_wheel(wheel: set[str]) -> None:
    assert any(name.endswith(".dist-info/entry_points.txt") for name in wheel)


def test_probes_import_without_engines_and_without_anything_but_the_standard_library() -> None:
    """-S leaves site-packages out, -I the environment and the current folder: what remains is Python itself."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); before = set(sys.modules)\n"
        "from inferproof.probes.core import all_probes\n"
        "assert all_probes()\n"
        "import inferproof.probes.__main__\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))\n"
    )
    out = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)

    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == "['inferproof']"


def test_the_package_itself_imports_nothing() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); before = set(sys.modules)\n"
        "import inferproof; print(set(sys.modules) - before)"
    )
    out = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)

    assert out.stdout.strip() == "{'inferproof'}", out.stderr


def test_the_folders_are_reached_through_relative_links() -> None:
    package = ROOT / "src/inferproof"
    for name in (*FOLDERS, "cli.py"):
        assert (package / name).is_symlink()
        assert not (package / name).readlink().is_absolute()
        assert (package / name).resolve() == ROOT / name


def test_probes_are_written_for_the_oldest_python_of_an_engine() -> None:
    """Engines run on Python 3.10 too; the host may be newer."""
    for file in [*(ROOT / "probes").glob("*.py"), ROOT / "src/inferproof/__init__.py"]:
        ast.parse(file.read_text(encoding="utf-8"), filename=str(file), feature_version=(3, 10))
