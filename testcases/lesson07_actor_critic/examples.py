"""Ordinary inputs: they tell misconceptions apart, and drive the comparison with the reference on fresh numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from testcases.doubles.drawing import normal_from
from testcases.engine import Request, request, scenario
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


def examples(seed: int) -> list[Request]:
    """Ragged texts on toy models; one row, one token and B == T among them."""
    draw = torch.Generator().manual_seed(seed)
    found = []
    for prompt_length, rows, response_length in ((3, 3, 4), (3, 3, 3), (1, 2, 2), (2, 1, 1)):
        ids, mask = _texts(draw, rows, prompt_length, response_length)
        text = {"input_ids": ids, "attention_mask": mask}
        found.append(request(scenario("value_model", of=ValueModel.forward), **text))
        weights = normal_from(draw, *ids.shape)
        found.append(
            request(
                scenario("value_model", of=ValueModel.forward),
                **text,
                gain=normal_from(draw, 3),
                head=normal_from(draw, 1, 3),
                grad_of=("gain", "head"),
                grad_weights=weights,
            )
        )
        text["prompt_length"] = prompt_length
        found += _of_the_response(draw, text, (rows, response_length))
    found.append(request(scenario("value_model", of=ValueModel.forward), input_ids=[[4]], attention_mask=[[True]]))
    found.append(
        request(scenario("value_model_modes", of=ValueModel.forward), input_ids=[[4]], attention_mask=[[True]])
    )
    for frozen, trained, dtype in (
        (False, False, torch.float32),
        (False, True, torch.float32),
        (False, True, torch.float32),
        (True, False, torch.float32),
        (True, True, torch.float32),
        (False, True, torch.float64),
    ):
        numbers = normal_from(draw, 7).to(dtype)
        scorer = {"gain": numbers[:3], "weight": numbers[None, 3:6], "bias": numbers[6:]}
        found.append(
            request(scenario("critic_of", of=critic_from_reward_model), **scorer, frozen=frozen, trained=trained)
        )
    for frozen, evaluating in (((), ()), (("scale", "2.2.bias"), ("1",)), (("0.weight",), ("", "2.1"))):
        found.append(request(scenario("frozen_layers", of=freeze), frozen=frozen, evaluating=evaluating))
        for trained in (0.0, 3.0):
            found.append(
                request(
                    scenario("reference_of", of=make_reference), frozen=frozen, evaluating=evaluating, trained=trained
                )
            )
    found.append(request(scenario("frozen_output", of=freeze), x=normal_from(draw, 3, 2)))
    return found + _of_adapters(draw)


def _of_the_response(draw: torch.Generator, text: dict, shape: tuple[int, int]) -> list[Request]:
    """Logits and values with their gradients, and the passes they took."""
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
    found = [request(both, **text), request(alone, **text), request(shared, **text)]
    for part, weights in (("logits", words), ("values", words[..., 0])):
        options = {"grad_through": part, "grad_weights": weights}
        found.append(request(both, **text, **gains, grad_of=tuple(gains), **options))
        found.append(request(shared, **text, **heads, grad_of=tuple(heads), **options))
    found.append(request(alone, **text, critic_gain=gains["critic_gain"], grad_of="critic_gain"))
    found.append(request(scenario("actor_critic_passes", of=PolicyAndValue.forward), **text))
    found.append(request(scenario("values_alone_passes", of=PolicyAndValue.response_values), **text))
    found.append(request(scenario("shared_passes", of=SharedPolicyAndValue.forward), **text))
    return found


def _of_adapters(draw: torch.Generator) -> list[Request]:
    lora = scenario("lora_line", of=reference_mode)
    found = []
    for names, active in ((("policy",), "policy"), (("policy", "reference"), "policy"), (("default", "sft"), "sft")):
        adapters = {name: float(number) for name, number in zip(names, normal_from(draw, len(names)), strict=True)}
        given = {"adapters": adapters, "active": active, "seconds": 60.0}
        found += [
            request(lora, **given),
            request(lora, **given, interrupted=True),
            request(lora, **given, interrupted=True, error="out of memory"),
            request(lora, **given, interrupted=True, error="stopped from the keyboard"),
            request(lora, **given, trainable=f"lora_A.{active}"),
            request(lora, **given, trainable=f"lora_B.{active}"),
            request(lora, **given, trainable=f"base_layer lora_B.{active}", interrupted=True, no_grad=True),
        ]
    return found


def _texts(draw: torch.Generator, rows: int, prompt_length: int, response_length: int) -> tuple[Tensor, Tensor]:
    """Prompts padded on the left, responses on the right; each has a token at least, and the first row no padding."""
    length = prompt_length + response_length
    ids = torch.randint(1, PAD_ID, (rows, length), generator=draw)
    missing = torch.randint(0, prompt_length, (rows, 1), generator=draw)
    present = torch.randint(1, response_length + 1, (rows, 1), generator=draw)
    missing[0], present[0] = 0, response_length
    if rows > 1:
        missing[1], present[1] = prompt_length - 1, 1
    columns = torch.arange(length)
    mask = (columns >= missing) & (columns < prompt_length + present)
    return ids.masked_fill(~mask, PAD_ID), mask
