"""Lesson 7, by hand: toy models whose answers are digits. seen pos id: a 5 as the second token of a text gives 215.

The first token of a text is at position 0 and sees itself, so a 7 there gives 107. Critics add 0.5, so that a value is
no logit. A 9 stands on padding only. What an answer holds on padding means nothing, and is set to 0 before the check.
"""

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, named, scenario, value_and_gradients
from tutorial.lesson07_actor_critic import (
    PolicyAndValue,
    SharedPolicyAndValue,
    ValueModel,
    critic_from_reward_model,
    freeze,
    make_reference,
    reference_mode,
)

VALUE_MODEL = scenario("value_model", of=ValueModel.forward)
ACTOR_CRITIC = scenario("actor_critic", of=PolicyAndValue.forward)
VALUES_ALONE = scenario("actor_critic", of=PolicyAndValue.response_values)
SHARED_ACTOR_CRITIC = scenario("shared_actor_critic", of=SharedPolicyAndValue.forward)
CRITIC_OF = scenario("critic_of", of=critic_from_reward_model)
REFERENCE_OF = scenario("reference_of", of=make_reference)
LORA = scenario("lora_line", of=reference_mode, seconds=60.0)  # the first call imports peft


def text(input_ids, **options):
    """The text, with its mask: 9 is padding."""
    return {"input_ids": input_ids, "attention_mask": torch.tensor(input_ids) != 9, **options}


ONES = [1.0, 1.0, 1.0]
DIGITS = [[1.0, 10.0, 100.0]]


# ValueModel.forward


@named(
    "input_ids, values",
    {
        "every-position-has-a-value": ([[7, 5, 3]], [[107.5, 215.5, 323.5]]),
        "padding-on-the-left-moves-nothing": ([[9, 9, 7, 5, 3]], [[0.0, 0.0, 107.5, 215.5, 323.5]]),
        "padding-on-the-right-moves-nothing": ([[7, 5, 3, 9]], [[107.5, 215.5, 323.5, 0.0]]),
        "padding-on-both-sides": ([[9, 7, 5, 9]], [[0.0, 107.5, 215.5, 0.0]]),
        "rows-are-padded-each-in-its-own-way": ([[9, 7, 5], [4, 6, 9]], [[0.0, 107.5, 215.5], [104.5, 216.5, 0.0]]),
        "one-row-of-one-token-keeps-its-shape": ([[7]], [[107.5]]),
    },
)
@pytest.mark.points(5)
def test_value_model_by_hand(input_ids, values):
    assert_equal(VALUE_MODEL(**text(input_ids)), values)


@pytest.mark.points(3)
def test_value_model_gradient():
    # 1 x the first value + 2 x the second: (7, 0, 1) + 2 (5, 1, 2) = (17, 2, 5), for the backbone times the digits
    weights = torch.tensor([[1.0, 2.0, 0.0]], dtype=torch.float64)
    options = {"gain": ONES, "head": DIGITS, "wrt": ("gain", "head"), "weights": weights}
    answer, grads = value_and_gradients(VALUE_MODEL, **text([[7, 5, 9]]), **options)
    assert_equal(answer, [[107.5, 215.5, 0.0]])
    assert_equal(grads, head=[[17.0, 2.0, 5.0]], gain=[17.0, 20.0, 500.0])


# PolicyAndValue

RESPONSES = named(
    "input_ids, prompt_length, digits",
    {
        # Before the response token 3 stands the prompt's 5, second of its text: 215. Before 6 stands the 3: 323.
        "first-token-is-predicted-by-the-prompt": ([[7, 5, 3, 6]], 2, [[215.0, 323.0]]),
        "prompt-of-one-token": ([[7, 5, 3]], 1, [[107.0, 215.0]]),
        "prompt-padded-on-the-left": ([[9, 7, 5, 3]], 2, [[107.0, 215.0]]),
        # The second response is one token, 8: its padding has no value of its own.
        "ragged-rows": ([[9, 7, 5, 3], [4, 6, 8, 9]], 2, [[107.0, 215.0], [216.0, 0.0]]),
    },
)


