"""Lesson 9, by hand: the rollout of an update, its responses and their rewards.

A table policy has a row of logits for the token before; a table critic a value for it. Token 0 is padding, 1 stops.
"""

import math

import pytest

from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_leaves_global_random_alone,
    named,
    scenario,
)
from tutorial.lesson09_ppo_trainer import PPOTrainer

LN2 = math.log(2)
# Certain: after 2 always 3, after 3 always the stop token (exp(-1000) is 0).
SURE = 1000.0
CHAIN = [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, SURE], [0.0, SURE, 0.0, 0.0]]
NO, YES = False, True

RESPONSES = scenario("responses_of", of=PPOTrainer.generate_responses)
REWARDS = scenario("rewards_of", of=PPOTrainer.compute_rewards)

TABLES = {"actor": CHAIN, "critic": [0.0, 0.0, 1.0, 0.5]}


def test_generate_responses_by_hand():
    # The prompts [2] and [2, 3] are answered by [3, stop] and [stop]; what is certain has log-prob 0.
    answer = RESPONSES(**TABLES, prompts=((2,), (2, 3)), batch_size=2, num_minibatches=1)
    assert_equal(answer, responses=[[3, 1], [1, 0]], mask=[[YES, YES], [YES, NO]], log_probs=[[0.0, 0.0], [0.0, 0.0]])
    assert_equal(answer, rows_of_each_first_pass=[2], in_autocast=True, parts_in_training_mode=3)


@named("size, rows", {"all-at-once": (None, [5]), "two-at-once": (2, [2, 2, 1]), "one-by-one": (1, [1] * 5)})
def test_generate_responses_samples_so_many_rows_at_once(size, rows):
    # Chunks of one token and of two are one table of two columns.
    prompts = ((3,), (2, 3), (2,), (3, 3), (3,))
    answer = RESPONSES(**TABLES, prompts=prompts, micro_rollout_batch_size=size)
    assert_equal(answer, responses=[[1, 0], [1, 0], [3, 1], [1, 0], [1, 0]], rows_of_each_first_pass=rows)


@pytest.mark.parametrize("seed", [0, 5])
def test_generate_responses_draws_from_the_sampling_generator(seed):
    # Uniform logits: what is drawn follows from the seed, goes on in the next call, and is log 1/4 a token.
    uniform = {**TABLES, "actor": [[0.0] * 4] * 4}
    answer = RESPONSES(**uniform, prompts=((2,), (3,), (3, 2)), max_new_tokens=4, seed=seed, calls=2)
    real = answer["log_probs"][answer["mask"]]
    assert (real + 2 * LN2).abs().max() < 1e-9, "log-probs of log 1/4 on each real token"
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


def test_generate_responses_asks_the_sampler_where_there_is_one():
    # It is asked for prompts of 1, 2 and 1 tokens, as `generate` would be, and says "stop" with log-prob -1, then -2.
    settings = {"micro_rollout_batch_size": 2, "temperature": 0.5, "max_new_tokens": 7}
    answer = RESPONSES(**TABLES, prompts=((2,), (2, 3), (3,)), sampler=True, **settings)
    assert_equal(answer, asked=[[[1, 2], 7, [1], 0, 0.5, YES], [[1], 7, [1], 0, 0.5, YES]])
    assert_equal(answer, log_probs=[[-1.0, 0.0], [-1.0, 0.0], [-2.0, 0.0]], rows_of_each_first_pass=[])


# The responses [3, stop] and [stop] to the prompts [2] and [3] have log-probs 0. The reference is uniform over 4: each
# token has KL 2 ln 2 and, with coefficient 0.25 / ln 2, a penalty of 0.5. Scores 3.5 (0.5 + 2 + 1, with the prompt)
# and 3. So the rewards are [-0.5, 3.5 - 0.5] and [3 - 0.5].
GIVEN = {
    **TABLES,
    "reference": [[0.0] * 4] * 4,
    "reward": [0.0, 1.0, 0.5, 2.0],
    "prompts": ((2,), (3,)),
    "responses": [[3, 1], [1, 0]],
    "log_probs": [[0.0, 0.0], [0.0, 0.0]],
    "mask": [[YES, YES], [YES, NO]],
    "kl_coef": 0.25 / LN2,
}


SIZES = named("size", {"all-at-once": None, "row-by-row": 1})


@SIZES
@pytest.mark.points(2)
def test_compute_rewards_by_hand(size):
    answer = REWARDS(**GIVEN, micro_rollout_batch_size=size)
    assert_equal(
        answer,
        rewards=[[-0.5, 3.0], [2.5, 0.0]],
        scores=[3.5, 3.0],
        values=[[1.0, 0.5], [0.5, 0.0]],
        ref_log_probs=[[-2 * LN2, -2 * LN2], [-2 * LN2, 0.0]],
        log_probs=[[0.0, 0.0], [0.0, 0.0]],
        input_ids=[[2, 3, 1], [3, 1, 0]],
    )
    assert_equal(answer, has_gradient=False, in_autocast=True, parts_in_training_mode=3)
    assert_equal(answer, passes_of_the_reference=[1, 1] if size else [2], passes_of_the_policy=[])


def test_compute_rewards_uses_the_present_kl_coef():
    # 1 / ln 2 instead of 0.25 / ln 2: each token is 2 lower than its score, not 0.5.
    assert_equal(REWARDS(**GIVEN, coefficient=1 / LN2), rewards=[[-2.0, 1.5], [1.0, 0.0]])


# Mean 5 / 3; squared deviations of -6.5, 4, 2.5 thirds: variance 64.5 / 9 / 2.
SPREAD = math.sqrt(64.5 / 18 + 1e-8)


@SIZES
def test_compute_rewards_whitens_over_the_whole_rollout(size):
    # The mean stays: (r - 5/3) / spread + 5/3. Over one row the spread would be another, and that of one token 0.
    mean = 5 / 3
    rows = [[-0.5, 3.0], [2.5, mean]]
    answer = REWARDS(**GIVEN, whiten_rewards=True, micro_rollout_batch_size=size)
    assert_equal(
        answer, rewards=[[(one - mean) / SPREAD + mean if one != mean else 0.0 for one in row] for row in rows]
    )


def test_compute_rewards_recomputes_the_log_probs_of_the_policy():
    # The sampler says -1 a token; the policy is certain: 0. With its own log-probs the rewards are those above.
    other = {**GIVEN, "log_probs": [[-1.0, -1.0], [-1.0, 0.0]]}
    answer = REWARDS(**other, recompute_log_probs=True)
    assert_equal(
        answer, rewards=[[-0.5, 3.0], [2.5, 0.0]], log_probs=[[0.0, 0.0], [0.0, 0.0]], passes_of_the_policy=[2]
    )
    assert_equal(answer, sampler_log_probs=[[-1.0, -1.0], [-1.0, 0.0]])
    penalty = 0.25 / LN2 * (2 * LN2 - 1)
    assert_equal(REWARDS(**other), rewards=[[-penalty, 3.5 - penalty], [3.0 - penalty, 0.0]])


def test_compute_rewards_gives_a_reward_function_the_columns_of_its_rows():
    # Row 0 is worth 0, row 1 is worth 1.
    answer = REWARDS(**GIVEN, by_columns=True, micro_rollout_batch_size=1)
    assert_equal(answer, scores=[0.0, 1.0], rewards=[[-0.5, -0.5], [0.5, 0.0]])
