"""Lesson 7, in general: identities, and what costs too much."""

import pytest
import torch
from torch import Tensor

from testcases.harness.suite.asserts import assert_equal, named, reference, scenario
from tutorial.lesson07_actor_critic import PolicyAndValue, SharedPolicyAndValue, ValueModel, reference_mode

# Prompt of 4, response of 1
LONG_PROMPT = {"input_ids": [[7, 5, 3, 6, 4]], "attention_mask": [[True] * 5], "prompt_length": 4}
PROMPT = 4


def conversation(left: int = 0, right: int = 0) -> dict[str, Tensor]:
    """Prompts of 4 tokens and responses of 4, 2, 3 and 1, with padding around them: tokens like any other."""
    draw = torch.Generator().manual_seed(8)
    ids = torch.randint(2, 12, (4, PROMPT + 4), generator=draw)
    around = torch.randint(2, 12, (4, left + right), generator=draw)
    columns = torch.arange(left + PROMPT + 4 + right)
    ends = torch.tensor([[4], [2], [3], [1]]) + left + PROMPT
    return {
        "input_ids": torch.cat([around[:, :left], ids, around[:, left:]], dim=1),
        "attention_mask": (columns >= left) & (columns < ends),
    }


@named("left, right", {"on-the-left": (3, 0), "on-the-right": (0, 2), "on-both-sides": (2, 1)})
@pytest.mark.points(2)
def test_value_model_does_not_depend_on_the_padding(left, right):
    ask = scenario("value_model", of=ValueModel.forward)
    expected = torch.zeros(4, left + PROMPT + 4 + right, dtype=torch.float64)
    expected[:, left : left + PROMPT + 4] = reference(ask, **conversation())
    assert_equal(ask(**conversation(left, right)), expected)


def test_value_model_keeps_float32():
    answer = scenario("value_model", of=ValueModel.forward)(
        input_ids=[[9, 7, 5]], attention_mask=[[False, True, True]], dtype="float32"
    )
    assert_equal(answer, torch.tensor([[0.0, 107.5, 215.5]]))


@pytest.mark.points(3)
def test_policy_and_value_computes_no_words_for_the_prompt():
    # The logits of two positions, the last of which is dropped.
    answer = scenario("passes", of=PolicyAndValue.forward)(**LONG_PROMPT)
    assert not answer["logits_for_the_prompt"], "logits for the response alone: logits_to_keep of 2"


@pytest.mark.points(3)
def test_shared_policy_and_value_computes_no_words_for_the_prompt():
    answer = scenario("passes", of=SharedPolicyAndValue.forward)(**LONG_PROMPT, method="shared")
    assert not answer["logits_for_the_prompt"], "logits for the response alone: cut the features, then the head"


def test_reference_mode_refuses_a_model_without_adapters():
    with pytest.raises(ValueError, match="(?s)adapters.*make_reference|make_reference.*adapters"):
        scenario("lora_line", of=reference_mode)(adapters={}, active="")
