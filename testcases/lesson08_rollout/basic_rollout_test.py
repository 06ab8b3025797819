"""Lesson 8, by hand: what a rollout evaluates and stores, with tables for policy, reference and critic; rows of an
experience, and minibatches that deal each of them once."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.suite.asserts import assert_equal, assert_leaves_global_random_alone, named, scenario
from testcases.lesson08_rollout.examples import AS_BEFORE, CASE, LOG2, SEEN, logs, readable
from tutorial.lesson08_rollout import Experience, ExperienceBuffer, evaluate_responses

T, F = True, False


def evaluated(**changed: object) -> object:
    return scenario("evaluated", of=evaluate_responses)(**{**CASE, **changed})


@pytest.mark.points(3)
def test_evaluate_responses_by_hand():
    # Reference: 1/2, 1/4 and 1/2, so -1, -2 and -1 bits. k1 in bits: -2 + 1 = -1, -1 + 2 = 1, -3 + 1 = -2.
    # Rewards: +0.5, -0.5 + 4 = 3.5; +1 - 2 = -1. Values: V after 2 is 1, after 3 is 2; after 4 is 4.
    # delta 3.5 - 2 = 1.5, 0.5 + 0.5 * 2 - 1 = 0.5; advantages 0.5 + 1.5 / 4 = 0.875. Second row: -1 - 4 = -5.
    assert_equal(
        evaluated(),
        {
            "input_ids": [[0, 2, 3, 1, 0], [3, 4, 1, 0, 0]],
            "attention_mask": [[F, T, T, T, F], [T, T, T, F, F]],
            "mask": [[T, T, F], [T, F, F]],
            "log_probs": [[-2 * LOG2, -LOG2, 0.0], [-3 * LOG2, 0.0, 0.0]],
            "ref_log_probs": [[-LOG2, -2 * LOG2, 0.0], [-LOG2, 0.0, 0.0]],
            "values": [[1.0, 2.0, 0.0], [4.0, 0.0, 0.0]],
            "scores": [4.0, -2.0],
            "rewards": [[0.5, 3.5, 0.0], [-1.0, 0.0, 0.0]],
            "advantages": [[0.875, 1.5, 0.0], [-5.0, 0.0, 0.0]],
            "returns": [[1.875, 3.5, 0.0], [-1.0, 0.0, 0.0]],
            "sampler_log_probs": [[-2 * LOG2, -LOG2, 0.0], [-3 * LOG2, 0.0, 0.0]],
        },
    )


@named(
    "changed, rewards",
    {
        # Scores 4 and -2 become 3 and -2
        "the-score-is-clipped": ({"clip_score": 3.0}, [[0.5, 2.5, 0.0], [-1.0, 0.0, 0.0]]),
        "clip-score-is-5": ({"scores": [9.0, -8.0]}, [[0.5, 4.5, 0.0], [-4.0, 0.0, 0.0]]),
        "without-a-penalty-only-the-score": ({"kl_coef": 0.0}, [[0.0, 4.0, 0.0], [-2.0, 0.0, 0.0]]),
        # k2 = r^2 / 2 with r = -1, 1, -2 bits: kl_coef 0.5 / LOG2 of LOG2^2 / 2, LOG2^2 / 2, 2 LOG2^2
        "kl-estimator-k2": ({"kl_estimator": "k2"}, [[-LOG2 / 4, 4 - LOG2 / 4, 0.0], [-2 - LOG2, 0.0, 0.0]]),
        "any-stop-token-saves-the-penalty": ({"stop_token_ids": (2, 1)}, [[0.5, 3.5, 0.0], [-1.0, 0.0, 0.0]]),
        "missing-stop-costs-1-by-default": ({"stop_token_ids": (3,)}, [[0.5, 3.5, 0.0], [-2.0, 0.0, 0.0]]),
        # 7 - 3 = 4, and the clip at 5 changes nothing; clipped first it would be 5 - 3 = 2
        "the-penalty-comes-before-the-clip": (
            {"stop_token_ids": (2,), "missing_stop_penalty": 3.0, "scores": [7.0, 0.0]},
            [[0.5, 3.5, 0.0], [-2.0, 0.0, 0.0]],
        ),
    },
)
@pytest.mark.points(4)
def test_evaluate_responses_makes_the_rewards(changed, rewards):
    answer = evaluated(**changed)
    assert_equal(answer["rewards"], rewards)
    assert_equal(answer["scores"], changed.get("scores", [4.0, -2.0]))


def test_evaluate_responses_tempers_the_reference():
    # T = 0.5 squares the weights 2, 1, 1 to 4, 1, 1: 2/3, 1/6 and 2/3
    answer = evaluated(temperature=0.5)
    high, low = math.log(2 / 3), math.log(1 / 6)
    assert_equal(answer["ref_log_probs"], [[high, low, 0.0], [high, 0.0, 0.0]])
    assert_equal(answer["log_probs"], CASE["log_probs"])


@pytest.mark.points(2)
def test_evaluate_responses_whitens_the_rewards_but_keeps_their_mean():
    # Rewards 0.5, 3.5, -1: mean 1, squares of the differences 0.25 + 6.25 + 4 = 10.5, variance 5.25
    scale = (5.25 + 1e-8) ** -0.5
    first, last, other = 1 - 0.5 * scale, 1 + 2.5 * scale, 1 - 2 * scale
    answer = evaluated(whiten_rewards=True)
    assert_equal(answer["rewards"], [[first, last, 0.0], [other, 0.0, 0.0]])
    # delta: last - 2 and first + 0.5 * 2 - 1 = first
    assert_equal(answer["advantages"], [[first + (last - 2) / 4, last - 2, 0.0], [other - 4, 0.0, 0.0]])
    assert_equal(answer["returns"], [[1 + first + (last - 2) / 4, last, 0.0], [other, 0.0, 0.0]])
    assert_equal(answer["scores"], [4.0, -2.0])


@named(
    "discounts, first",
    {
        # delta 1.5 and 0.5; 0.5 + 0.5 * 0.8 * 1.5
        "lam-is-larger": ({"lam": 0.8}, 1.1),
        # delta 1.5 and 0.5 + 0.8 * 2 - 1 = 1.1; 1.1 + 0.8 * 0.5 * 1.5
        "gamma-is-larger": ({"gamma": 0.8}, 1.7),
        # delta 1.5 and 0.5 + 2 - 1 = 1.5; 1.5 + 0.95 * 1.5
        "the-defaults-are-gamma-1-and-lam-095": ({"gamma": 1.0, "lam": 0.95}, 2.925),
    },
)
@pytest.mark.points(2)
def test_evaluate_responses_discounts(discounts, first):
    assert_equal(evaluated(**discounts)["advantages"], [[first, 1.5, 0.0], [-5.0, 0.0, 0.0]])


@named(
    "responses, mask, pad",
    {
        "prompt-and-response": ([[3, 1, 0], [1, 0, 0]], [[T, T, F], [T, F, F]], 0),
        "a-sampled-pad-is-text": ([[3, 0, 1], [0, 1, 0]], [[T, T, T], [T, T, F]], 0),
        "pad-is-the-stop-token": ([[3, 1, 1], [1, 1, 1]], [[T, T, F], [T, F, F]], 1),
    },
)
def test_evaluate_responses_shows_the_reward_model_the_whole_text(responses, mask, pad):
    answer = SEEN(
        input_ids=[[pad, 2], [3, 4]], attention_mask=[[F, T], [T, T]], responses=responses, mask=mask, pad_token_id=pad
    )
    text = torch.tensor([[pad, 2, *responses[0]], [3, 4, *responses[1]]])
    visible = torch.tensor([[F, T, *mask[0]], [T, T, *mask[1]]])
    seen = {"times asked": 1, "input_ids": text, "attention_mask": visible, "prompt_length": 2}
    assert_equal(answer, **seen, **AS_BEFORE, **{"can be used for training": True})


def test_evaluate_responses_of_a_lora_policy_switches_its_adapter_off():
    # The base gives 1/2 and 1/4 where the adapted policy gives 1/4 and 1/2.
    answer = scenario("evaluated_by_its_own_base", of=evaluate_responses)(
        input_ids=[[2]],
        responses=[[3, 1]],
        table=logs(*[[1.0, 2.0, 0.0, 1.0]] * 4),
        base=logs(*[[1.0, 1.0, 0.0, 2.0]] * 4),
    )
    assert_equal(answer, ref_log_probs=[[-LOG2, -2 * LOG2]], values=[[0.0, 0.0]])
    assert_equal(answer["adapter on"], True)


# Experience.rows


def cut(stored: dict[str, Tensor], index: list[int], prompt: slice, response: slice) -> dict[str, Tensor]:
    """These rows of what is stored, and these columns of its prompts and of its responses."""
    length, steps = stored["input_ids"].shape[1], stored["mask"].shape[1]
    both = [*range(length - steps)[prompt], *range(length - steps, length)[response]]
    columns = {"input_ids": both, "attention_mask": both}
    return {
        name: tensor[index] if tensor.dim() == 1 else tensor[index][:, columns.get(name, response)]
        for name, tensor in stored.items()
    }


FOUR = [1, 3, 2, 2], [2, 1, 4, 3]


@named(
    "lengths, index, prompt_columns, response_columns",
    {
        # Prompts of 1, 3, 2, 2 tokens, padded to 3; responses of 2, 1, 4, 3, padded to 4
        "all-rows-keep-all-columns": (FOUR, [0, 1, 2, 3], slice(0, 3), slice(0, 4)),
        "one-row-loses-its-padding": (FOUR, [0], slice(2, 3), slice(0, 2)),
        "long-prompt-short-response": (FOUR, [1], slice(0, 3), slice(0, 1)),
        "short-prompt-long-response": (FOUR, [2], slice(1, 3), slice(0, 4)),
        "as-long-as-the-longest-in-the-order-asked": (FOUR, [3, 0], slice(1, 3), slice(0, 3)),
        "a-row-twice": (FOUR, [2, 2, 1], slice(0, 3), slice(0, 4)),
    },
)
@pytest.mark.points(6)
def test_rows_by_hand(lengths, index, prompt_columns, response_columns):
    # Row 1 begins and ends with token 0, and its numbers are 0: only the masks tell what is real.
    stored = readable(*lengths)
    stored["input_ids"][1, [0, 3]] = 0
    stored["log_probs"][1], stored["rewards"][1] = 0.0, 0.0
    expected = cut(stored, index, prompt_columns, response_columns)
    assert_equal(scenario("picked", of=Experience.rows)(tensors=stored, index=index), expected)


# ExperienceBuffer.minibatches

YIELDED = scenario("yielded", of=ExperienceBuffer.minibatches)


def rows_of(prompts: list[int], responses: list[int], first: int = 0) -> list[dict[str, Tensor]]:
    """Each row of `readable`, without its padding."""
    whole, longest, rows = readable(prompts, responses, first), max(prompts), []
    for number, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        one = cut(whole, [number], slice(longest - prompt, longest), slice(response))
        rows.append({name: tensor[0] for name, tensor in one.items()})
    return rows


# Two batches: prompts of 2 and 3 tokens, responses of up to 3 and 4
TWO, THREE = ([2, 1], [3, 1]), ([1, 3, 2], [2, 4, 1], 2)
BATCHES = readable(*TWO), readable(*THREE)


@named(
    "size, sizes",
    {
        "one-row-at-a-time": (1, [1, 1, 1, 1, 1]),
        "the-last-one-is-smaller": (2, [2, 2, 1]),
        "three-and-two": (3, [3, 2]),
        "all-at-once": (5, [5]),
    },
)
@named("epochs", {"first-epoch": 1, "second-epoch": 2})
@pytest.mark.points(6)
def test_minibatches_deal_every_row_once(size, sizes, epochs):
    # Each row comes back whole, cut to its length.
    answer = YIELDED(batches=BATCHES, size=size, seed=5, epochs=epochs)
    assert_equal(answer["sizes"], sizes)
    assert_equal(answer["rows in the buffer"], 5)
    assert_equal(answer["columns to spare"], 0)
    assert_equal(answer["rows"], (*rows_of(*TWO), *rows_of(*THREE)))


@pytest.mark.points(2)
def test_minibatches_deal_what_is_stored_now():
    # After an epoch over the first batch the buffer is cleared.
    answer = YIELDED(batches=BATCHES, size=2, seed=7, forget=True)
    assert_equal(answer["rows"], tuple(rows_of(*THREE)))


@pytest.mark.points(2)
def test_minibatches_are_shuffled_by_the_generator():
    rows = readable([2] * 1_500, [3] * 1_500)
    answer = scenario("order_agreement", of=ExperienceBuffer.minibatches)(tensors=rows, size=200, seed=0)
    assert_equal(
        answer,
        {
            "each row once": True,
            "same seed": True,
            "same generator once more": False,
            "other seed": False,
            "as they were stored": False,
            "each minibatch as it was stored": False,
            "each minibatch of neighbors": False,
            "most rows beside their neighbor": False,
        },
    )
    assert_leaves_global_random_alone(answer)
