"""Lesson 7: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

from testcases.harness.suite.asserts import scenario
from tutorial.lesson07_actor_critic import (
    PolicyAndValue,
    SharedPolicyAndValue,
    ValueModel,
    critic_from_reward_model,
    reference_mode,
)

# The checks are given, above the solution; they have to stay there.
TEXT = {"input_ids": [[7, 5, 3]], "attention_mask": [[True, True, True]]}
RESPONSE = {**TEXT, "prompt_length": 1}
BAD_TEXT = {
    "another-length": ({"input_ids": [[7, 5]]}, ["input_ids (1, 2)", "attention_mask (1, 3)"]),
    "mask-would-broadcast": ({"input_ids": [[7, 5, 3], [7, 5, 3]]}, ["input_ids (2, 3)"]),
    "no-batch": ({"input_ids": [7, 5, 3]}, ["input_ids (3,)"]),
}
BAD_RESPONSE = {
    "no-prompt": ({"prompt_length": 0}, ["prompt_length"]),
    "no-response": ({"prompt_length": 3}, ["prompt_length"]),
    "mask-of-another-length": ({"attention_mask": [[True, True]]}, ["attention_mask (1, 2)"]),
}

AGREEMENT = {critic_from_reward_model: 1, reference_mode: 3}
REFUSALS = {
    scenario("value_model", of=ValueModel.forward): (TEXT, BAD_TEXT),
    scenario("actor_critic", of=PolicyAndValue.forward): (RESPONSE, BAD_RESPONSE),
    scenario("actor_critic", of=PolicyAndValue.response_values): (
        {**RESPONSE, "method": "response_values"},
        BAD_RESPONSE,
    ),
    scenario("shared_actor_critic", of=SharedPolicyAndValue.forward): (RESPONSE, BAD_RESPONSE),
}
