"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import math

import torch

from testcases.harness.doubles.drawing import generator, normal_from, ragged_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example
from tutorial.lesson13_after_ppo import (
    best_of_n_kl,
    cispo_token_losses,
    clipped_token_losses,
    dpo_loss,
    expected_best_of_n,
    group_advantages,
    kl_token_losses,
    reduce_losses,
    sequence_ratio,
    truncated_importance_weights,
)

PAIR = ("chosen", "rejected", "ref_chosen", "ref_rejected")


def examples(seed: int) -> list[Call]:
    """O(1) numbers in float64; ragged rows, each with a gap in the first; garbage under the mask."""
    draw = generator(seed)
    found = []
    for rows, steps, garbage in ((3, 6, None), (4, 4, math.nan), (1, 5, 1e6), (4, 7, math.nan)):
        mask = ragged_from(draw, rows, steps)
        now, then, ref, losses = (normal_from(draw, rows, steps) for _ in range(4))
        then, ref = now + then / 2, now + ref / 2
        if garbage is not None:
            now, then, ref, losses = (one.masked_fill(~mask, garbage) for one in (now, then, ref, losses))
        slopes, advantages = normal_from(draw, rows, steps), normal_from(draw, rows)
        low, high, cap = (0.1 + float(torch.rand((), generator=draw)) * size for size in (0.3, 0.6, 0.0))
        found += [
            example(
                clipped_token_losses, now, then, advantages, mask, low, high, grad_of="log_probs", grad_weights=slopes
            ),
            example(
                cispo_token_losses, now, then, advantages, mask, 1 + high, grad_of="log_probs", grad_weights=slopes
            ),
            example(sequence_ratio, now, then, mask, grad_of="log_probs", grad_weights=advantages),
            example(sequence_ratio, now, then, mask, False, grad_of="log_probs"),
            example(kl_token_losses, now, then, ref, mask, grad_of="log_probs", grad_weights=slopes),
            example(truncated_importance_weights, now, then, mask, 1.0 + cap * 3),
            example(truncated_importance_weights, now, then, mask),
            example(reduce_losses, losses, mask, grad_of="losses"),
            example(reduce_losses, losses, mask, "responses", grad_of="losses"),
            example(reduce_losses, losses, mask, "constant", None, 9.0, grad_of="losses"),
            example(reduce_losses, losses, mask, "tokens", 50.0, grad_of="losses"),
            example(reduce_losses, losses, mask, "responses", 11.0, grad_of="losses"),
            example(reduce_losses, losses, mask, "constant", 11.0, 9.0, grad_of="losses"),
        ]
    return found + _at_the_corners(draw) + _of_groups(draw) + _of_pairs(draw) + _plain(draw)


def _at_the_corners(draw: torch.Generator) -> list[Call]:
    """A response without a token; tokens that a float holds for impossible; policies that nearly agree in float32."""
    now, then, full = normal_from(draw, 2, 4), normal_from(draw, 2, 4), torch.ones(2, 4, dtype=torch.bool)
    empty, advantages = full & torch.tensor([[True], [False]]), normal_from(draw, 2)
    near = torch.zeros(1, 3), torch.full((1, 3), -31.0), torch.tensor([[0.0625, -0.0625, 0.09375]]), full[:1, :3]
    both = {"grad_of": ("log_probs", "old_log_probs")}
    return [
        example(reduce_losses, now, empty, "responses"),
        example(sequence_ratio, now, then, full, **both),
        example(clipped_token_losses, now - 1000, then - 1000, advantages, full, grad_of="log_probs"),
        example(
            clipped_token_losses, now, then, advantages, full, grad_of=("log_probs", "old_log_probs", "advantages")
        ),
        example(cispo_token_losses, now - 1000, then - 1000, advantages, full, 1.5, grad_of="log_probs"),
        example(
            cispo_token_losses, now, then, advantages, full, 5.0, grad_of=("log_probs", "old_log_probs", "advantages")
        ),
        example(kl_token_losses, *near),
        example(kl_token_losses, now, then, now - then, full, grad_of=("log_probs", "old_log_probs", "ref_log_probs")),
        example(truncated_importance_weights, now + 4, then, full, 1.5),
        example(truncated_importance_weights, now, then, full, grad_of="log_probs"),
    ]


def _of_groups(draw: torch.Generator) -> list[Call]:
    found = []
    for prompts, responses in ((3, 5), (4, 4), (1, 3), (5, 2)):
        scores = 3 * normal_from(draw, prompts, responses) + 1
        found += [
            example(group_advantages, scores, 0.3, grad_of="scores"),
            example(group_advantages, scores, divide_by_std=False),
            example(group_advantages, scores),
            example(expected_best_of_n, scores, 2),
            example(expected_best_of_n, scores, responses),
            example(expected_best_of_n, scores, 1),
        ]
        chances = normal_from(draw, responses).softmax(dim=0)
        found += [example(best_of_n_kl, chances, n) for n in (2, 5)]
        found.append(example(best_of_n_kl, torch.cat([chances, chances.new_zeros(1)]), 3))
    found += [example(expected_best_of_n, normal_from(draw, 1, 400), 200)]
    return found


