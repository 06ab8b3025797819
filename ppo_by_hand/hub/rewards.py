"""Rewards that the user names: a Python function, or a sequence-classification model with one label."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ppo_by_hand.core.files import first_line
from ppo_by_hand.core.shapes import context_length, tokens_of
from ppo_by_hand.core.texts import RewardFunction

from .models import check_tokenizer, load_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NO_LIMIT = 2**31 - 1
"""Tokens; a tokenizer that knows no limit says more. RoBERTa's allows fewer than its model's config."""


def load_reward(
    name: str, policy_tokenizer: Any, policy_rows: int | None, say: Callable[[str], None], dtype: str = "float32"
) -> nn.Module | RewardFunction:
    """Load the reward as `PPOTrainer` takes it.

    Args:
        name: `module:function`, or the name or folder of a sequence-classification model.
        policy_tokenizer: a reward model with another one gets the texts, encoded again.
        policy_rows: how many tokens the policy can write: often more than its tokenizer has.

    Raises:
        ValueError: it cannot be imported or loaded, or has more than one label.
    """
    if ":" in name and not Path(name).exists():
        return _import(name)
    from transformers import AutoModelForSequenceClassification

    what = "a module:function, or a sequence-classification model"
    model, tokenizer = load_model(AutoModelForSequenceClassification, "REWARD", name, what, dtype)
    reader = text_reward(model, tokenizer)
    rows = tokens_of(model)
    has_every_token = rows is not None and policy_rows is not None and rows >= policy_rows
    if has_every_token and tokenizer.get_vocab() == policy_tokenizer.get_vocab():
        if rows != policy_rows:
            model.resize_token_embeddings(policy_rows)  # without padding that no tokenizer knows
        return model
    say(f"{name} has other tokens than the policy: it gets the texts, encoded again")
    return reader


def text_reward(model: PreTrainedModel, tokenizer: Any) -> RewardFunction:
    """Make a reward function that encodes prompt and response with the reward model's own tokenizer.

    With a chat template the two are a conversation, else one text. What is longer than the model's context loses
    its beginning.

    Args:
        model: a sequence classifier of one label; it's frozen, and moved to the GPU where there is one.
        tokenizer: the model's own, which may be another than the policy's.

    Raises:
        ValueError: the model has more than one label, or its tokenizer writes tokens that the model doesn't know.
    """
    name = type(model).__name__
    if model.config.num_labels != 1:
        raise ValueError(
            f"expected the reward model to have one label, the score; got {name} with {model.config.num_labels}"
        )
    check_tokenizer(model, tokenizer, name)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    tokenizer.padding_side, tokenizer.truncation_side = "right", "left"
    longest = min(tokenizer.model_max_length, context_length(model) or NO_LIMIT, NO_LIMIT)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reader: Any = model.to(device).requires_grad_(False)  # type: ignore[arg-type]

    def text(prompt: str, response: str) -> str:
        if tokenizer.chat_template is not None:
            turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]
            return str(tokenizer.apply_chat_template(turns, tokenize=False))
        touches = not prompt[-1:].isspace() and not response[:1].isspace()
        return f"{prompt} {response}" if touches else prompt + response

    @torch.no_grad()
    def reward_model(prompts: list[str], responses: list[str]) -> list[float]:
        rows = tokenizer(
            [text(*pair) for pair in zip(prompts, responses, strict=True)],
            padding=True,
            truncation=True,
            max_length=longest,
            add_special_tokens=tokenizer.chat_template is None,
            return_tensors="pt",
        ).to(device)
        logits = reader(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).logits
        return list(logits[:, 0].tolist())

    return reward_model


def _import(name: str) -> RewardFunction:
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise ValueError(
            f"expected REWARD=module:function to be importable, got {name} ({first_line(error)}); modules are looked "
            "for in the working directory and in PYTHONPATH"
        ) from error
    if not callable(function):
        raise ValueError(f"expected REWARD=module:function to be a function, got {name}, a {type(function).__name__}")
    return function  # type: ignore[no-any-return]
