"""How the texts' figures look: sharp at any size, and legible on a light and on a dark page; boxes and arrows.

A figure has no background of its own. A stylesheet inside the SVG swaps the colors of ink, rules and blue when the
reader's system is dark; everything else takes a color that stands out on both.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from . import BLUE, INK, PALETTE, RULE, SKY

matplotlib.use("Agg")
DARK = {INK: "#e6edf3", RULE: "#7d8590", BLUE.lower(): SKY}
CENTER = {"ha": "center", "va": "center"}
"""Of a text that stands in the middle of its place."""
WIDTH = 7.2
"""Inches: the width of a text column; the type is 10 points at this size."""

pyplot.rcParams.update(
    {
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": RULE,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "text.color": INK,
        "xtick.color": RULE,
        "ytick.color": RULE,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "grid.color": RULE,
        "grid.alpha": 0.3,
        "legend.frameon": False,
        "lines.linewidth": 2.0,
        "axes.prop_cycle": matplotlib.cycler(color=PALETTE[:4]),
        "svg.hashsalt": "ppo-by-hand",
        "svg.fonttype": "path",
    }
)


def canvas(height: float, columns: int = 1, **options) -> tuple[Figure, list]:
    """A figure of the text's width and this height in inches, with its axes in a list."""
    figure, axes = pyplot.subplots(1, columns, figsize=(WIDTH, height), layout="constrained", squeeze=False, **options)
    return figure, list(axes[0])


def sheet(height: float, xlim: tuple[float, float], ylim: tuple[float, float]) -> tuple[Figure, Axes]:
    """As `canvas`, for words and boxes: no axis is seen."""
    figure, (axes,) = canvas(height)
    axes.set(xlim=xlim, ylim=ylim)
    axes.axis("off")
    return figure, axes


def frame(axes: Axes, left: float, bottom: float, width: float, height: float, color: str, rounding: float = 0.15):
    """Draw an empty box with round corners, and return it."""
    style = f"round,pad=0,rounding_size={rounding}"
    return axes.add_patch(FancyBboxPatch((left, bottom), width, height, style, ec=color, fc="none", lw=1.8))


def outline(color: str, pad: float, **options) -> dict:
    """The box around a text, as its `bbox`."""
    return {"boxstyle": f"round,pad={pad}", "facecolor": "none", "edgecolor": color, **options}


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str = RULE, **options) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": color, "lw": 1.3, **options})


def as_svg(figure: Figure) -> str:
    """The figure as SVG; the same figure gives the same text."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return re.sub(r"(<svg\b[^>]*>)", lambda match: match[1] + _dark_mode(), buffer.getvalue(), count=1)


def _dark_mode() -> str:
    rules = [
        f'[style*="{part}: {light}"] {{ {part}: {dark} !important }}'
        for light, dark in DARK.items()
        for part in ("fill", "stroke")
    ]
    return f"\n <style>@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>"


@dataclass(frozen=True)
class Box:
    """One thing in a diagram, placed by its center in units of the text's type."""

    x: float
    y: float
    text: str
    color: str = RULE
    width: float = 2.2
    height: float = 0.9
    note: str = ""
    """Small print below the text."""


@dataclass(frozen=True)
class Arrow:
    """From the edge of one box to the edge of another."""

    start: str
    end: str
    text: str = ""
    bend: float = 0.0
    dashed: bool = False
    shift: tuple[float, float] = (0.0, 0.12)
    """Where the text stands, from the middle of the arrow."""


def diagram(boxes: Mapping[str, Box], arrows: Sequence[Arrow], size: tuple[float, float], height: float) -> Figure:
    """Draw boxes and arrows on a field of `size` units; `height` in inches."""
    figure, axes = sheet(height, (0, size[0]), (0, size[1]))
    patches = {}
    for name, box in boxes.items():
        corner = box.x - box.width / 2, box.y - box.height / 2
        patches[name] = frame(axes, *corner, box.width, box.height, box.color, 0.12)
        lift = 0.14 * box.height if box.note else 0.0
        axes.text(box.x, box.y + lift, box.text, **CENTER, fontsize=9.5)
        if box.note:
            axes.text(box.x, box.y - 0.27 * box.height, box.note, **CENTER, color=RULE, fontsize=8)
    for one in arrows:
        start, end = boxes[one.start], boxes[one.end]
        ends = {"patchA": patches[one.start], "patchB": patches[one.end], "shrinkA": 2, "shrinkB": 2}
        bend, style = f"arc3,rad={one.bend}", "--" if one.dashed else "-"
        arrow(
            axes, (start.x, start.y), (end.x, end.y), **ends, connectionstyle=bend, linestyle=style, mutation_scale=11
        )
        if one.text:
            x, y = (start.x + end.x) / 2 + one.shift[0], (start.y + end.y) / 2 + one.shift[1]
            axes.text(x, y, one.text, ha="center", va="bottom", fontsize=8)
    return figure
