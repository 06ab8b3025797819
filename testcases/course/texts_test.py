"""Numbers that a text quotes and that no program of the text prints."""

import random

import pytest
import torch

from ppo_by_hand.core.texts import encode_prompts
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson06_kl_rewards import estimate_kl
from solutions.lesson08_rollout import generate
from solutions.lesson13_after_ppo import kl_token_losses
from testcases.harness.catalog.lessons import TUTORIAL
from tiny_models.checkpoints import REWARD_MODEL, SFT
from tiny_models.language import sample_prompts
from tiny_models.tokenizer import build_tokenizer

WORDS = 3


def text(lesson: str) -> str:
    return " ".join((TUTORIAL / lesson / "README.md").read_text("utf-8").split())


def test_lesson_2_four_times_superb_beats_nine_of_ten_reviews():
    from transformers import AutoModelForCausalLM

    tokenizer, reward_model = build_tokenizer(), RewardModel.from_pretrained(REWARD_MODEL).eval()
    ids, visible = encode_prompts(sample_prompts(512, random.Random(1)), tokenizer, tokenizer.pad_token_id)
    sft, sampling = AutoModelForCausalLM.from_pretrained(SFT).eval(), torch.Generator().manual_seed(0)
    found = generate(sft, ids, visible, 20, (tokenizer.eos_token_id,), tokenizer.pad_token_id, generator=sampling)
    trick = tokenizer(["review the film : superb superb superb superb ."], return_tensors="pt")
    with torch.no_grad():
        usual = reward_model(torch.cat([ids, found.responses], 1), torch.cat([visible, found.mask], 1))
        score = reward_model(trick["input_ids"], trick["attention_mask"].bool())
    assert (usual < score).float().mean() > 0.9
    assert '"superb superb superb superb ." It puts this above more than 90 % of the SFT model\'s' in text(
        "lesson02_reward_model"
    )


def test_lesson_6_k3_varies_more_than_k1_far_from_the_reference():
    policy = torch.tensor([0.97, 0.01, 0.01, 0.01], dtype=torch.float64)
    deviations = []
    for name in ("k1", "k3"):
        one = estimate_kl(policy.log(), torch.full((4,), 0.25, dtype=torch.float64).log(), name)
        mean = (policy * one).sum()
        assert mean.item() == pytest.approx(1.22, abs=0.005)
        deviations.append((policy * (one - mean) ** 2).sum().sqrt().item())
    said = text("lesson06_kl_rewards")
    assert f"the standard deviation of $k_1$ is {deviations[0]:.2f}, while that of $k_3$ is {deviations[1]:.2f}" in said


def gradients(shift: float) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Of the mean of ratio * k3 over all responses of two tokens, and of the KL of the response; by both logits."""
    torch.manual_seed(0)
    logits = [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((WORDS,), (WORDS, WORDS))]
    reference = [torch.randn(*size, dtype=torch.float64) for size in ((WORDS,), (WORDS, WORDS))]
    sampler = [one.detach() + shift * torch.randn(one.shape, dtype=torch.float64) for one in logits]
    now, old, ref = (of_all_responses(*one) for one in (logits, sampler, reference))
    kl = (now.sum(1).exp() * (now.sum(1) - ref.sum(1))).sum()
    mask = torch.ones(now.shape, dtype=torch.bool)
    loss = (old.sum(1).exp()[:, None] * kl_token_losses(now, old, ref, mask)).sum()
    of_loss, of_kl = (list(torch.autograd.grad(one, logits, retain_graph=True)) for one in (loss, kl))
    return of_loss, of_kl


def of_all_responses(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    one, two = first.log_softmax(0), second.log_softmax(1)
    return torch.stack([torch.stack([one[a], two[a, b]]) for a in range(WORDS) for b in range(WORDS)])


def test_lesson_13_the_gradient_of_ratio_times_k3_is_that_of_each_tokens_kl_only():
    of_loss, of_kl = gradients(shift=0.0)
    torch.testing.assert_close(of_loss[1], of_kl[1])
    said = (", ".join(f"{one:.3f}" for one in gradient[0].tolist()) for gradient in (of_loss, of_kl))
    assert "gave [{}] for the logits of the first token, and the gradient of the KL is [{}]".format(*said) in text(
        "lesson13_after_ppo"
    )
    of_loss, of_kl = gradients(shift=0.7)
    assert (of_loss[1] - of_kl[1]).abs().max() > 0.01, "after a step the prefixes are the old policy's"
