"""`calc`: capacity arithmetic, by the functions that the probes use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from inferproof.reports.commands.common import chosen_language, console, fail, group, print_json, t
from inferproof.reports.commands.options import JsonOption, LangOption

app = group(
    "Capacity arithmetic in which Gb and GB, GB and GiB are never mixed up; the same functions as the probes.",
    "容量计算，绝不混淆 Gb 与 GB、GB 与 GiB；与探针用的是同一批函数。",
)


def _example(en: str, zh: str, command: str) -> str:
    return t(f"{en}\n\nExample: inferproof calc {command}", f"{zh}\n\n例：inferproof calc {command}")


_LAYERS = Annotated[int, typer.Option(help=t("Decoder layers.", "层数。"))]
_KV_HEADS = Annotated[int, typer.Option(help=t("KV heads (not query heads).", "KV head 数（不是 Query head 数）。"))]
_HEAD_DIM = Annotated[int, typer.Option(help=t("Dimension of a head.", "每个 head 的维度。"))]
_VALUE_BYTES = Annotated[float, typer.Option(help=t("2 for BF16, 1 for FP8.", "BF16 为 2，FP8 为 1。"))]
_LATENT = Annotated[int, typer.Option(help=t("MLA: width of the latent.", "MLA：latent 宽度。"))]
_ROPE_DIM = Annotated[int, typer.Option(help=t("MLA: width of the rope part.", "MLA：rope 部分的宽度。"))]
_TOKENS = Annotated[int, typer.Option(help=t("Tokens of a request, output included.", "每请求 token 数，含输出。"))]
_SHARED = Annotated[int, typer.Option(help=t("Prefix that all requests share.", "所有请求共享的前缀 token 数。"))]
_RANKS = Annotated[int, typer.Option(help=t("Tensor-parallel ranks.", "张量并行的 rank 数。"))]
_GPU = Annotated[str, typer.Option(metavar="SIZE", help=t("Memory of a GPU.", "单卡显存。"))]
_WEIGHTS = Annotated[str, typer.Option(metavar="SIZE", help=t("Weights of the model.", "模型权重。"))]
_WORKSPACE = Annotated[
    str, typer.Option(metavar="SIZE", help=t("Activations, graphs, buffers on a GPU.", "每卡的激活、graph、缓冲。"))
]
_RATE = Annotated[
    str, typer.Option(metavar="RATE", help=t("The link: 200 Gb/s, 25 GB/s.", "链路：200 Gb/s、25 GB/s。"))
]
_EFFICIENCY = Annotated[float, typer.Option(help=t("Share of the rate that payload gets.", "有效带宽占比。"))]
_DIMENSIONS = {
    "size": "size", "gpu": "size", "weights": "size", "workspace": "size", "rate": "rate", "latency": "time",
    "hidden": "time",
}  # fmt: skip


@app.command(
    "kv",
    help=_example(
        "Bytes of KV for a token and for requests (MHA, GQA, MLA).",
        "每 token、每批请求的 KV 字节数（MHA、GQA、MLA）。",
        "kv --layers 32 --kv-heads 8 --head-dim 128 --tokens 8192",
    ),
)
def kv(
    layers: _LAYERS = 32,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    latent: _LATENT = 0,
    rope_dim: _ROPE_DIM = 0,
    tokens: _TOKENS = 8192,
    requests: Annotated[int, typer.Option(help=t("Requests.", "请求数。"))] = 1,
    shared_tokens: _SHARED = 0,
    page_tokens: Annotated[int, typer.Option(help=t("Tokens of a page.", "每页 token 数。"))] = 1,
    ranks: _RANKS = 1,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """KV size."""
    given = dict(locals())
    from inferproof.probes.kv_size import kv_bytes

    _calculate("kv", kv_bytes, given)


@app.command(
    "transfer",
    help=_example(
        "How long an amount of data is on a link at the least.",
        "一定数据量在链路上至少要多久。",
        'transfer --size "1 GiB" --rate "200 Gb/s"',
    ),
)
def transfer(
    size: Annotated[str, typer.Option(metavar="SIZE", help=t("Data: 1 GiB, 1 GB.", "数据量：1 GiB、1 GB。"))] = "1 GiB",
    rate: _RATE = "200 Gb/s",
    efficiency: _EFFICIENCY = 1.0,
    latency: Annotated[str, typer.Option(metavar="TIME", help=t("Before the first byte.", "首字节前的延迟。"))] = "0 s",
    hidden: Annotated[
        str, typer.Option(metavar="TIME", help=t("Runs beside other work.", "与其他工作重叠的时间。"))
    ] = "0 s",
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Transfer time."""
    given = dict(locals())
    from inferproof.probes.transfer_time import transfer

    _calculate("transfer", transfer, given)


