"""The preset `hub`: PPO on a policy, a reward and prompts that the user names. No stage is trained before PPO.

make demo PRESET=hub POLICY=path/or/name REWARD=module:function PROMPTS=prompts.jsonl SET="num_updates=200"
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from ..lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference
from ..lesson09_ppo_trainer import PPOConfig, PPOTrainer
from ..lesson09_ppo_trainer.scoring import first_line
from .hub_models import context_length, embedding_rows, load_policy, stop_token_ids
from .hub_rewards import load_reward
from .journal import Journal, said_with_what_is_kept
from .pipeline import prepare_output, save_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DEFAULTS = {"num_updates": 20, "batch_size": 16, "num_epochs": 2, "micro_batch_size": 4, "learning_rate": 1e-5}
"""Where a large model wants other settings than `PPOConfig` has for tiny ones."""
DECIDED = ("stop_token_ids", "pad_token_id", "seed", "log_dir")
"""Settings that follow from the tokenizer, SEED and OUT."""


class HubPrompt(NamedTuple):
    """One prompt of the user's file."""

    text: str
    """What a reward function gets: the text, or the last message of a conversation."""
    messages: list[dict[str, str]]
    """The same as a conversation, for tokenizers with a chat template."""
    is_chat: bool
    """Whether the file had a conversation."""


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
    if not is_first:
        say = _say_nothing
    given = read_prompts(prompts)
    set_seed(seed)  # the critic's head starts from random weights, and a reward function may draw from any source
    model, tokenizer = load_policy(policy, say)
    prompt_ids = [encode_prompt(prompt, tokenizer) for prompt in given]
    config = PPOConfig(
        stop_token_ids=stop_token_ids(model, tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        seed=seed,
        log_dir=str(out / "log"),
        **chosen,
    )
    check_context(prompt_ids, config.max_new_tokens, context_length(model), "POLICY")
    originals = originals_of(prompt_ids, given, tokenizer)
    scorer = load_reward(reward, tokenizer, embedding_rows(model), originals, say)
    judge = reward
    if isinstance(scorer, torch.nn.Module):
        check_context(prompt_ids, config.max_new_tokens, context_length(scorer), "REWARD")
        judge = f"{reward} ({fingerprint(scorer)})"
    writer = f"{policy} ({fingerprint(model)})"
    source = f"{prompts.name} ({hashlib.sha256(prompts.read_bytes()).hexdigest()[:16]})"
    names = {"PRESET": "hub", "POLICY": writer, "REWARD": judge, "PROMPTS": source, "SEED": seed, "SET": chosen}
    if is_first:
        prepare_output(out, resume, inputs=[Path(policy), Path(reward), prompts])
        Journal(out, names, resume)
    Accelerator().wait_for_everyone()
    journal = Journal(out, names, resume=True)
    actor_critic = PolicyAndValue(model, ValueModel(cast("PreTrainedModel", copy.deepcopy(model.base_model))))
    trainer = _trainer_class()(actor_critic, scorer, make_reference(model), config, tokenizer)
    checkpoints = journal.checkpoints("ppo")
    start = checkpoints.newest(say)
    if start is not None:
        trainer.load_checkpoint(start)
        say(f"going on after update {trainer.updates_done}, from {start}")
    say(f"PPO: {config.num_updates} updates of {config.batch_size} responses to {len(given)} prompts")
    with said_with_what_is_kept(out):
        history = trainer.train(prompt_ids, checkpoints.save)
        if is_first:
            save_model(trainer.policy, tokenizer, out / "policy")
            journal.finish()
    say(f"score {history[0]['score']:.2f} -> {history[-1]['score']:.2f}, KL {history[-1]['kl']:.2f} nats")
    say(f"saved {out / 'policy'}; the metrics of each update are in {out / 'log'}")
    if Accelerator().num_processes > 1:
        from ..lesson11_scaling import Processes

        Processes(Accelerator()).leave()
    return 0


def _say_nothing(text: str) -> None:
    """What all processes but the first say."""


def _trainer_class() -> type[PPOTrainer]:
    """Lesson 9's trainer; with several processes lesson 11's."""
    if Accelerator().num_processes == 1:
        return PPOTrainer
    from ..lesson11_scaling import DistributedPPOTrainer

    return DistributedPPOTrainer


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


def read_prompts(file: Path) -> list[HubPrompt]:
    """The prompts of a text file, one a line, or of a .jsonl file of {"prompt": text or list of messages}.

    Raises:
        ValueError: the file cannot be read, a line is no prompt, or there is none.
    """
    if file.suffix.lower() == ".json":
        raise ValueError(f"expected PROMPTS to be a text or JSONL file, got {file}; rename JSON lines to .jsonl")
    try:
        # "utf-8-sig" drops a byte-order mark; splitlines would also break at characters that JSON allows in a text.
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected PROMPTS to be a text or JSONL file, got {file}: {error}") from error
    read = _from_json if file.suffix.lower() == ".jsonl" else _from_text
    found = [read(line, f"line {number} of {file}") for number, line in enumerate(lines, start=1) if line]
    if not found:
        raise ValueError(f"expected a prompt in {file}, got none; write one a line")
    return found


def _from_text(line: str, where: str) -> HubPrompt:
    return HubPrompt(line, [{"role": "user", "content": line}], is_chat=False)


def _from_json(line: str, where: str) -> HubPrompt:
    rule = f'expected {where} to be JSON like {{"prompt": "a text"}} or {{"prompt": [{{"role": ..., "content": ...}}]}}'
    try:
        prompt = json.loads(line)["prompt"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{rule}, got {line[:60]}") from error
    if isinstance(prompt, str) and prompt.strip():
        return _from_text(prompt, where)
    if not isinstance(prompt, list) or not prompt or not all(_is_message(one) for one in prompt):
        raise ValueError(f"{rule}, got {line[:60]}")
    if prompt[-1]["role"] == "assistant":
        raise ValueError(f"expected {where} to end with a message that can be answered, got one of the assistant")
    return HubPrompt(prompt[-1]["content"], prompt, is_chat=True)


def _is_message(one: Any) -> bool:
    """Whether it is {"role": text, "content": text}; more keys are left to the template."""
    return isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("role", "content"))


def encode_prompt(prompt: HubPrompt, tokenizer: Any) -> list[int]:
    """The token ids that the policy answers: by the chat template where the tokenizer has one.

    Raises:
        ValueError: a conversation came without a template, or nothing is left.
    """
    if prompt.is_chat and tokenizer.chat_template is None:
        raise ValueError(
            f"expected plain texts for a tokenizer without chat template, got messages: {prompt.text[:60]!r}"
        )
    try:
        if tokenizer.chat_template is None:
            encoded = tokenizer(prompt.text)
        else:
            encoded = tokenizer.apply_chat_template(prompt.messages, add_generation_prompt=True, return_dict=True)
    except Exception as error:  # a template may raise anything, and a tokenizer refuses half a surrogate pair
        raise ValueError(
            f"expected a prompt that the policy's tokenizer can encode, got {prompt.text[:60]!r} ({first_line(error)})"
        ) from error
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise ValueError(f"expected a token in each prompt, got none in {prompt.text[:60]!r}")
    return ids


def originals_of(prompt_ids: list[list[int]], given: list[HubPrompt], tokenizer: Any) -> dict[str, str]:
    """The user's prompts by the texts that their tokens decode to: a reward function knows a prompt by that alone.

    Raises:
        ValueError: two different prompts decode to the same text.
    """
    originals: dict[str, str] = {}
    for ids, one in zip(prompt_ids, given, strict=True):
        decoded = tokenizer.decode(ids, skip_special_tokens=True)
        if originals.setdefault(decoded, one.text) != one.text:
            raise ValueError(
                f"expected prompts that the policy's tokenizer can tell apart, got {originals[decoded][:60]!r} and "
                f"{one.text[:60]!r}, both {decoded[:60]!r}; drop one of them"
            )
    return originals


def fingerprint(model: torch.nn.Module) -> str:
    """A few letters that stand for the names, shapes and values of all weights of a model on the CPU."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.reshape(-1).contiguous().view(torch.uint8).numpy())
    return f"weights {digest.hexdigest()[:12]}"


def check_context(prompt_ids: list[list[int]], max_new_tokens: int, context: int | None, whose: str) -> None:
    """Demand room for each prompt and its response before any training starts.

    Raises:
        ValueError: a prompt is too long.
    """
    for number, ids in enumerate(prompt_ids, start=1):
        if context is not None and len(ids) + max_new_tokens > context:
            raise ValueError(
                f"expected prompt {number} ({len(ids)} tokens) and {max_new_tokens} new ones to fit the context of "
                f"{context} of {whose}; shorten or drop it, or lower max_new_tokens in SET"
            )
