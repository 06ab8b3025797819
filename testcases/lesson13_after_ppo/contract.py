"""Lesson 13: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

import torch

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

# The checks are given, above the solution; they have to stay there.
GROUP = {"scores": [[1.0, 2.0]]}
ROW = {"log_probs": [[-1.0, -2.0]], "old_log_probs": [[-1.5, -1.0]], "mask": [[True, True]]}
LOSSES = {"losses": [[1.0, 2.0]], "mask": [[True, True]]}
PAIRS = {"chosen": [-1.0], "rejected": [-2.0], "ref_chosen": [-1.5], "ref_rejected": [-1.0], "beta": 0.5}
FEW = {
    "no-other-response": ({"scores": [[1.0], [2.0]]}, ["K"]),
    "no-prompts": ({"scores": [1.0, 2.0]}, ["scores (2,)"]),
}
MASKS = {
    "mask-would-broadcast": ({"mask": [[True], [True]]}, ["mask (2, 1)"]),
    "all-masked": ({"mask": [[False, False]]}, ["True"]),
}
COUNTS = {"none": ({"n": 0}, ["n"]), "a-fraction": ({"n": 1.5}, ["n"])}

AGREEMENT = {dpo_loss: 1, best_of_n_kl: 1}
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
    clipped_token_losses: (
        ROW | {"advantages": [1.0]},
        {
            **MASKS,
            "one-advantage-a-token": ({"advantages": [[1.0, 2.0]]}, ["advantages (1, 2)"]),
            "clip-low-above-1": ({"clip_low": 1.5}, ["clip_low"]),
            "clip-high-0": ({"clip_high": 0.0}, ["clip_high"]),
        },
    ),
    cispo_token_losses: (
        ROW | {"advantages": [1.0], "ratio_cap": 5.0},
        {
            **MASKS,
            "one-advantage-a-token": ({"advantages": [[1.0, 2.0]]}, ["advantages (1, 2)"]),
            "a-cap-below-1": ({"ratio_cap": 0.5}, ["ratio_cap"]),
        },
    ),
    reduce_losses: (
        LOSSES,
        {
            **MASKS,
            "unknown-denominator": ({"denominator": "rows"}, ["tokens, responses, constant", "'rows'"]),
            "no-tokens-in-the-window": ({"total": 0.0}, ["total"]),
            "constant-without-its-number": ({"denominator": "constant"}, ["constant=None"]),
            "a-constant-of-0": ({"denominator": "constant", "constant": 0.0}, ["constant"]),
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
        {
            "one-pair-too-few": ({"rejected": [-1.0, -2.0]}, ["rejected (2,)"]),
            "no-pairs": (dict.fromkeys(PAIRS.keys() - {"beta"}, torch.zeros(0)), ["at least one pair"]),
            "beta-0": ({"beta": 0.0}, ["beta"]),
        },
    ),
    expected_best_of_n: (
        {"scores": [[1.0, 2.0]], "n": 1},
        {**COUNTS, "more-than-there-are": ({"n": 3}, ["1 to 2"]), "no-prompts": ({"scores": [1.0]}, ["scores (1,)"])},
    ),
    best_of_n_kl: (
        {"probabilities": [0.5, 0.5], "n": 2},
        {
            **COUNTS,
            "another-sum": ({"probabilities": [0.5, 0.6]}, ["sum 1"]),
            "a-table": ({"probabilities": [[1.0]]}, ["probabilities (1, 1)"]),
        },
    ),
}
