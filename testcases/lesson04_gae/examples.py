"""What the exercises of lesson 4 are asked."""

import math

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from, ragged_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example
from tutorial.lesson04_gae import compute_gae, compute_response_gae, gae_ends, n_step_advantages, td_errors

GRADIENTS = ("rewards", "values")


def examples(seed: int) -> list[Call]:
    """O(1) numbers in float64; done inside and at the end; ragged rows with a gap; B != T, B == T and no batch."""
    draw = generator(seed)
    found = []
    for shape in ((3, 7), (4, 4), (5,), (2, 2, 3)):
        rewards, values, dones = _episodes(draw, shape)
        gamma, lam = _fraction(draw), _fraction(draw)
        found += [
            example(td_errors, rewards, values, dones, gamma, grad_of=GRADIENTS),
            example(gae_ends, rewards, values, dones, gamma, grad_of=GRADIENTS, grad_through="lam_0"),
            example(gae_ends, rewards, values, dones, gamma, grad_of=GRADIENTS, grad_through="lam_1"),
            *(example(n_step_advantages, rewards, values, dones, n, gamma, grad_of=GRADIENTS) for n in (2, 3, 50)),
            example(compute_gae, rewards, values, dones, gamma, lam, grad_of=GRADIENTS, grad_through="advantages"),
            example(compute_gae, rewards, values, dones, gamma, lam, grad_of=GRADIENTS, grad_through="returns"),
        ]
    rewards, values, dones = _episodes(draw, (3, 6))
    for asked in (td_errors, gae_ends, n_step_advantages, compute_gae):
        extra = {"n": 2} if asked == n_step_advantages else {}
        found += [
            example(asked, rewards=rewards, values=values, dones=dones, grad_of=GRADIENTS, **extra),
            example(asked, rewards=rewards, values=values, dones=dones.double(), gamma=0.7, **extra),
            example(asked, rewards=rewards, values=values, dones=dones.long(), gamma=0.6, **extra),
        ]
    # What stands behind the end of the last episode is nobody's value.
    dones, nowhere = dones.index_fill(-1, torch.tensor(-1), True), values.index_fill(-1, torch.tensor(-1), math.nan)
    found.append(example(td_errors, rewards, nowhere, dones, 0.8, grad_of="rewards"))
    found.append(example(gae_ends, rewards, nowhere, dones, 0.8, grad_of="rewards", grad_through="lam_1"))
    found.append(example(compute_gae, rewards, nowhere, dones, 0.8, 0.7, grad_of="rewards", grad_through="returns"))
    for rows, steps, garbage in ((4, 7, True), (3, 3, False), (2, 5, True)):
        rewards, values, mask = _responses(draw, rows, steps, garbage)
        gamma, lam = _fraction(draw), _fraction(draw)
        for part in ("advantages", "returns"):
            options = {"grad_of": GRADIENTS, "grad_through": part}
            found.append(example(compute_response_gae, rewards, values, mask, gamma, lam, **options))
        found.append(example(compute_response_gae, rewards=rewards, values=values, mask=mask, grad_of=GRADIENTS))
    # What comes is what was expected: the advantage is 0.
    found.append(example(compute_response_gae, values[:, -1:], values[:, -1:], mask[:, -1:], 0.5, 0.5))
    # More steps than in any table, in one episode.
    rewards, values, dones = _episodes(draw, (2, 12))
    found.append(example(n_step_advantages, rewards, values, torch.zeros_like(dones), 10, 0.9, grad_of=GRADIENTS))
    # Plain ones: padding on the right, finite numbers in it.
    for rows, steps in ((4, 7), (3, 5)):
        rewards, values, mask = _responses(draw, rows, steps, garbage=False, gap=False)
        gamma, lam = _fraction(draw), _fraction(draw)
        options = {"grad_of": GRADIENTS, "grad_through": "returns"}
        found.append(example(compute_response_gae, rewards, values, mask, gamma, lam, **options))
        found.append(example(compute_response_gae, rewards=rewards, values=values, mask=mask, grad_of=GRADIENTS))
    # As many steps as a real response has, with rewards that don't cancel.
    rewards, values, dones = _episodes(draw, (1, 130))
    found.append(example(n_step_advantages, 1 + rewards.abs(), values, torch.zeros_like(dones), 120, 0.9))
    return found


def _episodes(draw: torch.Generator, shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    rewards, values = normal_from(draw, *shape), normal_from(draw, *shape[:-1], shape[-1] + 1)
    dones = torch.rand(shape, generator=draw) < 0.1
    dones[..., 1] = True
    dones[..., -1] = False
    return rewards, values, dones


def _responses(
    draw: torch.Generator, rows: int, steps: int, garbage: bool, gap: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    rewards, values = normal_from(draw, rows, steps), normal_from(draw, rows, steps)
    mask = ragged_from(draw, rows, steps, shortest=2, gap=gap)
    if garbage:
        rewards, values = rewards.masked_fill(~mask, math.nan), values.masked_fill(~mask, math.nan)
    return rewards, values, mask


def _fraction(draw: torch.Generator) -> float:
    """Between 0.5 and 0.9: far from 0 and 1, where mistakes hide."""
    return 0.5 + 0.4 * float(torch.rand((), generator=draw))


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
STEPS = {"rewards": [1.0, 2.0], "values": [0.0, 0.0, 0.0], "dones": [0.0, 0.0], "gamma": 0.5}
BAD_STEPS = {
    "values-needs-one-more": ({"values": [0.0, 0.0]}, ["values (2,)", "rewards (2,)"]),
    "gamma-above-1": ({"gamma": 1.5}, ["gamma"]),
}
RESPONSE = {"rewards": [[1.0, 2.0]], "values": [[0.0, 0.0]], "mask": [[True, True]], "gamma": 0.5, "lam": 0.5}

DEFAULTS = [td_errors, gae_ends, n_step_advantages, compute_gae, compute_response_gae]
REFUSALS = {
    td_errors: (STEPS, BAD_STEPS),
    gae_ends: (STEPS, BAD_STEPS),
    n_step_advantages: ({**STEPS, "n": 2}, {**BAD_STEPS, "no-step": ({"n": 0}, ["n"])}),
    compute_gae: ({**STEPS, "lam": 0.5}, {**BAD_STEPS, "lam-above-1": ({"lam": 1.5}, ["lam"])}),
    compute_response_gae: (
        RESPONSE,
        {
            "all-masked": ({"mask": [[False, False]]}, ["at least one True"]),
            "values-as-long-as-rewards": ({"values": [[0.0, 0.0, 0.0]]}, ["values (1, 3)"]),
        },
    ),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1) | {gae_ends: 3}
