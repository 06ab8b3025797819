"""What the notebooks draw, one module per lesson: a notebook shows the call and the figure, not the drawing."""

import io

import PIL.Image
import torch
from cycler import cycler
from IPython.display import Image, display
from matplotlib import pyplot
from matplotlib.figure import Figure

from book.figures import PALETTE

SCREEN_DPI = 90

pyplot.rcParams.update(
    {
        "axes.prop_cycle": cycler(color=[*PALETTE, "black"]),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.labelsize": 10,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "figure.figsize": (8, 3.6),
        "figure.dpi": SCREEN_DPI,
        "savefig.dpi": SCREEN_DPI,
        "figure.constrained_layout.use": True,
        "lines.linewidth": 1.8,
    }
)
torch.set_num_threads(1)


def show(figure: Figure, alt: str, colors: int = 0) -> None:
    """Show a figure at twice the resolution of the screen, with `alt` for readers who cannot see it.

    A figure with much text or many lines takes a third of the space if it is stored with at most 64 `colors`, say.
    """
    width, height = (round(SCREEN_DPI * inches) for inches in figure.get_size_inches())
    display(Image(as_png(figure, colors), width=width, height=height, alt=alt))


def as_png(figure: Figure, colors: int = 0) -> bytes:
    """The figure as it is stored, and closed."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=2 * SCREEN_DPI)
    pyplot.close(figure)
    if colors:
        picture = PIL.Image.open(buffer).convert("RGB").quantize(colors)
        buffer = io.BytesIO()
        picture.save(buffer, format="png")
    return buffer.getvalue()


def suptitle(figure: Figure, text: str) -> None:
    figure.suptitle(text, fontsize=11, fontweight="bold", wrap=True)
