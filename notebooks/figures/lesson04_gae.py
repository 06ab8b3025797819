"""Notebook 4: advantages of one response, the weights of GAE, bias and variance, padding, gamma."""

from collections.abc import Sequence

import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, ORANGE, SKY
from book.figures.shared import CREDIT, LAMS, error_panel
from tiny_models.checkpoints import one_response

from . import suptitle

ONE = one_response()
"""What the models that come with the course say of the response."""
NUMBERS = ("log_probs", "ref_log_probs", "values")
WORDS = ONE["tokens"]
QUIET = torch.tensor([word in ("the", "film", "was", "but", "plot") for word in WORDS])
"""Words that hardly changed the value."""


def table(grid: Tensor, lams: Sequence[float]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    image = axis.imshow(grid, cmap=CREDIT, vmin=-0.8, vmax=0.8, aspect="auto")
    for row, column in torch.cartesian_prod(torch.arange(len(lams)), torch.arange(len(WORDS))).tolist():
        number = grid[row, column].item()
        color = "white" if abs(number) > 0.6 else "black"
        axis.text(column, row, f"{number + 0.0:.2f}", ha="center", va="center", fontsize=8, color=color)
    axis.set_xticks(range(len(WORDS)), WORDS)
    axis.set_yticks(range(len(lams)), lams)
    axis.set(xlabel="word t of the response", ylabel="lam")
    axis.set_title("The advantage of each word for seven values of lam")
    figure.colorbar(image, label="advantage (units of score)")
    return figure, (
        "A table of advantages, one row for each lam from 0 to 1, one column for each word. In the top row only "
        '"superb" (0.72) and "weak" (-0.76) have much color. Further down the later words color the earlier ones; in '
        'the bottom row all words up to "superb" are positive and all from "but" to "weak" negative. The full stop is '
        "0.22 or 0.23 in every row."
    )


def weights_of_n(steps: Tensor, within: dict[float, Tensor], half: dict[float, int]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    for (lam, share), style in zip(within.items(), ("-", "--", "-."), strict=True):
        (line,) = left.plot(steps, share, style, label=f"lam = {lam}")
        left.plot(half[lam], share[half[lam] - 1], "o", color=line.get_color())
        right.plot(steps - 1, lam ** (steps - 1.0), style, label=f"lam = {lam}")
    left.axhline(0.5, color="black", linewidth=0.8)
    left.set(xlabel="n-step advantages up to this n", ylabel="share of the weight", ylim=(0, 1.02))
    right.set(xlabel="distance l of a later TD error (steps)", ylabel="weight of the TD error", ylim=(0, 1.02))
    left.legend()
    right.legend()
    suptitle(figure, "What GAE mixes, for three values of lam")
    return figure, (
        "Left, the share of the weight of the n-step advantages up to n, for lam = 0.5, 0.9 and 0.95: three rising "
        "curves, with dots near one half at 1, 7 and 14 steps. Right, the weight of a later TD error by its distance: "
        "all start at 1 and fall as powers of lam."
    )


def bias_and_variance(bias_squared: Tensor, variance: Tensor) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    error_panel(axis, bias_squared, variance)
    axis.set_title("The error of the estimated value against lam")
    return figure, (
        "Error against lam, as two stacked areas. Bias squared fills most of the left and shrinks to nothing at lam = "
        "1. Variance is thin on the left and fills the right. Their sum, a black line, falls until it is least near "
        "lam = 0.94, and rises steeply to lam = 1."
    )


def critics_and_batches(curves: Sequence[dict[str, Tensor]]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(1, 2, sharey=True)
    for axis, group in zip(axes, curves, strict=True):
        for (label, curve), style in zip(group.items(), ("-", "--", "-.", ":"), strict=True):
            (line,) = axis.plot(LAMS, curve, style, label=label)
            axis.plot(LAMS[curve.argmin()], curve.min(), "o", color=line.get_color())
        axis.set(xlabel="lam", yscale="log", xlim=(-0.02, 1.02))
    axes[0].set_ylabel("mean squared error (score²)")
    axes[0].legend(title="critic (batch of 16 reviews)", loc="lower center", ncols=2)
    axes[1].legend(title="batch (critic 30% too low)", loc="lower center", ncols=2)
    axes[1].set_ylim(1e-4, 0.5)
    suptitle(figure, "The error for four critics, and for four sizes of the batch")
    return figure, (
        "Mean squared error against lam on a log scale, each curve with a dot at its lowest point. Left, one curve for "
        "each critic: the dot of the perfect critic is at lam = 0, and dots move right as the critic gets worse. "
        "Right, one curve for each batch size: the dot moves right as the batch grows from 1 to 64 reviews."
    )


def padding_error(right_numbers: Tensor, wrong_numbers: Tensor, offset: Tensor) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    rows = (-0.2, right_numbers, "padding masked"), (0.2, wrong_numbers, "padding in the recursion")
    for shift, numbers, label in rows:
        left.bar_label(left.bar(torch.arange(2) + shift, numbers[:2], width=0.38, label=label), fmt="%.2f")
    left.set(xlabel="real token t", ylabel="advantage (units of score)")
    left.margins(y=0.35)
    left.set_xticks([0, 1])
    left.legend(loc="upper left")
    right.plot(LAMS, offset, color=ORANGE, marker="o", markersize=3)
    right.axhline(0, color=BLUE)
    right.set(xlabel="lam", ylabel="error at token 1 (units of score)", xlim=(0, 1.02))
    suptitle(figure, "Advantages of two real tokens, and the error at the second against lam")
    return figure, (
        "Left, bars for two real tokens: 0.95 and 1.00 when the padding is masked, 5.70 and 6.00 when it enters the "
        "recursion. Right, the error at the last real token against lam: a straight line from 100 at lam = 0 down to "
        "0 at lam = 1."
    )


def long_response(critics: dict[float, Tensor], credit: dict[float, Tensor], decisive: int) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    for (critic_lam, found), color in zip(critics.items(), (ORANGE, BLUE), strict=True):
        label = f"critic_lam = {critic_lam:g}"
        left.plot(found[0], color=color, label=label)
        right.plot(credit[critic_lam], color=color, label=label)
    for axis in (left, right):
        axis.axvline(decisive, color="black", linewidth=0.8, linestyle=":")
        axis.set(xlabel="token t (dotted: the one that decides)", ylim=(-0.05, 1.1))
    left.set(ylabel="value before token t (units of score)")
    right.set(ylabel="advantage of token t (units of score)")
    right.legend()
    suptitle(figure, "The response with score 1, after five updates of the critic")
    return figure, (
        "Left, the critic's values along 200 tokens. With critic_lam 0.95 they rise slowly from nearly 0 at the "
        "deciding token to 1 near the end; with critic_lam 1 they jump from 0 to 1 at that token. Right, the "
        "advantages: with 0.95 a low hill around the hundredth token, with 1 a peak of 1 at the deciding "
        "token and 0 after it."
    )


def _bars(axis: Axes, advantages: Tensor, gamma: float, lam: float) -> None:
    axis.bar(range(len(WORDS)), advantages, color=[SKY if quiet else BLUE for quiet in QUIET.tolist()])
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xticks(range(len(WORDS)), WORDS, rotation=45)
    axis.set_ylim(-0.9, 0.9)
    axis.set_title(f"gamma = {gamma:g}, lam = {lam:g}", fontweight="normal")


def four_settings(shown: dict[tuple[float, float], Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(2, 2, sharex=True, sharey=True, figsize=(8, 4.6))
    for axis, ((gamma, lam), advantages) in zip(axes.flat, shown.items(), strict=True):
        _bars(axis, advantages, gamma, lam)
    figure.supxlabel("word t of the response (light: hardly changed the value)", fontsize=10)
    figure.supylabel("advantage (units of score)", fontsize=10)
    suptitle(figure, "The same response with two values of gamma and two of lam")
    return figure, (
        "Four bar charts of the advantages of the tokens; rows gamma = 1 and 0.8, columns lam = 0 and 0.95. With "
        "gamma = 1 and lam = 0 the light bars, for words that hardly changed the value, are short. With gamma = 0.8 "
        "and lam = 0 all light bars are negative."
    )


def one_setting(advantages: Tensor, gamma: float, lam: float) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    _bars(axis, advantages, gamma, lam)
    axis.set(xlabel="word t of the response", ylabel="advantage (units of score)")
    return figure, "A bar chart of the advantages of the tokens, for the gamma and lam of the sliders."
