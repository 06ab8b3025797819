"""Rebuild the small models that the course ships, so that lessons and notebooks need not train them first.

python -m testcases.course.checkpoints
"""

import copy
import json
import random
import shutil
from dataclasses import replace
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoModelForCausalLM

from solutions.demo.run import ppo_config
from solutions.demo.stages import train_reward_stage, train_sft_stage
from solutions.lesson01_masked_sequences import gather_log_probs
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, critic_from_reward_model, make_reference, response_logits
from solutions.lesson09_ppo_trainer import PPOTrainer
from tiny_models import checkpoints
from tiny_models.checkpoints import (
    CRITIC,
    DIRECTORY,
    MANIFEST,
    ONE_RESPONSE,
    POLICY,
    PROMPT,
    RESPONSE,
    REWARD_MODEL,
    SFT,
)
from tiny_models.language import sample_prompts
from tiny_models.presets import find_preset
from tiny_models.tokenizer import build_tokenizer

SEED = 0
CRITIC_SEED = 1
CRITIC_UPDATES, POLICY_UPDATES = 40, 3
NO_VALUE_CLIP = 1e9
DIGITS = 4


def rebuild() -> None:
    """Train the models of preset `tiny` and write them with their manifest."""
    preset, tokenizer = find_preset("tiny"), build_tokenizer()
    torch.set_num_threads(1)
    stage1 = train_sft_stage(preset, tokenizer, SEED)
    stage2 = train_reward_stage(stage1.policy, preset, tokenizer, SEED)
    _write({SFT: stage1.policy, REWARD_MODEL: stage2.reward_model})
    trainer = train_critic(preset, tokenizer)
    critic = RewardModel(trainer.accelerator.unwrap_model(trainer.model).value_model.backbone)
    critic.head = trainer.accelerator.unwrap_model(trainer.model).value_model.head
    _write({POLICY: trainer.policy, CRITIC: critic})
    ONE_RESPONSE.write_text(json.dumps(read_one_response(), indent=1) + "\n")
    about = {
        "command": "python -m testcases.course.checkpoints",
        "preset": preset.name,
        "seed": SEED,
        "world": checkpoints.world_digest(),
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "sft_loss": round(stage1.losses[-1], 4),
        "reward_model_accuracy": round(stage2.accuracy, 4),
        "critic_explained_variance": round(trainer.history[-1]["explained_variance"], 4),
        "files": checkpoints.digests(),
    }
    MANIFEST.write_text(json.dumps(about, indent=2) + "\n")
    print(f"wrote {DIRECTORY.relative_to(DIRECTORY.parents[1])}: {about['critic_explained_variance']=}")


def train_critic(preset: Any, tokenizer: Any) -> PPOTrainer:
    """Stage 3 in its beginning: the critic learns alone, without the value clip, and then a little with the policy."""
    config = replace(
        ppo_config(preset, tokenizer, CRITIC_SEED, preset.kl_coef),
        num_updates=CRITIC_UPDATES + POLICY_UPDATES,
        critic_learning_rate=preset.ppo_learning_rate,
        value_clip_epsilon=NO_VALUE_CLIP,
    )
    sft: Any = AutoModelForCausalLM.from_pretrained(SFT)
    reward_model = RewardModel.from_pretrained(REWARD_MODEL)
    model = PolicyAndValue(copy.deepcopy(sft).requires_grad_(True), critic_from_reward_model(reward_model))
    trainer = PPOTrainer(model, reward_model, make_reference(sft), config, tokenizer)
    policy, _ = trainer.optimizer.param_groups
    rate, policy["initial_lr"] = policy["initial_lr"], 0.0

    def on_update(trainer: PPOTrainer) -> None:
        if trainer.updates_done == CRITIC_UPDATES:
            policy["initial_lr"] = rate

    trainer.train(sample_prompts(2048, random.Random(CRITIC_SEED)), on_update)
    return trainer


@torch.no_grad()
def read_one_response() -> dict[str, Any]:
    """What the shipped models say of the course's response, token by token."""
    tokenizer = build_tokenizer()
    prompt, response = tokenizer(PROMPT)["input_ids"], tokenizer(RESPONSE)["input_ids"] + [tokenizer.eos_token_id]
    ids, start = torch.tensor([prompt + response]), len(prompt)
    mask = torch.ones_like(ids, dtype=torch.bool)

    def log_probs(directory: Any) -> Tensor:
        model: Any = AutoModelForCausalLM.from_pretrained(directory).eval()
        return gather_log_probs(response_logits(model, ids, mask, start), ids[:, start:])

    critic = critic_from_reward_model(RewardModel.from_pretrained(CRITIC)).eval()
    numbers = {
        "log_probs": log_probs(POLICY),
        "ref_log_probs": log_probs(SFT),
        "values": critic(ids, mask)[:, start - 1 : -1],
        "score": RewardModel.from_pretrained(REWARD_MODEL).eval()(ids, mask),
    }
    rounded = {name: [round(x, DIGITS) + 0.0 for x in tensor.flatten().tolist()] for name, tensor in numbers.items()}
    words = {"prompt": PROMPT, "tokens": [*RESPONSE.split(), "<eos>"]}
    return words | rounded | {"score": rounded["score"][0], "kl_coef": find_preset("tiny").kl_coef}


def _write(models: dict[Any, Any]) -> None:
    for directory, model in models.items():
        shutil.rmtree(directory, ignore_errors=True)
        model.save_pretrained(directory)
        if directory in (SFT, POLICY):
            build_tokenizer().save_pretrained(directory)


if __name__ == "__main__":
    rebuild()
