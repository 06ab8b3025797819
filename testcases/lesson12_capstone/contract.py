"""Lesson 12: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import scenario
from testcases.lesson12_capstone.examples import demonstrations
from tutorial.lesson12_capstone import evaluate_policy, sft_loss, train_sft

# The checks are given, above the solution; they have to stay there.
ROWS = {"logits": normal(2, 3, 4), "input_ids": [[1, 2, 0]] * 2, "loss_mask": [[False, True, True]] * 2}
BAD_ROWS = {
    "only-the-first-column": ({"loss_mask": [[True, False, False]] * 2}, ["at least one True"]),
    "mask-of-numbers": ({"loss_mask": [[1, 1, 1]] * 2}, ["bool"]),
    "another-length": ({"loss_mask": [[True, True]] * 2}, ["loss_mask (2, 2)"]),
    "rows-would-broadcast": ({"input_ids": [[1, 2, 0]]}, ["input_ids (1, 3)"]),
}
FIT = {"table": normal(6, 6), **demonstrations(torch.Generator().manual_seed(1), 2)}
FIT |= {"learning_rate": 0.1, "batch_size": 2}
NOTHING = {name: FIT[name][:0] for name in ("input_ids", "attention_mask", "loss_mask")}

AGREEMENT = {evaluate_policy: 1}
REFUSALS = {
    sft_loss: (ROWS, BAD_ROWS),
    scenario("fitted_of", of=train_sft): (FIT, {"no-demonstrations": (NOTHING, ["demonstrations"])}),
}
