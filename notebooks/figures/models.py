"""The models that come with the course, and the response of all lessons in them."""

from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from tiny_models import checkpoints

logging.disable_progress_bar()
logging.set_verbosity_error()

TOKENIZER = AutoTokenizer.from_pretrained(checkpoints.SFT)
PAD, EOS = TOKENIZER.pad_token_id, TOKENIZER.eos_token_id


def sft_model() -> Any:
    return AutoModelForCausalLM.from_pretrained(checkpoints.SFT).eval()


def trained_critic(lessons: SimpleNamespace, reward: ModuleType) -> nn.Module:
    return lessons.actor_critic.critic_from_reward_model(reward.RewardModel.from_pretrained(checkpoints.CRITIC)).eval()


def shipped_policy_and_critic(lessons: SimpleNamespace, reward: ModuleType) -> nn.Module:
    """The policy after three updates of PPO, and the critic of that moment."""
    policy = AutoModelForCausalLM.from_pretrained(checkpoints.POLICY)
    return lessons.actor_critic.PolicyAndValue(policy, trained_critic(lessons, reward)).eval()


@torch.no_grad()
def evaluated(
    lessons: SimpleNamespace, model: Any, reference: nn.Module, score: Any, config: Any, kl_coef: float
) -> Any:
    """What lesson 8's `evaluate_responses` stores for the response, as if the policy had just sampled it."""
    prompt = TOKENIZER(checkpoints.PROMPT, return_tensors="pt").input_ids
    response = TOKENIZER(f"{checkpoints.RESPONSE} {TOKENIZER.eos_token}", return_tensors="pt").input_ids
    text, mask = torch.cat([prompt, response], 1), torch.ones_like(response, dtype=torch.bool)
    visible = torch.ones_like(text, dtype=torch.bool)
    logits = lessons.actor_critic.response_logits(model.policy, text, visible, prompt.shape[1])
    log_probs = lessons.masked.gather_log_probs(logits, response)
    generation = lessons.rollout.Generation(response, log_probs, mask)
    only_prompt = visible[:, : prompt.shape[1]]
    return lessons.rollout.evaluate_responses(model, reference, score, prompt, only_prompt, generation, config, kl_coef)
