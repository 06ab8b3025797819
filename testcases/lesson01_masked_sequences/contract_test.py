"""Lesson 1: the tests that are the same for every exercise; the engine makes them."""

from testcases.engine.contract_tests import contract_tests
from tutorial.lesson01_masked_sequences import masked_whiten

contract_tests(globals(), agreement={masked_whiten: 1})
