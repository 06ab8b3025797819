"""Small models and trainers for the tests: a run of them takes a second."""

from typing import Any

import torch
from torch import Tensor

from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference
from solutions.lesson08_rollout import Experience
from solutions.lesson09_ppo_trainer import PPOConfig, PPOTrainer
from tiny_models.builders import build_gpt2

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 5, 6], [4], [7, 7]]


def small_policy(seed: int = 1, words: int = 12) -> Any:
    return build_gpt2(words, n_layer=1, n_embd=16, n_head=2, eos_token_id=1, pad_token_id=0, seed=seed)


class TokenSum(torch.nn.Module):
    """A reward model that notices any token, and the mask."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return (input_ids * attention_mask).double().sum(dim=1) / 10


class Numbers:
    """A tokenizer whose words are the ids themselves."""

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return " ".join(map(str, ids))


def actor_and_critic(policy: Any) -> PolicyAndValue:
    """The critic starts as a copy of the policy, with a head that is the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PolicyAndValue(policy, ValueModel(make_reference(policy).base_model.requires_grad_(True)))


def small_trainer(
    kind: type[PPOTrainer] = PPOTrainer, parts: dict[str, Any] | None = None, words: int = 12, **settings: Any
) -> Any:
    """A trainer in float64; `parts` replace its own, by the names of the trainer's arguments."""
    policy = small_policy(words=words)
    own = {"model": actor_and_critic(policy).double(), "reward_model": TokenSum(), "ref_model": make_reference(policy)}
    options = {"num_updates": 2, "batch_size": 5, "max_new_tokens": 6, "num_minibatches": 2, "num_epochs": 2}
    config = PPOConfig(stop_token_ids=(1, 2), pad_token_id=0, **options | settings)
    return kind(**{**own, "config": config, **(parts or {})})


def rolled_out(trainer: PPOTrainer, prompts: list[Any]) -> Experience:
    """Responses to the prompts and their rewards."""
    return trainer.compute_rewards(trainer.generate_responses(prompts), prompts)
