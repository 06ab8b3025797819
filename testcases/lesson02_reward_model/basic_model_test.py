"""Lesson 2, the model by hand: where a text ends, and a backbone whose hidden states are whole numbers."""

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, named, scenario, value_and_gradients
from tutorial.lesson02_reward_model import RewardModel, last_token_index


@named(
    "attention_mask, index",
    {
        "padded-on-the-right": ([True, True, True, False, False], 2),
        "padded-on-the-left": ([False, False, True, True, True], 4),
        "padded-on-both-sides": ([False, True, True, False, False], 2),
        "no-padding": ([True, True, True], 2),
        "one-token": ([False, True, False, False], 1),
        "a-mask-of-0-and-1": ([1, 1, 0, 0], 1),
    },
)
@pytest.mark.points(2)
def test_last_token_index_by_hand(attention_mask, index):
    assert_equal(last_token_index([attention_mask]), [index])


def test_last_token_index_of_each_row():
    mask = [[True, False, False], [False, True, False], [False, True, True], [True, True, False]]
    assert_equal(last_token_index(mask), [0, 1, 2, 1])


# The backbone reads token k as k, and 10 more for each place: e = 3, 11, 22 for the text [3, 1, 2].
# hidden[t] = e[t] + half of all real e before: 3, 11 + 1.5 = 12.5, 22 + 7 = 29. Score 2 * 29 + 1 = 59.
BACKBONE = {
    "table": [[50.0], [1.0], [2.0], [3.0]],
    "places": [[0.0], [10.0], [20.0], [30.0], [40.0]],
    "weight": [[2.0]],
    "bias": [1.0],
}
SCORE = scenario("score_rows", of=RewardModel.forward)


@named(
    "input_ids, attention_mask, scores",
    {
        "reads-the-last-token": ([[3, 1, 2]], [[True, True, True]], [59.0]),
        "padded-on-the-right": ([[3, 1, 2, 0, 0]], [[True, True, True, False, False]], [59.0]),
        "padded-on-the-left": ([[0, 0, 3, 1, 2]], [[False, False, True, True, True]], [59.0]),
        "padded-on-both-sides": ([[0, 3, 1, 2, 0]], [[False, True, True, True, False]], [59.0]),
        "one-row-of-one-token-is-still-a-row": ([[2]], [[True]], [5.0]),
        # Token 0 is padding and also ends a text: e = 3, 60; 60 + 1.5 = 61.5. The mask says what is real, not the id.
        "the-padding-id-may-be-a-real-token": ([[3, 0, 0, 0]], [[True, True, False, False]], [124.0]),
    },
)
@pytest.mark.points(4)
def test_reward_model_by_hand(input_ids, attention_mask, scores):
    assert_equal(SCORE(input_ids=input_ids, attention_mask=attention_mask, **BACKBONE), scores)


def test_reward_model_reads_each_row_at_its_own_last_token():
    # e of the text [1, 3] = 1, 13; 13 + 0.5 = 13.5
    ids = [[3, 1, 2, 0], [0, 3, 1, 2], [1, 3, 0, 0], [0, 0, 0, 2]]
    lengths, left = torch.tensor([[3], [3], [2], [1]]), torch.tensor([[0], [1], [0], [3]])
    mask = (torch.arange(4) >= left) & (torch.arange(4) < left + lengths)
    assert_equal(SCORE(input_ids=ids, attention_mask=mask, **BACKBONE), [59.0, 59.0, 28.0, 5.0])


@pytest.mark.points(2)
def test_reward_model_gradient():
    # Rows [3, 1] and [2], score = 2 hidden + 1, hidden = e[1] + e[0] / 2 and e[0]. So by a table entry 2 for the last
    # token and 1 for the one before; by the weight the hidden states themselves, 11 + 1.5 = 12.5 and 2; by the bias 1.
    answer, grads = value_and_gradients(
        SCORE,
        input_ids=[[3, 1, 0], [0, 0, 2]],
        attention_mask=[[True, True, False], [False, False, True]],
        **BACKBONE,
        wrt=("table", "places", "weight", "bias"),
    )
    assert_equal(answer, [26.0, 5.0])
    assert_equal(
        grads,
        table=[[0.0], [2.0], [2.0], [1.0]],
        places=[[3.0], [2.0], [0.0], [0.0], [0.0]],
        weight=[[14.5]],
        bias=[2.0],
    )
