"""Lesson 7, in general: a GPT-2 of one layer, a Llama and LoRA adapters; identities between what they answer."""

import pytest
import torch
from torch import Tensor

from testcases.harness.suite.asserts import assert_equal, assert_equals_reference, named, reference, scenario
from tutorial.lesson07_actor_critic import (
    PolicyAndValue,
    SharedPolicyAndValue,
    ValueModel,
    critic_from_reward_model,
    reference_mode,
)

GPT2_VALUES = scenario("gpt2_values", of=ValueModel.forward)
GPT2_ACTOR_CRITIC = scenario("gpt2_actor_critic", of=PolicyAndValue.forward)
SHARED_ON_A_LANGUAGE_MODEL = scenario("shared_on_a_language_model", of=SharedPolicyAndValue.forward)
GPT2_LORA = scenario("gpt2_lora", of=reference_mode)
ACTOR_CRITIC = scenario("actor_critic", of=PolicyAndValue.forward)
VALUES_ALONE = scenario("values_alone", of=PolicyAndValue.response_values)
ACTOR_CRITIC_PASSES = scenario("actor_critic_passes", of=PolicyAndValue.forward)
SHARED_PASSES = scenario("shared_passes", of=SharedPolicyAndValue.forward)

# Prompt of 4, response of 1
LONG_PROMPT = {"input_ids": [[7, 5, 3, 6, 4]], "attention_mask": [[True] * 5], "prompt_length": 4}
LONG = {"seconds": 60.0}  # the first call imports transformers
ATTENTION = 1e-12  # what the sums of an attention layer may differ by when padding joins them


