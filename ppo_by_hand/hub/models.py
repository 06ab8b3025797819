"""Models of the Hugging Face Hub, from a folder or by name, and what their tokenizers leave open."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppo_by_hand.core.files import first_line
from ppo_by_hand.core.shapes import tokens_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


def load_policy(name: str, say: Callable[[str], None], dtype: str = "float32") -> tuple[PreTrainedModel, Any]:
    """Load a causal language model and its tokenizer; if that has no pad token, the stop token serves.

    Raises:
        ValueError: it cannot be loaded (no folder, no network), has no trained head, or does not fit its tokenizer.
    """
    from transformers import AutoModelForCausalLM

    if Path(name, "adapter_config.json").is_file():
        raise ValueError(
            f"expected POLICY to be a whole model, got an adapter in {name}; call merge_and_unload and save it again"
        )
    model, tokenizer = load_model(AutoModelForCausalLM, "POLICY", name, "a causal language model", dtype)
    if tokenizer.eos_token_id is None:
        raise ValueError(
            f"expected the tokenizer of {name} to have a stop (eos) token, got none; set one and save it again"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
        say(f"the tokenizer of {name} has no pad token: its stop token {tokenizer.eos_token} serves as one")
    return model, tokenizer


def load_model(auto_class: Any, variable: str, name: str, what: str, dtype: str) -> tuple[PreTrainedModel, Any]:
    """Load a model on the CPU and in eval mode, with its tokenizer.

    `variable` and `what` are its name and kind, for a message; the `dtype` "auto" is that in which it was saved.

    Raises:
        ValueError: it cannot be loaded, weights are missing, or the tokenizer has tokens that the model has not.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from transformers import AutoTokenizer

    try:
        if not Path(name).is_dir() and not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=5)  # one question: without a network loading would retry for a minute
        model, report = auto_class.from_pretrained(name, dtype=dtype, output_loading_info=True)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # each layer below has its own exceptions for a folder that is not what it should be
        got = name if Path(name).is_dir() else f"{name}, which is no folder here"
        raise ValueError(
            f"expected {variable} to be {what} in a folder saved by save_pretrained, or the name of one that can be "
            f"downloaded, got {got} ({first_line(error)})"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ValueError(f"expected {variable} to be {what}, got {name} without trained weights for {missing[0]}")
    check_tokenizer(model, tokenizer, name)
    return model, tokenizer


def check_tokenizer(model: PreTrainedModel, tokenizer: Any, name: str) -> None:
    """Refuse a tokenizer that writes tokens which the model doesn't know.

    Raises:
        ValueError: it does.
    """
    rows = tokens_of(model)
    if rows is not None and len(tokenizer) > rows:
        raise ValueError(
            f"expected the tokenizer of {name} to have at most the {rows} tokens of its model, got {len(tokenizer)}; "
            "load both from the same checkpoint, or call resize_token_embeddings if you added tokens"
        )


def stop_token_ids(model: PreTrainedModel, tokenizer: Any) -> tuple[int, ...]:
    """Return every token that ends a response: the tokenizer's, and those that the model's generation settings add."""
    more = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    listed = more if isinstance(more, list) else [] if more is None else [more]
    return tuple(sorted({tokenizer.eos_token_id, *listed}))


def merged_weights(policy: Any) -> dict[str, Tensor]:
    """Name the policy's weights as its checkpoint does, for an engine that samples; adapters are added in.

    Args:
        policy: left as it is; a policy with LoRA adapters is copied.
    """
    whole = copy.deepcopy(policy).merge_and_unload() if hasattr(policy, "peft_config") else policy
    return dict(whole.state_dict())
