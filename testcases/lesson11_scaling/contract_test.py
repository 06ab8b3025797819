"""Lesson 11: the tests that are the same for every exercise; the engine makes them."""

from testcases.engine.contract_tests import contract_tests
from tutorial.lesson11_scaling import gradient_weight, merge_statistics

contract_tests(globals(), agreement={gradient_weight: 1, merge_statistics: 1})
