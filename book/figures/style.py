"""How the texts' figures look: sharp at any size, and legible on a light and on a dark page.

A figure has no background of its own. A stylesheet inside the SVG swaps the colors of ink, rules and blue when the
reader's system is dark; everything else takes a color that stands out on both.
"""

import io
import re

import matplotlib
from matplotlib import pyplot
from matplotlib.figure import Figure

from . import BLUE, PALETTE, SKY

matplotlib.use("Agg")
INK, RULE = "#1f2328", "#8b949e"
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
