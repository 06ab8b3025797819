"""The figures of lesson 7: which position predicts which token, and the memory of four models."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from solutions.lesson04_gae import td_errors

from .style import BLUE, GREEN, INK, ORANGE, RULE, VIOLET, canvas

TOKENS = ("padding", "the", "film", "was", "fine", ".")
VALUES = (None, 0.4, 0.5, 0.6, 0.8, 1.0)
P, T = 3, 3

ROLES = (("policy", BLUE), ("critic", ORANGE), ("reference", RULE), ("reward model", VIOLET))
SETUPS = {
    "four models": (16, 16, 4, 4),
    "one backbone for\nactor and critic": (16, 0, 4, 4),
    "LoRA policy, its\nown reference": (4, 16, 0, 4),
    "one frozen base,\nadapters for all": (4, 0, 0, 0),
}


def the_shift() -> tuple[Figure, str]:
    figure, (axes,) = canvas(2.5)
    axes.set(xlim=(-1.6, 5.6), ylim=(-0.95, 2.6))
    axes.axis("off")
    for height, name in ((2.3, "position"), (1.6, "token"), (0.5, "value read here")):
        axes.text(-1.55, height, name, va="center", color=INK)
    for position, (token, value) in enumerate(zip(TOKENS, VALUES, strict=True)):
        is_response, is_read = position >= P, P - 1 <= position < P + T - 1
        frame = {"boxstyle": "round,pad=0.35", "facecolor": "none", "edgecolor": BLUE if is_response else RULE}
        axes.text(position, 2.3, str(position), ha="center", va="center", color=RULE)
        axes.text(position, 1.6, token, ha="center", va="center", color=INK, bbox=frame)
        if value is not None:
            weight, color = ("bold", ORANGE) if is_read else ("normal", RULE)
            axes.text(position, 0.5, f"{value}", ha="center", va="center", color=color, fontweight=weight)
        if is_read:
            style = {"arrowstyle": "-|>", "color": GREEN, "lw": 1.6}
            axes.annotate("", (position + 0.95, 1.28), (position, 0.75), arrowprops=style)
    values = torch.tensor([[*VALUES[P - 1 : -1], 0.0]])
    errors = td_errors(torch.tensor([[0.0, 0.0, 1.0]]), values, torch.tensor([[0.0, 0.0, 1.0]]), gamma=1.0)[0].tolist()
    for t, error in enumerate(errors):
        axes.text(P + t, -0.25, f"{error:.1f}", ha="center", va="center", color=INK)
    axes.text(-1.55, -0.25, "TD error of the token", va="center", color=INK)
    axes.text(-1.55, -0.8, "green: logits and value at a position belong to the next token", color=RULE, fontsize=9)
    alt = (
        "Six positions: padding, the, film, was, fine, full stop. The response tokens are at positions 3 to 5. Their "
        "values 0.5, 0.6 and 0.8 are read one position earlier, at 2 to 4, where the logits predict them too. The TD "
        "errors of the three tokens are 0.1, 0.2 and 0.2."
    )
    return figure, alt


def memory() -> tuple[Figure, str]:
    figure, (axes,) = canvas(2.5)
    for row, sizes in enumerate(SETUPS.values()):
        left = 0
        for size, (role, color) in zip(sizes, ROLES, strict=True):
            axes.barh(row, size, left=left, height=0.6, color=color, label=role if row == 0 else None)
            left += size
        axes.text(left + 0.6, row, f"{left}" if row < 2 else f"{left} + adapters", va="center", color=INK)
    axes.set_yticks(range(len(SETUPS)), SETUPS)
    axes.invert_yaxis()
    axes.set(xlim=(0, 46), xlabel="bytes per parameter of one model (float32, Adam)")
    axes.legend(loc="lower right")
    alt = (
        "Bytes per parameter. Four models: policy 16, critic 16, reference 4, reward model 4, together 40. One "
        "backbone for actor and critic: 24. A LoRA policy that is its own reference: 24 and an adapter. One frozen "
        "base with adapters for all roles: 4 and the adapters."
    )
    return figure, alt


FIGURES = {"the-shift": the_shift, "memory": memory}