def words(digits):
    """Logits of the toy policy's two words: (215, -215)."""
    return [[[number, -number] for number in row] for row in digits]


def critic(digits):
    return [[number + 0.5 if number else 0.0 for number in row] for row in digits]


# Of the first word's logits and of the values: the features before the two response tokens, (7, 0, 1) + (5, 1, 2)
PAIR = text([[7, 5, 3]], prompt_length=1)
BOTH_GAINS = {**PAIR, "policy_gain": ONES, "critic_gain": ONES, "grad_of": ("policy_gain", "critic_gain")}
FIRST_WORD = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)


@RESPONSES
@pytest.mark.points(4)
def test_policy_and_value_by_hand(input_ids, prompt_length, digits):
    answer = ACTOR_CRITIC(**text(input_ids, prompt_length=prompt_length))
    assert_equal(answer, logits=words(digits), values=critic(digits))


@pytest.mark.points(2)
def test_policy_and_value_takes_the_logits_that_the_policy_gives():
    # Cohere and Granite multiply what their head gives, Gemma-2 caps it.
    assert_equal(ACTOR_CRITIC(**PAIR, scale=0.5), logits=[[[53.5, -53.5], [107.5, -107.5]]], values=[[107.5, 215.5]])


@named(
    "of, weights, policy_gain, critic_gain",
    {
        "of-the-logits": ("logits", FIRST_WORD, [12.0, 10.0, 300.0], None),
        "of-the-values": ("values", torch.ones(1, 2).double(), None, [12.0, 10.0, 300.0]),
    },
)
@pytest.mark.points(2)
def test_policy_and_value_gradient(of, weights, policy_gain, critic_gain):
    answer, grads = value_and_gradients(ACTOR_CRITIC, **BOTH_GAINS, of=of, weights=weights)
    assert_equal(grads, policy_gain=policy_gain, critic_gain=critic_gain)


def test_policy_and_value_is_one_pass_of_each():
    answer = scenario("passes", of=PolicyAndValue.forward)(**PAIR)
    assert_equal(answer, passes_of_the_policy=1, passes_of_the_critic=1)


ALONE = {"method": "response_values"}


@RESPONSES
@pytest.mark.points(4)
def test_response_values_by_hand(input_ids, prompt_length, digits):
    assert_equal(VALUES_ALONE(**text(input_ids, prompt_length=prompt_length), **ALONE), critic(digits))


def test_response_values_gradient():
    answer, grads = value_and_gradients(VALUES_ALONE, **PAIR, **ALONE, critic_gain=ONES, wrt="critic_gain")
    assert_equal(answer, [[107.5, 215.5]])
    assert_equal(grads, critic_gain=[12.0, 10.0, 300.0])


def test_response_values_needs_no_pass_of_the_policy():
    answer = scenario("passes", of=PolicyAndValue.response_values)(**PAIR, **ALONE)
    assert_equal(answer, passes_of_the_policy=0, passes_of_the_critic=1)


@RESPONSES
@pytest.mark.points(4)
def test_shared_policy_and_value_by_hand(input_ids, prompt_length, digits):
    answer = SHARED_ACTOR_CRITIC(**text(input_ids, prompt_length=prompt_length))
    assert_equal(answer, logits=words(digits), values=critic(digits))


@pytest.mark.points(2)
def test_shared_policy_and_value_takes_the_logits_that_the_policy_gives():
    answer = SHARED_ACTOR_CRITIC(**PAIR, scale=0.5)
    assert_equal(answer, logits=[[[53.5, -53.5], [107.5, -107.5]]], values=[[107.5, 215.5]])


SHARED = {
    **PAIR,
    "gain": ONES,
    "value_head": DIGITS,
    "word_head": [[1.0, 10.0, 100.0], [-1.0, -10.0, -100.0]],
    "word_bias": [0.25, 0.75],
    "grad_of": ("gain", "value_head", "word_head", "word_bias"),
}


