"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from, uniform_from, word_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, scenario
from tutorial.lesson07_actor_critic import (
    PolicyAndValue,
    SharedPolicyAndValue,
    ValueModel,
    critic_from_reward_model,
    freeze,
    make_reference,
    reference_mode,
)

PAD_ID = 9


def examples(seed: int) -> list[Call]:
    """Ragged texts on toy models; one row, one token and B == T among them."""
    draw = generator(seed)
    found = []
    for prompt_length, rows, response_length, evaluating in (
        (3, 3, 4, False),
        (3, 3, 3, True),
        (1, 2, 2, False),
        (2, 1, 1, True),
    ):
        ids, mask = _texts(draw, rows, prompt_length, response_length)
        text = {"input_ids": ids, "attention_mask": mask}
        found += _of_the_critic(draw, text, evaluating)
        found += _of_the_response(draw, {**text, "prompt_length": prompt_length}, (rows, response_length), evaluating)
    found.append(example(scenario("value_model", of=ValueModel.forward), input_ids=[[4]], attention_mask=[[True]]))
    return found + _of_copies(draw) + _of_frozen(draw, generator(seed)) + _of_adapters(draw)


def _of_the_critic(draw: torch.Generator, text: dict[str, Tensor], evaluating: bool) -> list[Call]:
    critic = scenario("value_model", of=ValueModel.forward)
    weights, given = normal_from(draw, *text["input_ids"].shape), {"gain": normal_from(draw, 3)}
    given |= {"head": normal_from(draw, 1, 3), "evaluating": evaluating}
    return [example(critic, **text), example(critic, **text, **given, grad_of=("gain", "head"), grad_weights=weights)]


def _of_copies(draw: torch.Generator) -> list[Call]:
    copied = scenario("critic_of", of=critic_from_reward_model)
    found = []
    for frozen, trained, dtype in (
        ((), False, torch.float32),
        ((), True, torch.float32),
        (("head",), True, torch.float32),
        (("",), False, torch.float32),
        (("backbone",), True, torch.float32),
        ((), True, torch.float64),
    ):
        numbers = normal_from(draw, 7).to(dtype)
        scorer = {"gain": numbers[:3], "weight": numbers[None, 3:6], "bias": numbers[6:]}
        found.append(example(copied, **scorer, frozen=frozen, trained=trained))
    return found


def _of_frozen(draw: torch.Generator, own: torch.Generator) -> list[Call]:
    """Each with numbers, and with the name of a parameter, that no other seed has: what else there is to ask is little.

    Args:
        own: a generator for these alone.
    """
    found = []
    layers = "", "0.weight", "0.bias", "2.0.weight", "2.0.bias", "2.2.weight", "2.2.bias"
    for frozen, evaluating in (
        ((), ()),
        (("", "2.2.bias"), ("1",)),
        (("0.weight",), ("", "2.1")),
        (layers, ()),
        ((), ("", "0", "1", "2", "2.0", "2.1", "2.2")),
    ):
        scale = word_from(own)
        given = {"frozen": tuple(name or scale for name in frozen), "evaluating": evaluating, "scale": scale}
        given["numbers"] = normal_from(own, 7)
        found.append(example(scenario("frozen_layers", of=freeze), **given))
        for trained in (0.0, 2 + float(uniform_from(own))):
            found.append(example(scenario("reference_of", of=make_reference), **given, trained=trained))
    return found


