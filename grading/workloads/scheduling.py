"""Who is in each step: seats, concurrency, chunks of a long prompt beside a decode."""

# ruff: noqa: E501  (a sentence is easier to translate on one line)

from __future__ import annotations

import random
from typing import Any

from inferproof.grading.workload import CONTROL, ENGINE, Ask, Kind, Said, around

REFILL = Kind(
    id="vllm-refill",
    probe="batching.refill",
    level=CONTROL,
    draw=lambda chance: {
        "seats": (seats := chance.randrange(2, 7)),
        "requests": chance.randrange(seats + 1, 3 * seats + 1),
    },
    workload=(
        Said(
            "vLLM with max_num_seqs {seats}. {requests} requests arrive at once, prompts of 32 tokens; they generate 8, "
            "16, 24, 32, 8, 16, ... tokens, in order of arrival.",
            "vLLM，max_num_seqs 为 {seats}。{requests} 个请求同时到达，prompt 均为 32 token，按到达顺序生成 8、16、24、32、"
            "8、16…… 个 token。",
        ),
    ),
    asks=(
        Ask("steps", "How many scheduler steps until all have finished?", "到全部完成共需多少个调度步？", share=0.1),
    ),
    why=(
        Said(
            "Requests entered at steps {entered_at} and got their last token at steps {left_at}.",
            "各请求进入的步：{entered_at}；拿到最后一个 token 的步：{left_at}。",
        ),
        Said(
            "Of {late_entries} that had to wait, {entered_next_step} entered in the step right after another finished. Groups "
            "that wait for their slowest member would have taken {static_steps} steps.",
            "{late_entries} 个需要等待的请求中，{entered_next_step} 个在别人完成后的下一步就进入。"
            "若一组必须等最慢的完成，则要 {static_steps} 步。",
        ),
    ),
)


CONCURRENCY = Kind(
    id="vllm-concurrency",
    probe="batching.steps_by_concurrency",
    level=CONTROL,
    draw=lambda chance: {
        "requests": chance.randrange(5, 25),
        "prompt_tokens": chance.randrange(32, 257),
        "max_tokens": chance.randrange(4, 49),
    },
    workload=(
        Said(
            "vLLM, room for everything. {requests} requests of {prompt_tokens} prompt tokens generate {max_tokens} tokens "
            "each; the client keeps 4 in flight and sends the next one when one has finished.",
            "vLLM，资源充足。{requests} 个请求，prompt 各 {prompt_tokens} token，各生成 {max_tokens} token；"
            "客户端保持 4 个在途，完成一个再发一个。",
        ),
    ),
    asks=(
        Ask(
            "steps", "How many engine steps does the whole load take?", "整个负载要多少个引擎步？", 1, near="max_tokens"
        ),
    ),
    why=(
        Said(
            "With 1, 4 and 16 in flight the load took {steps} steps for {output_tokens} output tokens, that is "
            "{tokens_per_step} tokens a step: every request in flight gets a token in every step.",
            "在途 1、4、16 个时分别用了 {steps} 步，输出 {output_tokens} 个 token，即每步 {tokens_per_step} 个："
            "每一步里每个在途请求都得到一个 token。",
        ),
    ),
)


INTERFERENCE = Kind(
    id="vllm-interference",
    probe="chunked_prefill.interference",
    level=CONTROL,
    draw=lambda chance: {
        "token_budget": chance.choice((256, 512, 1024, 2048)),
        "prompt_tokens": chance.randrange(800, 7169),
    },
    workload=(
        Said(
            "vLLM with chunked prefill and max_num_batched_tokens {token_budget}. One request is decoding when a prompt of "
            "{prompt_tokens} tokens arrives.",
            "vLLM，开启 chunked prefill，max_num_batched_tokens 为 {token_budget}。一个请求正在 decode，"
            "这时来了一个 {prompt_tokens} token 的 prompt。",
        ),
    ),
    asks=(
        Ask("prefill_steps", "How many steps does the prefill take?", "这次 prefill 要多少步？", near=1),
        Ask(
            "tokens_during_prefill",
            "How many tokens does the decoding request get in the steps of that prefill?",
            "在这次 prefill 的各步里，正在 decode 的请求总共得到多少个 token？",
            near=1,
        ),
        Ask(
            "long_tokens",
            "How many tokens of the long prompt are in the last step of its prefill?",
            "长 prompt 的 prefill 最后一步算了它的多少个 token？",
            at=-1,
            near=1,
        ),
    ),
    why=(
        Said(
            "The scheduler's plans: {long_tokens} tokens of the long prompt, and {stream_tokens} of the decoding request; it "
            "stood first in every plan: {stream_first}.",
            "调度计划：长 prompt 每步 {long_tokens} 个 token，正在 decode 的请求每步 {stream_tokens} 个；"
            "后者是否每步都排在最前：{stream_first}。",
        ),
        Said(
            "Decode is served first and takes its token from the same budget; the prompt gets the rest (at most "
            "{step_tokens} tokens in one step).",
            "decode 先排，从同一预算里拿走它的 token，prompt 用剩下的（一步最多共 {step_tokens} 个 token）。",
        ),
    ),
)


