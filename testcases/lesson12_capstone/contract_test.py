"""Lesson 12: the tests that are the same for every exercise; the engine makes them."""

from testcases.engine.contract_tests import contract_tests
from tutorial.lesson12_capstone import evaluate_policy

contract_tests(globals(), agreement={evaluate_policy: 1})
