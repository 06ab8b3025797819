"""The preset `hub`: PPO on a policy, a reward and prompts that the user names. No stage is trained before PPO.

make demo PRESET=hub POLICY=path/or/name REWARD=module:function PROMPTS=prompts.jsonl SET="num_updates=200"
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from ..given.config import PPOConfig
from ..given.scoring import RewardFunction
from ..lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference
from ..lesson09_ppo_trainer import PPOTrainer
from .hub_models import context_length, embedding_rows, load_policy, stop_token_ids
from .hub_prompts import check_context, encode_prompt, originals_of, read_prompts
from .hub_rewards import load_reward
from .journal import Journal, said_with_what_is_kept
from .output import prepare_output, save_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DEFAULTS = {"num_updates": 20, "batch_size": 16, "num_epochs": 2, "micro_batch_size": 4, "learning_rate": 1e-5}
"""Where a large model wants other settings than `PPOConfig` has for tiny ones."""
DECIDED = ("stop_token_ids", "pad_token_id", "seed", "log_dir")
"""Settings that follow from the tokenizer, SEED and OUT."""


class Parts(NamedTuple):
    """What a run is made of."""

    policy: PreTrainedModel
    tokenizer: Any
    reward: torch.nn.Module | RewardFunction
    prompt_ids: list[list[int]]
    config: PPOConfig


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
        settings: "name=value name=value" of `PPOConfig`.
        resume: go on with the unfinished run in `out`.

    Returns:
        0. Where there are several processes, they end here.

    Raises:
        ValueError: an argument is missing or out of range, a model cannot be loaded, a prompt does not fit.
        OSError: a checkpoint or the policy cannot be written.
        RuntimeError: the reward function raised, or the run diverged.
    """
    if not policy or not reward or prompts is None:
        raise ValueError("expected POLICY=, REWARD= and PROMPTS= with PRESET=hub; see make help and the README")
    chosen = DEFAULTS | parse_settings(settings)
    is_first = Accelerator().is_main_process  # of the processes that `accelerate launch` has started
    say = say if is_first else _say_nothing
    set_seed(seed)  # the critic's head starts from random weights, and a reward function may draw from any source
    parts = _load(policy, reward, prompts, chosen | {"seed": seed, "log_dir": str(out / "log")}, say)
    named = _fingerprints(parts, policy, reward, prompts) | {"SEED": seed, "SET": chosen}
    journal = _open_journal(out, named, resume, inputs=[Path(policy), Path(reward), prompts])
    trainer = _make_trainer(parts)
    checkpoints = journal.checkpoints("ppo")
    start = checkpoints.newest(say)
    if start is not None:
        trainer.load_checkpoint(start)
        say(f"going on after update {trainer.updates_done}, from {start}")
    updates, size = parts.config.num_updates, parts.config.batch_size
    say(f"PPO: {updates} updates of {size} responses to {len(parts.prompt_ids)} prompts")
    with said_with_what_is_kept(out):
        history = trainer.train(parts.prompt_ids, checkpoints.save)
        if is_first:
            save_model(trainer.policy, parts.tokenizer, out / "policy")
            journal.finish()
    say(f"score {history[0]['score']:.2f} -> {history[-1]['score']:.2f}, KL {history[-1]['kl']:.2f} nats")
    say(f"saved {out / 'policy'}; the metrics of each update are in {out / 'log'}")
    _leave()
    return 0


def _load(policy: str, reward: str, prompts: Path, settings: dict[str, Any], say: Callable[[str], None]) -> Parts:
    """Models, tokenizer and prompts, checked against each other before any training starts."""
    given = read_prompts(prompts)
    model, tokenizer = load_policy(policy, say)
    prompt_ids = [encode_prompt(prompt, tokenizer) for prompt in given]
    config = PPOConfig(stop_token_ids=stop_token_ids(model, tokenizer), pad_token_id=tokenizer.pad_token_id, **settings)
    check_context(prompt_ids, config.max_new_tokens, context_length(model), "POLICY")
    originals = originals_of(prompt_ids, given, tokenizer)
    scorer = load_reward(reward, tokenizer, embedding_rows(model), originals, say)
    if isinstance(scorer, torch.nn.Module):
        check_context(prompt_ids, config.max_new_tokens, context_length(scorer), "REWARD")
    return Parts(model, tokenizer, scorer, prompt_ids, config)


def _fingerprints(parts: Parts, policy: str, reward: str, prompts: Path) -> dict[str, Any]:
    """What the user named, each with a few letters that change with its content."""
    weights = f" ({fingerprint(parts.reward)})" if isinstance(parts.reward, torch.nn.Module) else ""
    return {
        "PRESET": "hub",
        "POLICY": f"{policy} ({fingerprint(parts.policy)})",
        "REWARD": reward + weights,
        "PROMPTS": f"{prompts.name} ({hashlib.sha256(prompts.read_bytes()).hexdigest()[:16]})",
    }


def _open_journal(out: Path, settings: dict[str, Any], resume: bool, inputs: Sequence[Path]) -> Journal:
    """The first process makes the folder and the journal; then each of them reads it."""
    if Accelerator().is_main_process:
        prepare_output(out, resume, inputs)
        Journal(out, settings, resume)
    Accelerator().wait_for_everyone()
    return Journal(out, settings, resume=True)


def _make_trainer(parts: Parts) -> PPOTrainer:
    """Lesson 9's trainer; with several processes lesson 11's."""
    trainer = PPOTrainer
    if Accelerator().num_processes > 1:
        from ..lesson11_scaling import DistributedPPOTrainer

        trainer = DistributedPPOTrainer
    critic = ValueModel(cast("PreTrainedModel", copy.deepcopy(parts.policy.base_model)))
    actor_critic = PolicyAndValue(parts.policy, critic)
    return trainer(actor_critic, parts.reward, make_reference(parts.policy), parts.config, parts.tokenizer)


def _leave() -> None:
    """One of several processes ends here."""
    if Accelerator().num_processes > 1:
        from ..given.processes import Processes

        Processes(Accelerator()).leave()


def _say_nothing(text: str) -> None:
    """What all processes but the first say."""


def parse_settings(text: str) -> dict[str, Any]:
    """ "num_updates=200 kl_coef=0.1" as keyword arguments of `PPOConfig`.

    Raises:
        ValueError: a name is no setting, or a value is not of its type.
    """
    kinds = {field.name: str(field.type) for field in dataclasses.fields(PPOConfig) if field.name not in DECIDED}
    chosen: dict[str, Any] = {}
    for pair in text.split():
        name, _, value = pair.partition("=")
        if name not in kinds:
            raise ValueError(f"expected SET to have settings of PPOConfig, got {name!r}; there are {', '.join(kinds)}")
        chosen[name] = value if kinds[name] == "str" else _parsed(value)
        if not _is_of_kind(chosen[name], kinds[name]):
            raise ValueError(
                f"expected {name} in SET to be {kinds[name]}, got {value!r}; write true, false and null as in JSON"
            )
    return chosen


def _parsed(value: str) -> Any:
    """Numbers, true, false and null as JSON has them; anything else stays a text."""
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _is_of_kind(value: Any, kind: str) -> bool:
    """Whether a value fits an annotation such as "int | None"; True is no number."""
    types = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "None": (type(None),)}
    return type(value) in {one for name in kind.split(" | ") for one in types[name]}


def fingerprint(model: torch.nn.Module) -> str:
    """A few letters that stand for the names, shapes and values of all weights of a model on the CPU."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.reshape(-1).contiguous().view(torch.uint8).numpy())
    return f"weights {digest.hexdigest()[:12]}"
