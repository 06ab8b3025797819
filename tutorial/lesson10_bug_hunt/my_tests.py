"""Your tests of four functions of lessons 1, 4, 5 and 6. They pass right implementations and fail wrong ones.

Each function below is a test of pytest. Write more of them: all whose names begin with `test_compute_gae` test
`compute_gae`, and so on, with `pytest.mark.parametrize` if you like. They are run on implementations that you cannot
see. Nothing but the four functions can be imported from other lessons; run them on the course's own with

    pytest tutorial/lesson10_bug_hunt/my_tests.py
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..lesson01_masked_sequences import response_mask
from ..lesson04_gae import compute_gae
from ..lesson05_ppo_loss import compute_ppo_loss
from ..lesson06_kl_rewards import compute_rewards


def leaf(numbers: list) -> torch.Tensor:
    """Make a tensor that a gradient can reach."""
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def close(found: torch.Tensor, expected: list | float) -> bool:
    """Tell whether two tensors have the same shape, and the same numbers to ten digits."""
    wanted = torch.tensor(expected, dtype=found.dtype)
    return found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_compute_gae() -> None:
    """Test advantages and returns of compute_gae(rewards, values, dones, gamma, lam); `values` has one more column.

    advantages[t] = rewards[t] + gamma V[t + 1] - V[t] + gamma lam advantages[t + 1], without what follows a done
    """
    raise NotImplementedError("lesson10: test_compute_gae")


def test_compute_ppo_loss() -> None:
    """Test the loss of compute_ppo_loss(log_probs, old_log_probs, advantages, clip_epsilon, mask) and its gradients.

    loss = -mean over real tokens of min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A)
    """
    raise NotImplementedError("lesson10: test_compute_ppo_loss")


def test_compute_rewards() -> None:
    """Test the rewards of compute_rewards(scores, log_probs, ref_log_probs, mask, kl_coef, clip_score, estimator).

    rewards[t] = -kl_coef * KL[t], plus the clipped score at the last real token
    """
    raise NotImplementedError("lesson10: test_compute_rewards")


def test_response_mask() -> None:
    """Test the mask of response_mask(responses, stop_token_ids): True up to the first stop token, which is included."""
    raise NotImplementedError("lesson10: test_response_mask")
