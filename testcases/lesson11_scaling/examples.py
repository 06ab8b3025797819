"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

from dataclasses import replace

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, scenario
from tutorial.lesson11_scaling import (
    DistributedPPOTrainer,
    global_masked_whiten,
    gradient_weight,
    keep_reference_adapter,
    merge_moments,
    merge_statistics,
    plan_microbatches,
)


def examples(seed: int) -> list[Call]:
    """Ragged rows, one to four processes, with and without microbatches, spikes and empty parts."""
    draw = generator(seed)
    found = [
        *_plans(draw),
        *_weights(draw),
        *_statistics(draw),
        *_moments(draw),
        *_whitened(draw),
        *_references(draw),
        *_steps(draw),
    ]
    # peft, and the first optimizer of a process, import a large part of their libraries.
    return [replace(asked, seconds=60.0) for asked in found]


def _plans(draw: torch.Generator) -> list[Call]:
    ask = scenario("plan_of", of=plan_microbatches)
    found = []
    for rows, processes, size in ((7, 2, 2), (8, 2, None), (9, 4, 3), (5, 3, 1), (2, 4, None), (6, 1, 4), (12, 3, 2)):
        lengths = torch.randint(0, 6, (rows,), generator=draw)
        found.append(example(ask, lengths=lengths, n_processes=processes, micro_batch_size=size))
    # float16 and bfloat16 cannot tell these apart.
    found.append(example(ask, lengths=4_000 + torch.randperm(9, generator=draw), n_processes=2, micro_batch_size=3))
    # Of few rows any sort keeps equal ones in their order.
    return [*found, example(ask, lengths=torch.randint(1, 9, (60,), generator=draw), n_processes=2)]


def _weights(draw: torch.Generator) -> list[Call]:
    found = []
    for processes in (1, 2, 4):
        total = int(torch.randint(20, 200, (), generator=draw))
        tokens = int(torch.randint(3, total, (), generator=draw))
        found.append(example(gradient_weight, tokens, total, processes))
    return [
        *found,
        example(gradient_weight, 3, 7),
        example(gradient_weight, 0, 9, 2),
        example(gradient_weight, 5, 5, 3),
    ]


def _statistics(draw: torch.Generator) -> list[Call]:
    def part() -> dict[str, float]:
        loss, mean, largest = torch.rand(3, generator=draw, dtype=torch.float64).tolist()
        means = {"policy_loss": loss - 0.5, "ratio_mean": 1 + mean, "first_ratio_max": mean}
        return means | {"ratio_max": 2 + largest}

    found = []
    for tokens in ((7, 2), (1, 1, 6), (3, 0, 5, 2), (4,)):
        parts = [part() for _ in tokens]
        found.append(example(merge_statistics, parts, tokens))
    nothing = dict.fromkeys(part(), float("nan")) | {"ratio_max": 50.0}
    found.append(example(merge_statistics, [nothing, part(), part()], (0, 2, 3)))
    found.append(example(merge_statistics, [part(), part() | {"ratio_mean": float("nan")}], (2, 3)))
    return [*found, example(merge_statistics, [part() | {"ratio_max": 0.25}, part() | {"ratio_max": 0.5}], (2, 3))]


def _moments(draw: torch.Generator) -> list[Call]:
    found = [example(merge_moments, _some_moments(draw, parts)) for parts in (2, 3, 5, 1)]
    with_empty = _some_moments(draw, 4)
    with_empty[:3:2] = torch.tensor([0.0, float("nan"), float("nan")])
    with_nan, with_large_mean = _some_moments(draw, 3), _some_moments(draw, 3)
    with_nan[2, 2] = float("nan")
    with_large_mean[:, 1] += 1e6  # at 1e8 the sound ways differ by more than the tolerance
    return [*found, *(example(merge_moments, one) for one in (with_empty, with_nan, with_large_mean))]


def _some_moments(draw: torch.Generator, parts: int) -> Tensor:
    counts = torch.randint(1, 9, (parts,), generator=draw).double()
    return torch.stack([counts, normal_from(draw, parts), normal_from(draw, parts).square()], dim=1)


def _whitened(draw: torch.Generator) -> list[Call]:
    ask = scenario("whitened_of", of=global_masked_whiten)
    found = []
    for others, place, shift in ((1, 0, True), (2, 1, False), (3, 3, None), (0, 0, False)):
        mask = torch.tensor([[True, True, False, True], [True, False, False, False], [True, True, True, True]])
        values = normal_from(draw, 3, 4).masked_fill(~mask, float("nan"))
        given = {"others": _some_moments(draw, others), "place": place}
        given |= {} if shift is None else {"shift_mean": shift}
        found.append(example(ask, values=values, mask=mask, **given))
        found.append(example(ask, values=values.masked_fill(mask & (values > 1), float("nan")), mask=mask, **given))
    # One row of one token
    found.append(example(ask, values=normal_from(draw, 1, 1), mask=torch.ones(1, 1).bool(), **given))
    return found


