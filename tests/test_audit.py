"""Two trees of an engine: equal is what says the same, whatever its comments, docstrings and layout."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.runners.audit import audit, same_code
from inferproof.runners.symbols import TreeError, definition_hashes, tree_of

POOL = '''
"""Blocks."""
class BlockPool:
    """A pool."""

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value):
        pass

    def free(self, blocks):  # all of them
        """Free them."""
        for block in blocks:
            self.queue.append(block)

if True:
    def helper():
        return 2
'''
REFORMATTED = '''
class BlockPool:
    @property
    def size(self): return 1
    @size.setter
    def size(self, value):
        """Nothing."""
    def free(self,
             blocks):
        for block in blocks: self.queue.append( block )
if True:
    def helper(): return (2)
'''
FREE, SIZE, HELPER = (f"vllm.v1.pool:{name}" for name in ("BlockPool.free", "BlockPool.size", "helper"))


def engine(root: Path, files: dict[str, str], package: str = "vllm") -> Path:
    for name, text in {"__init__.py": "", **files}.items():
        path = root / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {"vllm/__init__.py": "", **files}.items():
            archive.writestr(name, text)
    return path


def test_comments_docstrings_and_formatting_do_not_count() -> None:
    assert definition_hashes(POOL) == definition_hashes(REFORMATTED)
    assert set(definition_hashes(POOL)) == {"BlockPool", "BlockPool.size", "BlockPool.free", "helper"}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("append(block)", "insert(0, block)", {"BlockPool", "BlockPool.free"}),
        ("pass", "self.n = value", {"BlockPool", "BlockPool.size"}),  # the setter, not the getter before it
        ("return 2", "return 3", {"helper"}),
        ("class BlockPool:", "class BlockPool(Base):", {"BlockPool"}),
        ("@property", "@cached_property", {"BlockPool", "BlockPool.size"}),
    ],
)
def test_any_other_change_shows_in_what_holds_it_and_nowhere_else(old: str, new: str, changed: set[str]) -> None:
    before, after = definition_hashes(POOL), definition_hashes(POOL.replace(old, new, 1))
    assert {name for name in before if before[name] != after[name]} == changed


@given(st.text() | st.binary())
def test_a_file_that_is_no_python_defines_nothing(source: str | bytes) -> None:
    assert all(len(found) == 64 for found in definition_hashes(source).values())


def test_a_clone_an_unpacked_wheel_and_a_wheel_are_compared_alike(tmp_path: Path) -> None:
    folder = tree_of(engine(tmp_path / "clone", {"v1/pool.py": POOL, "own.py": ""}))
    packed = tree_of(wheel(tmp_path / "a.whl", {"vllm/v1/pool.py": REFORMATTED, "other/x.py": ""}))
    result = audit(folder, packed, [FREE, SIZE, HELPER, "vllm.v1.pool:gone", "vllm.none:f", "sglang.srt.x:f"])
    assert [c.symbol for c in result.symbols if c.state == "equal"] == [FREE, SIZE, HELPER]
    gone = [c for c in result.symbols if c.state == "missing"]
    assert {c.missing_in for c in gone} == {(folder.name, packed.name)}
    assert len(gone) == 2
    assert (result.files.equal, result.files.differ) == (1, ("vllm/v1/pool.py",))
    assert (result.files.only_a, result.files.only_b) == (("vllm/own.py",), ())


def test_sglang_keeps_its_package_in_a_folder_of_its_repository(tmp_path: Path) -> None:
    tree = tree_of(engine(tmp_path / "clone", {"srt/a.py": "def f(): pass"}, "python/sglang"))
    assert (tree.engine, tree.hash_of("sglang.srt.a:f") is not None) == ("sglang", True)


def test_nothing_named_and_something_missing_are_never_the_same_code(tmp_path: Path) -> None:
    a = tree_of(engine(tmp_path / "a", {"v1/pool.py": POOL}))
    b = tree_of(engine(tmp_path / "b", {"v1/pool.py": POOL.replace("return 2", "return 3")}))
    assert same_code(a, b, [FREE, SIZE])
    assert not same_code(a, b, [FREE, HELPER])
    assert not same_code(a, a, [FREE, "vllm.v1.pool:gone"])
    assert not same_code(a, a, [])


def test_what_is_no_engine_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_text("no archive")
    for path in (tmp_path, tmp_path / "x.whl", tmp_path / "absent"):
        with pytest.raises(TreeError, match=str(path)):
            tree_of(path)
    vllm, sglang = engine(tmp_path / "v", {}), engine(tmp_path / "s", {}, "sglang")
    with pytest.raises(TreeError, match="nothing to compare"):
        audit(tree_of(vllm), tree_of(sglang), [])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_command_shows_counts_and_differences_in_eighty_columns(
    tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    many = {f"models/m{i}.py": "" for i in range(40)}
    a, b = engine(tmp_path / "a", many), engine(tmp_path / "b", {"v1/core/sched/scheduler.py": "class Scheduler: pass"})
    done = CliRunner().invoke(app, ["builds", "audit", str(a), str(b), "--lang", language])
    assert done.exit_code == 0, done.output
    assert "vllm/models/  40" in done.output
    assert "v1/core/sched/scheduler.py" in done.output


def test_the_json_names_every_covered_symbol_with_its_state(tmp_path: Path) -> None:
    a = engine(tmp_path / "a", {"v1/core/sched/scheduler.py": "class Scheduler:\n def schedule(self): 'x'\n"})
    b = engine(tmp_path / "b", {"v1/core/sched/scheduler.py": "class Scheduler:\n def schedule(self): pass # y\n"})
    done = CliRunner().invoke(app, ["builds", "audit", str(a), str(b), "--json"])
    result = json.loads(done.output)
    states = {c["symbol"]: c["state"] for c in result["symbols"]}
    assert states.pop("vllm.v1.core.sched.scheduler:Scheduler.schedule") == "equal"
    assert set(states.values()) == {"missing"}
    assert result["files"]["differ"] == ["vllm/v1/core/sched/scheduler.py"]
