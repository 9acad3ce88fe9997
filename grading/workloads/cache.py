"""What a prefix cache gives back: a prompt again, a next turn, two equal prompts, the beams of a search."""

# ruff: noqa: E501  (a sentence is easier to translate on one line)

from __future__ import annotations

import random
from typing import Any

from inferproof.grading.workload import CONTROL, ENGINE, Ask, Kind, Said, around

_SENDS = (
    Said(
        "A prompt of {prompt_tokens} tokens is sent and answered; then it is sent again.",
        "发送一个 {prompt_tokens} token 的 prompt，得到回答后原样再发一次。",
        lambda p: not {"same_salt", "change_first_token", "shared_tokens"} & set(p),
    ),
    Said(
        "A prompt of {prompt_tokens} tokens is sent and answered; then it is sent again with another salt.",
        "发送一个 {prompt_tokens} token 的 prompt，得到回答后再发一次，但换了 salt。",
        lambda p: "same_salt" in p,
    ),
    Said(
        "A prompt of {prompt_tokens} tokens is sent and answered; then it is sent again with another first token.",
        "发送一个 {prompt_tokens} token 的 prompt，得到回答后再发一次，但第一个 token 变了。",
        lambda p: "change_first_token" in p,
    ),
    Said(
        "A prompt of {prompt_tokens} tokens is sent and answered; then one of the same length whose first "
        "{shared_tokens} tokens are the same, and no other.",
        "发送一个 {prompt_tokens} token 的 prompt，得到回答后再发一个等长的，只有前 {shared_tokens} 个 token 相同。",
        lambda p: "shared_tokens" in p,
    ),
)
_NEXT_TURN = Said(
    "Second turn: the same prompt, the whole answer, and {new_tokens} new tokens.",
    "第二轮：同一 prompt、完整的回答，再加 {new_tokens} 个新 token。",
)
_TURN_COUNTED = Said(
    "The first turn had {first_turn_tokens} tokens; {cached_tokens} of them hit, {cached_generated_tokens} of "
    "these were generated.",
    "第一轮共 {first_turn_tokens} 个 token，命中 {cached_tokens} 个，其中 {cached_generated_tokens} 个是生成的。",
)


def _warm(near: int | str) -> Ask:
    en, zh = "How many tokens of the second send come from the cache?", "第二次发送有多少 token 来自缓存？"
    return Ask("warm_cached_tokens", en, zh, near=near)


def _next_turn(near: int | str) -> Ask:
    en, zh = (
        "How many tokens of the second turn's prompt come from the cache?",
        "第二轮的 prompt 有多少 token 来自缓存？",
    )
    return Ask("cached_tokens", en, zh, near=near)


def _second_of_two(near: int | str) -> Ask:
    en, zh = (
        "How many prompt tokens of the second one come from the cache?",
        "第二个请求的 prompt 有多少 token 来自缓存？",
    )
    return Ask("cached_tokens", en, zh, at=1, near=near)


def _repeat(chance: random.Random) -> dict[str, Any]:
    block = chance.choice((16, 32, 64, 128))
    params = {"block_size": block, "prompt_tokens": around(chance, block, 3072), "repeats": 1}
    match chance.randrange(8):
        case 0:
            return {**params, "same_salt": False}
        case 1:
            return {**params, "change_first_token": True}
        case 2 | 3:
            return {**params, "shared_tokens": chance.randrange(1, params["prompt_tokens"])}
    return params


REPEAT = Kind(
    id="vllm-repeat",
    probe="prefix_cache.repeat_prompt",
    level=CONTROL,
    draw=_repeat,
    workload=(
        Said(
            "vLLM with prefix caching, blocks of {block_size} tokens, an empty cache.",
            "vLLM，开启前缀缓存，块大小 {block_size} token，缓存为空。",
        ),
        *_SENDS,
    ),
    asks=(_warm("block_size"),),
    why=(
        Said(
            "Over the second send the engine's counters grew by {queried_tokens} queried and {hit_tokens} hit tokens; "
            "{recomputed_tokens} tokens were computed.",
            "第二次发送期间，引擎计数器显示查询 {queried_tokens}、命中 {hit_tokens} 个 token；{recomputed_tokens} 个 token 被计算。",
        ),
        Said(
            "Only whole blocks of {block_size} are found, from the first on, and never the block of the last token: "
            "at least that token must run to give logits.",
            "只有从头开始的、整块（{block_size}）的前缀能命中，最后一个 token 所在的块不算：至少它要重算才有 logits。",
            lambda v: v["hit_tokens"] > 0,
        ),
        Said(
            "A block's key is made of its tokens, the key before it and the salt: no block had the key that was sought, "
            "or there was none whole before the last token.",
            "块的键由块内 token、前一块的键和 salt 组成：没有一个块的键对得上，或最后一个 token 之前没有整块。",
            lambda v: v["hit_tokens"] == 0,
        ),
    ),
)


SECOND_TURN = Kind(
    id="vllm-second-turn",
    probe="prefix_reuse.second_turn",
    level=CONTROL,
    draw=lambda chance: {
        "block_size": chance.choice((16, 32, 64)),
        "prompt_tokens": chance.randrange(40, 600),
        "output_tokens": chance.randrange(8, 160),
        "new_tokens": chance.randrange(1, 60),
    },
    workload=(
        Said(
            "vLLM with prefix caching, blocks of {block_size}. First turn: {prompt_tokens} prompt tokens, "
            "{output_tokens} generated ones.",
            "vLLM，开启前缀缓存，块大小 {block_size}。第一轮：prompt {prompt_tokens} token，生成 {output_tokens} token。",
        ),
        _NEXT_TURN,
    ),
    asks=(_next_turn("block_size"),),
    why=(
        _TURN_COUNTED,
        Said(
            "Generated tokens are cached as prompt tokens are, in whole blocks. The last one was never fed in: it has no KV.",
            "生成的 token 和 prompt 一样按整块缓存；最后一个从未作为输入算过，没有 KV。",
        ),
    ),
)


