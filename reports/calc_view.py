"""What `calc` shows: what was given, what comes out, and how far to trust it."""

# ruff: noqa: E501  (a sentence is easier to translate on one line)

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inferproof.probes.units import Quantity, readable
from inferproof.questions.card import Language
from inferproof.reports import values

if TYPE_CHECKING:
    from rich.console import Group

_LABELS: dict[str, tuple[str, str]] = {
    # what is given
    "layers": ("layers", "层数"),
    "kv_heads": ("KV heads", "KV head 数"),
    "head_dim": ("head dimension", "head 维度"),
    "value_bytes": ("bytes a value", "每元素字节"),
    "latent": ("MLA latent", "MLA latent"),
    "rope_dim": ("MLA rope dimension", "MLA rope 维度"),
    "tokens": ("tokens a request", "每请求 token"),
    "requests": ("requests", "请求数"),
    "shared_tokens": ("shared prefix", "共享前缀 token"),
    "page_tokens": ("tokens a page", "每页 token"),
    "ranks": ("ranks", "rank 数"),
    "gpu": ("GPU memory", "GPU 显存"),
    "weights": ("weights", "权重"),
    "workspace": ("workspace", "工作区"),
    "gpus": ("GPUs", "GPU 数"),
    "hidden_size": ("hidden size", "hidden size"),
    "inner_size": ("expert's inner size", "专家中间维度"),
    "experts": ("experts", "专家数"),
    "top_k": ("experts a token", "每 token 专家数"),
    "rows": ("rows of each expert", "各专家行数"),
    "size": ("data", "数据量"),
    "rate": ("link", "链路"),
    "efficiency": ("efficiency", "效率"),
    "latency": ("latency", "固定延迟"),
    "hidden": ("hidden time", "被掩盖的时间"),
    "prefill_tokens_s": ("prefill rate, tokens/s", "prefill 速率 token/s"),
    # what comes out
    "per_token": ("KV of a token", "每 token 的 KV"),
    "per_token_and_rank": ("KV of a token on a rank", "每 token 每 rank 的 KV"),
    "tokens_held": ("tokens held", "占用的 token"),
    "total": ("in total", "合计"),
    "on_each_rank": ("on each rank", "每个 rank"),
    "over_all_ranks": ("over all ranks", "所有 rank 合计"),
    "wire_time": ("lower bound", "理论下限"),
    "time": ("with efficiency and latency", "计入效率与延迟"),
    "exposed_time": ("exposed", "暴露在外"),
    "time_if_bits_were_bytes": ("if the rate were bytes", "若把速率误读成字节"),
    "time_if_powers_of_ten": ("if the size were in powers of ten", "若数据量按 10 的幂"),
    "kv_per_token": ("KV of a token", "每 token 的 KV"),
    "kv_per_request": ("KV of a request", "每请求的 KV"),
    "kv_pool_on_each_gpu": ("left for KV on each GPU", "每卡留给 KV"),
    "kv_pool_tokens": ("tokens that the pool holds", "KV 池可放 token"),
    "kv_to_move": ("KV to move", "要搬的 KV"),
    "stall_removed": ("stall removed from decode", "从 decode 消除的停顿"),
    "transfer_added": ("transfer added to TTFT", "TTFT 增加的传输"),
    "stall_over_transfer": ("stall over transfer", "停顿与传输之比"),
    "break_even_rate": ("break-even link rate", "盈亏平衡的链路速率"),
    "requests_the_link_carries": ("prompts that the link carries", "链路可承载的 prompt"),
    "replicas": ("replicas", "副本数"),
    "weights_held": ("weights on all GPUs", "权重总占用"),
    "weights_read_a_step": ("weights that a GPU reads a step", "每步每卡读的权重"),
    "largest_cache_tokens": ("largest single cache", "单个缓存上限 token"),
    "all_reduces_a_step": ("all-reduces a step", "每步 all-reduce 次数"),
    "sent_a_token_and_rank": ("sent by a rank for a token", "每 token 每 rank 发送"),
    "expert_weights": ("weights of all experts", "全部专家权重"),
    "weights_used_by_a_token": ("weights that a token uses", "一个 token 用到的权重"),
    "weights_on_each_rank": ("expert weights on a rank", "每 rank 的专家权重"),
    "weights_over_used": ("held over used", "驻留与使用之比"),
    "busiest_rank_over_mean": ("busiest rank over the mean", "最忙 rank 与均值之比"),
    "share_of_time_waiting": ("share of time spent waiting", "等待时间占比"),
}  # fmt: skip
_HEADS = ("kv_heads", "head_dim")
"""What a model with a latent has not."""
_NOTES = {
    "kv": ("What an engine materialises may differ (MLA, scales); `inferproof verify kv_size.pool` weighs real pools.", "引擎实际分配可能不同（MLA、scale）；`inferproof verify kv_size.pool` 会称量真实的池。"),
    "transfer": ("A lower bound: protocol, queueing, host copies and synchronisation come on top.", "这是下限：协议、排队、Host 拷贝和同步另计。"),
    "capacity": ("What fits, not what meets an SLO: compute may run out before memory.", "这是放得下多少，不代表达到 SLO：算力可能先用完。"),
    "pd": ("The stall is that of one unchunked prefill; decide by an experiment on the same number of GPUs.", "停顿按一次不分块的 prefill 计；最终要用相同 GPU 数的实验决定。"),
    "tp": ("Memory and bytes only; latencies of collectives must be measured on the link in question.", "只算显存与字节；集合通信的延迟要在目标链路上测。"),
    "experts": ("Experts only; waiting assumes that a layer takes as long as its busiest rank.", "只计专家；等待时间假定每层由最忙的 rank 决定。"),
}  # fmt: skip


def calc_view(calculator: str, given: Mapping[str, Any], result: Mapping[str, Quantity], language: Language) -> Group:
    """The parameters on one line, then a line for each result, then what it does not say."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    zh = language == "zh"
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="bold")
    for name, quantity in result.items():
        table.add_row(
            _label(name, zh), str(quantity if quantity.unit in ("Gb/s", "GB/s", "ms") else readable(quantity))
        )
    shown = {name: value for name, value in given.items() if value and not (given.get("latent") and name in _HEADS)}
    parameters = ("；" if zh else "; ").join(f"{_label(name, zh)} {values.value(v)}" for name, v in shown.items())
    return Group(Text(parameters, style="dim"), Text(), table, Text(), Text(_NOTES[calculator][zh], style="italic"))


def calc_json(calculator: str, given: Mapping[str, Any], result: Mapping[str, Quantity]) -> dict[str, Any]:
    """`{"calculator", "given": {name: value}, "result": {name: {"value", "unit"}}}`."""
    named = {name: {"value": quantity.value, "unit": quantity.unit} for name, quantity in result.items()}
    return {"calculator": calculator, "given": dict(given), "result": named}


def _label(name: str, zh: bool) -> str:
    return _LABELS[name][zh]
