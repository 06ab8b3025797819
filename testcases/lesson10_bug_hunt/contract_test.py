"""Lesson 10: the tests that are the same for every exercise; the engine makes them."""

from testcases.harness.suite import contract_tests

contract_tests(globals())
