"""Your tests of four functions of lessons 1, 4, 5 and 6. They pass right implementations and fail wrong ones.

Each function below is a test of pytest. Write more of them: all whose names begin with `test_compute_gae` test
`compute_gae`, and so on, with `pytest.mark.parametrize` if you like. They are run on implementations that you cannot
see. Nothing but the four functions can be imported from other lessons; run them on the course's own with

    pytest solutions/lesson10_bug_hunt/my_tests.py
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
    # region solution
    cases: list[tuple[list[float], list[float], list[int], dict[str, Any]]] = [
        # rewards, values, dones, gamma, lam
        ([1.0], [2.0, 4.0], [0], {"gamma": 0.5, "lam": 0.25}),
        ([1.0, 2.0, 4.0], [1.0, 3.0, 2.0, 8.0], [0, 0, 0], {"gamma": 0.5, "lam": 0.25}),
        ([1.0, 2.0, 4.0, 1.0], [1.0, 3.0, 2.0, 5.0, 8.0], [0, 1, 0, 1], {"gamma": 0.5, "lam": 0.25}),
        ([1.0, 2.0, 3.0], [1.0, 3.0, 8.0, 2.0], [0, 0, 0], {"gamma": 1.0, "lam": 1.0}),
        ([1.0, 2.0, 3.0], [1.0, 3.0, 8.0, 2.0], [0, 0, 0], {"gamma": 0.9, "lam": 0.0}),
        ([1.0, 2.0, 4.0], [1.0, 3.0, 2.0, 8.0], [0, 0, 0], {}),
    ]
    for rewards, values, dones, options in cases:
        gamma, lam, following = options.get("gamma", 0.99), options.get("lam", 0.95), 0.0
        expected: list[float] = []
        for t in reversed(range(len(rewards))):
            going_on = 1 - dones[t]
            following = rewards[t] + going_on * gamma * values[t + 1] - values[t] + going_on * gamma * lam * following
            expected.insert(0, following)
        batch = leaf([rewards, [reward + 1 for reward in rewards]]), leaf([values, values])
        advantages, returns = compute_gae(*batch, torch.tensor([dones, dones]), **options)
        assert close(advantages[0], expected)
        assert close(returns[0], [one + value for one, value in zip(expected, values, strict=False)])
    pair = leaf([[1.0, 2.0]]), leaf([[1.0, 3.0, 8.0]])
    advantages, returns = compute_gae(*pair, torch.tensor([[0, 0]]), 0.5, 0.25)
    slopes = torch.autograd.grad(advantages.sum() + 3 * returns.sum(), pair)
    assert close(slopes[0], [[4.0, 4.5]]) and close(slopes[1], [[-1.0, 0.5, 2.25]])
    # endregion


def test_compute_ppo_loss() -> None:
    """Test the loss of compute_ppo_loss(log_probs, old_log_probs, advantages, clip_epsilon, mask) and its gradients.

    loss = -mean over real tokens of min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A)
    """
    # region solution
    for epsilon in (0.2, 0.5, None):
        width = 0.2 if epsilon is None else epsilon
        options: dict[str, Any] = {} if epsilon is None else {"clip_epsilon": epsilon}
        for ratio in (0.4, 0.75, 1.0, 1.4, 1.9):
            for advantage in (2.0, -3.0):
                now, before, merit = leaf([math.log(ratio) - 1]), leaf([-1.0]), leaf([advantage])
                loss = compute_ppo_loss(now, before, merit, **options)
                edge = min(ratio * advantage, min(max(ratio, 1 - width), 1 + width) * advantage)
                assert close(loss, -edge)
                slopes = torch.autograd.grad(loss, (now, before, merit), allow_unused=True)
                counts = ratio < 1 + width if advantage > 0 else ratio > 1 - width
                assert close(slopes[0], [-ratio * advantage if counts else 0.0])
                assert all(slope is None or not slope.any() for slope in slopes[1:])
    # 1.2 and -1.5: the smaller is taken for each token
    assert close(compute_ppo_loss(leaf([math.log(1.5)] * 2), leaf([0.0, 0.0]), leaf([1.0, -1.0])), 0.15)
    log_probs, old = leaf([[-1.0, -1.0], [-1.0, math.nan]]), leaf([[-1.0, -1.0], [-1.0, math.nan]])
    mask = torch.tensor([[True, True], [True, False]])
    loss = compute_ppo_loss(log_probs, old, leaf([[1.0, 2.0], [6.0, math.nan]]), 0.2, mask)
    assert close(loss, -3.0)
    assert close(torch.autograd.grad(loss, log_probs)[0], [[-1 / 3, -2 / 3], [-2.0, 0.0]])
    # endregion


def test_compute_rewards() -> None:
    """Test the rewards of compute_rewards(scores, log_probs, ref_log_probs, mask, kl_coef, clip_score, estimator).

    rewards[t] = -kl_coef * KL[t], plus the clipped score at the last real token
    """
    # region solution
    gaps = {"k1": lambda r: r, "k2": lambda r: r * r / 2, "k3": lambda r: math.exp(-r) - 1 + r}
    policy = [[-1.0, -2.0, -0.5, -4.0], [-1.5, -0.25, math.nan, math.nan], [-1.0, -9.0, -2.0, -1.0]]
    frozen = [[-2.0, -40.0, -1.0, -1.0], [-1.0, -1.0, math.nan, math.nan], [-2.0, -1.0, -1.0, -1.5]]
    real = [[True, True, True, True], [True, True, False, False], [False, True, True, False]]
    settings: list[dict[str, Any]] = [
        {"kl_coef": 0.25, "clip_score": 1.5},
        {"kl_coef": 0.5, "clip_score": 20.0, "estimator": "k2"},
        {"kl_coef": 0.25, "clip_score": 1.5, "estimator": "k3"},
        {"kl_coef": 0.0, "clip_score": 0.5},
        {},
    ]
    for options in settings:
        coefficient, bound = options.get("kl_coef", 0.1), options.get("clip_score", 5.0)
        for scores in ([2.0, -1.0, 0.5], [9.0, -9.0, 7.0]):
            rewards = compute_rewards(leaf(scores), leaf(policy), leaf(frozen), torch.tensor(real), **options)
            for row, places in enumerate(real):
                last = max(t for t, is_real in enumerate(places) if is_real)
                for t, is_real in enumerate(places):
                    gap = gaps[options.get("estimator", "k1")](policy[row][t] - frozen[row][t]) if is_real else 0.0
                    score = min(max(scores[row], -bound), bound) if t == last else 0.0
                    assert close(rewards[row, t], -coefficient * gap + score if is_real else 0.0)
            assert not rewards.requires_grad
    # endregion


def test_response_mask() -> None:
    """Test the mask of response_mask(responses, stop_token_ids): True up to the first stop token, which is included."""
    # region solution
    for ids in ((2,), (2, 3), (3, 2), (0,), (1, 4, 2), ()):
        for length in (1, 2, 4, 12):
            draw = torch.Generator().manual_seed(length + len(ids))
            few = torch.randint(0, 9, (40, length), generator=draw)
            repeated = torch.randint(2, 4, (10, length), generator=draw)
            for responses in (few, repeated, few.masked_fill(few < 5, 6)):
                mask = response_mask(responses, ids)
                assert mask.shape == responses.shape and mask.dtype == torch.bool
                for tokens, real in zip(responses.tolist(), mask.tolist(), strict=True):
                    ends = [place for place, token in enumerate(tokens) if token in ids]
                    length_of_row = ends[0] + 1 if ends else len(tokens)
                    assert real == [place < length_of_row for place in range(len(tokens))]
    # endregion
