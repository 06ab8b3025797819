"""The figures of lesson 11: one update on two processes, and the memory of a weight."""

from matplotlib.figure import Figure

from .diagram import Arrow, Box, diagram
from .style import BLUE, GREEN, INK, ORANGE, RED, VIOLET, canvas


def two_processes() -> tuple[Figure, str]:
    lanes = {"0": (2.0, "0 1 2 3"), "1": (5.4, "4 5 6 7")}
    boxes, arrows = {}, []
    for name, (y, prompts) in lanes.items():
        y = 7.4 - y
        boxes |= {
            f"sample{name}": Box(1.3, y, f"process {name} samples", BLUE, 2.5, 1.3, f"prompts {prompts}"),
            f"rows{name}": Box(4.9, y, "all 8 rows", GREEN, 2.4, 1.3, "same KL, same order"),
            f"loss{name}": Box(8.2, y, "own microbatches", VIOLET, 2.6, 1.3, "loss times its weight"),
            f"step{name}": Box(11.4, y, "clip, step", GREEN, 2.0, 1.3, "the same in both"),
        }
    for start in lanes:
        arrows += [Arrow(f"sample{start}", f"rows{end}") for end in lanes]
        arrows += [Arrow(f"loss{start}", f"step{end}") for end in lanes]
        arrows.append(Arrow(f"rows{start}", f"loss{start}"))
    figure = diagram(boxes, arrows, (12.5, 7.6), 3.3)
    axes = figure.axes[0]
    axes.text(3.15, 0.35, "gather experience", ha="center", color=INK, fontsize=8.5)
    axes.text(9.85, 0.35, "merge statistics,\naverage gradients", ha="center", va="center", color=INK, fontsize=8.5)
    alt = (
        "One update on two processes. Each samples and scores its own four prompts. Experience is gathered, so both "
        "hold all eight rows and whiten, compute the KL and draw minibatches alike. Each computes the loss of its own "
        "microbatches. Statistics are merged and gradients averaged, and both make the same step."
    )
    return figure, alt


def bytes_per_weight() -> tuple[Figure, str]:
    parts = (("weight", 4, BLUE), ("gradient", 4, ORANGE), ("Adam's two moments", 8, RED))
    models = {"actor": 3, "critic": 3, "reference": 1, "reward model": 1}
    figure, (axes,) = canvas(2.2)
    for place, kept in enumerate(models.values()):
        left = 0
        for name, size, color in parts[:kept]:
            axes.barh(place, size, left=left, height=0.55, color=color, label=name if place == 0 else None)
            left += size
        axes.text(left + 0.2, place, f"{left}", va="center", fontweight="bold", color=INK)
    axes.set_yticks(range(len(models)), models)
    axes.invert_yaxis()
    axes.set(xlim=(0, 19), xticks=(0, 4, 8, 12, 16), xlabel="bytes per weight, float32")
    axes.legend(loc="lower right")
    alt = (
        "Bytes per weight in float32. Actor and critic need 16 each: weight 4, gradient 4, Adam's two moments 8. "
        "Reference and reward model are frozen and need 4 each."
    )
    return figure, alt


FIGURES = {"two-processes": two_processes, "bytes-per-weight": bytes_per_weight}
