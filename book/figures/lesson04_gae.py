"""The figures of lesson 4: credit of a response, weights of GAE, and bias against variance."""

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from solutions.lesson04_gae import compute_gae, compute_response_gae

from . import BLUE, ORANGE, PINK
from .one_response import LAM, numbers
from .shared import LAMS, TRUTH, error_panel, mood_reviews
from .style import CENTER, RULE, WIDTH, canvas, pyplot


def credit_of_a_response() -> Figure:
    one = numbers()
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(WIDTH, 3.6), layout="constrained", sharex=True)
    places = range(len(one.tokens))
    above.step([*places, len(places)], [*one.values.tolist(), one.score], where="post", color=ORANGE)
    above.plot([place + 0.5 for place in places], one.values.tolist(), "o", color=ORANGE, markersize=4)
    above.set(ylabel="value", title="What the critic expects before each token, and then the score")
    width = 0.4
    for shift, lam, color in ((-width / 2, 0.0, PINK), (width / 2, LAM, BLUE)):
        heights, name = one.advantages(lam).tolist(), "TD error (lam = 0)" if lam == 0 else f"advantage (lam = {lam})"
        below.bar([place + 0.5 + shift for place in places], heights, width=width, color=color, label=name)
    below.axhline(0, color=RULE, lw=1)
    below.set(ylabel="credit")
    below.set_xticks([place + 0.5 for place in places], one.tokens)
    below.legend(loc="upper right", ncols=2, fontsize=8.5)
    below.set_ylim(-0.9, 1.15)
    return figure


def credit_in_color() -> Figure:
    one = numbers()
    figure, (axes,) = canvas(1.9)
    widths = [0.55 + 0.17 * len(token) for token in one.tokens]
    for row, lam in enumerate((0.0, LAM, 1.0)):
        left = 0.0
        axes.text(-0.25, -row, f"lam = {lam:g}", ha="right", va="center", fontsize=9)
        for token, width, advantage in zip(one.tokens, widths, one.advantages(lam).tolist(), strict=True):
            color, strength = (BLUE if advantage > 0 else ORANGE), min(abs(advantage) / 0.8, 1.0)
            axes.add_patch(Rectangle((left, -row - 0.4), width, 0.8, color=color, alpha=0.85 * strength, lw=0))
            axes.text(left + width / 2, -row, token, **CENTER, fontsize=9)
            left += width
    axes.set(xlim=(-1.6, left + 0.05), ylim=(-2.5, 1.1))
    axes.axis("off")
    axes.text(0, 0.78, "Blue: write this more often. Orange: less often.", va="center", fontsize=9)
    return figure


def weights_of_gae() -> Figure:
    lam, steps = 0.8, 10
    rewards, values = torch.eye(steps).double(), torch.zeros(steps, steps + 1).double()
    dones = torch.zeros(steps, steps)
    of_td_errors = compute_gae(rewards, values, dones, gamma=1.0, lam=lam).advantages[:, 0].tolist()
    of_n = [(1 - lam) * lam ** (n - 1) for n in range(1, steps + 1)]
    figure, (left, right) = canvas(2.5, 2)
    left.bar(range(1, steps + 1), of_n, width=0.7, color=BLUE)
    right.bar(range(steps), of_td_errors, width=0.7, color=ORANGE)
    for axes, start, heights in ((left, 1, of_n), (right, 0, of_td_errors)):
        for place, height in enumerate(heights[:4]):
            axes.text(place + start, height + 0.015, f"{height:.2f}", ha="center", fontsize=8)
        axes.set(ylim=(0, 1.1))
    left.set(xlabel="n", title="Weight of the n-step advantage")
    right.set(xlabel="distance l of a TD error (steps)", title="Weight of the TD error in the sum")
    left.text(10.4, 0.5, "sum to 1", ha="right")
    return figure


def bias_and_variance() -> Figure:
    scores, states, mask = mood_reviews(6400)
    critic = 0.7 * TRUTH[states]
    found = [compute_response_gae(scores, critic, mask, 1.0, lam).returns[:, 0] for lam in LAMS.tolist()]
    errors = torch.stack(found).view(-1, 400, 16).mean(2) - TRUTH[3]
    figure, (axes,) = canvas(3.0)
    error_panel(axes, errors.mean(1) ** 2, errors.var(1, correction=0))
    axes.set(title="The error of the estimated value, with a critic that is 30 % off")
    return figure


FIGURES = (credit_of_a_response, credit_in_color, weights_of_gae, bias_and_variance)