def _of_pairs(draw: torch.Generator) -> list[Call]:
    found = []
    for pairs in (1, 4, 7):
        terms = [2 * normal_from(draw, pairs) - 12 for _ in PAIR]
        found += [example(dpo_loss, *terms, beta, grad_of=PAIR) for beta in (0.3, 1.5)]
        found.append(example(dpo_loss, *terms))
        found.append(example(dpo_loss, terms[0] - 40_000, *terms[1:], grad_of="chosen"))
    return found


def _plain(draw: torch.Generator) -> list[Call]:
    """Padding on the right, finite numbers in it."""
    found = []
    for rows, steps in ((3, 5), (4, 6)):
        mask = ragged_from(draw, rows, steps, gap=False)
        now, then, ref = (normal_from(draw, rows, steps) for _ in range(3))
        then, ref, advantages = now + then / 2, now + ref / 2, normal_from(draw, rows)
        found += [
            example(clipped_token_losses, now, then, advantages, mask, 0.2, 0.4, grad_of="log_probs"),
            example(cispo_token_losses, now, then, advantages, mask, 1.5, grad_of="log_probs"),
            example(reduce_losses, now, mask, grad_of="losses"),
            example(reduce_losses, now, mask, "responses", grad_of="losses"),
            example(reduce_losses, now, mask, "constant", None, 9.0, grad_of="losses"),
            example(sequence_ratio, now, then, mask, grad_of="log_probs"),
            example(kl_token_losses, now, then, ref, mask, grad_of="log_probs"),
            example(truncated_importance_weights, now, then, mask, 1.5),
        ]
    return found


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
GROUP = {"scores": [[1.0, 2.0]]}
ROW = {"log_probs": [[-1.0, -2.0]], "old_log_probs": [[-1.5, -1.0]], "mask": [[True, True]]}
LOSSES = {"losses": [[1.0, 2.0]], "mask": [[True, True]]}
PAIRS = {"chosen": [-1.0], "rejected": [-2.0], "ref_chosen": [-1.5], "ref_rejected": [-1.0], "beta": 0.5}
FEW = {"no-other-response": ({"scores": [[1.0], [2.0]]}, ["K"])}
MASKS = {
    "mask-would-broadcast": ({"mask": [[True], [True]]}, ["mask (2, 1)"]),
    "all-masked": ({"mask": [[False, False]]}, ["True"]),
}
COUNTS = {"none": ({"n": 0}, ["n"]), "a-fraction": ({"n": 1.5}, ["n"])}

AGREEMENT = {cispo_token_losses: 3, truncated_importance_weights: 4, dpo_loss: 1, best_of_n_kl: 1}
DEFAULTS = [
    group_advantages,
    clipped_token_losses,
    reduce_losses,
    sequence_ratio,
    truncated_importance_weights,
    dpo_loss,
]
REFUSALS = {
    group_advantages: (GROUP, {**FEW, "epsilon-below-0": ({"epsilon": -1e-4}, ["epsilon"])}),
    clipped_token_losses: (ROW | {"advantages": [1.0]}, {**MASKS, "clip-high-0": ({"clip_high": 0.0}, ["clip_high"])}),
    cispo_token_losses: (
        ROW | {"advantages": [1.0], "ratio_cap": 5.0},
        {**MASKS, "a-cap-below-1": ({"ratio_cap": 0.5}, ["ratio_cap"])},
    ),
    reduce_losses: (
        LOSSES,
        {
            **MASKS,
            "unknown-denominator": ({"denominator": "rows"}, ["tokens, responses, constant", "'rows'"]),
            "constant-without-its-number": ({"denominator": "constant"}, ["constant=None"]),
        },
    ),
    sequence_ratio: (
        ROW,
        {
            **MASKS,
            "a-response-without-a-token": (
                {"log_probs": [[-1.0], [-2.0]], "old_log_probs": [[-1.0], [-2.0]], "mask": [[True], [False]]},
                ["row 1"],
            ),
        },
    ),
    kl_token_losses: (
        ROW | {"ref_log_probs": [[-1.0, -1.0]]},
        {**MASKS, "another-reference": ({"ref_log_probs": [[-1.0]]}, ["ref_log_probs (1, 1)"])},
    ),
    truncated_importance_weights: (
        {"log_probs": [[-1.0, -2.0]], "sampler_log_probs": [[-1.0, -2.0]], "mask": [[True, True]]},
        {**MASKS, "a-cap-below-1": ({"cap": 0.5}, ["cap"])},
    ),
    dpo_loss: (
        PAIRS,
        {"one-pair-too-few": ({"rejected": [-1.0, -2.0]}, ["rejected (2,)"]), "beta-0": ({"beta": 0.0}, ["beta"])},
    ),
    expected_best_of_n: ({"scores": [[1.0, 2.0]], "n": 1}, {**COUNTS, "more-than-there-are": ({"n": 3}, ["1 to 2"])}),
    best_of_n_kl: (
        {"probabilities": [0.5, 0.5], "n": 2},
        {**COUNTS, "another-sum": ({"probabilities": [0.5, 0.6]}, ["sum 1"])},
    ),
}
