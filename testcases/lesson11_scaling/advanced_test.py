"""Lesson 11: whitening on several processes is that of one, and NaN shows in the moments."""

import math

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, named, scenario
from tutorial.lesson11_scaling import global_masked_whiten, merge_moments

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


@pytest.mark.parametrize("shift_mean", [True, False])
@pytest.mark.points(3)
def test_global_masked_whiten_of_two_processes_is_masked_whiten_of_one(shift_mean):
    from solutions.lesson01_masked_sequences import masked_whiten
    from solutions.lesson11_scaling import masked_moments

    whitened_of = scenario("whitened_of", of=global_masked_whiten)
    draw = torch.Generator().manual_seed(3)
    values = 7 + torch.randn(5, 6, generator=draw, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor([6, 1, 3, 2, 5]).unsqueeze(1)
    wanted = masked_whiten(values, mask, shift_mean)
    for own, other, place in ((slice(0, 2), slice(2, 5), 0), (slice(2, 5), slice(0, 2), 1)):
        others = masked_moments(values[other], mask[other]).unsqueeze(0)
        given = {"values": values[own], "mask": mask[own], "others": others, "place": place}
        assert_equal(whitened_of(**given, shift_mean=shift_mean), whitened=wanted[own], atol=1e-11)
