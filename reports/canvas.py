"""What all pictures share: size, colours, fonts, the legend, and how a file is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BLUE, ORANGE, SAND, RED, GREY, INK = "#3b6ea5", "#d98c3f", "#f0d9bd", "#b5403a", "#d9dde2", "#2b2f36"
CJK_FONTS = ("Noto Sans CJK SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
             "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "SimHei",
             "Noto Sans CJK JP")  # fmt: skip


def figure(height: float, panels: int = 1, heights: Sequence[float] | None = None) -> tuple[Any, Any]:
    """A figure 8 inches wide and its panels, above one another on one x axis, as high as `heights` to one another."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(8, height), layout="constrained")
    return made, made.subplots(panels, 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]


def legend(axes: Any, colours: Mapping[str, str], above: float = 1.0) -> None:
    """A key of colours in one row above the panel."""
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=label) for label, colour in colours.items()]
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, above), ncols=len(handles), frameon=False, handlelength=1
    )


def style(font: str | None) -> dict[str, Any]:
    """Settings that hold while pictures are drawn."""
    return {
        "font.family": [font, "DejaVu Sans"] if font else ["DejaVu Sans"], "font.size": 10,
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#9aa1ab", "axes.labelcolor": INK,
        "text.color": INK, "xtick.color": INK, "ytick.color": INK, "axes.axisbelow": True,
    }  # fmt: skip


def cjk_font() -> str | None:
    """A font on this machine that has Chinese characters, or None."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return next((name for name in CJK_FONTS if name in installed), None)


def save(figure: Any, path: Path) -> None:
    """The PNG whole or not at all; equal data gives equal bytes."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        figure.savefig(temporary, format="png", dpi=160, metadata={"Software": None})
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
