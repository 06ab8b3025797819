"""What SET= chooses in the preset `hub`: settings of `PPOConfig`, and what is made of the user's models and prompts."""

from __future__ import annotations

import dataclasses
import json
import shlex
from dataclasses import dataclass
from typing import Any

from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.settings import closest
from ppo_by_hand.core.shapes import check_number, is_of_kind

from .models import check_bfloat16

DEFAULTS = {"num_updates": 20, "batch_size": 16, "num_epochs": 2, "micro_batch_size": 4, "learning_rate": 1e-5}
"""Where a large model wants other settings than `PPOConfig` has for tiny ones."""
DEFAULTS_OF_REWARDS = {"clip_score": None}
"""A user's reward has a scale of its own."""
DECIDED = ("stop_token_ids", "pad_token_id", "seed", "log_dir")
"""Settings that follow from the tokenizer, SEED and OUT."""
DTYPES = ("auto", "float32", "bfloat16")
LONG_PROMPTS = ("refuse", "drop", "truncate")


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """How models and prompts are made ready. A field out of range is an error.

    Attributes:
        dtype: Of policy and critic: float32, bfloat16, or auto: as saved. 16 bits only below adapters
            (lora_rank > 0).
        frozen_dtype: Of reference and reward model: float32, bfloat16, or auto: as the policy is trained, as
            the reward was saved.
        gradient_checkpointing: Compute activations again in the backward: less memory, one more forward.
        lora_rank: > 0 trains LoRA adapters of this rank in policy and critic, and needs no reference model; 0
            trains all.
        lora_alpha: > 0; the adapters are scaled by lora_alpha / lora_rank.
        lora_targets: Names of the modules that get an adapter, with commas between them.
        value: What the critic starts from: policy (and a new head), reward, or a reward model's name or folder
            (VALUE=).
        stop_tokens: Tokens or their numbers, with commas between them, which alone end a response; else those
            of the model.
        max_prompt_length: Tokens; None: what the policy's context leaves.
        long_prompts: What happens to longer ones: refuse the run, drop them, or truncate them to their last
            tokens.
    """

    dtype: str = "float32"
    frozen_dtype: str = "auto"
    gradient_checkpointing: bool = False
    lora_rank: int = 0
    lora_alpha: float = 16.0
    lora_targets: str = "all-linear"
    value: str = "policy"
    stop_tokens: str = ""
    max_prompt_length: int | None = None
    long_prompts: str = "refuse"

    def __post_init__(self) -> None:
        for name, allowed in (("dtype", DTYPES), ("frozen_dtype", DTYPES), ("long_prompts", LONG_PROMPTS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"expected {name} to be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        check_number("lora_rank", self.lora_rank, 0)
        check_number("lora_alpha", self.lora_alpha, 0.0, open_low=True)
        if self.max_prompt_length is not None:
            check_number("max_prompt_length", self.max_prompt_length, 1)
        if "bfloat16" in (self.dtype, self.frozen_dtype):
            check_bfloat16()


def parse_settings(text: str) -> dict[str, Any]:
    """ "num_updates=200 kl_coef=0.1" as keyword arguments of `PPOConfig` and `HubOptions`; quotes keep a blank.

    Raises:
        ValueError: a name is no setting, or a value is not of its type.
    """
    kinds = {field.name: str(field.type) for field in dataclasses.fields(PPOConfig) if field.name not in DECIDED}
    kinds |= {field.name: str(field.type) for field in dataclasses.fields(HubOptions)}
    chosen: dict[str, Any] = {}
    try:
        pairs = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"expected SET to close each quote, got {text!r}") from error
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in kinds:
            raise ValueError(
                f"expected SET to have settings, got {name!r}; the closest one is {closest(name, kinds)}, and "
                "help(PPOConfig) and help(ppo_by_hand.hub.options) describe them all"
            )
        chosen[name] = value if kinds[name] == "str" else _parsed(value)
        if kinds[name] == "tuple[str, ...]" and isinstance(chosen[name], str):
            chosen[name] = [one for one in value.split(",") if one]
        if not is_of_kind(chosen[name], kinds[name]):
            raise ValueError(
                f"expected {name} in SET to be {kinds[name]}, got {value!r}; write true, false and null as in JSON, "
                "and 0.5 for .5, with blanks between settings"
            )
    return chosen


def split_settings(text: str) -> tuple[dict[str, Any], HubOptions]:
    """The keyword arguments of `PPOConfig` with the defaults of the preset, and the options.

    Raises:
        ValueError: as `parse_settings`, or an option is out of range.
    """
    names = {field.name for field in dataclasses.fields(HubOptions)}
    chosen = parse_settings(text)
    options = HubOptions(**{name: value for name, value in chosen.items() if name in names})
    return DEFAULTS | DEFAULTS_OF_REWARDS | {n: value for n, value in chosen.items() if n not in names}, options


def _parsed(value: str) -> Any:
    """Numbers, true, false and null as JSON has them; anything else stays a text."""
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value
