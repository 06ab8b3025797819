"""The engine of the suites: run one exercise on plain data, compare exactly, and say what is wrong.

from testcases.harness.suite.asserts import assert_equal
from tutorial.lesson04_gae import td_errors

assert_equal(td_errors([1.0, 3.0], [2.0, 4.0, 8.0], [0, 0], gamma=0.5), [1.0, 3.0])
"""
