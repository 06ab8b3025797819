"""Lesson 8, made safe: unusual numbers, gaps and NaN, and a full pass over the text as oracle."""

import math

import pytest
import torch

from solutions.lesson08_rollout import Generation, recompute_log_probs
from testcases.harness.doubles.models import TinyLM
from testcases.harness.suite.asserts import assert_equal, assert_equals_reference, named, scenario
from testcases.lesson08_rollout.examples import AS_BEFORE, CASE, SEEN, readable
from tutorial.lesson08_rollout import Experience, evaluate_responses, generate, sample_token

T, F = True, False


@named(
    "logits, options, tokens",
    {
        # exp(800) is infinite
        "huge": ([[800.0, 0.0, -800.0], [-800.0, -1600.0, 0.0], *[[800.0, 700.0, 0.0]] * 9], {}, [0, 2, *[0] * 9]),
        "huge-in-float32": (torch.tensor([[300.0, 0.0], [-1e30, 300.0]]), {"top_p": 0.9}, [0, 1]),
        "in-bfloat16": (torch.tensor([[0.5, 3.0, 1.0], [8.0, 3.0, 1.0]]).bfloat16(), {"top_k": 1}, [1, 0]),
    },
)
@pytest.mark.points(4)
def test_sample_token_of_unusual_numbers(logits, options, tokens):
    assert_equal(sample_token(logits, **options), tokens)


PROMPTS = [[0, 0, 0, 5], [0, 7, 3, 2], [4, 6, 8, 9], [0, 0, 11, 10]]
VISIBLE = [[F, F, F, T], [F, T, T, T], [T, T, T, T], [F, F, T, T]]


@pytest.mark.parametrize("model, temperature", [(0, 0.7), (3, 1.0), (3, 1.4)])
@pytest.mark.points(4)
def test_generate_gives_the_log_probs_of_a_full_pass(model, temperature):
    # Sampled, not forced: whatever came, one pass over prompt and response must find the same log-probabilities.
    options = {"max_new_tokens": 7, "stop_token_ids": (3, 9), "pad_token_id": 0, "temperature": temperature, "seed": 2}
    answer = scenario("lm_writes", of=generate)(model=model, input_ids=PROMPTS, attention_mask=VISIBLE, **options)
    written = Generation(answer.responses, answer.log_probs, answer.mask)
    prompts = torch.tensor(PROMPTS), torch.tensor(VISIBLE)
    again = recompute_log_probs(TinyLM(model), *prompts, written, temperature)
    assert_equal(answer.log_probs, again.log_probs, atol=1e-10)


@pytest.mark.parametrize("training", [[T, T, T, T], [T, T, T, F], [F, T, T, T]], ids=str)
def test_generate_restores_the_modes_after_an_error(training):
    assert_equal(scenario("modes_after_an_error", of=generate)(training=training), training)


def test_rows_keeps_a_masked_column_between_real_tokens():
    # The token of a tool: not the policy's, so mask is False there, but it is no padding.
    stored = readable([2, 2], [4, 4])
    stored["mask"] = torch.tensor([[T, F, T, F], [T, F, F, F]])
    cut = {name: tensor[:, :5] if tensor.shape[-1] == 6 else tensor for name, tensor in stored.items()}
    cut = {name: tensor[:, :3] if tensor.shape[-1] == 4 else tensor for name, tensor in cut.items()}
    assert_equal(scenario("picked", of=Experience.rows)(tensors=stored, index=[0, 1]), cut)


@pytest.mark.parametrize("broken", ["critic", "reference", "score"])
def test_evaluate_responses_restores_the_modes_after_an_error(broken):
    text = {"input_ids": [[2], [3]], "attention_mask": [[T], [T]], "responses": [[2], [3]], "mask": [[T], [T]]}
    assert_equal(SEEN(**text, broken=broken), **AS_BEFORE)


@pytest.mark.points(2)
def test_evaluate_responses_lets_no_nan_in_from_behind_the_end():
    # Reference and critic say NaN behind the padding and the stop token.
    behind = torch.tensor([True, True, False, False, False])
    reference = CASE["reference"].masked_fill(behind.unsqueeze(1), math.nan)
    worth = torch.tensor(CASE["worth"], dtype=torch.float64).masked_fill(behind, math.nan)
    answer = scenario("evaluated", of=evaluate_responses)(**{**CASE, "reference": reference, "worth": worth})
    assert_equal(answer["values"], [[1.0, 2.0, 0.0], [4.0, 0.0, 0.0]])
    assert_equal(answer["rewards"], [[0.5, 3.5, 0.0], [-1.0, 0.0, 0.0]])
    assert_equal(answer["ref_log_probs"], [[-math.log(2), -2 * math.log(2), 0.0], [-math.log(2), 0.0, 0.0]])
    assert_equals_reference(answer)
