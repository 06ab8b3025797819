"""Lesson 7: the tests that are the same for every exercise; the engine makes them."""

from testcases.engine.contract_tests import contract_tests
from tutorial.lesson07_actor_critic import PolicyAndValue, critic_from_reward_model, freeze, make_reference

contract_tests(
    globals(), agreement={critic_from_reward_model: 1, freeze: 1, make_reference: 1, PolicyAndValue.response_values: 1}
)
