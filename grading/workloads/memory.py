"""Too small a KV pool: who is let in, who is thrown out."""

# ruff: noqa: E501  (a sentence is easier to translate on one line)

from __future__ import annotations

import random
from typing import Any

from inferproof.grading.workload import COMPONENT, CONTROL, ENGINE, Ask, Kind, Said

_ALL_AT_ONCE = Said(
    "{requests} requests arrive at once, each with {prompt_tokens} prompt tokens and {max_tokens} to generate; "
    "all prompts differ.",
    "{requests} 个请求同时到达，各有 {prompt_tokens} 个 prompt token，要生成 {max_tokens} 个；prompt 互不相同。",
)


def _overcommit(chance: random.Random) -> dict[str, Any]:
    pool = chance.choice((1024, 2048, 4096))
    prompt, most = chance.randrange(pool // 16, pool // 4), chance.randrange(pool // 16, pool // 8)
    return {
        "pool_tokens": pool,
        "requests": pool // (prompt + most) + chance.randrange(1, 5),
        "prompt_tokens": prompt,
        "max_tokens": most,
        "prefix_caching": chance.random() < 0.7,
    }


OVERCOMMIT = Kind(
    id="vllm-overcommit",
    probe="kv_pressure.overcommit",
    level=CONTROL,
    draw=_overcommit,
    workload=(
        Said(
            "vLLM with a KV pool of {pool_tokens} tokens in blocks of 16 and a token budget of 8192. Prefix caching: "
            "{prefix_caching}.",
            "vLLM，KV 池 {pool_tokens} token，块大小 16，token 预算 8192。前缀缓存：{prefix_caching}。",
        ),
        _ALL_AT_ONCE,
    ),
    asks=(
        Ask("preemptions", "How many preemptions until all have finished?", "到全部完成为止，发生多少次抢占？", near=1),
        Ask(
            "max_running",
            "How many requests run at the same time at most?",
            "最多有多少个请求同时在运行？",
            near=1,
        ),
    ),
    why=(
        Said(
            "{usable_tokens} tokens can be used (block 0 never is); {demanded_tokens} are asked for in all. At most "
            "{max_running} requests ran and {max_waiting} waited; it took {steps} steps.",
            "可用 {usable_tokens} token（0 号块从不使用），总需求 {demanded_tokens}。最多 {max_running} 个在跑、"
            "{max_waiting} 个在等；共 {steps} 步。",
        ),
        Said(
            "vLLM admits by the prompt and reserves nothing for the output, so running requests outgrow the pool: the last of "
            "the running queue loses its blocks. Victims, from 0: {victims}, at steps {victim_steps}.",
            "vLLM 按 prompt 准入，不为输出预留，运行中的请求会把池撑满：running 队列末尾的请求让出它的块。"
            "被抢占的请求（从 0 数）：{victims}，在第 {victim_steps} 步。",
            lambda v: v["preemptions"] > 0,
        ),
        Said(
            "They ran again at steps {resume_steps} with {resumed_computed_tokens} tokens found in the cache; "
            "{repeated_prefill_tokens} tokens were computed a second time.",
            "它们在第 {resume_steps} 步恢复，缓存里找回 {resumed_computed_tokens} 个 token；共有 "
            "{repeated_prefill_tokens} 个 token 被重算。",
            lambda v: v["preemptions"] > 0,
        ),
        Said(
            "At every step each running request could have another block, so nobody was preempted.",
            "每一步都还够每个运行中的请求再拿一块，所以没有抢占。",
            lambda v: v["preemptions"] == 0 and not v["pool_filled"],
        ),
        Said(
            "The pool did get down to fewer free blocks than running requests, but whoever needed a block still got one.",
            "空闲块数一度少于运行请求数，但需要新块的请求都拿到了。",
            lambda v: v["preemptions"] == 0 and v["pool_filled"],
        ),
    ),
)


def _sglang_overcommit(chance: random.Random) -> dict[str, Any]:
    pool, prompt, most = chance.choice((1024, 1536)), chance.randrange(64, 256), chance.randrange(48, 160)
    return {
        "pool_tokens": pool,
        "requests": pool // (prompt + most) + chance.randrange(1, 4),
        "prompt_tokens": prompt,
        "max_tokens": most,
        "chunk_tokens": chance.choice((256, 512)),
        "mixed_chunk": chance.random() < 0.5,
        "schedule_conservativeness": chance.choice((0.1, 0.3, 1.0)),
    }


SGLANG_OVERCOMMIT = Kind(
    id="sglang-overcommit",
    probe="kv_pressure.overcommit",
    level=ENGINE,
    draw=_sglang_overcommit,
    workload=(
        Said(
            "SGLang with a KV pool of {pool_tokens} tokens, chunked_prefill_size {chunk_tokens}, mixed chunks: {mixed_chunk}, "
            "schedule_conservativeness {schedule_conservativeness}.",
            "SGLang，KV 池 {pool_tokens} token，chunked_prefill_size {chunk_tokens}，mixed chunk：{mixed_chunk}，"
            "schedule_conservativeness {schedule_conservativeness}。",
        ),
        _ALL_AT_ONCE,
    ),
    asks=(
        Ask(
            "retractions",
            "How many retractions until all have finished?",
            "到全部完成为止，发生多少次 retraction？",
            near=1,
        ),
        Ask(
            "max_running", "How many requests decode at the same time at most?", "最多有多少个请求同时 decode？", near=1
        ),
    ),
    why=(
        Said(
            "{demanded_tokens} tokens were asked of {pool_tokens}. At most {max_running} requests ran and {max_waiting} waited; "
            "the pool was used up to {kv_usage_peak} of it.",
            "总需求 {demanded_tokens} token，池里 {pool_tokens}。最多 {max_running} 个在跑、{max_waiting} 个在等；"
            "池的最高使用率 {kv_usage_peak}。",
        ),
        Said(
            "SGLang lets a request in only if its prompt, its whole max_new_tokens and a share of what the running ones may "
            "still need fit; hence waiting instead of retracting.",
            "SGLang 只有在 prompt、全部 max_new_tokens、加上运行中请求预计还要的部分都放得下时才准入，所以是等待而不是回退。",
            lambda v: v["retractions"] == 0 and v["max_waiting"] > 0,
        ),
        Said(
            "The share reserved for running requests was down to {new_token_ratio_before}; the pool filled, {tokens_gained} "
            "tokens were freed, and the share went up to {new_token_ratio_after}. Retractions by request: "
            "{retractions_by_request}.",
            "为运行中请求预留的比例已降到 {new_token_ratio_before}；池满后释放了 {tokens_gained} 个 token，"
            "比例升到 {new_token_ratio_after}。各请求被回退的次数：{retractions_by_request}。",
            lambda v: v["retractions"] > 0,
        ),
    ),
)


def _budget(chance: random.Random) -> dict[str, Any]:
    most = chance.randrange(64, 600, 8)
    return {
        "free_tokens": chance.randrange(1024, 8193, 128),
        "running": (running := chance.choice((0, 2, 3, 4))),
        "output_tokens": chance.randrange(0, most) if running else 0,
        "prompt_tokens": chance.randrange(128, 1500, 8),
        "max_tokens": most,
        "ratio": chance.choice((0.098, 0.3, 0.7, 1.0)),
    }


ADMISSION = Kind(
    id="sglang-admission",
    probe="admission.prefill_budget",
    level=COMPONENT,
    draw=_budget,
    workload=(
        Said(
            "SGLang's PrefillAdder: {free_tokens} KV tokens are free, new_token_ratio {ratio}, no chunking, page size 1, "
            "nothing cached.",
            "SGLang 的 PrefillAdder：空闲 KV {free_tokens} token，new_token_ratio {ratio}，不切块，页大小 1，缓存为空。",
        ),
        Said(
            "{running} requests are running, with {output_tokens} of their {max_tokens} tokens generated.",
            "{running} 个请求在运行，各已生成 {output_tokens} 个 token（上限 {max_tokens}）。",
            lambda p: p["running"] > 0,
        ),
        Said(
            "8 requests wait, each with a prompt of {prompt_tokens} tokens and max_new_tokens {max_tokens}.",
            "8 个请求在等，prompt 各 {prompt_tokens} token，max_new_tokens {max_tokens}。",
        ),
    ),
    asks=(Ask("admitted", "How many of them are admitted into this batch?", "这一批准入其中多少个？", near=1),),
    why=(
        Said(
            "{reserved_tokens} tokens were held back for the running requests. The budget before each decision and at the "
            "end: {budgets_tokens}; an admitted request took off {charged_tokens}. The last answer was {stopped_by}.",
            "为运行中的请求预留了 {reserved_tokens} 个 token。每次决定前以及最后的预算：{budgets_tokens}；"
            "每个被准入的请求扣掉 {charged_tokens}。最后的答复是 {stopped_by}。",
        ),
        Said(
            "Only running requests are discounted by the ratio; a newcomer is charged its prompt and all of max_new_tokens.",
            "只有运行中的请求按比例折算；新来的要按 prompt 加全部 max_new_tokens 计。",
        ),
    ),
)


def _retracted(chance: random.Random) -> dict[str, Any]:
    count = chance.randrange(3, 6)
    outputs = [chance.randrange(1, 400) for _ in range(count)]
    if chance.random() < 0.5:
        outputs[chance.randrange(1, count)] = outputs[0]
    return {
        "output_tokens": outputs,
        "prompt_tokens": [chance.randrange(100, 1500) for _ in range(count)],
        "fits": chance.randrange(1, count),
    }


RETRACTED = Kind(
    id="sglang-retracted",
    probe="victim.retracted",
    level=COMPONENT,
    draw=_retracted,
    workload=(
        Said(
            "SGLang's decode batch does not fit any more and must shrink until {fits} of its requests are left. Their prompts, from request 0 on: "
            "{prompt_tokens} tokens; generated so far: {output_tokens}.",
            "SGLang 的 decode batch 放不下了，必须缩到 {fits} 个请求。从 0 号起，prompt 长度：{prompt_tokens}；"
            "已生成：{output_tokens}。",
        ),
    ),
    asks=(Ask("retracted", "Which request (its number) is retracted first?", "最先被回退的是几号请求？", at=0),),
    why=(
        Said(
            "Retracted in this order: {retracted}, with {outputs_of_retracted} tokens generated; kept: {kept}.",
            "回退顺序：{retracted}，它们已生成 {outputs_of_retracted} 个 token；留下：{kept}。",
        ),
        Said(
            "Who has generated least goes first, since least is lost; among equals, the longest prompt.",
            "先退已生成最少的，因为损失最小；相同时先退 prompt 最长的。",
        ),
    ),
)


RATIO = Kind(
    id="sglang-ratio",
    probe="admission.new_token_ratio",
    level=COMPONENT,
    draw=lambda chance: {
        "schedule_conservativeness": chance.choice((0.3, 0.5, 1.0, 1.3)),
        "decode_steps": chance.choice((50, 100, 200, 300, 400, 500, 700)),
    },
    workload=(
        Said(
            "SGLang with schedule_conservativeness {schedule_conservativeness}. After a start, {decode_steps} decode batches "
            "run without a retraction.",
            "SGLang，schedule_conservativeness 为 {schedule_conservativeness}。启动后跑了 {decode_steps} 个 decode batch，"
            "没有 retraction。",
        ),
    ),
    asks=(
        Ask("after_decay", "What is new_token_ratio then?", "这时 new_token_ratio 是多少？", share=0.1, decimals=2),
        Ask(
            "initial",
            "What was new_token_ratio at the start?",
            "启动时 new_token_ratio 是多少？",
            share=0.1,
            decimals=2,
        ),
    ),
    why=(
        Said(
            "It began at {initial}, lost {decay} with every decode batch, and reaches its floor {floor} after "
            "{steps_to_floor} of them; here it stood at {after_decay}. A retraction or an idle moment sets it anew.",
            "它从 {initial} 开始，每个 decode batch 减 {decay}，{steps_to_floor} 个后到下限 {floor}；"
            "这里停在 {after_decay}。发生 retraction 或空闲时会重设。",
        ),
    ),
)


KINDS = (OVERCOMMIT, SGLANG_OVERCOMMIT, ADMISSION, RETRACTED, RATIO)
