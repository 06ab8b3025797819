"""PPO on a policy, a reward and prompts of your own: `make demo PRESET=hub`, and `ppo-by-hand train`.

python -m solutions.demo.hub --policy path/or/name --reward module:function --prompts prompts.jsonl --out runs/mine
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, set_seed
from torch import nn

from ppo_by_hand.core.checkpoints import CheckpointFolder
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.files import first_line
from ppo_by_hand.core.processes import Processes, check_configuration
from ppo_by_hand.core.progress import quiet
from ppo_by_hand.core.shapes import check_number, tokens_of
from ppo_by_hand.core.texts import check_prompts, read_prompts, tokenize
from ppo_by_hand.hub.models import load_policy, stop_token_ids
from ppo_by_hand.hub.rewards import load_reward

from ..lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference
from ..lesson09_ppo_trainer import PPOTrainer
from .folder import CHECKPOINTS, open_folder, run_to_the_end, save_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DEFAULTS: dict[str, Any] = {"num_updates": 20, "batch_size": 16, "num_epochs": 2, "micro_batch_size": 4}
DEFAULTS |= {"learning_rate": 1e-5, "clip_score": None}  # a user's reward has a scale of its own
"""Where a large model wants other settings than `PPOConfig` has for tiny ones."""
DTYPES = ("auto", "float32", "bfloat16")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, and those of `folder`. Of several processes, each ends here."""
    parser = argparse.ArgumentParser(prog="ppo-by-hand train", description=__doc__.splitlines()[0])
    parser.add_argument("--policy", required=True, help="a causal language model, name or folder (POLICY=)")
    parser.add_argument("--reward", required=True, help="a classifier of one label, or module:function (REWARD=)")
    parser.add_argument("--prompts", required=True, type=Path, help="lines of text, or JSONL (PROMPTS=)")
    parser.add_argument("--out", required=True, type=Path, help="folder for policy, metrics and checkpoint (OUT=)")
    parser.add_argument("--seed", type=int, default=0, help="decides every random number (SEED=)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out (RESUME=1)")
    parser.add_argument("--set", default="", dest="settings", help='of PPOConfig: "num_updates=200 kl_coef=0.1" (SET=)')
    more = parser.add_argument_group("the models (make: OPTIONS='--lora-rank 16')")
    more.add_argument("--value", choices=("policy", "reward"), default="policy", help="where the critic starts")
    more.add_argument("--dtype", choices=DTYPES, default="float32", help="of policy and critic; auto: as saved")
    more.add_argument("--frozen-dtype", choices=DTYPES, default="auto", help="of reference and reward model")
    more.add_argument("--lora-rank", type=int, default=0, help="of adapters, the only weights to train; 0: train all")
    more.add_argument("--lora-alpha", type=float, default=16.0, help="adapters are scaled by lora_alpha / lora_rank")
    more.add_argument("--lora-targets", default="all-linear", help="names of modules, with commas between them")
    more.add_argument("--gradient-checkpointing", action="store_true", help="less memory, one more forward")
    options = parser.parse_args(arguments)
    quiet()  # what it would warn of is said here in one sentence
    options.policy, options.reward = (os.path.expanduser(name) for name in (options.policy, options.reward))
    options.prompts, options.out = options.prompts.expanduser(), options.out.expanduser()
    sys.path.insert(0, os.getcwd())  # where module:function is looked for; `python -m` does the same
    code = run_to_the_end(lambda: run_hub(options), options.out)
    if code == 0 and Accelerator().num_processes > 1:
        Processes(Accelerator()).leave()
    return code


def run_hub(options: argparse.Namespace) -> int:
    """Tune a Hugging Face policy with PPO and save it with `save_pretrained` under `out/policy`.

    Returns:
        0.

    Raises:
        ValueError: an argument is out of range, a model cannot be loaded, a prompt does not fit.
        OSError: the checkpoint or the policy cannot be written.
        RuntimeError: the reward function raised, or the run diverged.
    """
    check_number("SEED", options.seed, 0, 2**32 - 1)
    check_number("lora_rank", options.lora_rank, 0)
    check_configuration(Accelerator())
    is_first = Accelerator().is_main_process  # of the processes that `accelerate launch` has started
    say = print if is_first else lambda _: None
    settings = parse_settings(options.settings)
    rows = read_prompts(options.prompts)
    set_seed(options.seed)  # the critic's head starts from random weights, and a reward may draw from any source
    policy, tokenizer = load_policy(options.policy, say, options.dtype)
    config = make_config(settings, policy, tokenizer, options)
    prompts = tokenize(rows, tokenizer)
    reward = load_reward(options.reward, tokenizer, tokens_of(policy), say, options.frozen_dtype)
    check_prompts(prompts, policy, reward, config)
    model, reference = make_models(policy, reward, options)
    trainer = _kind_of_trainer()(model, reward, reference, config, tokenizer)
    with Processes(Accelerator()).together():
        if is_first:
            open_folder(options.out, _record(options), options.resume)
    checkpoints = CheckpointFolder(options.out / CHECKPOINTS)
    if checkpoints.load(trainer):
        say(f"continuing after update {trainer.updates_done}")
    say(f"PPO: {config.num_updates} updates of {config.batch_size} responses to {len(prompts)} prompts")
    history = trainer.train(prompts, checkpoints.save)
    # With several processes, every one helps to collect the weights.
    trained = trainer.whole_policy() if hasattr(trainer, "whole_policy") else trainer.policy
    if is_first:
        save_model(_as_it_came(trained, options.policy), tokenizer, options.out / "policy")
    say(f"score {history[0]['score']:.2f} -> {history[-1]['score']:.2f}, KL {history[-1]['kl']:.2f} nats")
    say(f"saved {options.out / 'policy'}; the metrics of each update are in {options.out / 'log'}")
    say("for more updates, run it again with --resume (RESUME=1) and a larger num_updates")
    return 0


