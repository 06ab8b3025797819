"""Lesson 4, made safe: NaN and gaps; and in general: identities, against the reference."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    named,
    reference,
    scenario,
    value_and_gradients,
)
from tutorial.lesson04_gae import compute_gae, compute_response_gae, n_step_advantages, td_errors

GRADIENTS = ("rewards", "values")
NAN = math.nan


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.points(3)
def test_n_step_advantages_of_a_perfect_critic_is_zero(n):
    # values[t] = rewards[t] + gamma values[t + 1] exactly, in numbers that float64 holds exactly.
    rewards = torch.tensor([1.0, -2.0, 4.0, 3.0, 0.5], dtype=torch.float64)
    values = torch.zeros(6, dtype=torch.float64)
    for t in reversed(range(5)):
        values[t] = rewards[t] + 0.5 * values[t + 1]
    assert_equal(n_step_advantages(rewards, values, torch.zeros(5), n, 0.5), torch.zeros(5, dtype=torch.float64))


@pytest.mark.parametrize("gamma, lam", [(0.9, 0.8), (1.0, 0.6)])
def test_compute_gae_is_the_average_of_all_n_step_advantages(gamma, lam):
    # (1 - lam) sum_n lam^(n-1) A_n: from n = 6 on A_n does not change, and its weights sum to lam^5.
    rewards, values, dones = normal(2, 6), normal(2, 7, seed=2), torch.zeros(2, 6)
    dones[1, 3] = 1
    mix = lam**5 * reference(n_step_advantages, rewards, values, dones, 6, gamma)
    for n in range(1, 6):
        mix = mix + (1 - lam) * lam ** (n - 1) * reference(n_step_advantages, rewards, values, dones, n, gamma)
    assert_equal(compute_gae(rewards, values, dones, gamma, lam), advantages=mix, returns=mix + values[:, :-1])


@named("lam, n", {"lam-0": (0.0, 1), "lam-1": (1.0, 50)})
def test_compute_gae_at_lam_0_and_1(lam, n):
    rewards, values, dones = normal(3, 8), normal(3, 9, seed=2), normal(3, 8, seed=3) > 1
    advantages = reference(n_step_advantages, rewards, values, dones, n, 0.9)
    answer = compute_gae(rewards, values, dones, 0.9, lam)
    assert_equal(answer, advantages=advantages, returns=advantages + values[:, :-1])


@pytest.mark.points(2)
def test_compute_gae_of_two_episodes_is_each_alone():
    rewards, values = normal(2, 7), normal(2, 8, seed=2)
    dones = torch.zeros(2, 7, dtype=torch.bool)
    dones[:, 2] = True
    first, _ = reference(compute_gae, rewards[:, :3], values[:, :4], dones[:, :3], 0.9, 0.8)
    second, _ = reference(compute_gae, rewards[:, 3:], values[:, 3:], dones[:, 3:], 0.9, 0.8)
    assert_equal(compute_gae(rewards, values, dones, 0.9, 0.8).advantages, torch.cat([first, second], dim=1))


def ragged() -> tuple[Tensor, Tensor, Tensor]:
    """Rows of 6, 4, 1 and 3 real tokens among 6; the last has a gap."""
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 1, 0]]).bool()
    return normal(4, 6), normal(4, 6, seed=2), mask


@pytest.mark.parametrize("gamma, lam", [(0.9, 0.8), (1.0, 0.95), (0.6, 0.0), (0.0, 0.7)])
def test_compute_response_gae_of_a_row_is_that_of_its_real_tokens(gamma, lam):
    rewards, values, mask = ragged()
    expected = torch.zeros_like(rewards)
    for row, real in enumerate(mask):
        after_the_last = torch.cat([values[row, real], torch.zeros(1).double()])
        alone, _ = reference(compute_gae, rewards[row, real], after_the_last, torch.zeros(int(real.sum())), gamma, lam)
        expected[row, real] = alone
    answer = compute_response_gae(rewards, values, mask, gamma, lam)
    assert_equal(answer, advantages=expected, returns=expected + values.masked_fill(~mask, 0.0))


@pytest.mark.parametrize("part", ["advantages", "returns"])
@named("garbage", {"nan": NAN, "infinite": math.inf})
@pytest.mark.points(2)
def test_compute_response_gae_lets_no_nan_into_the_gradient(part, garbage):
    rewards, values, mask = ragged()
    rewards, values = rewards.masked_fill(~mask, garbage), values.masked_fill(~mask, garbage)
    answer, _ = value_and_gradients(compute_response_gae, rewards, values, mask, 0.9, 0.8, wrt=GRADIENTS, of=part)
    assert_equals_reference(answer)


# gamma 0.5, lam 0.5
@named(
    "rewards, values, mask, advantages, returns",
    {
        # delta[1] = 4 - 2 = 2; delta[0] = 1 + 0.5 * 2 - 4 = -2; -2 + 2/4 = -1.5
        "padding-holds-nan": ([1, 4, NAN], [4, 2, NAN], [True, True, False], [-1.5, 2, 0], [2.5, 4, 0]),
        # The tool's token is as if it were not there: the same numbers, with a hole
        "gap-is-skipped": ([1, NAN, 4], [4, NAN, 2], [True, False, True], [-1.5, 0, 2], [2.5, 0, 4]),
        "gap-of-numbers-is-not-a-step": ([1, 7, 4], [4, 9, 2], [True, False, True], [-1.5, 0, 2], [2.5, 0, 4]),
        "gap-at-the-start": ([7, 1, 4], [9, 4, 2], [False, True, True], [0, -1.5, 2], [0, 2.5, 4]),
    },
)
def test_compute_response_gae_with_gaps_and_nan(rewards, values, mask, advantages, returns):
    # Below it stands a row without a real token, which is 0.
    rows = [[[*map(float, row)], [NAN] * 3] for row in (rewards, values)]
    answer = compute_response_gae(*rows, [mask, [False] * 3], 0.5, 0.5)
    assert_equal(answer.advantages, [[*map(float, advantages)], [0.0] * 3])
    assert_equal(answer.returns, [[*map(float, returns)], [0.0] * 3])


@named("behind", {"nan": NAN, "infinite": math.inf})
def test_td_errors_ignores_the_value_behind_a_done(behind):
    # 0 * inf is NaN: the value behind the end has to be selected away, not multiplied by 0.
    answer, grads = value_and_gradients(td_errors, [1.0, 3.0], [2.0, 4.0, behind], [False, True], 0.5, wrt="rewards")
    assert_equal(answer, [1.0, -1.0])
    assert_equal(grads, rewards=[1.0, 1.0])
    # Where no episode ends, the same value belongs to the step, and shows.
    assert_equal(td_errors([1.0, 3.0], [2.0, 4.0, behind], [False, False], 0.5), [1.0, behind], equal_nan=True)


def test_compute_response_gae_is_built_on_compute_gae():
    # A compute_gae that answers twice the advantages. Rows: a gap; padding; whole, with numbers of its own.
    # [2, -2 + 0.25 * 2 = -1.5]; [2, 1 + 0.5 * 2 - 4 + 0.5 = -1.5]; 1, 3 + 0.5 - 2 + 0.25 = 1.75, 1 + 1 - 4 + 0.4375
    answer = scenario("through_compute_gae", of=compute_response_gae)(
        [[1.0, NAN, 4.0], [1.0, 4.0, NAN], [1.0, 3.0, 2.0]],
        [[4.0, NAN, 2.0], [4.0, 2.0, NAN], [4.0, 2.0, 1.0]],
        [[True, False, True], [True, True, False], [True, True, True]],
        0.5,
        0.5,
    )
    assert_equal(answer.advantages, [[-3.0, 0.0, 4.0], [-3.0, 4.0, 0.0], [-3.125, 3.5, 2.0]])
    assert_equal(answer.returns, [[1.0, 0.0, 6.0], [1.0, 6.0, 0.0], [0.875, 5.5, 3.0]])


def test_td_errors_gradient():
    # d/d values of the sum: -1 as the value of this step, +gamma as the value after the step before.
    # values[2] stands behind a done: only the -1 of its own step is left.
    args = [1.0, 1.0, 1.0], [2.0, 4.0, 8.0, 3.0], [False, True, False], 0.5
    answer, grads = value_and_gradients(td_errors, *args, wrt=GRADIENTS)
    assert_equal(answer, [1.0, -3.0, -5.5])
    assert_equal(grads, rewards=[1.0, 1.0, 1.0], values=[-1.0, -0.5, -1.0, 0.5])
