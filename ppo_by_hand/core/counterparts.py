"""What other trainers call the settings of this one, and a configuration of TRL's PPO made into one of ours."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any

TRL = {
    "stop_token_ids": "stop_token_id",
    "max_new_tokens": "response_length",
    "missing_stop_penalty": "missing_eos_penalty",
    "num_updates": "total_episodes",
    "batch_size": "gradient_accumulation_steps",
    "micro_rollout_batch_size": "local_rollout_forward_batch_size",
    "num_epochs": "num_ppo_epochs",
    "num_minibatches": "num_mini_batches",
    "micro_batch_size": "per_device_train_batch_size",
    "warmup_updates": "warmup_steps",
    "scheduler": "lr_scheduler_type",
    "clip_epsilon": "cliprange",
    "value_clip_epsilon": "cliprange_value",
    "value_coef": "vf_coef",
    "log_dir": "output_dir",
}
"""Where TRL's PPOConfig has another name for a setting (or for what it follows from)."""
OLDER = {
    "actor_learning_rate": "learning_rate",
    "advantage_estimator": "advantages",
    "cliprange_score": "clip_score",
    "eps_clip": "clip_epsilon",
    "epsilon": "clip_epsilon",
    "freezing_actor_steps": "critic_warmup_updates",
    "generate_max_len": "max_new_tokens",
    "horizon": "kl_horizon",
    "init_kl_coef": "kl_coef",
    "kl_coeff": "kl_coef",
    "lambd": "lam",
    "lr": "learning_rate",
    "max_completion_length": "max_new_tokens",
    "max_epochs": "num_epochs",
    "max_norm": "max_grad_norm",
    "max_tokens": "max_new_tokens",
    "micro_train_batch_size": "micro_batch_size",
    "n_samples_per_prompt": "samples_per_prompt",
    "num_generations": "samples_per_prompt",
    "ppo_epochs": "num_epochs",
    "reward_clip_range": "clip_score",
    "use_kl_loss": "kl_in",
    "target": "kl_target",
    "target_kl": "max_update_kl",
    "value_clip": "value_clip_epsilon",
}
"""Names of TRL's earlier trainers, of older versions of OpenRLHF, and of others."""
ARGUMENTS = {
    "args": "config=PPOConfig.from_trl(args, stop_token_ids=..., pad_token_id=...)",
    "processing_class": "tokenizer",
    "value_model": "model=PolicyAndValue(policy, ValueModel.from_classifier(value_model))",
    "train_dataset": "prompts of train",
    "eval_dataset": "on_update of train",
    "optimizers": "optimizer and schedule",
    "callbacks": "on_update of train",
    "peft_config": "get_peft_model before",
}
"""What TRL's trainer takes -> the same here, where it is called something else."""
TRL_DEFAULTS: dict[str, Any] = {
    "adam_epsilon": 1e-8,
    "cliprange": 0.2,
    "cliprange_value": 0.2,
    "gamma": 1.0,
    "gradient_accumulation_steps": 1,
    "kl_coef": 0.05,
    "kl_estimator": "k1",
    "lam": 0.95,
    "learning_rate": 3e-6,
    "local_rollout_forward_batch_size": 64,
    "lr_scheduler_type": "linear",
    "max_grad_norm": 1.0,
    "missing_eos_penalty": None,
    "num_mini_batches": 1,
    "num_ppo_epochs": 4,
    "output_dir": None,
    "per_device_train_batch_size": 8,
    "response_length": 53,
    "seed": 42,
    "stop_token_id": None,
    "temperature": 0.7,
    "total_episodes": None,
    "vf_coef": 0.1,
    "warmup_steps": 0,
    "whiten_rewards": False,
}
"""Of TRL 1.12.0: what `from_trl` translates, and what it takes where an option is not given."""
ELSEWHERE = {
    "bf16 fp16 tf32": "accelerate launch --mixed_precision bf16",
    "gradient_checkpointing activation_checkpointing": "enable_gradient_checkpointing(model)",
    "optim weight_decay adam_beta": "optimizer=lambda groups: AdamW(groups, ...) of PPOTrainer",
    "lr_scheduler_kwargs": "schedule=lambda updates_done: ... of PPOTrainer",
    "num_train_epochs max_steps": "num_updates",
    "report_to run_name logging log_ project trackio disable_tqdm include_": "log_dir, and on_update of train",
    "save_ resume_from_checkpoint restore_ enable_jit_checkpoint": "CheckpointFolder and load_checkpoint",
    "eval_ do_eval per_device_eval num_sample_generations prediction_loss batch_eval load_best metric_for_best "
    "greater_is_better bf16_full_eval fp16_full_eval": "on_update of train; in the command eval_prompts",
    "push_to_hub hub_": "trainer.policy.push_to_hub(name)",
    "deepspeed fsdp ddp_ parallelism accelerator_config ds3 local_rank": "accelerate launch --config_file",
    "model_adapter_name ref_adapter_name": "get_peft_model, and ref_model None",
    "use_cache": "from_pretrained",
    "dataloader data_seed remove_unused_columns label_names train_sampling length_column "
    "ignore_data_skip": "the list of prompts that train takes, in an order that seed decides",
    "stop_token": "stop_token_ids=(tokenizer.eos_token_id,)",
    "warmup_ratio": "warmup_steps below 1: a share of the run",
    "prompt_max max_prompt": "max_prompt_length of the command",
    "ptx_ ema_ packing_ vllm_ remote_rm zero_ load_in_ flash_ attn_ dual_clip": "the page From TRL says why not",
    "use_cpu": "ACCELERATE_USE_CPU=true in the environment",
}
"""How TRL's other options begin -> where that is done here."""
OFF: tuple[Any, ...] = (None, False, "no", "none", "", [], {}, 0, -1)
"""Values of an option that asks for nothing."""
ANYWAY: dict[str, tuple[Any, ...]] = {
    "adam_beta1": (None, 0.9),
    "adam_beta2": (None, 0.999),
    "optim": (None, "adamw_torch", "adamw_torch_fused"),
    "report_to": (*OFF, "tensorboard", ["tensorboard"]),
    "logging_steps": (*OFF, 1),
    "logging_strategy": (*OFF, "steps"),
    "logging_first_step do_train": (*OFF, True),
}
"""Options -> their values by which this trainer works anyway, or that ask for nothing."""
COUNTED = [name for name, value in TRL_DEFAULTS.items() if type(value) is int] + ["total_episodes"]
"""Options that are numbers, with which others are computed."""
OF_THE_SCRIPT = ("sft_model_path", "reward_model_path", "dataset_num_proc")
"""Options that TRL's trainer does not read either."""
ATTRIBUTES = {
    "save_model": "trainer.policy.save_pretrained(folder) and tokenizer.save_pretrained(folder)",
    "push_to_hub init_hf_repo create_model_card hub_": "trainer.policy.push_to_hub(name)",
    "generate evaluat predict eval_ get_eval_ get_test_": "trainer.generate_responses(prompts), called in "
    "on_update of train",
    "save_state save_metrics log metrics_ state get_learning_rates": "trainer.history, log_dir of PPOConfig, and "
    "save_checkpoint(folder)",
    "resume_from_checkpoint": "trainer.load_checkpoint(folder) before train",
    "args": "trainer.config",
    "processing_class stop_token_id": "trainer.tokenizer and trainer.config.stop_token_ids",
    "policy_model": "trainer.policy",
    "value_model": "trainer.model.value_model",
    "reward_model": "trainer.score(input_ids, attention_mask, prompt_length)",
    "train_dataset data_collator get_train_ dataloader": "the list of prompts that train takes",
    "add_callback remove_callback pop_callback callback control": "on_update of train",
    "create_optimizer create_scheduler lr_scheduler": "optimizer= and schedule= of PPOTrainer",
    "is_world_process is_local_process": "trainer.accelerator.is_main_process",
    "null_ref_context": "reference_mode(policy)",
}
"""How what TRL's trainer has, and ours has not, begins -> what it is here."""