def test_shared_policy_and_value_gradient_of_the_logits():
    answer, grads = value_and_gradients(SHARED_ACTOR_CRITIC, **SHARED, of="logits", weights=FIRST_WORD)
    # Some heads have a bias: GPT-J's, for one.
    assert_equal(answer["logits"], [[[107.25, -106.25], [215.25, -214.25]]])
    assert_equal(
        grads,
        gain=[12.0, 10.0, 300.0],
        word_head=[[12.0, 1.0, 3.0], [0.0, 0.0, 0.0]],
        word_bias=[2.0, 0.0],
        value_head=None,
    )


def test_shared_policy_and_value_gradient_of_the_values():
    # The value loss trains the backbone as well: this is what sharing means.
    answer, grads = value_and_gradients(SHARED_ACTOR_CRITIC, **SHARED, of="values")
    assert_equal(grads, gain=[12.0, 10.0, 300.0], value_head=[[12.0, 1.0, 3.0]], word_head=None, word_bias=None)


def test_shared_policy_and_value_is_one_pass_of_the_backbone():
    assert_equal(scenario("passes", of=SharedPolicyAndValue.forward)(**PAIR, method="shared"), passes_of_the_policy=1)


# critic_from_reward_model: a reward model with backbone (1, 2, 4), a buffer of sevens, head (8, 16, 32) and bias 64

SCORER = {
    "gain": torch.tensor([1.0, 2.0, 4.0]),
    "weight": torch.tensor([[8.0, 16.0, 32.0]]),
    "bias": torch.tensor([64.0]),
}
SCORER_NUMBERS = torch.tensor([1.0, 2.0, 4.0, 7.0, 7.0, 7.0, 8.0, 16.0, 32.0, 64.0])
SCORER_PARAMETERS = "backbone.gain, head.weight, head.bias"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.points(4)
def test_critic_from_reward_model_copies_backbone_and_head(dtype):
    scorer = {name: tensor.to(dtype) for name, tensor in SCORER.items()}
    answer = CRITIC_OF(**scorer)
    assert_equal(answer, **{"class": "ValueModel"}, buffer=torch.full((3,), 7.0, dtype=dtype))
    assert_equal(answer, backbone=scorer["gain"], head_weight=scorer["weight"], head_bias=scorer["bias"])


@pytest.mark.points(2)
def test_critic_from_reward_model_shares_nothing():
    # 1 is added to all that the critic holds; the reward model stays as it was.
    answer = CRITIC_OF(**SCORER, trained=True)
    assert_equal(answer, shared="none", reward_model=SCORER_NUMBERS)


@named(
    "frozen, left",
    {
        "all-of-it-trains": ((), SCORER_PARAMETERS),
        "all-is-frozen": (("",), "none"),
        "its-backbone-is-frozen": (("backbone",), "head.weight, head.bias"),
    },
)
@pytest.mark.points(2)
def test_critic_from_reward_model_is_trainable(frozen, left):
    answer = CRITIC_OF(**SCORER, frozen=frozen)
    assert_equal(answer, trainable=SCORER_PARAMETERS, reward_model_trainable=left)


# freeze and make_reference: layers filled with 1 to 7, and a buffer of 0

ALL_PARAMETERS = "scale, 0.weight, 0.bias, 2.0.weight, 2.0.bias, 2.2.weight, 2.2.bias"
ALL_MODULES = "the whole, 0, 1, 2, 2.0, 2.1, 2.2"
NUMBERS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]


@named(
    "frozen, evaluating",
    {
        "all-of-it-trains": ((), ()),
        "some-is-frozen-already": (("0.weight", "2.2.bias"), ()),
        "only-the-outer-module-says-eval": ((), ("",)),
        "all-is-in-eval-mode-already": ((), ("", "0", "1", "2", "2.0", "2.1", "2.2")),
    },
)
@pytest.mark.points(3)
def test_freeze_by_hand(frozen, evaluating):
    answer = scenario("frozen_layers", of=freeze)(frozen=frozen, evaluating=evaluating)
    assert_equal(answer, same_model=True, trainable="none", train_mode="none", weights=NUMBERS)
    # 2 + 2 + 3 = 7 and 7; the norm of two equal numbers is its bias, 5; 6 * 5 + 6 * 5 + 7 = 67, without any dropout
    assert_equal(answer, outputs=[[67.0], [67.0]])


