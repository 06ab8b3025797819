"""What the exercises of lesson 3 are asked."""

import math

import torch

from testcases.harness.doubles.drawing import generator, normal_from, ragged_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, scenario
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go


def examples(seed: int) -> list[Call]:
    """O(1) numbers in float64; ragged rows, each with a gap in the first; B != T, B == T and one row."""
    draw = generator(seed)
    found = []
    for rows, steps, garbage in ((3, 6, None), (4, 4, None), (4, 7, math.nan), (1, 5, math.nan), (2, 3, 1e6)):
        mask = ragged_from(draw, rows, steps)
        rewards, log_probs, weights = (normal_from(draw, rows, steps) for _ in range(3))
        if garbage is not None:
            rewards, log_probs, weights = (x.masked_fill(~mask, garbage) for x in (rewards, log_probs, weights))
        gamma = 0.5 + 0.4 * float(torch.rand((), generator=draw))
        slopes = normal_from(draw, rows, steps)
        found += [
            example(rewards_to_go, rewards, mask, gamma, grad_of="rewards"),
            example(rewards_to_go, rewards, mask, gamma / 2, grad_of="rewards", grad_weights=slopes),
            example(rewards_to_go, rewards=rewards, mask=mask, grad_of="rewards"),
            example(reinforce_loss, log_probs, weights, mask, grad_of=("log_probs", "weights")),
            example(reinforce_loss, log_probs=log_probs - 2, weights=weights + 3, mask=mask, grad_of="log_probs"),
        ]
    # NaN in one of the two only.
    mask, log_probs, weights = ragged_from(draw, 3, 5), normal_from(draw, 3, 5), normal_from(draw, 3, 5)
    for pair in ((log_probs.masked_fill(~mask, math.nan), weights), (log_probs, weights.masked_fill(~mask, math.nan))):
        found.append(example(reinforce_loss, *pair, mask, grad_of=("log_probs", "weights")))
    full = torch.ones(3, 5, dtype=torch.bool)
    found += [
        example(rewards_to_go, weights, full, 0.8, grad_of="rewards"),
        # Where the answer is the same numbers, it is a new tensor all the same.
        example(
            scenario("calls.after_the_answer_is_overwritten", of=rewards_to_go),
            **{"exercise": "rewards_to_go", "argument": "rewards", "rewards": weights, "mask": full, "gamma": 0.0},
        ),
        example(reinforce_loss, log_probs, weights, full, grad_of=("log_probs", "weights")),
        example(rewards_to_go, weights.float(), mask, 0.8),
        example(reinforce_loss, log_probs.float(), weights.float(), mask),
    ]
    for prompts, responses in ((3, 5), (4, 4), (1, 3), (5, 2)):
        scores, slopes = normal_from(draw, prompts, responses), normal_from(draw, prompts, responses)
        found += [
            example(leave_one_out_baseline, scores, grad_of="scores", grad_weights=slopes),
            example(leave_one_out_baseline, scores=4 + scores.float()),
        ]
    # Plain ones: padding on the right, finite numbers in it.
    for rows, steps in ((3, 5), (4, 6)):
        mask = ragged_from(draw, rows, steps, gap=False)
        rewards, log_probs, weights = (normal_from(draw, rows, steps) for _ in range(3))
        found += [
            example(rewards_to_go, rewards, mask, 0.7, grad_of="rewards"),
            example(rewards_to_go, rewards=rewards, mask=mask, grad_of="rewards"),
            example(reinforce_loss, log_probs - 1, weights, mask, grad_of="log_probs"),
        ]
    return found


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
TO_GO = {"rewards": [[1.0, 2.0]], "mask": [[True, True]], "gamma": 0.5}
LOSS = {"log_probs": [[-1.0, -2.0]], "weights": [[1.0, 2.0]], "mask": [[True, True]]}

DEFAULTS = [rewards_to_go]
REFUSALS = {
    rewards_to_go: (
        TO_GO,
        {
            "all-masked": ({"mask": [[False, False]]}, ["at least one True"]),
            "gamma-above-1": ({"gamma": 1.5}, ["gamma"]),
        },
    ),
    leave_one_out_baseline: ({}, {"no-other-response": ({"scores": [[1.0], [2.0]]}, ["K"])}),
    reinforce_loss: (
        LOSS,
        {
            "weights-would-broadcast": ({"weights": [[1.0], [2.0]]}, ["weights (2, 1)"]),
            "all-masked": ({"mask": [[False, False]]}, ["at least one True"]),
        },
    ),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1)