@app.command(
    "capacity",
    help=_example(
        "How many requests fit beside the weights.",
        "扣除权重后能放多少请求。",
        'capacity --gpu "80 GiB" --weights "15 GiB" --workspace "5 GiB" --layers 32 --kv-heads 8 --tokens 8192',
    ),
)
def capacity(
    gpu: _GPU = "80 GiB",
    weights: _WEIGHTS = "15 GiB",
    workspace: _WORKSPACE = "5 GiB",
    layers: _LAYERS = 32,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    latent: _LATENT = 0,
    rope_dim: _ROPE_DIM = 0,
    tokens: _TOKENS = 8192,
    shared_tokens: _SHARED = 0,
    ranks: _RANKS = 1,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Capacity plan."""
    given = dict(locals())
    from inferproof.probes.capacity import plan

    _calculate("capacity", plan, given)


@app.command(
    "pd",
    help=_example(
        "Prefill elsewhere: the stall it removes against the transfer it adds.",
        "PD 分离：消除的停顿与增加的传输。",
        'pd --tokens 8192 --rate "200 Gb/s" --prefill-tokens-s 10000',
    ),
)
def pd(
    layers: _LAYERS = 32,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    latent: _LATENT = 0,
    rope_dim: _ROPE_DIM = 0,
    tokens: _TOKENS = 8192,
    rate: _RATE = "200 Gb/s",
    efficiency: _EFFICIENCY = 1.0,
    prefill_tokens_s: Annotated[
        float, typer.Option(help=t("Tokens a second of one prefill; measure it.", "单个 prefill 的 token/s，要实测。"))
    ] = 10000.0,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """PD break-even."""
    given = dict(locals())
    from inferproof.probes.capacity import break_even

    _calculate("pd", break_even, given)


@app.command(
    "tp",
    help=_example(
        "GPUs as replicas of so many tensor-parallel ranks: what they hold and exchange.",
        "把 GPU 分成若干个张量并行的副本：各放多少、通信多少。",
        'tp --gpus 8 --ranks 4 --weights "140 GiB" --layers 80 --hidden-size 8192',
    ),
)
def tp(
    gpus: Annotated[int, typer.Option(help=t("GPUs in all.", "GPU 总数。"))] = 8,
    ranks: _RANKS = 4,
    weights: _WEIGHTS = "15 GiB",
    gpu: _GPU = "80 GiB",
    workspace: _WORKSPACE = "5 GiB",
    layers: _LAYERS = 32,
    hidden_size: Annotated[int, typer.Option(help=t("Width of the model.", "hidden size。"))] = 4096,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    tokens: _TOKENS = 8192,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Ranks or replicas."""
    given = dict(locals())
    from inferproof.probes.replicas import split_or_copy

    _calculate("tp", split_or_copy, given)


@app.command(
    "experts",
    help=_example(
        "Weights of experts, and with --rows how unevenly a load falls on ranks.",
        "专家权重；给出 --rows 时计算各 rank 的负载不均。",
        "experts --experts 8 --top-k 2 --ranks 4 --rows 40,20,10,10,10,10,10,10",
    ),
)
def experts(
    layers: _LAYERS = 48,
    experts: Annotated[int, typer.Option(help=t("Experts of a layer.", "每层专家数。"))] = 128,
    top_k: Annotated[int, typer.Option(help=t("Experts of a token.", "每 token 选几个专家。"))] = 8,
    hidden_size: Annotated[int, typer.Option(help=t("Width of the model.", "hidden size。"))] = 2048,
    inner_size: Annotated[int, typer.Option(help=t("Width inside an expert.", "专家中间维度。"))] = 768,
    value_bytes: _VALUE_BYTES = 2,
    ranks: Annotated[int, typer.Option(help=t("Expert-parallel ranks.", "专家并行的 rank 数。"))] = 8,
    rows: Annotated[
        str | None, typer.Option(metavar="N,N,...", help=t("Rows of each expert.", "各专家的行数。"))
    ] = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Experts."""
    given = dict(locals())
    from inferproof.probes.expert_weights import weigh

    try:
        given["rows"] = [float(row) for row in rows.split(",")] if rows else []
    except ValueError:
        fail(
            t(
                f"--rows is '{rows}', expected numbers such as 40,20,10,10",
                f"--rows 为“{rows}”，应为 40,20,10,10 这样的数字",
            )
        )
    _calculate("experts", weigh, given)


def _calculate(name: str, function: Callable[..., Any], given: dict[str, Any]) -> None:
    """Call a calculator with its command's arguments and show the result."""
    from inferproof.probes import units
    from inferproof.reports.calc_view import calc_json, calc_view

    as_json, language = given.pop("as_json"), chosen_language(given.pop("lang"))
    for option in given.keys() & _DIMENSIONS.keys():
        try:
            units.parse(given[option], _DIMENSIONS[option])
        except ValueError as error:
            fail(f"--{option}: {error}")
    try:
        result = function(**given)
    except ValueError as error:
        fail(str(error))
    if as_json:
        print_json(calc_json(name, given, result))
    else:
        console().print(calc_view(name, given, result, language))
