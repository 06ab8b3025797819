"""Ours against what TRL 1.12.0's own functions and training loop gave on the same inputs, in float64.

The record is final, because 1.12.0 is TRL's last release with `trl.experimental.ppo`; the program that made it is
`testcases/benchmarks/record_trl.py` at 56a893f8.

TRL lets an episode end one token later than ours: the score lies on the padding token after the stop, where its critic
is read once more. Ours is given TRL's mask (`padding_mask_p1`) wherever that token counts, and then agrees.
"""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from solutions.lesson01_masked_sequences import (
    first_true_index,
    gather_log_probs,
    masked_mean,
    masked_whiten,
    position_ids,
    response_log_probs,
    token_entropy,
    truncate_after_stop,
)
from solutions.lesson02_reward_model import last_token_index
from solutions.lesson04_gae import compute_response_gae
from solutions.lesson05_ppo_loss import (
    combine_losses,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    value_statistics,
)
from solutions.lesson06_kl_rewards import compute_rewards, estimate_kl, penalize_missing_stop
from testcases.harness.suite.asserts import as_tensor

RECORDED = json.loads(Path(__file__).with_name("trl_values.json").read_text("utf-8"))
SETTINGS, EOS, PAD = RECORDED["settings"], 1, 0
TEMPERATURE = SETTINGS["temperature"] + 1e-7  # as TRL divides


def tensors(values: dict) -> dict[str, Tensor]:
    return {name: as_tensor(value) for name, value in values.items()}


GIVEN, FUNCTIONS, LOSS = (tensors(RECORDED[name]) for name in ("given", "functions", "loss"))
ROLLOUTS = {name: tensors(one) for name, one in RECORDED["rollouts"].items()}
QUERIES, RESPONSES, VALUES = GIVEN["queries"], GIVEN["responses"], GIVEN["values"]
TOKENS = torch.cat([QUERIES, RESPONSES], dim=1)
PROMPT = QUERIES.shape[1]
MASK, LATER_MASK = (~ROLLOUTS["k1"][name] for name in ("padding_mask", "padding_mask_p1"))


def agree(ours: Tensor, theirs: Tensor, mask: Tensor | None = None) -> None:
    if mask is not None:
        ours, theirs = ours[mask], theirs[mask]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_lessons_1_and_2_agree_with_trl():
    scaled = GIVEN["logits"] / SETTINGS["temperature"]
    theirs = FUNCTIONS["selective_log_softmax"]
    agree(gather_log_probs(scaled[:, PROMPT - 1 : -1], RESPONSES), theirs)
    agree(response_log_probs(GIVEN["logits"], TOKENS, PROMPT, SETTINGS["temperature"]), theirs)
    agree(token_entropy(GIVEN["logits"][:, PROMPT - 1 : -1], TEMPERATURE), LOSS["entropy"])
    agree(masked_mean(VALUES, MASK), FUNCTIONS["masked_mean"])
    agree(masked_whiten(VALUES, MASK), FUNCTIONS["masked_whiten"], MASK)
    agree(masked_whiten(VALUES, MASK, shift_mean=False), FUNCTIONS["masked_whiten_keeping_the_mean"], MASK)
    assert torch.equal(truncate_after_stop(RESPONSES, (EOS,), PAD), FUNCTIONS["truncate_response"])
    assert torch.equal(truncate_after_stop(RESPONSES, (2,), PAD), FUNCTIONS["truncate_response_at_2"])
    assert torch.equal(first_true_index(RESPONSES == PAD), FUNCTIONS["first_true_indices"])
    real = TOKENS != PAD
    agree(position_ids(real), FUNCTIONS["position_ids"], real)
    assert torch.equal(last_token_index(real), FUNCTIONS["last_token"])


@pytest.mark.parametrize("whiten", [False, True], ids=["raw-rewards", "whitened-rewards"])
@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_lessons_4_and_6_agree_with_trl(estimator, whiten):
    theirs = ROLLOUTS[f"{estimator}{' whitened' * whiten}"]
    log_probs, ref_log_probs = (GIVEN[name].masked_fill(~MASK, 1.0) for name in ("old_logprobs", "ref_logprobs"))
    agree(estimate_kl(log_probs, ref_log_probs, estimator), theirs["kl"])
    scores = penalize_missing_stop(GIVEN["scores"], RESPONSES, (EOS,), SETTINGS["missing_eos_penalty"])
    agree(scores, theirs["scores"])
    coefficients = SETTINGS["kl_coef"], 1e9, estimator
    rewards = compute_rewards(scores, log_probs, ref_log_probs, LATER_MASK, *coefficients)
    if whiten:
        rewards = masked_whiten(rewards, LATER_MASK, shift_mean=False)
    agree(rewards, theirs["rewards"])
    advantages, returns = compute_response_gae(rewards, VALUES, LATER_MASK, SETTINGS["gamma"], SETTINGS["lam"])
    agree(returns, theirs["returns"], LATER_MASK)
    agree(masked_whiten(advantages, MASK), theirs["advantages"])


def test_lesson_5_agrees_with_trl_in_value_and_gradient():
    logits, values = (GIVEN[name].clone().requires_grad_(True) for name in ("logits", "new_values"))
    log_probs = response_log_probs(logits, TOKENS, PROMPT, TEMPERATURE)
    agree(log_probs, LOSS["new_logprobs"], MASK)
    rows = log_probs, GIVEN["old_logprobs"], GIVEN["advantages"], SETTINGS["cliprange"], MASK
    policy_loss = compute_ppo_loss(*rows)
    value_loss = compute_value_loss(values, VALUES, GIVEN["returns"], SETTINGS["cliprange_value"], LATER_MASK)
    loss = combine_losses(policy_loss, value_loss, torch.zeros_like(policy_loss), SETTINGS["vf_coef"])
    loss.backward()
    for ours, name in ((policy_loss, "pg_loss"), (value_loss, "vf_loss"), (loss, "loss")):
        agree(ours.detach(), LOSS[name])
    agree(logits.grad, LOSS["logits_grad"])
    agree(values.grad, LOSS["values_grad"])
    # theirs are means of float32 zeros and ones
    assert 0 < ppo_statistics(*rows)["clip_fraction"] == pytest.approx(LOSS["pg_clipfrac"].item(), abs=1e-6)
    rows = values.detach(), VALUES, GIVEN["returns"], SETTINGS["cliprange_value"], LATER_MASK
    fraction = value_statistics(*rows)["value_clip_fraction"]
    assert 0 < fraction == pytest.approx(LOSS["vf_clipfrac"].item(), abs=1e-6)
