"""Lesson 4, by hand: two to four steps, gamma = 0.5 or 0.9, every number worked out in a comment or by eye."""

import pytest

from testcases.harness.suite.asserts import assert_equal, named, scenario
from tutorial.lesson04_gae import compute_gae, compute_response_gae, gae_ends, n_step_advantages, td_errors


# delta[t] = rewards[t] + gamma * values[t + 1] * (1 - dones[t]) - values[t]
@named(
    "rewards, values, dones, gamma, deltas",
    {
        # 1 + 0.5 * 4 - 2 = 1; 3 + 0.5 * 8 - 4 = 3
        "next-value-is-discounted": ([1.0, 3.0], [2.0, 4.0, 8.0], [0.0, 0.0], 0.5, [1.0, 3.0]),
        # The episode ends after step 0: 1 - 2 = -1. Step 1 begins another one: 3 + 0.5 * 8 - 4 = 3
        "done-removes-the-next-value-of-its-own-step": ([1.0, 3.0], [2.0, 4.0, 8.0], [1.0, 0.0], 0.5, [-1.0, 3.0]),
        # 3 - 4 = -1: the rollout ends because the episode does
        "done-at-the-end-needs-no-bootstrap": ([1.0, 3.0], [2.0, 4.0, 8.0], [0.0, 1.0], 0.5, [1.0, -1.0]),
        "gamma-0-leaves-this-reward-only": ([1.0, 3.0], [2.0, 4.0, 8.0], [0.0, 0.0], 0.0, [-1.0, -1.0]),
        "one-step-bootstraps": ([5.0], [2.0, 4.0], [0.0], 0.5, [5.0]),
    },
)
@pytest.mark.points(3)
def test_td_errors_by_hand(rewards, values, dones, gamma, deltas):
    assert_equal(td_errors(rewards, values, dones, gamma), deltas)


@named("dones", {"bool": [[False, True], [False, False]], "float": [[0.0, 1.0], [0.0, 0.0]], "int": [[0, 1], [0, 0]]})
def test_td_errors_keeps_rows_apart_and_takes_any_dones(dones):
    answer = td_errors([[1.0, 3.0], [0.0, 2.0]], [[2.0, 4.0, 8.0], [1.0, 2.0, 4.0]], dones, 0.5)
    assert_equal(answer, [[1.0, -1.0], [0.0, 2.0]])


# rewards 1, 2, 4; where gamma is 0.5 and the values are 1, 2, 3, 8, what follows is 4 + 4 = 8; 2 + 4 = 6; 1 + 3 = 4
@named(
    "values, dones, gamma, lam_0, lam_1",
    {
        "one-reward-or-all": ([1.0, 2.0, 3.0, 8.0], [0, 0, 0], 0.5, [1.0, 1.5, 5.0], [3.0, 4.0, 5.0]),
        # 4; 2 + 2 = 4; 1 + 2 = 3: behind the end there is no critic to believe
        "an-end-at-the-end": ([1.0, 2.0, 3.0, 8.0], [0, 0, 1], 0.5, [1.0, 1.5, 1.0], [2.0, 2.0, 1.0]),
        "an-end-inside": ([1.0, 2.0, 3.0, 8.0], [0, 1, 0], 0.5, [1.0, 0.0, 5.0], [1.0, 0.0, 5.0]),  # 2; 1 + 1 = 2
        "gamma-1": ([1.0, 2.0, 3.0, 8.0], [0, 0, 0], 1.0, [2.0, 3.0, 9.0], [14.0, 12.0, 9.0]),
        # The critic says 100 before step 1. At lam 0 step 0 believes it, too.
        "a-critic-that-errs": ([1.0, 100.0, 3.0, 8.0], [0, 0, 0], 0.5, [50.0, -96.5, 5.0], [3.0, -94.0, 5.0]),
    },
)
@pytest.mark.points(6)
def test_gae_ends_by_hand(values, dones, gamma, lam_0, lam_1):
    assert_equal(gae_ends([1.0, 2.0, 4.0], values, dones, gamma), lam_0=lam_0, lam_1=lam_1)


