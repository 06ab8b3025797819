"""Lesson 11, by hand: a few rows, two or three processes, every number worked out in a comment."""

import math

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, named, scenario
from tutorial.lesson11_scaling import (
    DistributedPPOTrainer,
    global_masked_whiten,
    gradient_weight,
    keep_reference_adapter,
    merge_moments,
    merge_statistics,
    plan_microbatches,
)

NAN = math.nan
NO, YES = False, True

PLAN = scenario("plan_of", of=plan_microbatches)
WHITENED = scenario("whitened_of", of=global_masked_whiten)
KEPT = scenario("reference_of", of=keep_reference_adapter)
STEPS = scenario("steps_of", of=DistributedPPOTrainer.optimizer_step)


def rows(*numbers):
    return torch.tensor(numbers, dtype=torch.int64)


@named(
    "lengths, n_processes, micro_batch_size, plan",
    {
        # longest first: rows 1 (9 tokens), 3 (7), 0 (4), 2 (2); assigned: 1 and 0 | 3 and 2
        "longest-first-like-cards": ([4, 9, 2, 7], 2, None, ((rows(1, 0),), (rows(3, 2),))),
        "microbatches-of-so-many-rows-and-of-like-length": ([4, 9, 2, 7], 1, 2, ((rows(1, 3), rows(0, 2)),)),
        "each-process-cuts-its-own": ([4, 9, 2, 7], 2, 1, ((rows(1), rows(0)), (rows(3), rows(2)))),
        "of-equal-rows-the-earlier-first": ([5, 5, 5, 5], 2, None, ((rows(0, 2),), (rows(1, 3),))),
        # rows 4 2 0 | 3 1: the second process has no row for its second microbatch, and comes along with none
        "a-process-without-rows-comes-along": ([1, 2, 3, 4, 5], 2, 2, ((rows(4, 2), rows(0)), (rows(3, 1), rows()))),
        "more-processes-than-rows": ([3, 8], 3, None, ((rows(1),), (rows(0),), (rows(),))),
        "a-row-without-tokens-is-a-row": ([3, 0, 5], 2, None, ((rows(2, 1),), (rows(0),))),
    },
)
@pytest.mark.points(4)
def test_plan_microbatches_by_hand(lengths, n_processes, micro_batch_size, plan):
    assert_equal(PLAN(lengths=lengths, n_processes=n_processes, micro_batch_size=micro_batch_size), plan)


@named(
    "tokens, total_tokens, n_processes, weight",
    {
        "the-share-of-the-tokens": (100, 1000, 1, 0.1),
        "the-mean-over-four-processes-is-made-up-for": (100, 1000, 4, 0.4),
        "all-tokens-in-one-of-two-processes": (8, 8, 2, 2.0),
        "an-empty-microbatch-weighs-nothing": (0, 8, 2, 0.0),
    },
)
@pytest.mark.points(3)
def test_gradient_weight_by_hand(tokens, total_tokens, n_processes, weight):
    assert_equal(gradient_weight(tokens, total_tokens, n_processes), weight)


# 100 tokens at 0.5 and 900 at 0.3: 0.32, where the mean of the two means is 0.4.
FEW = {"policy_loss": 0.5, "ratio_mean": 2.0, "ratio_max": 3.0}
MANY = {"policy_loss": 0.3, "ratio_mean": 1.0, "ratio_max": 1.5}
LOW = {"policy_loss": 5.0, "ratio_mean": 0.5, "ratio_max": 0.75}


@named(
    "parts, tokens, merged",
    {
        "by-their-tokens": ([FEW, MANY], [100, 900], {"policy_loss": 0.32, "ratio_mean": 1.1, "ratio_max": 3.0}),
        "a-single-part-with-ratios-below-1": ([LOW], [7], LOW),
        "a-part-without-tokens-counts-nothing": (
            [MANY, {"policy_loss": NAN, "ratio_mean": 9.0, "ratio_max": 99.0}, FEW],
            [1, 0, 3],
            {"policy_loss": 0.45, "ratio_mean": 1.75, "ratio_max": 3.0},
        ),
        # The ratio guard has to see it.
        "nan-of-a-part-with-tokens": (
            [FEW, {**MANY, "ratio_mean": NAN}],
            [1, 3],
            {"policy_loss": 0.35, "ratio_mean": NAN, "ratio_max": 3.0},
        ),
    },
)
@pytest.mark.points(4)
def test_merge_statistics_by_hand(parts, tokens, merged):
    assert_equal(merge_statistics(parts, tuple(tokens)), merged, equal_nan=True)


