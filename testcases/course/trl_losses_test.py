"""Lesson 13 against what TRL 1.12.0's GRPO, RLOO and DPO trainers gave on the same batch.

The record is final; the program that made it is `testcases/benchmarks/record_trl_losses.py` at 56a893f8."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from solutions.lesson01_masked_sequences import response_log_probs
from solutions.lesson03_policy_gradient import leave_one_out_baseline
from solutions.lesson13_after_ppo import (
    clipped_token_losses,
    dpo_loss,
    group_advantages,
    kl_token_losses,
    reduce_losses,
    sequence_ratio,
)
from testcases.harness.suite.asserts import as_tensor

RECORDED = json.loads(Path(__file__).with_name("trl_losses.json").read_text("utf-8"))
GIVEN, ADVANTAGES = (
    {name: as_tensor(value) for name, value in RECORDED[part].items()} for part in ("given", "advantages")
)
PROMPTS, RESPONSES = GIVEN["prompts"], GIVEN["responses"]
TOKENS, MASK = torch.cat([PROMPTS, RESPONSES], dim=1), RESPONSES != 0
SCORES = GIVEN["scores"].view(-1, 4)
EPSILON = 1e-4  # TRL's, a number in its code
HALVES = slice(0, 4), slice(4, None)


def log_probs(table: Tensor) -> Tensor:
    """Of the responses' tokens under the model of one table: the row of a token has the logits of the next one."""
    return response_log_probs(table[TOKENS], TOKENS, PROMPTS.shape[1])


OLD, REF = log_probs(GIVEN["old_table"]), log_probs(GIVEN["ref_table"])


def agree(ours: Tensor, theirs: list | float | Tensor) -> None:
    theirs = theirs if isinstance(theirs, Tensor) else as_tensor(theirs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def clipped(now: Tensor, advantages: Tensor, high: float) -> Tensor:
    return clipped_token_losses(now, OLD, advantages, MASK, 0.2, high)


def clipped_responses(ratio: Tensor, advantages: Tensor, high: float) -> Tensor:
    """The loss of each response from its one ratio, as if it were a token."""
    alone = torch.ones(len(ratio), 1, dtype=torch.bool)
    return clipped_token_losses(ratio.log()[:, None], torch.zeros(len(ratio), 1), advantages, alone, 0.2, high)


def ours(name: str, now: Tensor) -> Tensor:
    advantages = as_tensor(RECORDED["losses"][name]["advantages"])
    if name == "grpo":
        return reduce_losses(clipped(now, advantages, 0.2), MASK, "responses")
    if name == "dapo":
        return reduce_losses(clipped(now, advantages, 0.28), MASK, "tokens")
    if name == "dr_grpo":
        return reduce_losses(clipped(now, advantages, 0.2), MASK, "constant", constant=9.0)
    if name == "kl":
        return reduce_losses(
            clipped(now, advantages, 0.28) + 0.3 * kl_token_losses(now, OLD, REF, MASK), MASK, "tokens"
        )
    ratio, high = sequence_ratio(now, OLD, MASK, per_token=name == "gspo"), 0.2 if name == "gspo" else 0.3
    return clipped_responses(ratio, advantages, high).mean()


def test_the_batch_is_clipped_on_both_sides_and_ragged():
    """Else an agreement would show little."""
    ratio = (log_probs(GIVEN["table"]) - OLD).exp()[MASK]
    assert (ratio < 0.8).any() and (ratio > 1.28).any() and ((ratio > 1.2) & (ratio < 1.28)).any()
    assert len(set(MASK.sum(dim=1).tolist())) > 3


def test_advantages_of_a_group_agree_with_trl():
    agree(group_advantages(SCORES, EPSILON).flatten(), ADVANTAGES["grpo"])
    agree(group_advantages(SCORES, divide_by_std=False).flatten(), ADVANTAGES["dr_grpo"])
    agree((SCORES - leave_one_out_baseline(SCORES)).flatten(), ADVANTAGES["rloo"])
    agree(ADVANTAGES["rloo"] * 3 / 4, ADVANTAGES["dr_grpo"])


@pytest.mark.parametrize("name", ["grpo", "dapo", "dr_grpo", "gspo", "kl", "rloo"])
def test_the_loss_and_its_gradient_agree_with_trl(name):
    table = GIVEN["table"].clone().requires_grad_(True)
    loss = ours(name, log_probs(table))
    loss.backward()
    agree(loss.detach(), RECORDED["losses"][name]["loss"])
    agree(table.grad, RECORDED["losses"][name]["gradient"])


def test_dpo_agrees_with_trl():
    table = GIVEN["table"].clone().requires_grad_(True)
    now, ref = ((values * MASK).sum(dim=1) for values in (log_probs(table), REF))
    chosen, rejected = HALVES
    loss = dpo_loss(now[chosen], now[rejected], ref[chosen], ref[rejected], beta=0.7)
    loss.backward()
    agree(loss.detach(), RECORDED["losses"]["dpo"]["loss"])
    agree(table.grad, RECORDED["losses"]["dpo"]["gradient"])
