"""The figures of lesson 6: the rewards of one response, and the three estimators."""

import torch
from matplotlib.figure import Figure

from solutions.lesson06_kl_rewards import compute_rewards, estimate_kl

from . import GREEN, ORANGE
from .shared import ESTIMATOR_COLORS, ESTIMATOR_STYLES, deviation_panel
from .style import RULE, canvas


def rewards_of_a_response() -> Figure:
    policy, reference = torch.tensor([[1 / 2, 1 / 2, 1 / 4]]).log(), torch.tensor([[1 / 8, 1 / 4, 1 / 2]]).log()
    mask = torch.ones(1, 3, dtype=torch.bool)
    penalty = compute_rewards(torch.zeros(1), policy, reference, mask, kl_coef=0.1)[0].tolist()
    rewards = compute_rewards(torch.ones(1), policy, reference, mask, kl_coef=0.1)[0].tolist()
    figure, (axes,) = canvas(2.4)
    scores = [total - part for total, part in zip(rewards, penalty, strict=True)]
    axes.bar(range(3), penalty, width=0.5, color=ORANGE, label="KL penalty")
    axes.bar(range(3), scores, width=0.5, bottom=penalty, color=GREEN, label="score, at the last token")
    for token, reward in enumerate(rewards):
        above = max(reward, 0) + 0.03
        axes.text(token, above, f"reward {reward:+.3f}", ha="center", fontweight="bold")
    axes.axhline(0, color=RULE, lw=0.8)
    labels = ["token 0\nlog-ratio +1.386", "token 1\nlog-ratio +0.693", "token 2\nlog-ratio -0.693"]
    axes.set_xticks(range(3), labels)
    axes.set(ylim=(-0.2, 1.25), ylabel="reward")
    axes.legend(loc="upper left")
    return figure


def three_estimators() -> Figure:
    zero, log_ratio = torch.zeros(201), torch.linspace(-2, 2, 201)
    probs, reference = torch.tensor([0.5, 0.3, 0.15, 0.05]).double(), torch.full((4,), 0.25).double()
    policies = [reference + share * (probs - reference) for share in torch.logspace(-1, 0, 30).tolist()]
    deviations = {"KL": [(policy * (policy / reference).log()).sum().item() for policy in policies]}
    figure, (left, right) = canvas(2.9, 2)
    for name, color in ESTIMATOR_COLORS.items():
        left.plot(log_ratio, estimate_kl(log_ratio, zero, name), ESTIMATOR_STYLES[name], color=color, label=name)
        deviations[name] = []
        for policy in policies:
            estimates = estimate_kl(policy.log(), reference.log(), name)
            mean = (policy * estimates).sum()
            deviations[name].append((policy * (estimates - mean) ** 2).sum().sqrt().item())
    left.axhline(0, color=RULE, lw=0.8)
    left.set(xlabel="log-ratio r of the sampled token", ylim=(-2.1, 4.6), title="The estimate (nats)")
    left.legend(loc="upper center")
    deviation_panel(right, deviations)
    right.set(title="Its standard deviation (nats)")
    return figure


FIGURES = (rewards_of_a_response, three_estimators)
