"""`calc`: capacity arithmetic, by the functions that the probes use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any

import typer

from inferproof.reports.commands.common import chosen_language, console, fail, group, print_json, t
from inferproof.reports.commands.options import JsonOption, LangOption

app = group(
    "Capacity arithmetic in which Gb and GB, GB and GiB are never mixed up; the same functions as the probes.",
    "容量计算，绝不混淆 Gb 与 GB、GB 与 GiB；与探针用的是同一批函数。",
)

_DIMENSIONS = {
    "size": "size", "gpu": "size", "weights": "size", "workspace": "size", "rate": "rate", "latency": "time",
    "hidden": "time",
}  # fmt: skip

_DEFAULTS_AND_HELP: dict[str, tuple[Any, str]] = {
    "layers": (32, t("Decoder layers.", "层数。")),
    "kv_heads": (8, t("KV heads (not query heads).", "KV head 数（不是 Query head 数）。")),
    "head_dim": (128, t("Dimension of a head.", "每个 head 的维度。")),
    "value_bytes": (2, t("2 for BF16, 1 for FP8.", "BF16 为 2，FP8 为 1。")),
    "latent": (0, t("MLA: width of the latent.", "MLA：latent 宽度。")),
    "rope_dim": (0, t("MLA: width of the rope part.", "MLA：rope 部分的宽度。")),
    "tokens": (8192, t("Tokens of a request, output included.", "每请求 token 数，含输出。")),
    "requests": (1, t("Requests.", "请求数。")),
    "shared_tokens": (0, t("Prefix that all requests share.", "所有请求共享的前缀 token 数。")),
    "page_tokens": (1, t("Tokens of a page.", "每页 token 数。")),
    "ranks": (1, t("Tensor-parallel ranks.", "张量并行的 rank 数。")),
    "gpus": (8, t("GPUs in all.", "GPU 总数。")),
    "gpu": ("80 GiB", t("Memory of a GPU.", "单卡显存。")),
    "weights": ("15 GiB", t("Weights of the model.", "模型权重。")),
    "workspace": ("5 GiB", t("Activations, graphs, buffers on a GPU.", "每卡的激活、graph、缓冲。")),
    "size": ("1 GiB", t("Data: 1 GiB, 1 GB.", "数据量：1 GiB、1 GB。")),
    "rate": ("200 Gb/s", t("The link: 200 Gb/s, 25 GB/s.", "链路：200 Gb/s、25 GB/s。")),
    "efficiency": (1.0, t("Share of the rate that payload gets.", "有效带宽占比。")),
    "latency": ("0 s", t("Before the first byte.", "首字节前的延迟。")),
    "hidden": ("0 s", t("Runs beside other work.", "与其他工作重叠的时间。")),
    "prefill_tokens_s": (
        10000.0,
        t("Tokens a second of one prefill; measure it.", "单个 prefill 的 token/s，要实测。"),
    ),
    "hidden_size": (4096, t("Width of the model.", "hidden size。")),
    "experts": (128, t("Experts of a layer.", "每层专家数。")),
    "top_k": (8, t("Experts of a token.", "每 token 选几个专家。")),
    "inner_size": (768, t("Width inside an expert.", "专家中间维度。")),
    "rows": (None, t("Rows of each expert.", "各专家的行数。")),
}
_MODEL = ("layers", "kv_heads", "head_dim", "value_bytes", "latent", "rope_dim")
_KINDS = {"value_bytes": float, "rows": str | None}  # of options whose default does not tell it


def _calculator(
    name: str, path: str, options: Sequence[str], about: str, example: str, said: Mapping[str, str] = {}, **other: Any
) -> None:
    """A command that calls the function at `path` in `probes` with its options.

    said   what options say of themselves here, other than for the other calculators.
    other  defaults that are others.
    """

    def command(*, as_json: JsonOption = False, lang: LangOption = None, **given: Any) -> None:
        _calculate(name, path, given, as_json, lang)

    shared = list(Signature.from_callable(command, eval_str=True).parameters.values())[:-1]
    own = [_option(option, other, said) for option in options]
    command.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
    example = t(f"Example: inferproof calc {example}", f"例：inferproof calc {example}")
    app.command(name, help=f"{about}\n\n{example}")(command)


def _option(name: str, other: Mapping[str, Any], said: Mapping[str, str]) -> Parameter:
    default, text = _DEFAULTS_AND_HELP[name]
    metavar = "N,N,..." if name == "rows" else _DIMENSIONS.get(name, "").upper() or None
    option = typer.Option(other.get(name, default), metavar=metavar, help=said.get(name, text))
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=_KINDS.get(name, type(default)))


_calculator(
    "kv",
    "kv_size.kv_bytes",
    (*_MODEL, "tokens", "requests", "shared_tokens", "page_tokens", "ranks"),
    t("Bytes of KV for a token and for requests (MHA, GQA, MLA).", "每 token、每批请求的 KV 字节数（MHA、GQA、MLA）。"),
    "kv --layers 32 --kv-heads 8 --head-dim 128 --tokens 8192",
)
_calculator(
    "transfer",
    "transfer_time.transfer",
    ("size", "rate", "efficiency", "latency", "hidden"),
    t("How long an amount of data is on a link at the least.", "一定数据量在链路上至少要多久。"),
    'transfer --size "1 GiB" --rate "200 Gb/s"',
)
_calculator(
    "capacity",
    "capacity.plan",
    ("gpu", "weights", "workspace", *_MODEL, "tokens", "shared_tokens", "ranks"),
    t("How many requests fit beside the weights.", "扣除权重后能放多少请求。"),
    'capacity --gpu "80 GiB" --weights "15 GiB" --workspace "5 GiB" --layers 32 --kv-heads 8 --tokens 8192',
)
_calculator(
    "pd",
    "capacity.break_even",
    (*_MODEL, "tokens", "rate", "efficiency", "prefill_tokens_s"),
    t("Prefill elsewhere: the stall it removes against the transfer it adds.", "PD 分离：消除的停顿与增加的传输。"),
    'pd --tokens 8192 --rate "200 Gb/s" --prefill-tokens-s 10000',
)
_calculator(
    "tp",
    "replicas.split_or_copy",
    (
        "gpus", "ranks", "weights", "gpu", "workspace", "layers", "hidden_size", "kv_heads", "head_dim", "value_bytes",
        "tokens",
    ),
    t(
        "GPUs as replicas of so many tensor-parallel ranks: what they hold and exchange.",
        "把 GPU 分成若干个张量并行的副本：各放多少、通信多少。",
    ),
    'tp --gpus 8 --ranks 4 --weights "140 GiB" --layers 80 --hidden-size 8192',
    ranks=4,
)  # fmt: skip
_calculator(
    "experts",
    "expert_weights.weigh",
    ("layers", "experts", "top_k", "hidden_size", "inner_size", "value_bytes", "ranks", "rows"),
    t(
        "Weights of experts, and with --rows how unevenly a load falls on ranks.",
        "专家权重；给出 --rows 时计算各 rank 的负载不均。",
    ),
    "experts --experts 8 --top-k 2 --ranks 4 --rows 40,20,10,10,10,10,10,10",
    said={"ranks": t("Expert-parallel ranks.", "专家并行的 rank 数。")},
    layers=48,
    hidden_size=2048,
    ranks=8,
)


def _calculate(name: str, path: str, given: dict[str, Any], as_json: bool, lang: str | None) -> None:
    """Call a calculator with its command's arguments and show the result."""
    from inferproof.probes import units
    from inferproof.reports.calc_view import calc_json, calc_view

    language = chosen_language(lang)
    if "rows" in given:
        given["rows"] = _numbers(given["rows"])
    for option in given.keys() & _DIMENSIONS.keys():
        try:
            units.parse(given[option], _DIMENSIONS[option])
        except ValueError as error:
            fail(f"--{option}: {error}")
    module, _, function = path.partition(".")
    try:
        result = getattr(import_module(f"inferproof.probes.{module}"), function)(**given)
    except ValueError as error:
        fail(str(error))
    if as_json:
        print_json(calc_json(name, given, result))
    else:
        console().print(calc_view(name, given, result, language))


def _numbers(rows: str | None) -> list[float]:
    try:
        return [float(row) for row in rows.split(",")] if rows else []
    except ValueError:
        fail(
            t(
                f"--rows is '{rows}', expected numbers such as 40,20,10,10",
                f"--rows 为“{rows}”，应为 40,20,10,10 这样的数字",
            )
        )
