"""Cases to diagnose: which recorded runs show one of the eight symptoms, and what of them a person is given to read.

A case is evidence: every number in it was observed by a probe. Where the symptom itself cannot be seen on this machine
(a speedup that did not come, a complaint about TTFT), the text says "suppose".
"""

# ruff: noqa: E501  (a sentence is easier to translate on one line)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from inferproof.grading.workload import Said, Values


@dataclass(frozen=True)
class Case:
    """One kind of case: a run of `probe` for which `when` holds shows the symptom of a rubric point."""

    id: str
    point: str
    """The point of the card `diagnose-bottleneck` that the answer is graded by."""
    engine: str
    probe: str
    when: Callable[[Values], bool]
    """Over the run's parameters and observations."""
    says: tuple[Said, ...]
    columns: tuple[Said, ...] = ()
    rows: Callable[[Values], Sequence[Sequence[Any]]] = lambda _: ()
    log: bool = False
    """Whether the engine's own log lines are shown too, where they are kept."""


def _all_rise(v: Values) -> bool:
    tokens, ttft, gap = v["output_tok_s"], v["ttft_ms"], v["itl_p10_ms"]
    return bool(tokens[-1] > 1.3 * tokens[0] and ttft[-1] > 1.5 * ttft[0] and gap[-1] > gap[0])


def _flat(v: Values) -> bool:
    """Nearly all tokens hit at a level that has times, and the time fell far less than the work."""
    if not v["warm_ttft_ms"] or v["warm_cached_tokens"] < 0.9 * v["prompt_tokens"]:
        return False
    return bool(v["prompt_tokens"] / v["recomputed_tokens"] > 2 * v["cold_ttft_ms"] / v["warm_ttft_ms"])


_CONCURRENCY = Said("concurrency", "并发")
_SUPPOSE_TTFT = Said(
    "Suppose that users complain of a high TTFT. This is what the engine says of itself:",
    "假设用户抱怨 TTFT 高。引擎自己的说法如下：",
)
_QUANTITY, _VALUE = Said("quantity", "量"), Said("value", "值")


def _loop_cases(engine: str, name: str) -> tuple[Case, ...]:
    load = Said(
        f"{name}. A closed loop of {{requests}} requests, {{prompt_tokens}} prompt tokens and {{max_tokens}} generated ones each, at three concurrencies.",
        f"{name}。闭环负载：{{requests}} 个请求，prompt 各 {{prompt_tokens}} token，各生成 {{max_tokens}} 个，三种并发。",
    )
    return (
        Case(
            f"{engine}-concurrency", "concurrency-all-rise", engine, "batching.closed_loop", _all_rise, (load,),
            (_CONCURRENCY, Said("output tok/s", "输出 tok/s"), Said("mean TTFT, ms", "平均 TTFT，ms"), Said("ITL p10, ms", "ITL p10，ms")),
            lambda v: list(zip(v["concurrency"], v["output_tok_s"], v["ttft_ms"], v["itl_p10_ms"], strict=True)),
        ),
        Case(
            f"{engine}-tail", "tail-not-mean", engine, "batching.closed_loop",
            lambda v: any(tail > 3 * mean for tail, mean in zip(v["itl_p99_ms"], v["tpot_ms"], strict=True)), (load,),
            (_CONCURRENCY, Said("mean TPOT, ms", "平均 TPOT，ms"), Said("ITL p10, ms", "ITL p10，ms"), Said("ITL p99, ms", "ITL p99，ms")),
            lambda v: list(zip(v["concurrency"], v["tpot_ms"], v["itl_p10_ms"], v["itl_p99_ms"], strict=True)),
        ),
    )  # fmt: skip


def _hit_case(engine: str, name: str) -> Case:
    return Case(
        f"{engine}-hit", "prefix-hit-flat", engine, "prefix_cache.repeat_prompt", _flat,
        (Said(f"{name}. A prompt of {{prompt_tokens}} tokens, and the same again. The hit rate is high, and TTFT falls far less than the work.",
              f"{name}。一个 {{prompt_tokens}} token 的 prompt，然后再发一次。命中率很高，TTFT 的降幅却远小于工作量的降幅。"),),
        (Said("send", "发送"), Said("cached tokens", "缓存 token"), Said("computed tokens", "计算 token"), Said("TTFT, ms", "TTFT，ms")),
        lambda v: [(1, v["cold_cached_tokens"], v["prompt_tokens"], v["cold_ttft_ms"]),
                   (2, v["warm_cached_tokens"], v["recomputed_tokens"], v["warm_ttft_ms"])],
    )  # fmt: skip


