"""Boxes and arrows, for what flows where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from .style import INK, RULE, canvas


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