def _of_the_response(draw: torch.Generator, text: dict, shape: tuple[int, int], evaluating: bool) -> list[Call]:
    """Logits and values with their gradients, which do not depend on the mode, and the passes they took."""
    words = normal_from(draw, *shape, 2)
    gains = {"policy_gain": normal_from(draw, 3), "critic_gain": normal_from(draw, 3)}
    heads = {
        "gain": normal_from(draw, 3),
        "value_head": normal_from(draw, 1, 3),
        "word_head": normal_from(draw, 2, 3),
        "word_bias": normal_from(draw, 2),
    }
    both = scenario("actor_critic", of=PolicyAndValue.forward)
    shared = scenario("shared_actor_critic", of=SharedPolicyAndValue.forward)
    alone = scenario("actor_critic", of=PolicyAndValue.response_values)
    method = {"method": "response_values"}
    found = [example(both, **text), example(alone, **text, **method), example(shared, **text)]
    found += [example(model, **text, scale=0.5) for model in (both, shared)]
    for part, weights in (("logits", words), ("values", words[..., 0])):
        options = {"grad_through": part, "grad_weights": weights, "evaluating": evaluating}
        found.append(example(both, **text, **gains, grad_of=tuple(gains), **options))
        found.append(example(shared, **text, **heads, grad_of=tuple(heads), **options))
    for trained, part, frozen in (("critic_gain", "values", "policy"), ("policy_gain", "logits", "value_model")):
        given = {trained: gains[trained], "frozen": frozen, "grad_of": trained, "grad_through": part}
        found.append(example(both, **text, **given, grad_weights=words if part == "logits" else words[..., 0]))
    values = {"critic_gain": gains["critic_gain"], "evaluating": evaluating, "grad_of": "critic_gain"}
    found.append(example(alone, **text, **method, **values))
    for exercise, kind in (
        (PolicyAndValue.forward, "forward"),
        (PolicyAndValue.response_values, "response_values"),
        (SharedPolicyAndValue.forward, "shared"),
    ):
        found.append(example(scenario("passes", of=exercise), **text, method=kind))
    return found


def _of_adapters(draw: torch.Generator) -> list[Call]:
    lora = scenario("lora_line", of=reference_mode, seconds=60.0)
    found = []
    for names in (("policy",), ("reference", "policy"), ("default", "preference")):
        active = names[-1]
        adapters = {name: float(number) for name, number in zip(names, normal_from(draw, len(names)), strict=True)}
        for options in (
            {},
            {"interrupted": "ArithmeticError"},
            {"trainable": f"lora_A.{active}"},
            {"trainable": f"base_layer lora_B.{active}", "interrupted": "KeyboardInterrupt", "no_grad": True},
        ):
            found.append(example(lora, adapters=adapters, active=active, **options))
    return found


def _texts(draw: torch.Generator, rows: int, prompt_length: int, response_length: int) -> tuple[Tensor, Tensor]:
    """Prompts padded on the left, responses on the right; each has a token at least, and the first row no padding."""
    length = prompt_length + response_length
    ids = torch.randint(PAD_ID, (rows, length), generator=draw)
    ids[0, -1] = 0
    missing = torch.randint(0, prompt_length, (rows, 1), generator=draw)
    present = torch.randint(1, response_length + 1, (rows, 1), generator=draw)
    missing[0], present[0] = 0, response_length
    if rows > 1:
        missing[1], present[1] = prompt_length - 1, 1
    columns = torch.arange(length)
    mask = (columns >= missing) & (columns < prompt_length + present)
    return ids.masked_fill(~mask, PAD_ID), mask


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
TEXT = {"input_ids": [[7, 5, 3]], "attention_mask": [[True, True, True]]}
RESPONSE = {**TEXT, "prompt_length": 1}
BAD_TEXT = {
    "another-length": ({"input_ids": [[7, 5]]}, ["input_ids (1, 2)", "attention_mask (1, 3)"]),
    "no-batch": ({"input_ids": [7, 5, 3]}, ["input_ids (3,)"]),
}
BAD_RESPONSE = {
    "no-prompt": ({"prompt_length": 0}, ["prompt_length"]),
    "mask-of-another-length": ({"attention_mask": [[True, True]]}, ["attention_mask (1, 2)"]),
}

AGREEMENT = {reference_mode: 3}
REFUSALS = {
    scenario("value_model", of=ValueModel.forward): (TEXT, BAD_TEXT),
    scenario("actor_critic", of=PolicyAndValue.forward): (RESPONSE, BAD_RESPONSE),
    scenario("actor_critic", of=PolicyAndValue.response_values): (
        {**RESPONSE, "method": "response_values"},
        BAD_RESPONSE,
    ),
    scenario("shared_actor_critic", of=SharedPolicyAndValue.forward): (RESPONSE, BAD_RESPONSE),
}
