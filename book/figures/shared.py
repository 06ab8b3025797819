"""What a lesson and its notebook draw alike; the look around it is each one's own."""

from collections.abc import Callable, Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from . import BLUE, GREEN, INK, ORANGE, PINK, RULE, SKY, YELLOW

Loss = Callable[..., Tensor]

CREDIT = LinearSegmentedColormap.from_list("credit", [ORANGE, "white", BLUE])
"""Advantages: blue to write more often, orange to write less often, as in lesson 4's colored review."""

LAMS = torch.tensor([*range(0, 80, 10), *range(80, 101, 2)], dtype=torch.float64) / 100
TRUTH = torch.arange(7, dtype=torch.float64) / 6
"""The value of each mood from 0 to 6: the probability that such a review ends at 6."""


def mood_reviews(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, moods before each word, and mask of reviews: random walks from mood 3 that end at 0 or at 6."""
    chance = torch.Generator().manual_seed(0)
    moves = 2 * torch.randint(2, (count, 100), generator=chance) - 1
    moods = torch.cat([torch.full((count, 1), 3), 3 + moves.cumsum(1)], dim=1)
    over = ((moods <= 0) | (moods >= 6)).cummax(dim=1).values
    assert over[:, -1].all()  # every review came to its end
    mask = ~over[:, :-1]
    return (mask & (moods[:, 1:] == 6)).double(), moods[:, :-1].clamp(0, 6), mask


def error_panel(axes: Axes, bias_squared: Tensor, variance: Tensor) -> None:
    """Bias and variance of an estimate for each of LAMS, one above the other, and where their sum is least."""
    mean_squared = bias_squared + variance
    best = int(mean_squared.argmin())
    axes.stackplot(LAMS, bias_squared, variance, labels=["bias²", "variance"], colors=[SKY, YELLOW])
    (line,) = axes.plot(LAMS, mean_squared, color=INK, label="mean squared error")
    axes.plot(LAMS[best], mean_squared[best], "o", color=line.get_color())
    arrow, least = {"arrowstyle": "->", "shrinkB": 5, "color": line.get_color()}, f"least at lam = {LAMS[best]:.2f}"
    axes.annotate(least, (LAMS[best], mean_squared[best]), (0.86, 0.02), ha="center", arrowprops=arrow)
    axes.set(xlabel="lam", ylabel="error of the estimate (score²)", xlim=(0, 1), ylim=(0, 0.029))
    axes.legend(loc="upper right", ncols=3)


def objective_and_gradient(loss_of: Loss, ratios: Tensor, advantage: float, clip_epsilon: float) -> tuple[Tensor, ...]:
    """Objective of one token at each ratio, and its gradient with respect to the log-probability."""
    log_probs = ratios.double().log().requires_grad_()
    zero, weight = torch.zeros(()).double(), torch.tensor(advantage).double()
    objectives = torch.stack([-loss_of(one, zero, weight, clip_epsilon) for one in log_probs])
    (gradients,) = torch.autograd.grad(objectives.sum(), log_probs)
    return objectives.detach(), gradients


def clip_panel(axes: Axes, loss_of: Loss, dots: Tensor, advantage: float, clip_epsilon: float) -> None:
    """The clipped objective against the ratio; each dot says what its gradient does."""
    grid = torch.linspace(0.25, 1.9, 67).double()
    axes.axvspan(1 - clip_epsilon, 1 + clip_epsilon, color=RULE, alpha=0.2, lw=0)
    axes.plot(grid, grid * advantage, "--", color=ORANGE, label="ratio · A, unclipped")
    axes.plot(grid, objective_and_gradient(loss_of, grid, advantage, clip_epsilon)[0], color=BLUE, label="objective")
    objectives, gradients = objective_and_gradient(loss_of, dots, advantage, clip_epsilon)
    for ratio, objective, gradient in zip(dots.tolist(), objectives.tolist(), gradients.tolist(), strict=True):
        axes.plot(ratio, objective, "o", ms=8, color=BLUE if gradient else PINK)
        wrong_way = (ratio - 1) * advantage < 0
        said = "stop" if not gradient else "go back" if wrong_way else "push up" if advantage > 0 else "push down"
        beside = (9, -11) if advantage > 0 else (9, 3) if gradient else (-26, -17)
        axes.annotate(f"{said}: {gradient + 0.0:.1f}", (ratio, objective), beside, textcoords="offset points")
    axes.set(xlabel="ratio", xlim=(0.1, 2.3))


def value_loss_panel(axes: Axes, loss_of: Loss) -> None:
    """The value loss of one token with the old value 1 and the return 2, clipped and not."""
    values = torch.linspace(0.25, 3.25, 241).double()
    old_value, target = torch.tensor(1.0).double(), torch.tensor(2.0).double()
    for width, style, color, label in ((1e9, "--", ORANGE, "unclipped"), (0.2, "-", BLUE, "clip_epsilon 0.2")):
        losses = [loss_of(value, old_value, target, width).item() for value in values]
        axes.plot(values, losses, style, color=color, label=label)
    axes.set(xlabel="new value (old value 1, return 2)", ylabel="value loss", ylim=(0, 1.4))
    axes.legend(loc="upper right")


OF_KL_COEF = {0.0: PINK, 0.01: ORANGE, 0.08: BLUE, 0.3: GREEN}
"""The colors of the runs of the over-optimization playground that are drawn."""
ESTIMATOR_COLORS = {"k1": BLUE, "k2": ORANGE, "k3": GREEN}
ESTIMATOR_STYLES = {"k1": "-", "k2": ":", "k3": "--"}


def deviation_panel(axes: Axes, deviations: Mapping[str, Sequence[float]]) -> None:
    """The standard deviation of k1, k2 and k3 against the KL of the same policies, which is under "KL"."""
    for name, color in ESTIMATOR_COLORS.items():
        axes.plot(deviations["KL"], deviations[name], ESTIMATOR_STYLES[name], color=color, label=name)
    axes.plot(deviations["KL"], deviations["KL"], color=RULE, lw=1, label="equal to the KL")
    axes.set(xscale="log", yscale="log", xlabel="KL(policy || reference) (nats)")
    axes.legend(loc="lower right", fontsize=8)


def cache_panels(panels: Sequence[Axes], uncached: Sequence[int], cached: Sequence[int]) -> None:
    """The token positions that each decoding step processes, as bars, without and with a cache."""
    prompt = cached[0]
    for axes, counts, color, name in zip(
        panels, (uncached, cached), (ORANGE, BLUE), ("without a cache", "with the cache"), strict=True
    ):
        ends = range(prompt, prompt + len(counts))
        lefts = [end - count for end, count in zip(ends, counts, strict=True)]
        axes.barh(range(len(counts)), counts, left=lefts, height=0.8, color=color)
        axes.axvline(prompt, color=INK, lw=1, ls=":")
        axes.set(title=f"{name}: {sum(counts)} positions", xlabel="position (dotted: end of the prompt)")
        axes.set(xlim=(0, prompt + len(counts)), ylim=(len(counts) - 0.4, -0.6))
    panels[0].set(ylabel="decoding step")