@named(
    "moments, merged",
    {
        # 1, 3 (mean 2, squares 2) and 6 (mean 6): all three have mean 10/3; 49/9 + 1/9 + 64/9 = 38/3
        "what-the-means-differ-by-counts": ([[2.0, 2.0, 2.0], [1.0, 6.0, 0.0]], [3.0, 10 / 3, 38 / 3]),
        # 0, 0, 4, 4 in two parts: nothing varies within a part
        "no-variance-within": ([[2.0, 0.0, 0.0], [2.0, 4.0, 0.0]], [4.0, 2.0, 16.0]),
        # 1; 2, 4; 3, 5, 7: sum 22, mean 11/3; sum of squares 104 - 6 * 121/9 = 70/3
        "three-ragged-parts": ([[1.0, 1.0, 0.0], [2.0, 3.0, 2.0], [3.0, 5.0, 8.0]], [6.0, 11 / 3, 70 / 3]),
    },
)
@pytest.mark.points(4)
def test_merge_moments_by_hand(moments, merged):
    assert_equal(merge_moments(moments), merged)


# This process has 1 and 3; the other has a single 8. Mean 4, squared deviations 9 + 1 + 16 = 26, variance 13.
OWN = [1.0, 3.0]
OTHER = [[1.0, 8.0, 0.0]]
DEVIATION = math.sqrt(13 + 1e-8)


@named(
    "own, others, place, mean, scale",
    {
        "the-first-of-two": (OWN, OTHER, 0, 4.0, DEVIATION),
        "the-second-of-two": (OWN, OTHER, 1, 4.0, DEVIATION),
        # 1, 3 | 8 | 4, 4: mean 4, variance 26 / 4
        "one-of-three": (OWN, [[1.0, 8.0, 0.0], [2.0, 4.0, 0.0]], 1, 4.0, math.sqrt(6.5 + 1e-8)),
        # alone: mean 2, variance 2
        "alone": (OWN, torch.zeros(0, 3).double(), 0, 2.0, math.sqrt(2 + 1e-8)),
        # 5, 5 | 8: mean 6, variance (1 + 1 + 4) / 2
        "equal-in-this-process": ([5.0, 5.0], OTHER, 0, 6.0, math.sqrt(3 + 1e-8)),
        "equal-everywhere": ([5.0, 5.0], [[3.0, 5.0, 0.0]], 0, 5.0, math.sqrt(1e-8)),
    },
)
@pytest.mark.parametrize("shift_mean", [YES, NO])
@pytest.mark.points(7)
def test_global_masked_whiten_by_hand(own, others, place, mean, scale, shift_mean):
    values, mask = [[number, 9.0] for number in own], [[YES, NO], [YES, NO]]
    answer = WHITENED(values=values, mask=mask, others=others, place=place, shift_mean=shift_mean)
    kept = 0.0 if shift_mean else mean
    assert_equal(answer, whitened=[[(number - mean) / scale + kept, 0.0] for number in own], gathered=1)


@named(
    "name, slope, rank, lora_alpha",
    {
        "rank-1": ("default", 0.5, 1, 1),
        "another-name-rank-and-scale": ("sft", -2.0, 2, 4),
        "a-weight-that-bf16-would-round": ("default", 0.5 + 2**-12, 1, 1),
    },
)
@pytest.mark.points(5)
def test_keep_reference_adapter_by_hand(name, slope, rank, lora_alpha):
    # Base model 1, adapter + slope. Training makes A and B three times as large, so the adapter nine times.
    answer = KEPT(adapter=slope, name=name, rank=rank, lora_alpha=lora_alpha, seconds=60.0)
    assert_equal(
        answer,
        {
            "returned": "the policy",
            "adapters": tuple(sorted((name, "reference"))),
            "active": name,
            "in_train_mode": True,
            "trainable": (f"slope.lora_A.{name}", f"slope.lora_B.{name}"),
            "policy": 1 + slope,
            "reference": 1 + slope,
            "trained_policy": 1 + 9 * slope,
            "reference_then": 1 + slope,
        },
    )


# Adam's first step moves a weight by -lr g / (|g| + adam_epsilon); with lr 1 and adam_epsilon 1: -g / (|g| + 1).
# Rows of 1 and 3 tokens. Slopes of the actor 4 | 0, 0, 0: mean over tokens 1, so -1/2 (mean of row means: 2, so -2/3);
# of the critic 0 | -4, -4, -4: mean -3, so 3/4. Norm sqrt(10), not clipped.
RAGGED = [[YES, NO, NO], [YES, YES, YES]]
SLOPES = {
    "actor_slopes": [[4.0, 9.0, 9.0], [0.0, 0.0, 0.0]],
    "critic_slopes": [[0.0, 9.0, 9.0], [-4.0, -4.0, -4.0]],
    "mask": RAGGED,
}
CALM = torch.ones(2, 3).double()
# The first optimizer of a process imports a large part of torch: seconds, on a busy machine.
ADAM = {"learning_rate": 1.0, "adam_epsilon": 1.0, "max_grad_norm": 100.0, "seconds": 60.0}