def text(length: int, rows: int = 1, seed: int = 1) -> Tensor:
    return torch.randint(2, 12, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(ids: Tensor, left: int, right: int) -> dict[str, Tensor]:
    """The same texts with padding around them. The padding is no special token: only the mask says what it is."""
    rows, length = ids.shape
    around = text(left + right, rows, seed=5)
    columns = torch.arange(left + length + right)
    return {
        "input_ids": torch.cat([around[:, :left], ids, around[:, left:]], dim=1),
        "attention_mask": ((columns >= left) & (columns < left + length)).repeat(rows, 1),
    }


@pytest.mark.parametrize("left, right", [(0, 0), (1, 0), (3, 0), (0, 2), (2, 1)])
def test_value_model_does_not_depend_on_the_padding(left, right):
    ids = text(5, rows=2)
    alone = reference(GPT2_VALUES, **padded(ids, 0, 0), seed=3, **LONG)
    expected = torch.zeros(2, left + 5 + right, dtype=torch.float64)
    expected[:, left : left + 5] = alone
    assert_equal(GPT2_VALUES(**padded(ids, left, right), seed=3, **LONG), expected, atol=ATTENTION)


def test_value_model_at_the_last_token_reads_what_the_reward_model_reads():
    answer = scenario("gpt2_last_value_and_score", of=ValueModel.forward)(
        **padded(text(5, rows=3), 2, 0), seed=5, **LONG
    )
    assert_equals_reference(answer)
    assert torch.allclose(answer["value"], answer["score"], rtol=0, atol=1e-12), (
        "the value at the last token to be the score, with one backbone and one head"
    )


def test_value_model_keeps_float32():
    assert_equal(
        scenario("value_model", of=ValueModel.forward)(
            input_ids=[[9, 7, 5]], attention_mask=[[False, True, True]], dtype="float32"
        ),
        torch.tensor([[0.0, 107.5, 215.5]]),
    )


# PolicyAndValue

PROMPT = 4


def conversation(left: int = 0) -> dict[str, Tensor]:
    """Prompts of 4 real tokens behind `left` padding tokens; responses of 4, 2, 3 and 1 tokens."""
    ids = torch.cat([text(left, 4, seed=7), text(PROMPT + 4, 4, seed=8)], dim=1)
    columns = torch.arange(left + PROMPT + 4)
    ends = torch.tensor([[4], [2], [3], [1]]) + left + PROMPT
    return {"input_ids": ids, "attention_mask": (columns >= left) & (columns < ends)}


def sliced(logits: Tensor, mask: Tensor, prompt_length: int) -> Tensor:
    """Of the logits of every position those that predict a response token, 0 where there is none."""
    length = logits.shape[1]
    columns = [logits[:, position - 1] for position in range(prompt_length, length)]
    return torch.stack(columns, dim=1) * mask[:, prompt_length:, None]


@pytest.mark.parametrize("left", [0, 3])
def test_policy_and_value_gives_the_policys_own_logits(left):
    given = conversation(left)
    full = scenario("language_model_logits", of=PolicyAndValue.forward)
    logits = reference(full, **given, seed=6, architecture="gpt2", **LONG)
    expected = sliced(logits, given["attention_mask"], left + PROMPT)
    answer = GPT2_ACTOR_CRITIC(**given, prompt_length=left + PROMPT, seed=6, **LONG)
    assert_equal(answer["logits"], expected, atol=ATTENTION)


@pytest.mark.parametrize("left", [1, 2, 5])
def test_policy_and_value_does_not_depend_on_the_padding_of_the_prompt(left):
    expected = reference(GPT2_ACTOR_CRITIC, **conversation(), prompt_length=PROMPT, seed=6, **LONG)
    assert_equal(
        GPT2_ACTOR_CRITIC(**conversation(left), prompt_length=left + PROMPT, seed=6, **LONG), expected, atol=ATTENTION
    )


@pytest.mark.parametrize("left", [0, 2])
def test_response_values_are_those_of_the_forward(left):
    given = {**conversation(left), "prompt_length": left + PROMPT}
    both = reference(ACTOR_CRITIC, **given)
    assert_equal(VALUES_ALONE(**given), both["values"])


# SharedPolicyAndValue.forward


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_shared_policy_and_value_gives_the_policys_own_logits(architecture):
    # In any Hugging Face model: `transformer` and `lm_head` are names of GPT-2 only.
    given = conversation(2)
    full = scenario("language_model_logits", of=SharedPolicyAndValue.forward)
    logits = reference(full, **given, seed=6, architecture=architecture, **LONG)
    answer = SHARED_ON_A_LANGUAGE_MODEL(**given, prompt_length=2 + PROMPT, seed=6, architecture=architecture, **LONG)
    assert_equals_reference(answer)
    assert_equal(answer["logits"], sliced(logits, given["attention_mask"], 2 + PROMPT), atol=ATTENTION)


@pytest.mark.parametrize("left", [1, 4])
def test_shared_policy_and_value_does_not_depend_on_the_padding_of_the_prompt(left):
    options = {"seed": 6, "architecture": "gpt2", **LONG}
    expected = reference(SHARED_ON_A_LANGUAGE_MODEL, **conversation(), prompt_length=PROMPT, **options)
    assert_equal(
        SHARED_ON_A_LANGUAGE_MODEL(**conversation(left), prompt_length=left + PROMPT, **options),
        expected,
        atol=ATTENTION,
    )


# critic_from_reward_model


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_critic_from_reward_model_begins_as_the_reward_model(dtype):
    answer = scenario("gpt2_critic", of=critic_from_reward_model)(
        **padded(text(5, rows=2), 1, 0), seed=4, dtype=dtype, **LONG
    )
    assert_equals_reference(answer, atol=0.05 if dtype == "bfloat16" else 1e-5 if dtype == "float32" else 1e-11)
    assert_equal(answer, shared="none", frozen="none")


# freeze and make_reference


# reference_mode


@named("from_sft_adapter", {"bare-base": False, "sft-adapter": True})
def test_reference_mode_of_a_language_model_is_where_it_started(from_sft_adapter):
    # At step 0 the policy is the reference, so the KL is 0. After a step of the policy only the policy has moved.
    given = {**conversation(1), "seed": 5, "from_sft_adapter": from_sft_adapter, **LONG}
    expected = reference(GPT2_LORA, **given)
    start = expected["policy_at_step_0"]
    answer = GPT2_LORA(**given)
    assert_equal(answer, policy_at_step_0=start, reference_at_step_0=start, reference_after=start)
    assert_equal(answer, policy_after=expected["policy_after"], same_trainable=True)
    assert (answer["policy_after"] - start).abs().max() > 1e-3, "the policy to have moved after its step"


def test_reference_mode_refuses_a_model_without_adapters():
    with pytest.raises(ValueError, match="(?s)adapters.*make_reference|make_reference.*adapters"):
        scenario("refused_model", of=reference_mode)()


def test_policy_and_value_computes_no_words_for_the_prompt():
    # The logits of two positions, the last of which is dropped.
    answer = ACTOR_CRITIC_PASSES(**LONG_PROMPT)
    assert not answer["logits_for_the_prompt"], "logits for the response alone: logits_to_keep of 2"


def test_shared_policy_and_value_computes_no_words_for_the_prompt():
    answer = SHARED_PASSES(**LONG_PROMPT)
    assert not answer["logits_for_the_prompt"], "logits for the response alone: cut the features, then the head"
