"""Lesson 5: the tests that are the same for every exercise; the engine makes them."""

from testcases.engine.contract_tests import contract_tests
from tutorial.lesson05_ppo_loss import combine_losses

contract_tests(globals(), agreement={combine_losses: 1})
