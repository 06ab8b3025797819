"""Child of learning.py: TRL's trainer in the toy environment, from .venv-bench; its order comes as JSON on stdin."""

from __future__ import annotations

import copy
import json
import sys
import tempfile
from typing import Any

import torch
from datasets import Dataset
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2ForSequenceClassification, PrinterCallback
from trl.experimental.ppo import PPOConfig, PPOTrainer

from solutions.lesson02_reward_model import RewardModel
from tiny_models.checkpoints import REWARD_MODEL, SFT


def as_classifier(reward_model: RewardModel) -> GPT2ForSequenceClassification:
    """The same body and head as transformers' own class, which has no bias: the calibration put one there."""
    config = copy.deepcopy(reward_model.backbone.config)
    config.num_labels = 1
    model = GPT2ForSequenceClassification(config)
    model.transformer = copy.deepcopy(reward_model.backbone)
    model.score = copy.deepcopy(reward_model.head)
    return model


def train(order: dict[str, Any], output: str) -> None:
    """Train as ordered and save the policy."""
    prompts = Dataset.from_list([{"input_ids": prompt} for prompt in order.pop("prompts")])
    folder, shares = order.pop("folder"), order.pop("learning_rate_shares")
    config = PPOConfig(
        output_dir=output,
        gradient_accumulation_steps=1,
        stop_token="eos",
        num_sample_generations=0,
        weight_decay=0.0,
        optim="adamw_torch_fused",
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **order,
    )
    reward_model = RewardModel.from_pretrained(REWARD_MODEL)
    trainer = PPOTrainer(
        args=config,
        processing_class=AutoTokenizer.from_pretrained(SFT),
        model=AutoModelForCausalLM.from_pretrained(SFT),
        ref_model=AutoModelForCausalLM.from_pretrained(SFT),
        reward_model=as_classifier(reward_model).requires_grad_(False),
        value_model=as_classifier(reward_model).requires_grad_(True),
        train_dataset=prompts,
        eval_dataset=prompts.select(range(1)),
    )
    trainer.lr_scheduler = LambdaLR(trainer.optimizer, lambda update: shares[min(update, len(shares) - 1)])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trainer.policy_model.save_pretrained(folder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        train(json.load(sys.stdin), scratch)
