"""The capstone, in general: against the reference, and what holds for any policy."""

import math

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_leaves_global_random_alone,
    examples_of,
    named,
    reference,
    scenario,
)
from testcases.lesson12_capstone.examples import CLIPPED, PROMPTS, fluent
from testcases.lesson12_capstone.scenarios import WORDS
from tutorial.lesson12_capstone import evaluate_policy, sft_loss, train_policy, train_sft

JUDGED = scenario("evaluation_of", of=evaluate_policy)


@pytest.mark.points(3)
def test_train_sft_agrees_with_the_reference():
    for answer in examples_of(train_sft):
        assert_leaves_global_random_alone(answer)
        assert_equals_reference(answer, atol=CLIPPED)


@pytest.mark.points(2)
def test_train_policy_agrees_with_the_reference():
    for answer in examples_of(train_policy):
        assert_equals_reference(answer, rtol=1e-5, atol=1e-5)


@pytest.mark.points(2)
@named("garbage", {"nan": math.nan, "infinite": math.inf, "large": 1e30})
def test_sft_loss_lets_nothing_in_that_is_not_learned(garbage):
    logits, input_ids = normal(3, 5, 6), torch.randint(6, (3, 5), generator=torch.Generator().manual_seed(2))
    mask = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0]], dtype=torch.bool)
    used = mask.roll(-1, dims=1).unsqueeze(2)
    wanted = reference(sft_loss, logits, input_ids, mask)
    assert_equal(sft_loss(logits.masked_fill(~used, garbage), input_ids, mask), wanted)


@pytest.mark.points(4)
def test_evaluate_policy_of_the_reference_itself_has_no_kl():
    table = fluent(torch.Generator().manual_seed(9))
    places = 0.2 * normal(32, len(WORDS))
    answer = JUDGED(prompts=PROMPTS, policy=table, reference=table, places=places, temperature=0.7)
    assert_equal(answer, kl=0.0, atol=1e-9)