SGLANG_INTERFERENCE = Kind(
    id="sglang-interference",
    probe="chunked_prefill.interference",
    level=ENGINE,
    draw=lambda chance: {
        "chunk_tokens": (chunk := chance.choice((256, 512, 1024))),
        "mixed_chunk": chance.random() < 0.5,
        "prompt_tokens": around(chance, chunk, 7 * chunk),
    },
    workload=(
        Said(
            "SGLang with chunked_prefill_size {chunk_tokens}, mixed chunks: {mixed_chunk}. One request is decoding when a "
            "prompt of {prompt_tokens} tokens arrives.",
            "SGLang，chunked_prefill_size 为 {chunk_tokens}，mixed chunk：{mixed_chunk}。一个请求正在 decode，"
            "这时来了一个 {prompt_tokens} token 的 prompt。",
        ),
    ),
    asks=(
        Ask(
            "prefill_batches",
            "In how many prefill batches is that prompt computed?",
            "它被分成多少个 prefill batch？",
            near=1,
        ),
        Ask(
            "decodes_between",
            "How many decode batches run between the first and the last of its prefill batches?",
            "在它的第一个和最后一个 prefill batch 之间，跑了多少个 decode batch？",
        ),
    ),
    why=(
        Said(
            "By the engine's log: prefill batches of {long_tokens} tokens, {longest_run} of them in a row, {decodes_between} "
            "decode batches between. The decoding request got {tokens_during_prefill} tokens meanwhile.",
            "引擎日志：各 prefill batch {long_tokens} 个 token，连续 {longest_run} 个，中间 {decodes_between} 个 decode batch。"
            "期间正在 decode 的请求得到 {tokens_during_prefill} 个 token。",
        ),
        Said(
            "Mixed, the decoding request rides along in each prefill batch, and its token counts against the chunk.",
            "开启 mixed 时，正在 decode 的请求搭在每个 prefill batch 里，它的 token 也算在 chunk 内。",
            lambda v: v["mixed_chunk"],
        ),
        Said(
            "Without mixed chunks a chunk is only a cut: prefill goes before decode, chunk after chunk.",
            "不开 mixed，切块只是切开：prefill 优先于 decode，一块接一块。",
            lambda v: not v["mixed_chunk"],
        ),
    ),
)


def _plans(chance: random.Random) -> dict[str, Any]:
    budget, prompts = chance.choice((256, 512, 1024)), chance.randrange(2, 5)
    longest = 14 * budget // prompts  # more steps than that, and the requests in decode have finished before
    return {
        "token_budget": budget,
        "prompts": prompts,
        "prompt_tokens": chance.randrange(100, min(longest, 2000)),
        "decodes": chance.randrange(2, 9),
    }


PLANS = Kind(
    id="vllm-plans",
    probe="batching.step_plans",
    level=CONTROL,
    draw=_plans,
    workload=(
        Said(
            "vLLM with max_num_batched_tokens {token_budget}. {decodes} requests are decoding when {prompts} prompts of "
            "{prompt_tokens} tokens arrive at once.",
            "vLLM，max_num_batched_tokens 为 {token_budget}。{decodes} 个请求正在 decode，这时同时来了 {prompts} 个 "
            "{prompt_tokens} token 的 prompt。",
        ),
    ),
    asks=(Ask("steps", "In how many steps are all these prompts computed?", "这些 prompt 全部算完要多少步？", near=1),),
    why=(
        Said(
            "The decoding requests got {decode_tokens_by_step} tokens in these {steps} steps, before any prompt: "
            "{running_came_first}. No step had more than {most_tokens} tokens.",
            "这 {steps} 步里，正在 decode 的请求每步共得 {decode_tokens_by_step} 个 token，是否排在 prompt 之前："
            "{running_came_first}。每步最多 {most_tokens} 个 token。",
        ),
        Said(
            "What decode leaves of the budget goes to the prompts in order of arrival; the last chunk of one and the first "
            "of the next can share a step.",
            "decode 用剩的预算按到达顺序分给各 prompt；前一个的末块与后一个的首块可以同在一步。",
        ),
    ),
)


KINDS = (REFILL, CONCURRENCY, INTERFERENCE, SGLANG_INTERFERENCE, PLANS)