def parse_settings(text: str) -> dict[str, Any]:
    """Turn "num_updates=200 kl_coef=0.1" into arguments of `PPOConfig`; what isn't JSON stays a text."""
    chosen: dict[str, Any] = {}
    for pair in text.split():
        name, _, value = pair.partition("=")
        try:
            chosen[name] = json.loads(value)
        except json.JSONDecodeError:
            chosen[name] = value
    return chosen


def make_config(settings: dict[str, Any], policy: Any, tokenizer: Any, options: argparse.Namespace) -> PPOConfig:
    """Make the run's settings: defaults, then those of SET, then those that follow from something else.

    Raises:
        ValueError: a name is no setting or follows from something else, or a value is out of range.
    """
    decided = {"pad_token_id": tokenizer.pad_token_id, "seed": options.seed, "log_dir": str(options.out / "log")}
    stops = {"stop_token_ids": stop_token_ids(policy, tokenizer)}
    if unknown := settings.keys() - {field.name for field in fields(PPOConfig)} | settings.keys() & decided.keys():
        raise ValueError(
            f"expected settings of PPOConfig, got {min(unknown)!r} in SET; help(PPOConfig) describes them all, and "
            f"{', '.join(decided)} follow from the tokenizer, --seed and --out"
        )
    try:
        return PPOConfig(**DEFAULTS | stops | settings | decided)
    except ValueError as error:
        raise ValueError(f"{error} (in SET, with values as in JSON: true, null, 0.5, [1,2])") from error


def make_models(
    policy: PreTrainedModel, reward: Any, options: argparse.Namespace
) -> tuple[PolicyAndValue, PreTrainedModel | None]:
    """Make actor and critic, and the reference, which is None for a LoRA policy, since it's its own.

    Raises:
        ValueError: the critic cannot start from the reward, or no module has a name of `lora_targets`.
    """
    if options.value == "policy":
        critic = ValueModel(cast("PreTrainedModel", copy.deepcopy(policy.base_model)))
    elif isinstance(reward, nn.Module):
        critic = ValueModel.from_classifier(cast("PreTrainedModel", reward))
    else:
        raise ValueError(
            "expected REWARD to be a model with the policy's tokenizer for --value reward, got a function or a model "
            "of other tokens; leave --value out, and the critic starts from the policy"
        )
    critic.backbone.to(dtype=policy.dtype)  # type: ignore[call-arg]
    critic.requires_grad_(True)
    reference = None
    if options.lora_rank:
        critic.backbone, policy = with_adapter(critic.backbone, options), with_adapter(policy, options)
    else:
        reference = make_reference(policy)
        if options.frozen_dtype != "auto":
            reference = reference.to(getattr(torch, options.frozen_dtype))
    model = PolicyAndValue(policy, critic)
    if options.gradient_checkpointing:
        from ..lesson11_scaling import enable_gradient_checkpointing

        enable_gradient_checkpointing(model)
    return model, reference


def with_adapter(model: PreTrainedModel, options: argparse.Namespace) -> PreTrainedModel:
    """Add a new LoRA adapter and freeze all other weights; the answers stay the same until a step is made.

    Raises:
        ValueError: no module has a name of `lora_targets`.
    """
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    targets = options.lora_targets
    config = LoraConfig(
        r=options.lora_rank,
        lora_alpha=options.lora_alpha,
        target_modules=targets if targets == "all-linear" else targets.split(","),
        lora_dropout=0.0,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an older name
            return cast("PreTrainedModel", get_peft_model(model, config))
    except ValueError as error:
        raise ValueError(
            f"expected lora_targets to name modules of {type(model).__name__}, got {targets!r} ({first_line(error)})"
        ) from error


def _kind_of_trainer() -> type[PPOTrainer]:
    """Lesson 9's trainer; with several processes or DeepSpeed lesson 11's."""
    if Accelerator().num_processes == 1 and Accelerator().distributed_type != DistributedType.DEEPSPEED:
        return PPOTrainer
    from ..lesson11_scaling import DistributedPPOTrainer

    return DistributedPPOTrainer


def _record(options: argparse.Namespace) -> dict[str, Any]:
    """What makes it this run, besides the trainer's settings, which a checkpoint holds."""
    elsewhere = ("out", "resume", "settings", "prompts")
    found = {name: value for name, value in vars(options).items() if name not in elsewhere}
    return found | {"prompts": hashlib.sha256(options.prompts.read_bytes()).hexdigest()[:16]}


def _as_it_came(policy: Any, name: str) -> PreTrainedModel:
    """The tuned policy with its adapters merged into it, and in the dtype in which `name` was saved."""
    from transformers import AutoConfig

    whole = policy.merge_and_unload() if hasattr(policy, "peft_config") else policy
    return cast("PreTrainedModel", whole.to(getattr(AutoConfig.from_pretrained(name), "dtype", None) or torch.float32))


if __name__ == "__main__":
    sys.exit(main())