def test_gae_ends_comes_before_what_lies_between():
    steps = {"rewards": [1.0, 2.0, 4.0], "values": [1.0, 2.0, 3.0, 8.0], "dones": [False, False, False]}
    alone = scenario("calls.alone", of=gae_ends)
    answer = alone(exercise="gae_ends", later="n_step_advantages compute_gae", **steps, gamma=0.5)
    assert_equal(answer, lam_0=[1.0, 1.5, 5.0], lam_1=[3.0, 4.0, 5.0])


# rewards 1, 2, 4; values 1, 2, 3, 8; gamma 0.5: deltas 1 + 1 - 1 = 1, 2 + 1.5 - 2 = 1.5, 4 + 4 - 3 = 5
@named(
    "n, dones, advantages",
    {
        "n-1-is-the-td-error": (1, [0.0, 0.0, 0.0], [1.0, 1.5, 5.0]),
        # 1 + 0.5 * 2 + 0.25 * 3 - 1 = 1.75; 2 + 0.5 * 4 + 0.25 * 8 - 2 = 4; the last step has one reward only
        "n-2-takes-two-rewards-then-the-critic": (2, [0.0, 0.0, 0.0], [1.75, 4.0, 5.0]),
        "n-3-reaches-the-end": (3, [0.0, 0.0, 0.0], [3.0, 4.0, 5.0]),  # 1 + 0.5 * 2 + 0.25 * 4 + 0.125 * 8 - 1 = 3
        "n-beyond-the-end-changes-nothing": (9, [0.0, 0.0, 0.0], [3.0, 4.0, 5.0]),
        # After step 1 nothing follows: 1 + 0.5 * 2 - 1 = 1; 2 - 2 = 0
        "done-ends-the-sum-of-rewards": (2, [0.0, 1.0, 0.0], [1.0, 0.0, 5.0]),
        "done-at-the-end-drops-the-bootstrap": (9, [0.0, 0.0, 1.0], [2.0, 2.0, 1.0]),
    },
)
@pytest.mark.points(7)
def test_n_step_advantages_by_hand(n, dones, advantages):
    assert_equal(n_step_advantages([1.0, 2.0, 4.0], [1.0, 2.0, 3.0, 8.0], dones, n, 0.5), advantages)


# rewards 1, 1, 1; values 2, 4, 8, 16. Where gamma is 0.5, each delta without done is 1: 1 + 2 - 2, 1 + 4 - 4, 1 + 8 - 8
@named(
    "dones, gamma, lam, advantages, returns",
    {
        # 1 + 0.25 = 1.25; 1 + 0.25 * 1.25 = 1.3125
        "next-advantage-is-weighted-by-gamma-lam": ([0, 0, 0], 0.5, 0.5, [1.3125, 1.25, 1.0], [3.3125, 5.25, 9.0]),
        "lam-0-is-the-td-error": ([0, 0, 0], 0.5, 0.0, [1.0, 1.0, 1.0], [3.0, 5.0, 9.0]),
        # 1 + 0.5 + 0.25 = 1.75: all rewards and the last value, minus the value
        "lam-1-sums-every-reward": ([0, 0, 0], 0.5, 1.0, [1.75, 1.5, 1.0], [3.75, 5.5, 9.0]),
        "gamma-0-keeps-this-reward-only": ([0, 0, 0], 0.0, 0.5, [-1.0, -3.0, -7.0], [1.0, 1.0, 1.0]),
        # delta[1] = 1 - 4 = -3; 1 + 0.25 * -3 = 0.25
        "done-removes-next-value-and-next-advantage": ([0, 1, 0], 0.5, 0.5, [0.25, -3.0, 1.0], [2.25, 1.0, 9.0]),
        # delta[0] = 1 - 2 = -1, and nothing of step 1 comes back to it
        "done-first-belongs-to-its-own-step": ([1, 0, 0], 0.5, 0.5, [-1.0, 1.25, 1.0], [1.0, 5.25, 9.0]),
        # delta[2] = 1 - 8 = -7; 1 - 7/4 = -0.75; 1 - 0.75/4 = 0.8125
        "done-last-drops-the-bootstrap": ([0, 0, 1], 0.5, 0.5, [0.8125, -0.75, -7.0], [2.8125, 3.25, 1.0]),
    },
)
@pytest.mark.points(11)
def test_compute_gae_by_hand(dones, gamma, lam, advantages, returns):
    answer = compute_gae([1.0, 1.0, 1.0], [2.0, 4.0, 8.0, 16.0], dones, gamma, lam)
    assert_equal(answer, advantages=advantages, returns=returns)