@pytest.mark.points(4)
def test_make_reference_is_a_frozen_copy_that_does_not_follow_the_policy():
    # The policy is trained: 10 is added to all that it holds.
    answer = REFERENCE_OF(trained=10.0)
    assert_equal(answer, **{"class": "Layers"}, weights=NUMBERS, shared="none", trainable="none", train_mode="none")
    assert_equal(answer, policy_weights=[11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 10.0])


@named(
    "frozen, evaluating, policy_trainable, policy_train_mode",
    {
        "a-policy-that-trains": ((), (), ALL_PARAMETERS, ALL_MODULES),
        "some-of-the-policy-is-frozen-and-its-dropout-off": (
            ("scale", "0.weight", "0.bias"),
            ("1", "2.1"),
            "2.0.weight, 2.0.bias, 2.2.weight, 2.2.bias",
            "the whole, 0, 2, 2.0, 2.2",
        ),
    },
)
def test_make_reference_leaves_the_policy_as_it_is(frozen, evaluating, policy_trainable, policy_train_mode):
    answer = REFERENCE_OF(frozen=frozen, evaluating=evaluating)
    assert_equal(answer, policy_weights=NUMBERS, policy_trainable=policy_trainable, policy_train_mode=policy_train_mode)
    assert_equal(answer, policy_gradients_as_before=True, policy_dropout_as_before=True)


# reference_mode: the base model is y = 1 x; each adapter adds its number to the slope. y(1) is asked for.

BARE = {"adapters": {"policy": 2.0}, "active": "policy"}
SFT = {"adapters": {"policy": 2.0, "reference": 4.0}, "active": "policy"}
FROM = named("start", {"bare-base": BARE, "sft-adapter": SFT})


@named(
    "adapters, active, before, inside",
    {
        # 1 + 8 outside; inside the base model alone
        "default-is-not-the-trained-one": ({"default": 2.0, "policy": 8.0}, "policy", 9.0, 1.0),
        "without-reference-the-adapters-are-off": ({"policy": 2.0}, "policy", 3.0, 1.0),
        "at-step-0-the-policy-is-its-reference": ({"policy": 4.0, "reference": 4.0}, "policy", 5.0, 5.0),
        "reference-adapter-is-on": ({"policy": 2.0, "reference": 4.0}, "policy", 3.0, 5.0),
        "the-reference-may-be-the-active-one": ({"policy": 2.0, "reference": 4.0}, "reference", 5.0, 5.0),
        "named-default": ({"default": 2.0}, "default", 3.0, 1.0),
    },
)
@pytest.mark.points(4)
def test_reference_mode_by_hand(adapters, active, before, inside):
    answer = LORA(adapters=adapters, active=active)
    assert_equal(answer, before=before, inside=inside, after=before, active_after=active, yielded="the policy")


@FROM
@pytest.mark.points(3)
def test_reference_mode_has_no_gradient_inside(start):
    assert_equal(
        LORA(**start),
        learns_inside=False,
        inside_can_be_used_for_training=True,
        gradients_on_after=True,
        learns_after=True,
    )


@named("trainable", {"half-of-the-adapter": "lora_B.policy", "the-base-model-too": "base_layer, lora_B.policy"})
@FROM
@pytest.mark.points(3)
def test_reference_mode_restores_what_trains(start, trainable):
    chosen = trainable.replace(",", "")
    answer = LORA(**start, trainable=chosen)
    assert_equal(
        answer, trainable_after=trainable, gradients_as_before=True, modes_as_before=True, all_in_train_mode=False
    )


@FROM
@pytest.mark.points(3)
def test_reference_mode_is_left_by_an_exception(start):
    answer = LORA(**start, interrupted="ArithmeticError")
    assert_equal(
        answer,
        exception_came_out=True,
        after=3.0,
        active_after="policy",
        trainable_after="lora_A.policy, lora_B.policy",
        gradients_on_after=True,
    )
