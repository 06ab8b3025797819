"""What the notebooks draw, one module per lesson: a notebook shows the call and the figure, not the drawing."""

import io

import PIL.Image
from IPython.display import Image, display
from matplotlib import pyplot
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
"""Okabe and Ito's colors, which color-blind readers can tell apart; those of style.mplstyle."""
SCREEN_DPI = 90


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
