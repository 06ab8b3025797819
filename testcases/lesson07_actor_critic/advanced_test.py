"""Lesson 7, made safe: float32, what costs too much, and a policy without adapters."""

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, scenario
from tutorial.lesson07_actor_critic import PolicyAndValue, SharedPolicyAndValue, ValueModel, reference_mode

# Prompt of 4, response of 1
LONG_PROMPT = {"input_ids": [[7, 5, 3, 6, 4]], "attention_mask": [[True] * 5], "prompt_length": 4}


@pytest.mark.points(3)
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