def _references(draw: torch.Generator) -> list[Call]:
    ask = scenario("reference_of", of=keep_reference_adapter)
    # Exact in float32, also when 1 is added or it is taken three times.
    slope = 0.25 + float(torch.randint(2**17, (), generator=draw)) / 2**16
    return [
        example(ask, adapter=slope),
        example(ask, adapter=-slope, name="sft", rank=2, lora_alpha=2),
        example(ask, adapter=slope + 2**-10),
        example(ask, adapter=slope, lora_dropout=0.5),
    ]


def _steps(draw: torch.Generator) -> list[Call]:
    ask = scenario("steps_of", of=DistributedPPOTrainer.optimizer_step)
    found = []
    lengths = torch.tensor([2, 1, 4, 3, 1])
    mask = torch.arange(4) < lengths.unsqueeze(1)
    for processes, settings in (
        (2, {"max_grad_norm": 0.1}),
        (2, {"micro_batch_size": 1, "learning_rate": 0.5}),
        (3, {"micro_batch_size": 1, "ratio_threshold": 1.5}),
        (1, {"micro_batch_size": 2}),
        (4, {}),
    ):
        ratios = [1.0 + torch.rand(mask.shape, generator=draw, dtype=torch.float64) for _ in range(3)]
        ratios[1] = ratios[1] * torch.tensor([30.0, 1.0, 1.0, 1.0, 60.0]).double().unsqueeze(1)
        slopes = {"actor_slopes": normal_from(draw, 5, 4), "critic_slopes": normal_from(draw, 5, 4)}
        settings = {"adam_epsilon": 0.3, **settings}
        found.append(example(ask, **slopes, mask=mask, ratios=ratios, n_processes=processes, **settings))
    for ratio in (4.0, float("nan")):  # exactly the threshold, and no number at all
        ratios = [torch.full(mask.shape, ratio).double()]
        slopes = {"actor_slopes": normal_from(draw, 5, 4), "critic_slopes": normal_from(draw, 5, 4)}
        found.append(example(ask, **slopes, mask=mask, ratios=ratios, n_processes=2, ratio_threshold=4.0))
    return found


WHITENED = {"values": [[1.0, 2.0]], "mask": [[True, True]], "others": [[1.0, 8.0, 0.0]], "place": 0}

AGREEMENT = {gradient_weight: 1, plan_microbatches: 4, DistributedPPOTrainer.optimizer_step: 5}
DEFAULTS = [gradient_weight]
REFUSALS = {
    scenario("plan_of", of=plan_microbatches): (
        {"lengths": [3, 1], "n_processes": 2},
        {
            "no-rows": ({"lengths": torch.zeros(0).long()}, ["at least one row"]),
            "microbatches-of-no-rows": ({"micro_batch_size": 0}, ["micro_batch_size"]),
        },
    ),
    gradient_weight: (
        {"tokens": 1, "total_tokens": 4, "n_processes": 1},
        {
            "no-tokens-in-all": ({"total_tokens": 0}, ["total_tokens"]),
            "more-tokens-than-in-all": ({"tokens": 5}, ["tokens"]),
        },
    ),
    merge_statistics: (
        {"parts": [{"ratio_max": 1.0}]},
        {"more-counts-than-parts": ({"tokens": (1, 2)}, ["tokens"]), "no-token": ({"tokens": (0,)}, ["tokens"])},
    ),
    merge_moments: (
        {},
        {
            "no-token": ({"moments": torch.zeros(2, 3)}, ["moments"]),
            "a-single-row": ({"moments": torch.ones(3)}, ["moments"]),
        },
    ),
    scenario("whitened_of", of=global_masked_whiten): (
        WHITENED,
        {
            "all-masked": ({"mask": [[False, False]]}, ["mask"]),
            "mask-of-another-shape": ({"mask": [[True, True, True]]}, ["mask (1, 3)"]),
        },
    ),
    scenario("reference_of", of=keep_reference_adapter): (
        {"adapter": 0.5, "seconds": 60.0},
        {
            "no-adapter": ({"rank": 0}, ["peft", "Line"]),
            "a-reference-already": ({"name": "reference"}, ["never refreshed"]),
        },
    ),
}