CASES = (
    *_loop_cases("vllm", "vLLM"),
    *_loop_cases("sglang", "SGLang"),
    _hit_case("vllm", "vLLM"),
    _hit_case("sglang", "SGLang"),
    Case(
        "vllm-gap", "tail-not-mean", "vllm", "chunked_prefill.budgets", lambda v: bool(v["large_gap_over_base"] > 3),
        (Said("vLLM. One request streams {stream_tokens} tokens; once, a prompt of {prompt_tokens} tokens arrives. The stream's median gap tells nothing of it, its worst gap does.",
              "vLLM。一个请求流式输出 {stream_tokens} 个 token；其间来过一个 {prompt_tokens} token 的 prompt。流的间隔中位数看不出什么，最大间隔却很大。"),),
        (Said("token budget", "token 预算"), Said("median gap before, ms", "之前的间隔中位数，ms"), Said("largest gap, ms", "最大间隔，ms"),
         Said("long prompt's TTFT, ms", "长 prompt 的 TTFT，ms")),
        lambda v: [(v[size], v["base_gap_ms"], v[f"{size}_gap_ms"], v[f"{size}_prefill_ms"]) for size in ("large", "small")],
    ),
    Case(
        "sglang-chunks", "small-chunk-worse", "sglang", "chunked_prefill.interference",
        lambda v: not v["mixed_chunk"] and v["prefill_batches"] > 2 and v["decodes_between"] == 0,
        (Said("SGLang, chunked_prefill_size {chunk_tokens}: the chunks were made small so that streams would not stall. A request streams, and a prompt of {prompt_tokens} tokens arrives. Suppose that the stream's p99 gap was no worse with large chunks.",
              "SGLang，chunked_prefill_size 为 {chunk_tokens}：切小是为了不让流卡住。一个请求在流式输出，来了一个 {prompt_tokens} token 的 prompt。假设大 chunk 时流的 p99 间隔并不比这更差。"),),
        (_QUANTITY, _VALUE),
        lambda v: [
            (Said("stream's median gap before, ms", "之前流的间隔中位数，ms"), v["base_gap_ms"]),
            (Said("stream's worst gap, ms", "流的最大间隔，ms"), v["gap_ms"]),
            (Said("long prompt's TTFT, ms", "长 prompt 的 TTFT，ms"), v["prefill_ms"]),
        ],
        log=True,
    ),
    Case(
        "sglang-zero", "zero-retractions-slow", "sglang", "kv_pressure.overcommit",
        lambda v: v["retractions"] == 0 and v["max_waiting"] > 0 and v["demanded_tokens"] > v["pool_tokens"],
        (Said("SGLang with a KV pool of {pool_tokens} tokens; {requests} requests of {prompt_tokens} prompt tokens and {max_tokens} to generate arrive at once.",
              "SGLang，KV 池 {pool_tokens} token；{requests} 个请求同时到达，prompt 各 {prompt_tokens} token，各要生成 {max_tokens} 个。"),
         _SUPPOSE_TTFT),
        (_QUANTITY, _VALUE),
        lambda v: [("num_retracted_requests_total", v["retractions"]), (Said("largest token usage", "token usage 最大值"), v["kv_usage_peak"])],
        log=True,
    ),
    Case(
        "sglang-retracted", "tail-not-mean", "sglang", "kv_pressure.overcommit", lambda v: v["retractions"] > 0,
        (Said("SGLang with a KV pool of {pool_tokens} tokens; {requests} requests of {prompt_tokens} prompt tokens and {max_tokens} to generate arrive at once. Suppose that p99 ITL is bad and mean TPOT looks normal. The counters after the run:",
              "SGLang，KV 池 {pool_tokens} token；{requests} 个请求同时到达，prompt 各 {prompt_tokens} token，各要生成 {max_tokens} 个。假设 p99 ITL 很差，平均 TPOT 正常。运行之后的计数："),),
        (_QUANTITY, _VALUE),
        lambda v: [("num_retracted_requests_total", v["retractions"]), ("num_retracted_input_tokens_total", v["retracted_input_tokens"]),
                   ("num_retracted_output_tokens_total", v["retracted_output_tokens"]), (Said("num_retracted_reqs (a gauge)", "num_retracted_reqs（gauge）"), v["retracted_gauge_after"])],
        log=True,
    ),
    Case(
        "vllm-accepted", "accepted-not-faster", "vllm", "speculation.ngram_run", lambda v: v["acceptance_rate"] > 0.6,
        (Said("vLLM with n-gram speculation, {width} drafts a step, one request of {max_tokens} output tokens. Suppose that in your service the counters look like these and nothing gets faster.",
              "vLLM，n-gram 投机，每步 {width} 个草稿，一个请求输出 {max_tokens} 个 token。假设你的服务里计数也是这样，却没有变快。"),),
        (_QUANTITY, _VALUE),
        lambda v: [("spec_decode_num_drafts", v["drafts"]), ("spec_decode_num_draft_tokens", v["draft_tokens"]),
                   ("spec_decode_num_accepted_tokens", v["accepted_tokens"]), (Said("engine steps", "引擎步数"), v["speculative_steps"])],
    ),
    Case(
        "vllm-long-prefill", "graph-long-prefill", "vllm", "cuda_graph.dispatch", lambda v: not v["decode"] and "NONE" in v["modes"] and max(v["tokens"]) > 2000,
        (Said("vLLM's own dispatcher was asked which CUDA graph a prefill of this size gets. Suppose that graphs were switched on and the TTFT of long prompts did not move.",
              "问 vLLM 自己的 dispatcher：这样大小的 prefill 会用哪种 CUDA Graph。假设开了 Graph，长 prompt 的 TTFT 却没有变化。"),),
        (Said("prefill tokens", "prefill token"), Said("graph", "Graph"), Said("padded to", "补齐到")),
        lambda v: list(zip(v["tokens"], v["modes"], v["padded_tokens"], strict=True)),
    ),
    *(
        Case(
            f"{engine}-graphs", "graph-short-decode", engine, "graph_replay.decode", lambda v: v["speedup"] > 2,
            (Said(f"{name} on a GPU. One request decodes {{max_tokens}} tokens, without CUDA graphs and with them.",
                  f"{name}，GPU。一个请求 decode {{max_tokens}} 个 token，先不开 CUDA Graph，再打开。"),),
            (Said("graphs", "Graph"), Said("output tok/s", "输出 tok/s")),
            lambda v: [(Said("off", "关"), v["eager_tokens_per_s"]), (Said("on", "开"), v["graph_tokens_per_s"])],
        )
        for engine, name in (("vllm", "vLLM"), ("sglang", "SGLang"))
    ),
)  # fmt: skip