@pytest.mark.parametrize("n_processes", [1, 2, 3])
@pytest.mark.points(6)
def test_optimizer_step_does_not_depend_on_the_processes(n_processes):
    # Ratios 8 | 1, 1, 2: mean 3 over the tokens (14/3 over the rows), largest 8
    ratios = [torch.tensor([[8.0, 9.0, 9.0], [1.0, 1.0, 2.0]]).double()]
    answer = STEPS(**SLOPES, ratios=ratios, n_processes=n_processes, **ADAM)
    assert_equal(
        answer,
        waits_forever=False,
        processes_agree=True,
        actor=[-0.5],
        critic=[0.75],
        grad_norm=[math.sqrt(10)],
        skipped_share=[0.0],
        policy_loss=[1.0],
        ratio_mean=[3.0],
        ratio_max=[8.0],
        exchanges=[1.0],
    )


@named(
    "n_processes, size, forwards",
    {
        # five rows of 1, 1, 2, 2, 2 tokens; longest first: 2 3 4 0 1
        "one-process": (1, 2, (((2, 3), (4, 0), (1,)),)),
        "row-0-in-place-of-an-empty-microbatch": (2, 1, (((2,), (4,), (1,)), ((3,), (0,), (0,)))),
        "one-microbatch-each": (2, None, (((2, 4, 1),), ((3, 0),))),
        "three-processes": (3, 1, (((2,), (0,)), ((3,), (1,)), ((4,), (0,)))),
    },
)
@pytest.mark.points(4)
def test_optimizer_step_does_not_depend_on_the_microbatches(n_processes, size, forwards):
    # Actor: 8 tokens, slopes 6 | 2 | 0, 0 | 4, 0 | 4, 0: mean 2, so -2/3. Critic: 1 each, so -1/2.
    mask = [[YES, NO], [YES, NO], [YES, YES], [YES, YES], [YES, YES]]
    answer = STEPS(
        actor_slopes=[[6.0, 9.0], [2.0, 9.0], [0.0, 0.0], [4.0, 0.0], [4.0, 0.0]],
        critic_slopes=[[1.0, 9.0], [1.0, 9.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]],
        mask=mask,
        ratios=[torch.ones(5, 2).double()],
        n_processes=n_processes,
        micro_batch_size=size,
        **ADAM,
    )
    assert_equal(
        answer,
        waits_forever=False,
        actor=[-2 / 3],
        critic=[-0.5],
        policy_loss=[2.0],
        exchanges=[1.0],
        backwards_outside_no_sync=[0.0],
        rows=forwards,
    )


@pytest.mark.parametrize("n_processes, size", [(1, None), (1, 1), (2, None)])
@named(
    "ratios, skipped",
    {
        # Mean over all tokens (20 + 3) / 4 < 10, though one process sees 20.
        "a-spike-in-one-process-only": ([[20.0, 9.0, 9.0], [1.0, 1.0, 1.0]], 0.0),
        # Mean (60 + 3) / 4 > 10, though the longest row is calm.
        "a-spike-of-the-whole": ([[60.0, 9.0, 9.0], [1.0, 1.0, 1.0]], 1.0),
        "nan-is-a-spike": ([[NAN, NAN, NAN], [1.0, 1.0, 1.0]], 1.0),
        "exactly-the-threshold-is-no-spike": ([[10.0, 9.0, 9.0], [10.0, 10.0, 10.0]], 0.0),
    },
)
@pytest.mark.points(5)
def test_optimizer_step_is_skipped_by_all_or_by_none(n_processes, size, ratios, skipped):
    # The second call is calm: it makes the only step, and nothing of the spike has stayed in the gradients.
    ratios = [torch.tensor(ratios).double(), CALM]
    answer = STEPS(**SLOPES, ratios=ratios, n_processes=n_processes, micro_batch_size=size, **ADAM)
    assert_equal(
        answer,
        waits_forever=False,
        processes_agree=True,
        skipped_share=[skipped, 0.0],
        exchanges=[1.0 - skipped, 1.0],
        gradients_left=[0.0, 0.0],
    )
    if skipped:
        assert_equal(answer, actor=[0.0, -0.5], critic=[0.0, 0.75], grad_norm=[0.0, math.sqrt(10)])


@pytest.mark.parametrize("n_processes, size", [(1, 1), (2, None), (2, 1)])
@pytest.mark.points(2)
def test_optimizer_step_clips_the_gradient_of_all(n_processes, size):
    # Norm sqrt(10) is clipped to sqrt(10) / 2: actor 1/2, so -1/3; critic -3/2, so 3/5. (Clipping scales by
    # max / (norm + 1e-6), so the numbers differ in the seventh digit.)
    settings = {**ADAM, "max_grad_norm": math.sqrt(10) / 2}
    answer = STEPS(**SLOPES, ratios=[CALM], n_processes=n_processes, micro_batch_size=size, **settings)
    assert_equal(
        answer, actor=[-1 / 3], critic=[3 / 5], grad_norm=[math.sqrt(10)], clips_by_accelerator=[1.0], atol=1e-6
    )
