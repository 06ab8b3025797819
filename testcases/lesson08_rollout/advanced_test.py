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
    reference,
    scenario,
)
from testcases.lesson08_rollout.examples import CASE, experience, readable
from tutorial.lesson08_rollout import Experience, ExperienceBuffer, evaluate_responses, generate, sample_token

T, F = True, False

# sample_token


def kept(row: list[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """The distribution after the cuts, by the definition, in plain Python."""
    weights = [math.exp(logit / temperature) for logit in row]
    if 0 < top_k < len(weights):
        weights = [w if w >= sorted(weights)[-top_k] else 0.0 for w in weights]
    total, mass, stays = sum(weights), 0.0, [0.0] * len(weights)
    for token in sorted(range(len(weights)), key=lambda token: -weights[token]):
        if mass < top_p:
            stays[token] = weights[token]
            mass += weights[token] / total
    return [w / sum(stays) for w in stays]


@pytest.mark.parametrize(
    "temperature, top_k, top_p",
    [(1.0, 0, 1.0), (0.6, 0, 1.0), (1.7, 3, 1.0), (1.0, 0, 0.75), (0.8, 4, 0.9), (2.5, 5, 0.6), (1.0, 1, 1.0)],
)
@pytest.mark.points(2)
def test_sample_token_draws_from_the_distribution(temperature, top_k, top_p):
    logits, draws = 1.5 * normal(3, 6, seed=3), 3_000
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    expected = draws * torch.tensor([kept(row, **options) for row in logits.tolist()], dtype=torch.float64)
    # A loop over the rows is slow, and right.
    counts = scenario("counts", of=sample_token)(logits=logits, seed=7, draws=draws, seconds=20.0, **options)
    wanted = f"counts near {[[round(n) for n in row] for row in expected.tolist()]}"
    assert counts[expected == 0].sum() == 0 and (counts.sum(dim=1) == draws).all(), wanted
    # Chi-square with at most 15 degrees of freedom exceeds 60 once in 4 million draws.
    assert ((counts - expected).square() / expected.clamp(min=1e-9))[expected > 0].sum() < 60, wanted


def test_sample_token_keeps_the_fewest_that_reach_top_p():
    # 0.5 reaches 0.5.
    logits = [[0.0, math.log(2), 0.0]]
    assert_equal(scenario("shares", of=sample_token)(logits=logits, seed=1, top_p=0.5), [[0.0, 1.0, 0.0]])


def test_sample_token_of_huge_logits():
    # exp(800) is infinite
    assert_equal(
        sample_token([[800.0, 0.0, -800.0], [-800.0, -1600.0, 0.0], *[[800.0, 700.0, 0.0]] * 9]), [0, 2, *[0] * 9]
    )
    assert_equal(sample_token(torch.tensor([[300.0, 0.0], [-1e30, 300.0]]), top_p=0.9), [0, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sample_token_takes_other_dtypes(dtype):
    assert_equal(sample_token(torch.tensor([[0.5, 3.0, 1.0], [8.0, 3.0, 1.0]], dtype=dtype), top_k=1), [1, 0])


def test_sample_token_keeps_all_for_a_top_p_of_1():
    # Three have 1/530 each.
    logits = torch.tensor([[0.0, -4.875, 0.0, 0.0, -4.875, 0.0, -4.875]])
    counts = scenario("counts", of=sample_token)(logits=logits, seed=0, draws=6_000, seconds=20.0, top_p=1.0)
    assert (counts > 0).all(), "each of the seven tokens, three of them rarely"


# generate

PROMPTS = {
    "input_ids": [[0, 0, 0, 5], [0, 7, 3, 2], [4, 6, 8, 9], [0, 0, 11, 10]],
    "attention_mask": [
        [False, False, False, True],
        [False, True, True, True],
        [True, True, True, True],
        [False, False, True, True],
    ],
}


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.4])
@pytest.mark.parametrize("model", [0, 3])
def test_generate_gives_the_log_probs_of_a_full_pass(model, temperature):
    # Sampled, not forced: whatever came, one pass over prompt and response must find the same log-probabilities.
    options = {"max_new_tokens": 7, "stop_token_ids": (3, 9), "pad_token_id": 0, "temperature": temperature}
    answer = scenario("lm_writes", of=generate)(model=model, **PROMPTS, seed=2, **options)
    written = {"responses": answer.responses, "mask": answer.mask}
    again = scenario("read_again", of=generate)
    assert_equal(
        answer.log_probs, reference(again, model=model, **PROMPTS, **written, temperature=temperature), atol=1e-10
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generate_masks_and_fills_what_it_sampled(seed):
    options = {"max_new_tokens": 8, "stop_token_ids": (3, 9, 0), "pad_token_id": 0, "temperature": 1.5}
    answer = scenario("lm_writes", of=generate)(model=5, **PROMPTS, seed=seed, **options)

    def is_consistent(answer: tuple[Tensor, Tensor, Tensor]) -> bool:
        responses, log_probs, mask = answer
        lengths = []
        for tokens, reals in zip(responses.tolist(), mask.tolist(), strict=True):
            ends = [place for place, token in enumerate(tokens) if token in (3, 9, 0)]
            length = ends[0] + 1 if ends else 8
            lengths.append(length)
            if reals != [place < length for place in range(len(tokens))] or any(tokens[length:]):
                return False
        return responses.shape[1] == max(lengths) and bool(
            (log_probs[~mask] == 0).all() and (log_probs[mask] < 0).all()
        )

    assert is_consistent(answer.values if hasattr(answer, "values") else answer), (
        "responses cut after the first of 3, 9, 0, padded with 0, as long as the longest; mask and log-probs to match"
    )


@pytest.mark.parametrize("extra", [1, 3])
def test_generate_does_not_depend_on_the_amount_of_padding(extra):
    options = {"max_new_tokens": 5, "stop_token_ids": (9,), "pad_token_id": 0, "top_k": 1}
    expected = reference(scenario("lm_writes", of=generate), model=2, **PROMPTS, **options)
    ids, mask = torch.tensor(PROMPTS["input_ids"]), torch.tensor(PROMPTS["attention_mask"])
    junk = torch.full((4, extra), 7)
    answer = scenario("lm_writes", of=generate)(
        model=2, input_ids=torch.cat([junk, ids], dim=1), attention_mask=torch.cat([junk < 0, mask], dim=1), **options
    )
    assert_equal(answer, **dict(zip(("responses", "log_probs", "mask"), expected, strict=True)))


def test_generate_gives_data_without_gradient():
    options = {"max_new_tokens": 5, "stop_token_ids": (9,), "pad_token_id": 0, "top_k": 1}
    answer = scenario("lm_writes", of=generate)(model=2, **PROMPTS, **options)
    assert_no_gradient(answer)
    assert_equals_reference(answer)


def test_generate_counts_the_positions_of_a_long_text():
    # 16 bits hold no odd number above 2,048, and 8 bits none above 255. Whatever comes, the logits are sixteenths.
    prompt, steps, draw = 2_040, 260, torch.Generator().manual_seed(0)
    script = torch.rand(2, steps, 5, generator=draw).argsort(dim=2)
    places = torch.randint(8, (prompt + steps, 5), generator=draw) / 16
    answer = scenario("scripted", of=generate)(
        script=script.float(),
        places=places,
        input_ids=torch.full((2, prompt), 3),
        attention_mask=torch.arange(prompt) >= torch.tensor([[0], [prompt - 2]]),
        max_new_tokens=steps,
        stop_token_ids=(7,),
        pad_token_id=3,
        top_k=1,
        seconds=20.0,
    )
    assert_equals_reference(answer)


# Experience and its buffer


def stored(prompts: list[int], responses: list[int], first: int = 0) -> dict[str, Tensor]:
    return experience(torch.Generator().manual_seed(first), prompts, responses, first)


def test_rows_of_rows_are_those_rows():
    # Picking twice is picking once: nothing that a row needs is lost on the way.
    tensors = stored([1, 4, 2, 3, 4], [3, 1, 5, 2, 2])
    once = reference(scenario("picked", of=Experience.rows), tensors=tensors, index=[3, 0, 2])
    expected = reference(scenario("picked", of=Experience.rows), tensors=tensors, index=[0])
    assert_equal(scenario("picked", of=Experience.rows)(tensors=once, index=[1]), expected)


def test_minibatches_deal_each_order_equally_often():
    batches = (stored([2, 1], [3, 1]), stored([1], [2], first=2))
    orders = scenario("orders", of=ExperienceBuffer.minibatches)
    answer = orders(batches=batches, size=2, seed=0, epochs=5_000, seconds=20.0)
    # Chi-square with 5 degrees of freedom exceeds 40 once in 7 million.
    assert len(answer) == 6 and sum((n - 5_000 / 6) ** 2 for n in answer.values()) < 40 * 5_000 / 6, (
        "each of the 6 orders about 833 times"
    )


# The rollout

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


def test_evaluate_responses_gives_data_without_gradient():
    evaluated = scenario("lm_evaluated", of=evaluate_responses)
    answer = evaluated(model=1, **ROWS, **response(), kl_coef=0.3)
    assert_no_gradient(answer)
    assert_equals_reference(answer)


def test_rows_keeps_a_masked_column_between_real_tokens():
    # The token of a tool: not the policy's, so mask is False there, but it is no padding.
    stored = readable([2, 2], [4, 4])
    stored["mask"] = torch.tensor([[T, F, T, F], [T, F, F, F]])
    cut = {name: tensor[:, :5] if tensor.shape[-1] == 6 else tensor for name, tensor in stored.items()}
    cut = {name: tensor[:, :3] if tensor.shape[-1] == 4 else tensor for name, tensor in cut.items()}
    assert_equal(scenario("picked", of=Experience.rows)(tensors=stored, index=[0, 1]), cut)


def test_evaluate_responses_of_a_critic_in_bfloat16():
    # 1, 2 and 4 are the same in 16 bits, so everything else is as by hand.
    worth = torch.tensor(CASE["worth"], dtype=torch.bfloat16)
    answer = scenario("evaluated", of=evaluate_responses)(**{**CASE, "worth": worth})
    assert_equal(answer["values"], [[1.0, 2.0, 0.0], [4.0, 0.0, 0.0]])
    assert_equal(answer["advantages"], [[0.875, 1.5, 0.0], [-5.0, 0.0, 0.0]])


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
