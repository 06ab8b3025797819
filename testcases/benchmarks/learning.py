"""What both trainers learn from the same episodes: PPO in the toy environment from the shipped models, over five seeds.

    python -m testcases.benchmarks.learning

Same SFT policy, reward model (which is also where the critic starts), prompts, batch, epochs, minibatches, learning
rate and its schedule, KL price, discount, lambda, clips and missing-stop penalty. What TRL does not do is off in ours:
the early end of an update, and clipping gradients (its PPOTrainer reads `max_grad_norm` and does not clip). The gold
score, which neither sees, is the mean over 768 prompts that were not trained on. Writes runs/bench/learning.json.
"""

import argparse
import dataclasses
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from solutions.apps.demo import ppo_config
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, critic_from_reward_model, make_reference
from solutions.lesson09_ppo_trainer import PPOTrainer, make_scorer
from solutions.lesson12_capstone.evaluation import evaluate_policy
from tiny_models.checkpoints import REWARD_MODEL, SFT
from tiny_models.language import sample_prompts
from tiny_models.presets import find_preset

from .relay import ROOT
from .trainer import LABELS, OURS, TRL, TRL_PYTHON, written

PRESET = find_preset("tiny")


def train_ours(seed: int, prompts: list[str], folder: Path) -> None:
    """Train with the course's trainer and save the policy."""
    tokenizer = AutoTokenizer.from_pretrained(SFT)
    policy, reward_model = AutoModelForCausalLM.from_pretrained(SFT), RewardModel.from_pretrained(REWARD_MODEL)
    model = PolicyAndValue(policy, critic_from_reward_model(reward_model))
    config = dataclasses.replace(_config(tokenizer, seed), max_update_kl=None, max_grad_norm=1e9)
    trainer = PPOTrainer(model, reward_model, make_reference(policy), config, tokenizer)
    trainer.train(prompts)
    trainer.policy.save_pretrained(folder)


def train_trl(seed: int, prompts: list[str], folder: Path) -> None:
    """Train with TRL in its own environment; it saves the policy.

    Raises:
        RuntimeError: it failed, with the last lines it said.
    """
    tokenizer = AutoTokenizer.from_pretrained(SFT)
    config = _config(tokenizer, seed)
    order = {
        "seed": seed,
        "folder": str(folder),
        "prompts": [tokenizer(prompt)["input_ids"] for prompt in prompts],
        "num_ppo_epochs": config.num_epochs,
        "num_mini_batches": config.num_minibatches,
        "per_device_train_batch_size": config.batch_size,
        "response_length": config.max_new_tokens,
        "temperature": config.temperature,
        "missing_eos_penalty": config.missing_stop_penalty,
        "learning_rate": config.learning_rate,
        "learning_rate_shares": [
            min((update + 1) / (config.warmup_updates + 1), 1 - update / config.num_updates)
            for update in range(config.num_updates)
        ],
        "adam_epsilon": config.adam_epsilon,
        "max_grad_norm": config.max_grad_norm,
        "kl_coef": config.kl_coef,
        "gamma": config.gamma,
        "lam": config.lam,
        "cliprange": config.clip_epsilon,
        "cliprange_value": config.value_clip_epsilon,
        "vf_coef": config.value_coef,
        "total_episodes": config.num_updates * config.batch_size,
    }
    done = subprocess.run(
        [str(TRL_PYTHON), "-m", f"{__package__}.learn_trl"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if done.returncode:
        raise RuntimeError("TRL failed:\n" + "\n".join(done.stderr.strip().splitlines()[-12:]))


def _config(tokenizer: Any, seed: int) -> Any:
    return ppo_config(PRESET, tokenizer, seed, PRESET.kl_coef)


def judge(folder: Path, seed: int) -> dict[str, float]:
    """Gold, proxy, valid share and KL of a saved policy."""
    tokenizer = AutoTokenizer.from_pretrained(SFT)
    evaluation = evaluate_policy(
        AutoModelForCausalLM.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(SFT),
        make_scorer(RewardModel.from_pretrained(REWARD_MODEL)),
        sample_prompts(PRESET.evaluation_responses, random.Random(seed + 2)),
        tokenizer,
        _config(tokenizer, seed),
    )
    return {name: getattr(evaluation, name) for name in ("gold", "proxy", "valid", "kl")}


def main(arguments: list[str] | None = None) -> int:
    """Train both for each seed, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m testcases.benchmarks.learning", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    if not TRL_PYTHON.exists():
        print("error: expected TRL in .venv-bench, got none; run make bench, which installs it", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()
    report: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "sft": judge(SFT, 0), "seeds": []}
    for seed in range(options.seeds):
        prompts = sample_prompts(PRESET.ppo_updates * PRESET.ppo_batch_size, random.Random(seed + 3))
        row = {}
        for name, train in ((OURS, train_ours), (TRL, train_trl)):
            with tempfile.TemporaryDirectory() as folder:
                train(seed, prompts, Path(folder))
                row[LABELS[name]] = judge(Path(folder), seed)
        report["seeds"].append(row)
    show(report, Console(highlight=False))
    written(report, "learning")
    return 0


def show(report: dict[str, Any], console: Console) -> None:
    """The table: the mean over the seeds, and its spread."""
    table = Table(title=f"\n{PRESET.ppo_updates} updates, {len(report['seeds'])} seeds", title_justify="left")
    names = ("gold", "proxy", "valid", "kl")
    for column in ("", *names):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("SFT", *(f"{report['sft'][name]:.2f}" for name in names))
    for label in (LABELS[OURS], LABELS[TRL]):
        numbers = [[row[label][name] for row in report["seeds"]] for name in names]
        spread = [f" +- {stdev(values):.2f}" if len(values) > 1 else "" for values in numbers]
        table.add_row(label, *(f"{mean(values):.2f}{more}" for values, more in zip(numbers, spread, strict=True)))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
