"""One PPO update on the CPU at real shapes, from their configurations (random weights, no download): does it work?

    python -m testcases.benchmarks.one_update            both shapes, each in a process of its own
    python -m testcases.benchmarks.one_update gpt2       one of them, in this process

`gpt2` (124 M) trains every weight of actor and critic in float32. `0.5B` is Qwen2's shape: LoRA adapters, so that the
policy is its own reference, and a frozen reward model in bfloat16. Two responses, micro batch 1, 8 tokens each. Writes
runs/bench/one_update.json.
"""

import json
import subprocess
import sys
import time
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
)

from ppo_by_hand.hub.options import HubOptions
from solutions.apps.hub_actor_critic import make_models
from solutions.lesson09_ppo_trainer import PPOConfig, PPOTrainer

from .relay import ROOT, _peak_mib
from .trainer import written

TOKENS = {"num_labels": 1, "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
GPT2 = GPT2Config(**TOKENS)
QWEN2 = Qwen2Config(
    vocab_size=151_936,
    hidden_size=896,
    intermediate_size=4864,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    tie_word_embeddings=True,
    **TOKENS,
)
SHAPES: dict[str, tuple[Any, type[PreTrainedModel], type[PreTrainedModel], HubOptions]] = {
    "gpt2": (GPT2, GPT2LMHeadModel, GPT2ForSequenceClassification, HubOptions()),
    "0.5B": (
        QWEN2,
        Qwen2ForCausalLM,
        Qwen2ForSequenceClassification,
        HubOptions(lora_rank=8, frozen_dtype="bfloat16", gradient_checkpointing=True),
    ),
}
PROMPTS = [list(range(100, 108)), list(range(200, 206))]


def make_trainer(name: str) -> PPOTrainer:
    """The trainer of a shape, as the preset `hub` puts it together."""
    settings, policy_class, reward_class, options = SHAPES[name]
    torch.manual_seed(0)
    frozen = torch.bfloat16 if options.frozen_dtype == "bfloat16" else torch.float32
    reward_model = reward_class(settings).to(frozen)
    model, reference = make_models(policy_class(settings), None, options)
    config = PPOConfig(
        stop_token_ids=(1,),
        pad_token_id=0,
        max_new_tokens=8,
        num_updates=1,
        batch_size=2,
        micro_rollout_batch_size=1,
        micro_batch_size=1,
        num_minibatches=1,
        num_epochs=2,
        warmup_updates=0,
        learning_rate=1e-5,
        clip_score=None,
    )
    return PPOTrainer(model, reward_model, reference, config)


def run(name: str) -> dict[str, Any]:
    """One update, checked: finite numbers, a first ratio of 1, no KL before the first step, weights that moved."""
    trainer, start = make_trainer(name), time.perf_counter()
    trained = [weight for weight in trainer.model.parameters() if weight.requires_grad]
    before = [weight.detach().abs().sum().item() for weight in trained]
    (metrics,) = trainer.train(PROMPTS)
    moved = sum(weight.detach().abs().sum().item() != one for weight, one in zip(trained, before, strict=True))
    assert all(number == number and abs(number) < 1e6 for number in metrics.values()), metrics
    assert abs(metrics["first_ratio_max"] - 1) < 1e-3 and abs(metrics["kl"]) < 1e-3, metrics
    # Not all: an adapter's first factor has no gradient in the first step.
    assert moved > len(trained) / 4, (moved, len(trained))
    return {
        "shape": name,
        "parameters": sum(weight.numel() for weight in trainer.policy.parameters()),
        "trained": sum(weight.numel() for weight in trained),
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time(), 1),
        "peak_mib": round(_peak_mib()),
        "first_ratio_max": metrics["first_ratio_max"],
    }


def main(names: list[str]) -> None:
    if len(names) == 1:
        print(json.dumps(run(names[0])))
        return
    report = []
    for name in names or SHAPES:
        child = subprocess.run(
            [sys.executable, "-m", __spec__.name, name], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        report.append(json.loads(child.stdout.splitlines()[-1]))
        print(report[-1], flush=True)
    written(report, "one_update")


if __name__ == "__main__":
    main(sys.argv[1:])
