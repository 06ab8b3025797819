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
    found.append(_long_in_bfloat16())
    for name in ("value_model", "value_model_modes"):
        found.append(example(scenario(name, of=ValueModel.forward), input_ids=[[4]], attention_mask=[[True]]))
    return found + _of_copies(draw) + _of_frozen(draw, generator(seed)) + _of_adapters(draw)


def _of_the_critic(draw: torch.Generator, text: dict[str, Tensor], evaluating: bool) -> list[Call]:
    critic = scenario("value_model", of=ValueModel.forward)
    weights, given = normal_from(draw, *text["input_ids"].shape), {"gain": normal_from(draw, 3)}
    given |= {"head": normal_from(draw, 1, 3), "evaluating": evaluating}
    return [example(critic, **text), example(critic, **text, **given, grad_of=("gain", "head"), grad_weights=weights)]


def _long_in_bfloat16() -> Call:
    """Texts of 2,100 and 2,099 tokens, which neither bfloat16 nor float16 can count; of the features the positions."""
    mask = torch.ones(2, 2100, dtype=torch.bool)
    mask[1, 0] = False
    gain = torch.tensor([0.0, 1.0, 0.0]).bfloat16()
    text = {"input_ids": mask.long(), "attention_mask": mask}
    return example(scenario("value_model", of=ValueModel.forward), **text, gain=gain, dtype="bfloat16")


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
    return [*found, example(scenario("frozen_output", of=freeze), x=normal_from(draw, 3, 2))]


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
    both, alone, shared = (
        scenario("actor_critic", of=PolicyAndValue.forward),
        scenario("values_alone", of=PolicyAndValue.response_values),
        scenario("shared_actor_critic", of=SharedPolicyAndValue.forward),
    )
    found = [example(both, **text), example(alone, **text), example(shared, **text)]
    found += [example(model, **text, scale=0.5) for model in (both, shared)]
    for part, weights in (("logits", words), ("values", words[..., 0])):
        options = {"grad_through": part, "grad_weights": weights, "evaluating": evaluating}
        found.append(example(both, **text, **gains, grad_of=tuple(gains), **options))
        found.append(example(shared, **text, **heads, grad_of=tuple(heads), **options))
    found.append(example(shared, **text, **heads, grad_of="value_head", grad_through="values"))
    actor = {"policy_gain": gains.pop("policy_gain")}
    found.append(example(both, **text, **gains, frozen="policy", grad_of="critic_gain", grad_through="values"))
    weighed = {"grad_of": "policy_gain", "grad_through": "logits", "grad_weights": words}
    found.append(example(both, **text, **actor, frozen="value_model", **weighed))
    found.append(example(alone, **text, **gains, evaluating=evaluating, grad_of="critic_gain"))
    found.append(example(scenario("actor_critic_passes", of=PolicyAndValue.forward), **text))
    found.append(example(scenario("values_alone_passes", of=PolicyAndValue.response_values), **text))
    found.append(example(scenario("shared_passes", of=SharedPolicyAndValue.forward), **text))
    return found


def _of_adapters(draw: torch.Generator) -> list[Call]:
    lora = scenario("lora_line", of=reference_mode)
    found = []
    for names in (("policy",), ("reference", "policy"), ("default", "preference")):
        active = names[-1]
        adapters = {name: float(number) for name, number in zip(names, normal_from(draw, len(names)), strict=True)}
        given = {"adapters": adapters, "active": active, "seconds": 60.0}
        found += [
            example(lora, **given),
            example(lora, **given, interrupted=True),
            example(lora, **given, interrupted=True, error="out of memory"),
            example(lora, **given, interrupted=True, error="stopped from the keyboard"),
            example(lora, **given, trainable=f"lora_A.{active}"),
            example(lora, **given, trainable=f"lora_B.{active}"),
            example(lora, **given, trainable=f"base_layer lora_B.{active}", interrupted=True, no_grad=True),
        ]
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
