"""The contest's loop without a critic: advantages, losses and one update, each held against plain PyTorch."""

from types import SimpleNamespace

import pytest
import torch

from solutions.contest import loop
from solutions.contest.loop import Rollout
from solutions.contest.world import GROUP, MINIBATCHES, PRESET, Job
from testcases.course.memory_test import small_policy
from tiny_models.tokenizer import build_tokenizer

ROWS, LENGTH, PROMPT = 8, 5, 2
KL_COEF = 0.3
METHODS = {
    "RLOO": (loop.rloo_advantages, loop.rloo_loss),
    "GRPO": (loop.grpo_advantages, loop.grpo_loss),
    "Dr. GRPO": (loop.dr_grpo_advantages, loop.dr_grpo_loss),
    "DAPO": (loop.grpo_advantages, loop.dapo_loss),
}


def rollout_of(policy, seed: int = 0) -> Rollout:
    """Two groups of four responses of 1 to 5 tokens, sampled by nobody, read by the policy and by another one."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 12, (ROWS, PROMPT + LENGTH), generator=draw)
    mask = torch.arange(LENGTH) < torch.tensor([5, 1, 3, 4, 2, 5, 4, 1])[:, None]
    visible = torch.cat([torch.ones(ROWS, PROMPT, dtype=torch.bool), mask], dim=1)
    with torch.no_grad():
        old, ref = (log_probs(one, ids, visible) for one in (policy, small_policy(2).double()))
    scores = torch.randn(ROWS, generator=draw, dtype=torch.float64)
    return Rollout(ids, visible, mask, old, ref, scores)


def log_probs(policy, ids, visible):
    logits = policy(input_ids=ids, attention_mask=visible, position_ids=visible.cumsum(1) - 1).logits
    return logits[:, PROMPT - 1 : -1].log_softmax(-1).gather(-1, ids[:, PROMPT:, None]).squeeze(-1)


def test_a_sample_is_read_by_the_reference_and_a_response_without_an_end_loses_1():
    tokenizer = build_tokenizer()
    reference = small_policy(2, len(tokenizer)).double()
    stops = [torch.full((6,), score, dtype=torch.float64) for score in (2.0, 9.0, -9.0)]
    for scores, (ended, open_end) in zip(stops, [(2.0, 1.0), (5.0, 5.0), (-5.0, -5.0)], strict=True):
        world = SimpleNamespace(tokenizer=tokenizer, sft=reference, proxy=lambda *_, scores=scores: scores)
        policy, prompts = small_policy(1, len(tokenizer)).double(), ["review the film :", "how was the book ?"] * 3
        found = loop.sample(world, policy, prompts, torch.Generator().manual_seed(3))
        is_ended = (found.responses == tokenizer.eos_token_id).any(dim=1)
        assert 0 < is_ended.sum() < 6
        assert found.scores.tolist() == [ended if one else open_end for one in is_ended.tolist()]
        length = found.mask.shape[1]
        for of, told in ((policy, found.log_probs), (reference, found.ref_log_probs)):
            place = (found.visible.long().cumsum(1) - 1).clamp(min=0)
            logits = of(input_ids=found.ids, attention_mask=found.visible, position_ids=place).logits
            every = logits[:, -length - 1 : -1].log_softmax(-1).gather(-1, found.responses[..., None]).squeeze(-1)
            torch.testing.assert_close(told[found.mask], every[found.mask], rtol=0, atol=1e-9)


def advantages_by_hand(name: str, rollout: Rollout) -> list[float]:
    kl = ((rollout.log_probs - rollout.ref_log_probs) * rollout.mask).sum(dim=1)
    rewards = (rollout.scores - KL_COEF * kl if name == "RLOO" else rollout.scores).tolist()
    found = []
    for row, reward in enumerate(rewards):
        first = row - row % GROUP
        group = rewards[first : first + GROUP]
        mean = sum(group) / GROUP
        std = (sum((one - mean) ** 2 for one in group) / (GROUP - 1)) ** 0.5
        of_others = (sum(group) - reward) / (GROUP - 1)
        by_name = {"RLOO": reward - of_others, "Dr. GRPO": reward - mean}
        found.append(by_name.get(name, (reward - mean) / (std + 1e-4)))
    return found


@pytest.mark.parametrize("name", METHODS)
def test_the_advantage_of_a_response_is_that_in_its_group(name):
    rollout = rollout_of(small_policy().double())
    found = METHODS[name][0](rollout, KL_COEF)
    torch.testing.assert_close(found.tolist(), advantages_by_hand(name, rollout), rtol=0, atol=1e-12)


def loss_by_hand(name: str, now, rollout: Rollout, advantages):
    """Token by token, as the papers write it."""
    high = 0.28 if name == "DAPO" else 0.2
    by_row = []
    for row in range(ROWS):
        losses = []
        for t in range(int(rollout.mask[row].sum())):
            ratio = (now[row, t] - rollout.log_probs[row, t]).exp()
            loss = -torch.minimum(ratio * advantages[row], ratio.clamp(0.8, 1 + high) * advantages[row])
            to_reference = (rollout.ref_log_probs[row, t] - now[row, t]).exp()
            k3 = to_reference - 1 - to_reference.log()
            losses.append(loss if name == "RLOO" else loss + KL_COEF * ratio * k3)
        by_row.append(torch.stack(losses))
    if name == "GRPO":
        return torch.stack([losses.mean() for losses in by_row]).mean()
    if name == "Dr. GRPO":
        return torch.cat(by_row).sum() / (ROWS * PRESET.max_new_tokens)
    return torch.cat(by_row).mean()


@pytest.mark.parametrize("name", METHODS)
def test_the_loss_is_that_of_the_papers_in_value_and_gradient(name):
    """Away from the policy that sampled: ratios from 0.5 to 2, some of them between the two upper bounds."""
    rollout = rollout_of(small_policy().double())
    order = torch.randperm(ROWS * LENGTH, generator=torch.Generator().manual_seed(1))
    log_ratio = torch.linspace(-0.7, 0.7, ROWS * LENGTH, dtype=torch.float64)[order].view(ROWS, LENGTH)
    advantages, now = METHODS[name][0](rollout, KL_COEF), (rollout.log_probs + log_ratio).requires_grad_(True)
    found, expected = METHODS[name][1](now, rollout, advantages, KL_COEF), loss_by_hand(name, now, rollout, advantages)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(one, now)[0] for one in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)


def updated(name: str, epochs: int, seed: int = 5):
    policy = small_policy().double()
    rollout, (advantages_of, loss_of) = rollout_of(policy), METHODS[name]
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)
    job = Job(name, 0, 0.5, epochs, KL_COEF)
    shuffling = torch.Generator().manual_seed(seed)
    loop.update(policy, optimizer, rollout, advantages_of(rollout, KL_COEF), loss_of, job, shuffling)
    return policy, rollout


@pytest.mark.parametrize("name", METHODS)
def test_an_update_is_epochs_of_minibatches_of_whole_responses(name, monkeypatch):
    """Against a loop in plain PyTorch: the same rows, the gradient clipped to 1, one step each."""
    monkeypatch.setattr(loop, "MAX_UPDATE_KL", 99.0)
    ours, rollout = updated(name, epochs=2)
    policy, shuffling = small_policy().double(), torch.Generator().manual_seed(5)
    advantages = METHODS[name][0](rollout, KL_COEF)
    for _ in range(2):
        for index in torch.randperm(ROWS, generator=shuffling).split(ROWS // MINIBATCHES):
            now = log_probs(policy, rollout.ids[index], rollout.visible[index])
            loss = METHODS[name][1](now, rollout.rows(index), advantages[index], KL_COEF)
            slopes = torch.autograd.grad(loss, list(policy.parameters()))
            norm = torch.stack([slope.square().sum() for slope in slopes]).sum().sqrt()
            with torch.no_grad():
                for weight, slope in zip(policy.parameters(), slopes, strict=True):
                    weight -= 0.5 * slope * min(1.0, 1.0 / (norm.item() + 1e-6))
    for one, other in zip(ours.parameters(), policy.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_an_update_ends_when_the_policy_has_moved_far_enough(monkeypatch):
    steps = []
    take = loop.step
    monkeypatch.setattr(loop, "step", lambda *args: steps.append(0) or take(*args))
    counts = []
    for most in (99.0, 0.0):
        monkeypatch.setattr(loop, "MAX_UPDATE_KL", most)
        steps.clear()
        updated("RLOO", epochs=3)
        counts.append(len(steps))
    assert counts[0] == 3 * MINIBATCHES > counts[1] >= 1


def test_the_rate_rises_linearly_and_then_falls_to_0():
    optimizer = SimpleNamespace(param_groups=[{}])
    rates = []
    for number in (0, 2, 5, 16, 31):
        loop.set_learning_rate(optimizer, Job("", 0, 0.6, 1, 0.0), number, number / 32)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.3, 0.6 * 27 / 32, 0.3, 0.6 / 32])