@pytest.mark.points(3)
def test_compute_gae_across_two_episodes():
    # gamma * lam = 0.72. The first row has deltas 0.95, 0.5, 0.95, 0.95: 0.95 + 0.72 * 0.5 = 1.31; 0.95 + 0.72 * 0.95
    # = 1.634. It tells four treatments of `dones` apart. In the second row the only delta is the 1 at the end.
    answer = compute_gae(
        [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]],
        [[0.5, 0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0, 0.0]],
        [[False, True, False, False], [False, False, False, False]],
        0.9,
        0.8,
    )
    advantages = [[1.31, 0.5, 1.634, 0.95], [0.373248, 0.5184, 0.72, 1.0]]
    assert_equal(answer, advantages=advantages, returns=[[1.81, 1.0, 2.134, 1.45], advantages[1]])


# gamma 0.5; so many of the tokens are `real`
@named(
    "rewards, values, real, lam, advantages, returns",
    {
        # The episode ends after the last token: delta[1] = 4 - 2 = 2; delta[0] = 1 + 0.5 * 2 - 4 = -2; -2 + 2/4 = -1.5
        "nothing-after-the-last-token": ([1.0, 4.0], [4.0, 2.0], 2, 0.5, [-1.5, 2.0], [2.5, 4.0]),
        # DeepSpeed-Chat's recursion over all columns lets in the 100 that stands behind the end.
        "padding-holds-numbers": ([1.0, 4.0, 7.0], [4.0, 2.0, 100.0], 2, 0.5, [-1.5, 2.0, 0.0], [2.5, 4.0, 0.0]),
        "as-expected-is-not-padding": ([3.0], [3.0], 1, 0.5, [0.0], [3.0]),
        # -2 + 0.5 * 0.8 * 2 = -1.2
        "where-gamma-and-lam-differ": ([1.0, 4.0], [4.0, 2.0], 2, 0.8, [-1.2, 2.0], [2.8, 4.0]),
    },
)
@pytest.mark.points(9)
def test_compute_response_gae_by_hand(rewards, values, real, lam, advantages, returns):
    mask = [place < real for place in range(len(rewards))]
    answer = compute_response_gae([rewards], [values], [mask], 0.5, lam)
    assert_equal(answer, advantages=[advantages], returns=[returns])


@pytest.mark.points(2)
def test_compute_response_gae_keeps_rows_apart():
    # The first row as above; in the second the only delta is the 1 at the end.
    answer = compute_response_gae(
        [[1.0, 4.0, 7.0], [0.0, 0.0, 1.0]],
        [[4.0, 2.0, 9.0], [0.0, 0.0, 0.0]],
        [[True, True, False], [True, True, True]],
        0.5,
        0.5,
    )
    assert_equal(answer.advantages, [[-1.5, 2.0, 0.0], [0.0625, 0.25, 1.0]])
    assert_equal(answer.returns, [[2.5, 4.0, 0.0], [0.0625, 0.25, 1.0]])
