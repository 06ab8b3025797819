"""The preset `hub`: PPO on a policy, a reward and prompts that the user names. No stage is trained before PPO.

make demo PRESET=hub POLICY=path/or/name REWARD=module:function PROMPTS=prompts.txt
"""

from __future__ import annotations

import copy
import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from ..lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference
from ..lesson09_ppo_trainer import PPOConfig, PPOTrainer
from ..lesson09_ppo_trainer.scoring import RewardFunction
from .pipeline import prepare_output

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def run_hub(policy: str, reward: str, prompts: Path | None, seed: int, out: Path, say: Callable[[str], None]) -> int:
    """Tune a Hugging Face policy with PPO and save it with `save_pretrained` under `out/policy`.

    Args:
        policy: name or folder of a causal language model with its tokenizer.
        reward: name or folder of a sequence-classification model with one label and the policy's tokenizer, or
            `module:function` of (prompts, responses) -> numbers.
        prompts: a text file with one prompt a line.
        seed: decides every random number.
        out: folder for the result.
        say: receives a short account.

    Returns:
        0.

    Raises:
        ValueError: an argument is missing, a model cannot be loaded, the prompts file is empty.
    """
    if not policy or not reward or prompts is None:
        raise ValueError("expected POLICY=, REWARD= and PROMPTS= with PRESET=hub; see make help and the README")
    texts = read_prompts(prompts)
    reward_model = load_reward(reward)
    model, tokenizer = load_policy(policy)
    prepare_output(out)
    config = PPOConfig(
        stop_token_ids=(tokenizer.eos_token_id,),
        pad_token_id=tokenizer.pad_token_id,
        num_updates=20,
        batch_size=16,
        num_epochs=2,
        micro_batch_size=4,
        learning_rate=1e-5,
        seed=seed,
    )
    say(f"PPO: {config.num_updates} updates of {config.batch_size} responses to {len(texts)} prompts")
    actor_critic = PolicyAndValue(model, ValueModel(cast("PreTrainedModel", copy.deepcopy(model.base_model))))
    trainer = PPOTrainer(actor_critic, reward_model, make_reference(model), config, tokenizer)
    history = trainer.train(texts)
    say(f"score {history[0]['score']:.2f} -> {history[-1]['score']:.2f}, KL {history[-1]['kl']:.2f} nats")
    unfinished = out / "policy.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    trainer.policy.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    os.replace(unfinished, out / "policy")
    say(f"saved {out / 'policy'}")
    return 0


def read_prompts(file: Path) -> list[str]:
    """The lines of a text file that are not blank.

    Raises:
        ValueError: the file cannot be read, or has no prompt.
    """
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected PROMPTS to be a text file, got {file}: {error}") from error
    texts = [line for line in lines if line]
    if not texts:
        raise ValueError(f"expected a prompt in {file}, got none; write one a line")
    return texts


def load_policy(name: str) -> tuple[PreTrainedModel, Any]:
    """A causal language model and its tokenizer, padded on the left; without a pad token, the stop token serves.

    Raises:
        ValueError: it cannot be loaded: no such folder, or no network.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _check_available("POLICY", name)
    try:
        model = AutoModelForCausalLM.from_pretrained(name)
        tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
    except (OSError, ValueError) as error:
        raise ValueError(_not_loaded("POLICY", name)) from error
    if tokenizer.eos_token_id is None:
        raise ValueError(f"expected the tokenizer of {name} to have a stop (eos) token, got none")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def load_reward(name: str) -> nn.Module | RewardFunction:
    """`module:function` as that function, anything else as a sequence-classification model with one label.

    Raises:
        ValueError: it cannot be imported or loaded.
    """
    module, colon, function = name.partition(":")
    if colon:
        try:
            return getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"expected REWARD=module:function to be importable, got {name} ({error})") from error
    from transformers import AutoModelForSequenceClassification

    _check_available("REWARD", name)
    try:
        return AutoModelForSequenceClassification.from_pretrained(name, num_labels=1)
    except (OSError, ValueError) as error:
        raise ValueError(_not_loaded("REWARD", name)) from error


def _check_available(variable: str, name: str) -> None:
    """Ask once, and briefly, whether the hub knows a model that is neither a folder nor in the local cache."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        if not Path(name).is_dir() and not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=5)
    except Exception as error:  # offline, unknown or malformed: each library layer has its own exceptions
        raise ValueError(_not_loaded(variable, name)) from error


def _not_loaded(variable: str, name: str) -> str:
    return (
        f"expected {variable} to be a folder saved by save_pretrained or a model that can be downloaded, got {name}; "
        "without a network, download it elsewhere and give the folder"
    )
