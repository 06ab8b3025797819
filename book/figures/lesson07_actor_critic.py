"""The figures of lesson 7: which position predicts which token, memory of four models, three policies over time."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from . import BLUE, GREEN, ORANGE, PINK
from .one_response import numbers
from .style import CENTER, INK, RULE, arrow, canvas, outline, sheet

ROLES = (("policy", BLUE), ("critic", ORANGE), ("reference", RULE), ("reward model", PINK))
SETUPS = {
    "four models": (16, 16, 4, 4),
    "one backbone for\nactor and critic": (16, 0, 4, 4),
    "LoRA policy, its\nown reference": (4, 16, 0, 4),
    "one frozen base,\nadapters for all": (4, 0, 0, 0),
}


def the_shift() -> Figure:
    one = numbers()
    start = len(one.prompt.split())
    positions = range(start - 1, start + 6)
    tokens = [*one.prompt.split(), *one.tokens]
    values, late = one.advantages(0.0).tolist(), one.advantages(0.0, shift=1).tolist()
    figure, axes = sheet(2.9, (start - 4.0, start + 5.6), (-1.5, 2.6))
    names = ((2.3, "position"), (1.6, "token"), (0.5, "value read here"), (-0.35, "TD error"), (-1.1, "read too late"))
    for height, name in names:
        axes.text(start - 1.6, height, name, ha="right", va="center")
    for position in positions:
        axes.text(position, 2.3, str(position), **CENTER, color=RULE)
        axes.text(position, 1.6, tokens[position], **CENTER, bbox=outline(BLUE if position >= start else RULE, 0.35))
        value = one.values[position - start + 1].item()
        axes.text(position, 0.5, f"{value:.2f}", **CENTER, color=ORANGE, fontweight="bold")
        if position < positions[-1]:
            arrow(axes, (position + 0.1, 0.75), (position + 0.93, 1.25), GREEN, lw=1.6)
        for height, errors in ((-0.35, values), (-1.1, late)):
            if position >= start:
                error = round(errors[position - start], 2) + 0.0
                weight = "bold" if error > 0.5 else "normal"
                axes.text(position, height, f"{error:.2f}", **CENTER, fontweight=weight)
    return figure


def two_heads() -> Figure:
    one = numbers()
    start = len(one.prompt.split())
    tokens = [*one.prompt.split(), *one.tokens][start - 1 : start + 4]
    figure, axes = sheet(3.3, (-2.3, 5.4), (-0.5, 4.75))
    rows = (
        (4.3, "value head\n(linear layer, one output)", ORANGE),
        (3.3, "language-model head\n(one output for each word)", BLUE),
        (2.2, "hidden state", INK),
        (1.1, "backbone\n(the transformer)", INK),
        (0.0, "token", INK),
    )
    for height, name, color in rows:
        axes.text(-0.75, height, name, ha="right", va="center", color=color, fontsize=9)
    axes.text(2, 1.1, " " * 106, **CENTER, fontsize=9, bbox=outline(RULE, 0.4, lw=1.6))
    for place, token in enumerate(tokens):
        axes.text(place, 0.0, token, **CENTER)
        arrow(axes, (place, 0.25), (place, 0.78), lw=1.2)
        arrow(axes, (place, 1.42), (place, 1.98), lw=1.2)
        for entry in range(5):
            axes.add_patch(Rectangle((place - 0.3 + 0.12 * entry, 2.08), 0.12, 0.24, fill=False, edgecolor=RULE))
        arrow(axes, (place - 0.12, 2.4), (place - 0.16, 3.02), BLUE, lw=1.2)
        arrow(axes, (place + 0.16, 2.4), (place + 0.2, 4.05), ORANGE, lw=1.2, connectionstyle="arc3,rad=0.35")
        value, chance = one.values[place].item(), one.log_probs[place].exp().item()
        axes.text(place, 4.3, f"{value:.2f}", **CENTER, color=ORANGE, fontweight="bold")
        axes.text(place - 0.1, 3.3, f"{one.tokens[place]}\n{100 * chance:.0f} %", **CENTER, color=BLUE)
    return figure


def memory() -> Figure:
    figure, (axes,) = canvas(2.5)
    for row, sizes in enumerate(SETUPS.values()):
        left = 0
        for size, (role, color) in zip(sizes, ROLES, strict=True):
            axes.barh(row, size, left=left, height=0.6, color=color, label=role if row == 0 else None)
            left += size
        axes.text(left + 0.6, row, f"{left}" if row < 2 else f"{left} + adapters", va="center")
    axes.set_yticks(range(len(SETUPS)), SETUPS)
    axes.invert_yaxis()
    axes.set(xlim=(0, 46), xlabel="bytes per parameter of one model (float32, Adam)")
    axes.legend(loc="lower right")
    return figure


def three_policies() -> Figure:
    steps_of_a_batch = 8
    figure, (axes,) = canvas(3.0)
    heights = [0.0]
    for step in range(3 * steps_of_a_batch):
        heights.append(heights[-1] + 0.16 / (1 + 0.16 * (step % steps_of_a_batch)))
    axes.plot(range(len(heights)), heights, color=BLUE, marker="o", ms=3.5, lw=1.5)
    axes.plot((0, len(heights) - 1), (0, 0), color=RULE, lw=3)
    for batch in range(3):
        start, end = batch * steps_of_a_batch, (batch + 1) * steps_of_a_batch
        axes.plot((start, end), (heights[start], heights[start]), color=ORANGE, lw=2.4)
        axes.text((start + end) / 2, -0.42, f"batch {batch + 1}", ha="center")
        axes.axvline(end, color=RULE, lw=0.8, ls=":")
    last, old = heights[-1], heights[2 * steps_of_a_batch]
    for x, bottom, top, name, color in (
        (25.1, old, last, "the ratio measures this", ORANGE),
        (26.2, 0.0, last, "the KL measures this", GREEN),
    ):
        arrow(axes, (x, top), (x, bottom), color, lw=1.5, arrowstyle="<->", shrinkA=0, shrinkB=0)
        axes.text(26.9, top - 0.2 if color == ORANGE else 0.9, name, color=color, va="center", fontsize=9)
    axes.text(
        11.6, heights[14] + 0.28, "the policy in training:\nmoves at every step", color=BLUE, ha="right", fontsize=9
    )
    axes.text(8.4, heights[8] - 0.1, "the old policy: a new one\nwith each batch", color=ORANGE, va="top", fontsize=9)
    axes.text(9.5, 0.07, "the reference: never moves", color=RULE, va="bottom", fontsize=9)
    axes.set(xlim=(-0.3, 33.5), ylim=(-0.6, last + 0.3), xticks=[], yticks=[], ylabel="distance from\nthe SFT model")
    axes.spines["bottom"].set_visible(False)
    return figure


FIGURES = (the_shift, two_heads, memory, three_policies)
