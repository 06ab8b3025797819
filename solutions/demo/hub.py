"""The preset `hub`: PPO on a policy, a reward and prompts that the user names. No stage is trained before PPO.

make demo PRESET=hub POLICY=path/or/name REWARD=module:function PROMPTS=prompts.jsonl SET="num_updates=200"
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, set_seed

from ppo_by_hand.core.checkpoint_folder import CheckpointFolder
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.processes import check_configuration
from ppo_by_hand.core.rows import Encoded, columns_for
from ppo_by_hand.core.scoring import RewardFunction
from ppo_by_hand.core.shapes import check_number
from ppo_by_hand.hub.models import (
    context_length,
    embedding_rows,
    load_policy,
    named_tokens,
    saved_dtype,
    stop_token_ids,
)
from ppo_by_hand.hub.options import HubOptions, split_settings
from ppo_by_hand.hub.prompts import check_context, encode_all, read_prompts
from ppo_by_hand.hub.rewards import load_reward

from ..lesson09_ppo_trainer import PPOTrainer
from .folder import CHECKPOINTS, open_folder, save_model, says_how_to_go_on
from .hub_actor_critic import make_models, merged, policy_to_save

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Parts(NamedTuple):
    """What a run is made of."""

    policy: PreTrainedModel
    tokenizer: Any
    reward: torch.nn.Module | RewardFunction
    prompt_ids: list[Encoded]
    config: PPOConfig
    options: HubOptions
    value: torch.nn.Module | None
    """The reward model that the critic starts from; None: the policy's backbone."""


def run_hub(
    policy: str,
    reward: str,
    prompts: Path | None,
    seed: int,
    out: Path,
    say: Callable[[str], None],
    settings: str = "",
    resume: bool = False,
) -> int:
    """Tune a Hugging Face policy with PPO and save it with `save_pretrained` under `out/policy`.

    Args:
        policy: name or folder of a causal language model with its tokenizer.
        reward: name or folder of a sequence-classification model with one label, or `module:function` of
            (prompts, responses) -> numbers.
        prompts: a file; see `read_prompts`.
        seed: decides every random number.
        out: folder for the result.
        say: receives a short account.
        settings: "name=value name=value" of `PPOConfig` and `HubOptions`.
        resume: go on with the run in `out` from its last checkpoint, perhaps for more updates.

    Returns:
        0. Where there are several processes, they end here.

    Raises:
        ValueError: an argument is missing or out of range, a model cannot be loaded, a prompt does not fit.
        OSError: a checkpoint or the policy cannot be written.
        RuntimeError: the reward function raised, or the run diverged.
    """
    if not policy or not reward or prompts is None:
        raise ValueError("expected POLICY=, REWARD= and PROMPTS= with PRESET=hub; see make help and the README")
    check_number("SEED", seed, 0, 2**32 - 1)
    check_configuration(Accelerator())
    is_first = Accelerator().is_main_process  # of the processes that `accelerate launch` has started
    say = say if is_first else _say_nothing
    chosen, options = split_settings(settings)
    set_seed(seed)  # the critic's head starts from random weights, and a reward function may draw from any source
    parts = _load(policy, reward, prompts, chosen | {"seed": seed, "log_dir": str(out / "log")}, options, say)
    named = _fingerprints(parts, policy, reward, prompts) | {"SEED": seed} | dataclasses.asdict(options)
    trainer = _make_trainer(parts)
    if is_first:
        open_folder(out, named, resume)
    Accelerator().wait_for_everyone()
    checkpoints = CheckpointFolder(out / CHECKPOINTS)
    if checkpoints.load(trainer):
        say(f"going on after update {trainer.updates_done}")
    updates, size = parts.config.num_updates, parts.config.batch_size
    say(f"PPO: {updates} updates of {size} responses to {len(parts.prompt_ids)} prompts")
    with says_how_to_go_on(out):
        history = trainer.train(parts.prompt_ids, checkpoints.save)
        trained = policy_to_save(trainer)
        if is_first:
            save_model(merged(trained, saved_dtype(policy)), parts.tokenizer, out / "policy")
    say(f"score {history[0]['score']:.2f} -> {history[-1]['score']:.2f}, KL {history[-1]['kl']:.2f} nats")
    say(f"saved {out / 'policy'}; the metrics of each update are in {out / 'log'}")
    say("for more updates: RESUME=1 (or --resume) with a larger num_updates")
    _leave()
    return 0


