"""Lesson 11: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

import torch

from testcases.harness.suite.asserts import scenario
from tutorial.lesson11_scaling import (
    DistributedPPOTrainer,
    global_masked_whiten,
    gradient_weight,
    keep_reference_adapter,
    merge_moments,
    merge_statistics,
    plan_microbatches,
)

WHITENED = {"values": [[1.0, 2.0]], "mask": [[True, True]], "others": [[1.0, 8.0, 0.0]], "place": 0}

AGREEMENT = {gradient_weight: 1, plan_microbatches: 4, DistributedPPOTrainer.optimizer_step: 5}
DEFAULTS = [gradient_weight]
REFUSALS = {
    scenario("plan_of", of=plan_microbatches): (
        {"lengths": [3, 1], "n_processes": 2},
        {
            "no-rows": ({"lengths": torch.zeros(0).long()}, ["at least one row"]),
            "a-table": ({"lengths": torch.ones(2, 2).long()}, ["lengths (2, 2)"]),
            "no-process": ({"n_processes": 0}, ["n_processes"]),
            "microbatches-of-no-rows": ({"micro_batch_size": 0}, ["micro_batch_size"]),
        },
    ),
    gradient_weight: (
        {"tokens": 1, "total_tokens": 4, "n_processes": 1},
        {
            "no-tokens-in-all": ({"total_tokens": 0}, ["total_tokens"]),
            "more-tokens-than-in-all": ({"tokens": 5}, ["tokens"]),
            "negative-tokens": ({"tokens": -1}, ["tokens"]),
            "no-process": ({"n_processes": 0}, ["n_processes"]),
        },
    ),
    merge_statistics: (
        {"parts": [{"ratio_max": 1.0}]},
        {
            "more-counts-than-parts": ({"tokens": (1, 2)}, ["tokens"]),
            "no-token": ({"tokens": (0,)}, ["tokens"]),
            "no-counts": ({"tokens": ()}, ["tokens"]),
        },
    ),
    merge_moments: (
        {},
        {
            "no-token": ({"moments": torch.zeros(2, 3)}, ["moments"]),
            "a-single-row": ({"moments": torch.ones(3)}, ["moments"]),
            "two-numbers-a-part": ({"moments": torch.ones(2, 2)}, ["moments"]),
            "no-part": ({"moments": torch.zeros(0, 3)}, ["moments"]),
        },
    ),
    scenario("whitened_of", of=global_masked_whiten): (
        WHITENED,
        {
            "all-masked": ({"mask": [[False, False]]}, ["mask"]),
            "mask-of-numbers": ({"mask": [[1, 1]]}, ["bool"]),
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
