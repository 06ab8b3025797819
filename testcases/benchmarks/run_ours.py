"""Child: the course's trainer on a workload, run from the course's own environment."""

import dataclasses
import os
import sys
from typing import Any

import torch

from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel
from solutions.lesson09_ppo_trainer import PPOConfig, PPOTrainer

from .relay import Relay
from .workload import ADAM_EPSILON, LEARNING_RATE, Workload

ENDLESS = 1_000_000


def make_trainer(work: Workload) -> PPOTrainer:
    """Policy, critic, reward model and reference of the workload's shape, under the course's trainer."""
    config = PPOConfig(
        stop_token_ids=(0,),
        pad_token_id=0,  # nothing is ever padded
        max_new_tokens=work.response,
        missing_stop_penalty=0.0,
        num_updates=ENDLESS,
        batch_size=work.batch,
        num_epochs=work.epochs,
        num_minibatches=work.minibatches,
        micro_rollout_batch_size=work.rollout,
        micro_batch_size=work.micro,
        learning_rate=LEARNING_RATE,
    )
    torch.manual_seed(0)
    model = PolicyAndValue(work.language_model(0), ValueModel(work.language_model(1).transformer))
    reward_model = RewardModel(work.language_model(2).transformer)
    trainer = PPOTrainer(model, reward_model, work.language_model(0), config, optimizer=adam)
    # A trainer asks for a token that may come; here no response may end.
    trainer.config = dataclasses.replace(config, stop_token_ids=(work.never,))
    return trainer


def adam(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, eps=ADAM_EPSILON, weight_decay=0.0, fused=True)


def main() -> None:
    work = Workload.from_json(sys.argv[1])
    os.environ["ACCELERATE_MIXED_PRECISION"] = work.precision  # where Accelerator() looks for it
    trainer, relay = make_trainer(work), Relay()
    relay.wait()
    trainer.train(work.prompts(), lambda _: relay.update_done())


if __name__ == "__main__":
    main()