def translated(options: Mapping[str, Any], ours: Collection[str]) -> dict[str, Any]:
    """The settings of `PPOConfig` that stand for a configuration of TRL's PPO.

    Args:
        options: keyword arguments of TRL's `PPOConfig`; names of ours among them are kept as they are.
        ours: the names of the settings here.

    Raises:
        ValueError: an option asks for something that no setting decides, or the number of updates is open.
    """
    theirs = TRL_DEFAULTS | {name: value for name, value in options.items() if name in TRL_DEFAULTS}
    own = {name: value for name, value in options.items() if name in ours}
    known = {*own, *theirs, *OF_THE_SCRIPT, *(["stop_token"] if "stop_token_ids" in own else [])}
    rest = [name for name, value in options.items() if name not in known and value not in _nothing_of(name)]
    if rest:
        raise ValueError(f"expected options of TRL's PPO that a setting here stands for, got {_placed(rest)}")
    names = {theirs: ours for ours, theirs in TRL.items()}
    found = {names.get(name, name): value for name, value in theirs.items()}
    if found["stop_token_ids"] is None:
        del found["stop_token_ids"]
    else:
        found["stop_token_ids"] = (found["stop_token_ids"],)
    for name in COUNTED:
        if theirs[name] is not None and not isinstance(theirs[name], int | float):
            raise ValueError(f"expected {name} to be a number, got {theirs[name]!r}")
    processes = int(os.environ.get("WORLD_SIZE", "1"))  # set by accelerate launch and torchrun
    size = theirs["per_device_train_batch_size"] * theirs["gradient_accumulation_steps"] * processes
    found["batch_size"] = size = own.get("batch_size", size)
    found["micro_rollout_batch_size"] = min(found["micro_rollout_batch_size"], size)
    found["missing_stop_penalty"] = found["missing_stop_penalty"] or 0.0
    found |= {"clip_score": None} | own
    if found["num_updates"] is None:
        raise ValueError(
            "expected total_episodes (or num_updates), got neither; TRL would count num_train_epochs of the data set"
        )
    if "num_updates" not in own:
        found["num_updates"] = -(-theirs["total_episodes"] // size)
    if 0 < found["warmup_updates"] < 1:  # a share of the run
        found["warmup_updates"] = round(found["warmup_updates"] * found["num_updates"])
    return found


def given_in(args: Any) -> dict[str, Any]:
    """What was chosen in an object of TRL's `PPOConfig`: all that differs from one with nothing but its folder.

    Raises:
        TypeError: it is none.
    """
    if isinstance(args, type) or not is_dataclass(args) or not hasattr(args, "num_ppo_epochs"):
        raise TypeError(f"expected TRL's PPOConfig or its options by name, got {args!r}"[:200])
    kind: Any = type(args)
    plain = kind(**{one: getattr(args, one) for one in ("output_dir", "use_cpu") if hasattr(args, one)})
    chosen = {one.name: getattr(args, one.name) for one in fields(args)}
    chosen = {name: value for name, value in chosen.items() if name in TRL_DEFAULTS or value != getattr(plain, name)}
    return {name: getattr(value, "value", value) for name, value in chosen.items()}  # of enums


def done_in(option: str) -> str | None:
    """Where an option of other trainers is done that no setting here stands for."""
    return _place(option, ELSEWHERE)


def here(name: str) -> str | None:
    """What something of TRL's trainer is here, if anything."""
    return _place(name, ATTRIBUTES)


def refuse_arguments_of_trl(names: Collection[str]) -> None:
    """
    Raises:
        TypeError: one of them is what TRL's trainer calls an argument.
    """
    if found := [f"{name} ({ARGUMENTS[name]})" for name in names if name in ARGUMENTS]:
        raise TypeError(f"expected arguments of PPOTrainer, got names of TRL's, here in brackets: {'; '.join(found)}")


def called_as_ours(train: Callable[..., Any]) -> Callable[..., Any]:
    """The same method; what only TRL's `train` takes is refused with what it is here.

    Raises (when called):
        TypeError: prompts are missing, or there is more than it takes by name.
    """
    known = inspect.signature(train).parameters

    @functools.wraps(train)
    def checked(self: Any, *given: Any, **options: Any) -> Any:
        if others := [name for name in options if name not in known]:
            raise TypeError(f"expected {', '.join([*known][1:])} as arguments of train, got {_placed(others)}")
        if not given and "prompts" not in options:
            raise TypeError("expected train(prompts), got no prompts; TRL's train_dataset goes here")
        return train(self, *given, **options)

    return checked


def _placed(names: list[str]) -> str:
    """The names, each with the place of what it asks for."""
    places = ((name, done_in(name) or _meant(name) or "not here: leave it out") for name in names)
    return "; ".join(f"{name} ({place})" for name, place in places)


def _nothing_of(name: str) -> tuple[Any, ...]:
    return next((values for names, values in ANYWAY.items() if name in names.split()), OFF)


def _meant(name: str) -> str | None:
    near = [OLDER[name]] if name in OLDER else get_close_matches(name, TRL_DEFAULTS, n=1, cutoff=0.8)
    return f"did you mean {near[0]}?" if near else None


def _place(name: str, places: Mapping[str, str]) -> str | None:
    return next((place for starts, place in places.items() if name.startswith(tuple(starts.split()))), None)
