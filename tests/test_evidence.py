"""Evidence is up to date while all of its inputs are the same, and how the code is written down is not an input."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferproof import probes
from inferproof.probes.core import all_probes, canonical, find_probe
from inferproof.runners import evidence as evidence_module
from inferproof.runners.evidence import Evidence, Task, code_hash, content_id, evidence_from

CODE = '''\
"""Module docstring."""

from inferproof.probes import {other}
from inferproof.probes.core import Run


def vllm_thing(run: Run, *, n: int = 1) -> dict:
    """What it does."""
    # why
    return {{"n": n + 1}}


class Watcher:
    """A watcher."""

    seen: int = 0
    """How many were seen."""
'''


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], tuple[str, tuple[str, ...]]]:
    """The hash and imports of a module of that text."""
    count = iter(range(100))

    def tree(text: str) -> tuple[str, tuple[str, ...]]:
        file = tmp_path / f"module{next(count)}.py"
        file.write_text(text, encoding="utf-8")
        return evidence_module._module_tree(file)

    return tree


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""What it does."""', '"""Another docstring."""'),
        ('"""What it does."""\n', '"""Over\n\n    several lines.\n    """\n'),
        ('"""How many were seen."""', '"""Number seen."""'),
        ('"""Module docstring."""\n', ""),
        ("# why", "# because of that"),
        ("    # why\n", ""),
        ('return {"n": n + 1}', 'return {\n        "n": (n + 1),\n    }'),
        ("n: int = 1", "n: int=1"),
    ],
)
def test_comments_docstrings_and_formatting_do_not_count(module: Any, old: str, new: str) -> None:
    text = CODE.format(other="model")
    assert old in text

    assert module(text.replace(old, new)) == module(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [("n + 1", "n + 2"), ("n: int = 1", "n: int = 2"), ("seen: int = 0", "seen: int = 1"), ("vllm_thing", "vllm_thin")],
)
def test_any_other_change_counts(module: Any, old: str, new: str) -> None:
    text = CODE.format(other="model")
    assert old in text

    assert module(text.replace(old, new))[0] != module(text)[0]


def test_all_ways_to_import_ours_are_followed(module: Any) -> None:
    _, imported = module(
        "import os\nimport inferproof.probes.a\n"
        "from inferproof.probes import b, c as d\nfrom inferproof.probes.e import f\n"
        "def g():\n    from inferproof.probes.h import i\n    from elsewhere import j\n"
    )

    assert sorted(imported) == ["a", "b", "c", "e", "h"]


def test_the_code_hash_covers_the_probe_its_engine_and_what_they_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = find_probe("prefix_cache.repeat_prompt", "vllm")
    source = Path(probes.__path__[0])
    for file in source.glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    before = code_hash(probe)
    monkeypatch.setattr(probes, "__path__", [str(tmp_path)])
    assert code_hash(probe) == before

    def hash_after_editing(name: str) -> str:
        file = tmp_path / name
        text = file.read_text(encoding="utf-8")
        evidence_module._module_tree.cache_clear()
        file.write_text(text + "\nEDITED = 1\n", encoding="utf-8")
        changed = code_hash(probe)
        file.write_text(text, encoding="utf-8")
        evidence_module._module_tree.cache_clear()
        return changed

    for name in ("prefix_cache.py", "vllm_engine.py", "core.py", "model.py", "null_executor.py"):
        assert hash_after_editing(name) != before, name
    for name in ("kv_pressure.py", "beam_search.py"):
        assert hash_after_editing(name) == before, name


def test_every_probe_imports_ours_only_in_ways_that_its_code_hash_follows() -> None:
    assert all(len(code_hash(p)) == 64 for p in all_probes().values())
    for file in Path(probes.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and (node.level or node.module == "inferproof")), (
                f"{file.name}:{node.lineno}"
            )


@pytest.mark.parametrize(
    "change",
    [
        {"probe": "prefix_cache.other"},
        {"engine": "sglang"},
        {"level": "engine"},
        {"params": {"prompt_tokens": 2081, "block_size": 16}},
        {"params": {"prompt_tokens": 2080}},
        {"build": "other"},
        {"config": {"block_size": 32}},
        {"config": None},
        {"probe_code": "c0de2"},
        {"build_digest": "other"},
    ],
)
def test_the_key_changes_with_every_input(task: Task, change: dict[str, Any]) -> None:
    assert dataclasses.replace(task, **change).key != task.key


def test_the_key_depends_on_neither_the_order_of_parameters_nor_the_timeout(task: Task) -> None:
    assert dataclasses.replace(task, params={"block_size": 16, "prompt_tokens": 2080}, timeout_s=1.0).key == task.key


def test_a_session_is_one_engine_config_on_one_build(task: Task) -> None:
    assert dataclasses.replace(task, probe="prefix_cache.lru_eviction", params={}).session == task.session
    for change in ({"build": "b"}, {"engine": "sglang"}, {"level": "engine"}, {"config": {"block_size": 32}}):
        assert dataclasses.replace(task, **change).session != task.session


def test_a_record_comes_back_from_its_body_with_its_id(make_evidence: Callable[..., Evidence]) -> None:
    evidence = make_evidence(modifications=["a method was wrapped"])

    assert evidence_from(evidence.body()) == evidence
    assert evidence.id == content_id(evidence.body())
    assert "card" not in canonical(evidence.body())
    assert make_evidence(seconds=0.26).id != evidence.id


@pytest.mark.parametrize(
    ("ended", "settled"),
    [
        ("ok", True),
        ("inconclusive", True),
        ("unavailable", True),
        ("failed", False),
        ("timed out", False),
        ("died", False),
    ],
)
def test_only_what_a_second_run_would_not_change_is_settled(
    make_evidence: Callable[..., Evidence], ended: str, settled: bool
) -> None:
    assert make_evidence(ended=ended).settled is settled


@given(
    st.dictionaries(
        st.text(), st.integers() | st.text() | st.lists(st.floats(allow_nan=False, allow_infinity=False)), max_size=5
    )
)
def test_equal_bodies_have_equal_ids(body: dict[str, Any]) -> None:
    assert content_id(dict(reversed(body.items()))) == content_id(body)
    assert content_id({**body, "one": "more"}) != content_id(body) or body.get("one") == "more"