TOGETHER = Kind(
    id="vllm-together",
    probe="prefix_reuse.sent_together",
    level=CONTROL,
    draw=lambda chance: {
        "block_size": (block := chance.choice((16, 32, 64))),
        "prompt_tokens": around(chance, block, 1500),
    },
    workload=(
        Said(
            "vLLM with prefix caching, blocks of {block_size}, an empty cache. Two requests with the same prompt of "
            "{prompt_tokens} tokens arrive at the same moment.",
            "vLLM，开启前缀缓存，块大小 {block_size}，缓存为空。两个请求同时到达，prompt 相同，均为 {prompt_tokens} token。",
        ),
    ),
    asks=(_second_of_two("block_size"),),
    why=(
        Said(
            "Cached tokens of the two: {cached_tokens}; both were first computed in one step: {one_step}. The same prompt "
            "sent once more later: {cached_later}.",
            "两个请求的缓存 token：{cached_tokens}；是否在同一步首次计算：{one_step}。之后再发一次：{cached_later}。",
        ),
        Said(
            "vLLM enters a block into the cache when it schedules it, not when it is computed.",
            "vLLM 在调度时就把块登记进缓存，而不是等算完。",
        ),
    ),
)


def _sglang_repeat(chance: random.Random) -> dict[str, Any]:
    params = {"prompt_tokens": chance.randrange(10, 3000), "repeats": 1}
    match chance.randrange(8):
        case 0:
            return {**params, "same_salt": False}
        case 1 | 2 | 3 | 4:
            return {**params, "shared_tokens": chance.randrange(1, params["prompt_tokens"])}
    return params


SGLANG_REPEAT = Kind(
    id="sglang-repeat",
    probe="prefix_cache.repeat_prompt",
    level=ENGINE,
    draw=_sglang_repeat,
    workload=(
        Said(
            "SGLang with its radix cache, page size 1, an empty cache.",
            "SGLang，开启 radix cache，页大小 1，缓存为空。",
        ),
        *_SENDS,
    ),
    asks=(_warm(1),),
    why=(
        Said(
            "First send: {cold_cached_tokens} cached tokens. Second send: {warm_cached_tokens} of {prompt_tokens}, so "
            "{recomputed_tokens} were computed.",
            "第一次发送命中 {cold_cached_tokens} 个；第二次 {prompt_tokens} 个中命中 {warm_cached_tokens} 个，"
            "{recomputed_tokens} 个被计算。",
        ),
        Said(
            "The tree matches token by token (page size 1) and always leaves the last token to run: it has to give logits.",
            "树按 token 逐个匹配（页大小 1），但总留下最后一个 token 重算：要由它给出 logits。",
            lambda v: v["warm_cached_tokens"] > 0,
        ),
        Said(
            "The salt (extra_key) is part of the key: under another one nothing is found.",
            "salt（extra_key）是键的一部分：换了就什么也找不到。",
            lambda v: v["warm_cached_tokens"] == 0 and not v["same_salt"],
        ),
    ),
)


SGLANG_SECOND_TURN = Kind(
    id="sglang-second-turn",
    probe="prefix_reuse.second_turn",
    level=ENGINE,
    draw=lambda chance: {
        "prompt_tokens": chance.randrange(40, 600),
        "output_tokens": chance.randrange(8, 100),
        "new_tokens": chance.randrange(1, 60),
        "overlap": chance.random() < 0.5,
    },
    workload=(
        Said(
            "SGLang, page size 1, overlap scheduler: {overlap}. First turn: {prompt_tokens} prompt tokens, {output_tokens} "
            "generated ones.",
            "SGLang，页大小 1，overlap 调度：{overlap}。第一轮：prompt {prompt_tokens} token，生成 {output_tokens} token。",
        ),
        _NEXT_TURN,
    ),
    asks=(_next_turn(1),),
    why=(
        _TURN_COUNTED,
        Said(
            "The last token of an answer was never fed in, so it has no KV, unless the overlap scheduler had launched one "
            "more forward before it learnt that the answer was complete.",
            "回答的最后一个 token 从未作为输入算过，没有 KV；除非 overlap 调度在得知回答结束之前已经多发射了一次前向。",
        ),
    ),
)


SGLANG_TOGETHER = Kind(
    id="sglang-together",
    probe="prefix_reuse.sent_together",
    level=ENGINE,
    draw=lambda chance: {"prompt_tokens": chance.randrange(50, 1500)},
    workload=(
        Said(
            "SGLang, page size 1, an empty cache. Two requests with the same prompt of {prompt_tokens} tokens are taken into "
            "the same prefill batch.",
            "SGLang，页大小 1，缓存为空。两个请求的 prompt 相同，均为 {prompt_tokens} token，并被放进同一个 prefill batch。",
        ),
    ),
    asks=(_second_of_two(1),),
    why=(
        Said(
            "Cached tokens of the two: {cached_tokens}. The same prompt sent once more later: {cached_later}.",
            "两个请求的缓存 token：{cached_tokens}。之后再发一次：{cached_later}。",
        ),
        Said(
            "The tree learns a prompt when its prefill is done, so neither could find the other's.",
            "树要等 prefill 完成才知道这个 prompt，所以谁也找不到对方的。",
            lambda v: not any(v["cached_tokens"]),
        ),
    ),
)


KINDS = (REPEAT, SECOND_TURN, TOGETHER, SGLANG_REPEAT, SGLANG_SECOND_TURN, SGLANG_TOGETHER)
