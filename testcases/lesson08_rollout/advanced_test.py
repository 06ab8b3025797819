"""Lesson 8, in general: fresh inputs against the reference, a full pass over the text as oracle, statistics, errors."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_no_gradient,
    named,
    reference,
    scenario,
)
from testcases.lesson08_rollout.examples import CASE, readable
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


PROMPTS = {
    "input_ids": [[0, 0, 0, 5], [0, 7, 3, 2], [4, 6, 8, 9], [0, 0, 11, 10]],
    "attention_mask": [
        [False, False, False, True],
        [False, True, True, True],
        [True, True, True, True],
        [False, False, True, True],
    ],
}


@pytest.mark.parametrize("model, temperature", [(0, 0.7), (3, 1.0), (3, 1.4)])
@pytest.mark.points(5)
def test_generate_gives_the_log_probs_of_a_full_pass(model, temperature):
    # Sampled, not forced: whatever came, one pass over prompt and response must find the same log-probabilities.
    options = {"max_new_tokens": 7, "stop_token_ids": (3, 9), "pad_token_id": 0, "temperature": temperature}
    answer = scenario("lm_writes", of=generate)(model=model, **PROMPTS, seed=2, **options)
    written = {"responses": answer.responses, "mask": answer.mask}
    again = scenario("read_again", of=generate)
    assert_equal(
        answer.log_probs, reference(again, model=model, **PROMPTS, **written, temperature=temperature), atol=1e-10
    )


ROWS = {
    "input_ids": [[7, 7, 5], [2, 3, 4], [0, 6, 8]],
    "attention_mask": [[False, False, True], [True, True, True], [False, True, True]],
}


def response(extra: int = 0) -> dict[str, Tensor]:
    """Responses of 4, 2 and 1 tokens, with `extra` columns of padding behind the longest."""
    mask = torch.arange(4 + extra) < torch.tensor([[4], [2], [1]])
    return {
        "responses": torch.tensor([[5, 6, 7, 8], [9, 1, 0, 0], [1, 0, 0, 0]]).repeat(1, 2)[:, : 4 + extra] * mask,
        "log_probs": -normal(3, 4).abs().repeat(1, 2)[:, : 4 + extra].masked_fill(~mask, 0.0),
        "mask": mask,
    }


def test_evaluate_responses_does_not_depend_on_the_padding():
    evaluated = scenario("lm_evaluated", of=evaluate_responses)
    expected = reference(evaluated, model=1, **ROWS, **response(), kl_coef=0.3, gamma=0.9)
    ids, mask = torch.tensor(ROWS["input_ids"]), torch.tensor(ROWS["attention_mask"])
    junk = torch.full((3, 2), 11)
    answer = evaluated(
        model=1,
        input_ids=torch.cat([junk, ids], dim=1),
        attention_mask=torch.cat([junk < 0, mask], dim=1),
        **response(extra=2),
        kl_coef=0.3,
        gamma=0.9,
    )
    for name in ("ref_log_probs", "values", "rewards", "advantages", "returns"):
        assert_equal(answer[name], torch.cat([expected[name], torch.zeros(3, 2, dtype=torch.float64)], dim=1))
    assert_equal(answer["scores"], expected["scores"])
    assert_no_gradient(answer)


def test_rows_keeps_a_masked_column_between_real_tokens():
    # The token of a tool: not the policy's, so mask is False there, but it is no padding.
    stored = readable([2, 2], [4, 4])
    stored["mask"] = torch.tensor([[T, F, T, F], [T, F, F, F]])
    cut = {name: tensor[:, :5] if tensor.shape[-1] == 6 else tensor for name, tensor in stored.items()}
    cut = {name: tensor[:, :3] if tensor.shape[-1] == 4 else tensor for name, tensor in cut.items()}
    assert_equal(scenario("picked", of=Experience.rows)(tensors=stored, index=[0, 1]), cut)


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
