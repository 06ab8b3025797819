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
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from . import BLUE, INK, PALETTE, RULE, SKY

matplotlib.use("Agg")
DARK = {INK: "#e6edf3", RULE: "#7d8590", BLUE.lower(): SKY}
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


def rows_of_axes(height: float, rows: int) -> tuple[Figure, list]:
    """As `canvas`, with the axes below each other over one horizontal axis."""
    figure, axes = pyplot.subplots(rows, 1, figsize=(WIDTH, height), layout="constrained", sharex=True)
    return figure, list(axes)


def as_svg(figure: Figure, alt: str) -> str:
    """The figure as SVG with the alternative text inside; the same figure gives the same text."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Title": alt})
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
    figure, (axes,) = canvas(height)
    axes.set(xlim=(0, size[0]), ylim=(0, size[1]))
    axes.axis("off")
    patches = {}
    for name, box in boxes.items():
        corner = box.x - box.width / 2, box.y - box.height / 2
        frame = {"edgecolor": box.color, "facecolor": "none", "lw": 1.8}
        shape = FancyBboxPatch(corner, box.width, box.height, "round,pad=0,rounding_size=0.12", **frame)
        patches[name] = axes.add_patch(shape)
        lift = 0.14 * box.height if box.note else 0.0
        axes.text(box.x, box.y + lift, box.text, ha="center", va="center", color=INK, fontsize=9.5)
        if box.note:
            axes.text(box.x, box.y - 0.27 * box.height, box.note, ha="center", va="center", color=RULE, fontsize=8)
    for arrow in arrows:
        start, end = boxes[arrow.start], boxes[arrow.end]
        axes.add_patch(
            FancyArrowPatch(
                (start.x, start.y),
                (end.x, end.y),
                patchA=patches[arrow.start],
                patchB=patches[arrow.end],
                connectionstyle=f"arc3,rad={arrow.bend}",
                arrowstyle="-|>",
                mutation_scale=11,
                shrinkA=2,
                shrinkB=2,
                linestyle="--" if arrow.dashed else "-",
                color=RULE,
                lw=1.3,
            )
        )
        if arrow.text:
            x, y = (start.x + end.x) / 2 + arrow.shift[0], (start.y + end.y) / 2 + arrow.shift[1]
            axes.text(x, y, arrow.text, ha="center", va="bottom", fontsize=8, color=INK)
    return figure
