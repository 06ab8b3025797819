"""Lesson 13 and the methods of the contest against what TRL 1.12.0's GRPO, RLOO and DPO trainers gave on one batch.

The record is final; the program that made it is `testcases/benchmarks/record_trl_losses.py` at 56a893f8."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from solutions.contest import loop
from solutions.lesson01_masked_sequences import response_log_probs
from solutions.lesson05_ppo_loss import compute_ppo_loss
from solutions.lesson13_after_ppo import clipped_token_losses, dpo_loss, group_advantages, sequence_ratio
from testcases.harness.suite.asserts import as_tensor

RECORDED = json.loads(Path(__file__).with_name("trl_losses.json").read_text("utf-8"))
GIVEN, ADVANTAGES = (
    {name: as_tensor(value) for name, value in RECORDED[part].items()} for part in ("given", "advantages")
)
PROMPTS, RESPONSES = GIVEN["prompts"], GIVEN["responses"]
TOKENS, MASK = torch.cat([PROMPTS, RESPONSES], dim=1), RESPONSES != 0
HALVES = slice(0, 4), slice(4, None)


def log_probs(table: Tensor) -> Tensor:
    """Of the responses' tokens under the model of one table: the row of a token has the logits of the next one."""
    return response_log_probs(table[TOKENS], TOKENS, PROMPTS.shape[1])


OLD, REF = log_probs(GIVEN["old_table"]), log_probs(GIVEN["ref_table"])
ROLLOUT = loop.Rollout(TOKENS, TOKENS != 0, MASK, OLD, REF, GIVEN["scores"].flatten())


def agree(ours: Tensor, theirs: list | float | Tensor) -> None:
    theirs = theirs if isinstance(theirs, Tensor) else as_tensor(theirs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def of_whole_responses(now: Tensor, advantages: Tensor, high: float, per_token: bool) -> Tensor:
    """The loss of each response from its one ratio, as if it were a token."""
    ratio, alone = sequence_ratio(now, OLD, MASK, per_token), torch.ones(len(MASK), 1, dtype=torch.bool)
    return clipped_token_losses(ratio.log()[:, None], torch.zeros(len(MASK), 1), advantages, alone, 0.2, high).mean()


def ours(name: str, now: Tensor, advantages: Tensor) -> Tensor:
    if name in ("gspo", "rloo"):
        return of_whole_responses(now, advantages, *((0.2, True) if name == "gspo" else (0.3, False)))
    loss = {"grpo": loop.grpo_loss, "dr_grpo": loop.dr_grpo_loss}.get(name, loop.dapo_loss)
    # The constants of the contest and of TRL.
    per_token = loop.PRESET.max_new_tokens / 9.0 if name == "dr_grpo" else 1.0
    return per_token * loss(now, ROLLOUT, advantages, 0.3 if name == "kl" else 0.0)


def test_advantages_of_a_group_agree_with_trl():
    agree(loop.grpo_advantages(ROLLOUT, 0.3), ADVANTAGES["grpo"])
    agree(loop.dr_grpo_advantages(ROLLOUT, 0.3), ADVANTAGES["dr_grpo"])
    agree(loop.rloo_advantages(ROLLOUT, 0.0), ADVANTAGES["rloo"])
    priced = ROLLOUT.scores - 0.3 * ((OLD - REF) * MASK).sum(dim=1)  # the contest's KL, in the reward of a response
    agree(loop.rloo_advantages(ROLLOUT, 0.3), loop.rloo_advantages(replace(ROLLOUT, scores=priced), 0.0))
    of_groups = group_advantages(priced.view(-1, 4), divide_by_std=False).flatten()
    agree(of_groups * 4 / 3, loop.rloo_advantages(ROLLOUT, 0.3))


@pytest.mark.parametrize("name", ["grpo", "dapo", "dr_grpo", "gspo", "kl", "rloo"])
def test_the_loss_and_its_gradient_agree_with_trl(name):
    table = GIVEN["table"].clone().requires_grad_(True)
    loss = ours(name, log_probs(table), as_tensor(RECORDED["losses"][name]["advantages"]))
    loss.backward()
    agree(loss.detach(), RECORDED["losses"][name]["loss"])
    agree(table.grad, RECORDED["losses"][name]["gradient"])


def test_the_contests_rloo_takes_the_loss_of_lesson_5():
    """TRL's has one ratio for a response; the contest gives every method that of a token."""
    now, advantages = log_probs(GIVEN["table"]), ADVANTAGES["rloo"]
    wanted = compute_ppo_loss(now, OLD, advantages[:, None].expand_as(now), 0.2, MASK)
    agree(loop.rloo_loss(now, ROLLOUT, advantages, 0.3), wanted)


def test_dpo_agrees_with_trl():
    table = GIVEN["table"].clone().requires_grad_(True)
    now, ref = ((values * MASK).sum(dim=1) for values in (log_probs(table), REF))
    chosen, rejected = HALVES
    loss = dpo_loss(now[chosen], now[rejected], ref[chosen], ref[rejected], beta=0.7)
    loss.backward()
    agree(loss.detach(), RECORDED["losses"]["dpo"]["loss"])
    agree(table.grad, RECORDED["losses"]["dpo"]["gradient"])