def _load(
    policy: str, reward: str, prompts: Path, settings: dict[str, Any], options: HubOptions, say: Callable[[str], None]
) -> Parts:
    """Models, tokenizer and prompts, checked against each other before any training starts."""
    given = read_prompts(prompts)
    model, tokenizer = load_policy(policy, say, options.dtype)
    stops = named_tokens(options.stop_tokens, tokenizer) or stop_token_ids(model, tokenizer)
    config = PPOConfig(stop_token_ids=stops, pad_token_id=tokenizer.pad_token_id, **settings)
    context, longest = context_length(model), options.max_prompt_length
    if longest is None and context is not None and options.long_prompts != "refuse":
        longest = context - config.max_new_tokens
    prompt_ids = encode_all(given, tokenizer, longest, options.long_prompts, say)
    check_context(prompt_ids, config.max_new_tokens, context, "POLICY")
    scorer = load_reward(reward, tokenizer, embedding_rows(model), say, options.frozen_dtype)
    if not isinstance(scorer, torch.nn.Module):
        columns_for(scorer, prompt_ids)
    if config.advantages != "gae" and options.value != "policy":
        raise ValueError(
            f'expected no VALUE with advantages="{config.advantages}", got {options.value}; there is no critic to start'
        )
    value = scorer if options.value == "reward" else None
    if options.value not in ("policy", "reward"):
        value = load_reward(options.value, tokenizer, embedding_rows(model), say, options.dtype, variable="VALUE")
    if value is not None and not isinstance(value, torch.nn.Module):
        raise ValueError(
            f"expected VALUE to be a reward model of the policy's tokenizer, got {options.value}, a function or a "
            "model of other tokens; leave it out to start from the policy's backbone"
        )
    if isinstance(scorer, torch.nn.Module):
        check_context(prompt_ids, config.max_new_tokens, context_length(scorer), "REWARD")
    return Parts(model, tokenizer, scorer, prompt_ids, config, options, value)


def _fingerprints(parts: Parts, policy: str, reward: str, prompts: Path) -> dict[str, Any]:
    """What the user named, each with a few letters that change with its content."""
    weights = f" ({fingerprint(parts.reward)})" if isinstance(parts.reward, torch.nn.Module) else ""
    value = {} if parts.value is None else {"VALUE": fingerprint(parts.value)}
    return value | {
        "PRESET": "hub",
        "POLICY": f"{policy} ({fingerprint(parts.policy)})",
        "REWARD": reward + weights,
        "PROMPTS": f"{prompts.name} ({hashlib.sha256(prompts.read_bytes()).hexdigest()[:16]})",
    }


def _make_trainer(parts: Parts) -> PPOTrainer:
    """Lesson 9's trainer; with several processes or DeepSpeed lesson 11's."""
    trainer = PPOTrainer
    if Accelerator().num_processes > 1 or Accelerator().distributed_type == DistributedType.DEEPSPEED:
        from ..lesson11_scaling import DistributedPPOTrainer

        trainer = DistributedPPOTrainer
    model, reference = make_models(parts.policy, parts.value, parts.options, parts.config.advantages == "gae")
    return trainer(model, parts.reward, reference, parts.config, parts.tokenizer)


def _leave() -> None:
    """One of several processes ends here."""
    if Accelerator().num_processes > 1:
        from ppo_by_hand.core.processes import Processes

        Processes(Accelerator()).leave()


def _say_nothing(text: str) -> None:
    """What all processes but the first say."""


def fingerprint(model: torch.nn.Module) -> str:
    """A few letters that stand for the names, shapes and values of all weights of a model on the CPU."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.reshape(-1).contiguous().view(torch.uint8).numpy())
    return f"weights {digest.hexdigest()[:12]}"
