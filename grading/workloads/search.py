"""One request that becomes many tokens or many requests: beam search and speculation."""

# ruff: noqa: E501  (a sentence is easier to translate on one line)

from __future__ import annotations

import random
from typing import Any

from inferproof.grading.workload import COMPONENT, CONTROL, Ask, Kind, Said

BEAM = Kind(
    id="vllm-beam",
    probe="beam_search.request_trace",
    level=CONTROL,
    draw=lambda chance: {
        "beam_width": chance.randrange(1, 9),
        "max_tokens": chance.randrange(2, 13),
        "prompt_tokens": chance.randrange(20, 200),
        "block_size": chance.choice((16, 32)),
    },
    workload=(
        Said(
            "vLLM with prefix caching, blocks of {block_size}, an empty cache. One beam search: width {beam_width}, "
            "max_tokens {max_tokens}, a prompt of {prompt_tokens} tokens.",
            "vLLM，开启前缀缓存，块大小 {block_size}，缓存为空。一次 beam search：宽度 {beam_width}，"
            "max_tokens {max_tokens}，prompt {prompt_tokens} token。",
        ),
    ),
    asks=(
        Ask(
            "requests",
            "How many requests reach the engine core for it?",
            "引擎核心为此收到多少个请求？",
            near="beam_width",
        ),
        Ask(
            "prefilled_tokens",
            "How many prompt tokens are computed in all these requests together, hits left out?",
            "所有这些请求合计，实际计算了多少个 prompt token（不计命中）？",
            share=0.1,
        ),
    ),
    why=(
        Said(
            "{rounds} rounds of {requests_by_round} requests, each with max_tokens {max_tokens} and logprobs {logprobs}, "
            "under {distinct_request_ids} different ids.",
            "共 {rounds} 轮，每轮 {requests_by_round} 个请求，max_tokens 都是 {max_tokens}，logprobs 为 {logprobs}，"
            "共 {distinct_request_ids} 个不同的 id。",
        ),
        Said(
            "A beam is a new request with a longer prompt. Of {queried_tokens} prompt tokens {hit_tokens} came from the "
            "prefix cache, in whole blocks; {prefilled_tokens} were computed.",
            "每个 beam 都是一个 prompt 更长的新请求。{queried_tokens} 个 prompt token 中 {hit_tokens} 个按整块命中前缀缓存，"
            "{prefilled_tokens} 个被计算。",
        ),
    ),
)


DRAFTS = Kind(
    id="vllm-drafts",
    probe="draft_kv.rollback",
    level=CONTROL,
    draw=lambda chance: {
        "width": (width := chance.randrange(2, 8)),
        "accepted": chance.randrange(0, width + 1),
        "max_tokens": chance.randrange(12, 80),
    },
    workload=(
        Said(
            "vLLM with speculation, {width} drafts a step. One request of 100 prompt tokens generates {max_tokens}; every "
            "step that verifies drafts accepts {accepted} of them.",
            "vLLM，投机解码，每步 {width} 个草稿。一个请求，prompt 100 token，生成 {max_tokens} 个；"
            "每次验证都接受 {accepted} 个草稿。",
        ),
    ),
    asks=(
        Ask("steps", "How many engine steps does the answer take?", "这个回答要多少个引擎步？", near=1),
        Ask(
            "draft_tokens",
            "How many draft tokens does the engine count in all?",
            "引擎总共计了多少个草稿 token？",
            share=0.1,
        ),
    ),
    why=(
        Said(
            "A decode step scheduled {scheduled_tokens} tokens and committed {committed_by_step}; the engine counted "
            "{draft_tokens} drafts and {accepted_tokens} accepted ones over {steps} steps.",
            "每个 decode 步调度 {scheduled_tokens} 个 token，提交 {committed_by_step} 个；引擎在 {steps} 步里共计 "
            "{draft_tokens} 个草稿，接受 {accepted_tokens} 个。",
        ),
        Said(
            "A step commits the accepted drafts and one token of the target's own; the first step is the prefill, with no "
            "drafts yet, and the last ones are cut at max_tokens.",
            "每步提交被接受的草稿再加目标模型自己的一个 token；第一步是 prefill，还没有草稿，最后几步受 max_tokens 截断。",
        ),
    ),
)


def _accepted(chance: random.Random) -> dict[str, Any]:
    width, rounds = chance.randrange(2, 9), chance.randrange(10, 61)
    correct = chance.randrange(0, rounds * (width - 1) + 1)
    return {
        "verify_width": width,
        "verify_count": rounds,
        "correct_drafts": correct,
        "completion_tokens": rounds + correct,
    }


ACCEPTANCE = Kind(
    id="sglang-acceptance",
    probe="speculation.accept_metrics",
    level=COMPONENT,
    draw=_accepted,
    workload=(
        Said(
            "SGLang with speculative_num_draft_tokens {verify_width}. A request has {completion_tokens} output tokens after "
            "{verify_count} verifications; {correct_drafts} of them are accepted drafts.",
            "SGLang，speculative_num_draft_tokens 为 {verify_width}。某请求经过 {verify_count} 次验证输出 {completion_tokens} "
            "个 token，其中 {correct_drafts} 个是被接受的草稿。",
        ),
    ),
    asks=(
        Ask(
            "accept_length",
            "Which spec_accept_length does it report?",
            "它报告的 spec_accept_length 是多少？",
            share=0.05,
            decimals=2,
        ),
        Ask(
            "accept_rate",
            "Which spec_accept_rate does it report (a share)?",
            "它报告的 spec_accept_rate（比例）是多少？",
            share=0.05,
            decimals=2,
        ),
    ),
    why=(
        Said(
            "SGLang takes {proposed_drafts} drafts to have been proposed: of a verification's {verify_width} tokens one is no "
            "draft. Rate {accept_rate}; length {accept_length} tokens a verification, the target's own included.",
            "SGLang 认为共提出 {proposed_drafts} 个草稿：每次验证的 {verify_width} 个 token 里有一个不是草稿。接受率 {accept_rate}；"
            "每次验证 {accept_length} 个 token，含目标模型自己的那个。",
        ),
    ),
)


KINDS = (BEAM, DRAFTS, ACCEPTANCE)
