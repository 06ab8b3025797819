"""Lesson 2, the model made safe, and in general: identities, each held against the reference."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, named, reference, scenario
from tutorial.lesson02_reward_model import RewardModel, last_token_index

SCORE = scenario("score_rows", of=RewardModel.forward)


def backbone(vocabulary: int = 6, length: int = 9, size: int = 3) -> dict[str, Tensor]:
    return {
        "table": normal(vocabulary, size),
        "places": normal(length, size, seed=2),
        "weight": normal(1, size, seed=3),
        "bias": normal(1, seed=4),
    }


@pytest.mark.parametrize("left, right", [(0, 3), (3, 0), (1, 2), (2, 4)])
def test_reward_model_does_not_depend_on_the_padding(left, right):
    text, numbers = torch.tensor([[3, 1, 5, 2], [4, 4, 1, 1]]), backbone()
    expected = reference(SCORE, input_ids=text, attention_mask=torch.ones_like(text).bool(), **numbers)
    ids = torch.cat([torch.full((2, left), 5), text, torch.full((2, right), 2)], dim=1)[:, :9]
    mask = torch.zeros_like(ids).bool()
    mask[:, left : left + 4] = True
    assert_equal(SCORE(input_ids=ids, attention_mask=mask, **numbers), expected)


def test_reward_model_refuses_a_row_of_padding():
    text = torch.tensor([[3, 1, 5, 2]])
    with pytest.raises(ValueError, match="real token"):
        SCORE(input_ids=text, attention_mask=torch.zeros_like(text).bool(), **backbone())


@named("garbage", {"nan": math.nan, "infinite": math.inf})
def test_reward_model_keeps_the_padding_out(garbage):
    # Token 0 stands on padding only, and the backbone gives it NaN: its state must not come near the score.
    numbers = backbone()
    clean = torch.tensor([[3, 1, 5, 1], [1, 2, 4, 1], [5, 1, 1, 1]])
    mask = torch.tensor([[True, True, True, False], [False, True, True, True], [False, True, True, False]])
    expected = reference(SCORE, input_ids=clean, attention_mask=mask, **numbers)
    numbers["table"][0] = garbage
    assert_equal(SCORE(input_ids=clean.masked_fill(~mask, 0), attention_mask=mask, **numbers), expected)


def test_reward_model_keeps_float32():
    numbers = {name: number.float() for name, number in backbone().items()}
    ids, mask = torch.tensor([[3, 1, 2], [0, 2, 4]]), torch.tensor([[True, True, True], [False, True, True]])
    expected = reference(SCORE, input_ids=ids, attention_mask=mask, **numbers)
    assert_equal(SCORE(input_ids=ids, attention_mask=mask, **numbers), expected)


@pytest.mark.points(2)
def test_last_token_index_behind_a_gap():
    # No text has a gap, but the last real token is the last one all the same.
    assert_equal(last_token_index([[True, False, True, False]]), [2])
