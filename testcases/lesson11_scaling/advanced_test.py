"""Lesson 11, made safe: NaN shows in the moments of several processes."""

import math

import pytest

from testcases.harness.suite.asserts import assert_equal, named
from tutorial.lesson11_scaling import merge_moments

NAN = math.nan


@named(
    "moments, merged",
    {
        # 1, 3 (mean 2, squares 2) and 6 (mean 6): all three have mean 10/3; 49/9 + 1/9 + 64/9 = 38/3
        "an-empty-part-has-none": ([[2.0, 2.0, 2.0], [0.0, NAN, NAN], [1.0, 6.0, 0.0]], [3.0, 10 / 3, 38 / 3]),
        "nan-of-a-part-with-tokens": ([[1.0, NAN, 0.0], [2.0, 3.0, 4.0]], [3.0, NAN, NAN]),
        "nan-of-its-squares-alone": ([[1.0, 6.0, 0.0], [2.0, 3.0, NAN]], [3.0, 4.0, NAN]),
    },
)
@pytest.mark.points(2)
def test_merge_moments_shows_a_nan(moments, merged):
    assert_equal(merge_moments(moments), merged, equal_nan=True)
