"""The figures of lesson 8: what the key-value cache saves, and what truncated sampling does to probabilities."""

import torch
from matplotlib.figure import Figure

from solutions.lesson08_rollout import sample_token

from . import BLUE, GREEN, ORANGE
from .style import INK, canvas

PROMPT, RESPONSE = 8, 24
PROBABILITIES = (0.45, 0.30, 0.15, 0.10)
DRAWS = 200_000


def key_value_cache() -> tuple[Figure, str]:
    figure, panels = canvas(2.9, 2, sharey=True)
    positions = [range(PROMPT + step) for step in range(RESPONSE)]
    newest = [range(PROMPT)] + [range(PROMPT + step - 1, PROMPT + step) for step in range(1, RESPONSE)]
    for axes, processed, color, name in zip(
        panels, (positions, newest), (ORANGE, BLUE), ("without a cache", "with the cache"), strict=True
    ):
        steps = [(step, columns) for step, columns in enumerate(processed)]
        axes.barh(
            [step for step, _ in steps],
            [len(columns) for _, columns in steps],
            left=[columns.start for _, columns in steps],
            height=0.8,
            color=color,
        )
        total = sum(map(len, processed))
        axes.set(title=f"{name}: {total} positions", xlabel="position (dotted: end of the prompt)")
        axes.set(xlim=(0, PROMPT + RESPONSE), ylim=(RESPONSE - 0.4, -0.6))
        axes.axvline(PROMPT, color=INK, lw=1, ls=":")
    panels[0].set(ylabel="decoding step")
    alt = (
        f"Decoding steps against positions for P = {PROMPT} and T = {RESPONSE}. Without a cache each step processes "
        f"all positions so far, {sum(map(len, positions))} in all. With the cache the first step processes the "
        f"prompt and each later step one position, {sum(map(len, newest))} in all."
    )
    return figure, alt


def truncated_sampling() -> tuple[Figure, str]:
    figure, panels = canvas(2.5, 3, sharey=True)
    settings: list[tuple[str, dict[str, float]]] = [
        ("the policy's distribution", {}),
        ("sampled with top_k = 2", {"top_k": 2}),
        ("sampled with top_p = 0.4", {"top_p": 0.4}),
    ]
    for axes, (name, options), color in zip(panels, settings, (GREEN, ORANGE, ORANGE), strict=True):
        logits = torch.tensor(PROBABILITIES, dtype=torch.float64).log().expand(DRAWS, -1)
        tokens = sample_token(logits, generator=torch.Generator().manual_seed(0), **options)  # type: ignore[arg-type]
        shares = (torch.bincount(tokens, minlength=len(PROBABILITIES)) / DRAWS).tolist()
        axes.bar(range(4), shares, color=color, width=0.7)
        if options:
            axes.bar(range(4), PROBABILITIES, fill=False, edgecolor=GREEN, width=0.7, lw=1.4, ls="--")
        for token, share in enumerate(shares):
            if share:
                axes.text(token, max(share, PROBABILITIES[token]) + 0.03, f"{share:.2f}", ha="center", fontsize=9)
        axes.set(title=name, xlabel="token", ylim=(0, 1.15), xticks=range(4))
        axes.title.set_fontsize(9.5)
    panels[0].set(ylabel="probability")
    alt = (
        "Bars of four tokens with the probabilities 0.45, 0.30, 0.15, 0.10. With top_k = 2 the sampler draws the first "
        "two with 0.60 and 0.40 and never the others. With top_p = 0.4 it always draws the first. Dashed: what "
        "training recomputes, the whole distribution."
    )
    return figure, alt


FIGURES = {"key-value-cache": key_value_cache, "truncated-sampling": truncated_sampling}
