"""Lesson 11, third part: less memory for the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ..lesson07_actor_critic import REFERENCE

if TYPE_CHECKING:
    from peft import PeftModel

Model = TypeVar("Model", bound=torch.nn.Module)


def keep_reference_adapter(policy: PeftModel) -> PeftModel:
    """Remember the LoRA adapter as it is now: a frozen copy named "reference", for `reference_mode`.

    A policy that starts from an SFT *adapter* has base + adapter as its reference. With the adapters off, the KL
    would be measured against the base model: large before the first step, and the penalty would undo SFT.

    Args:
        policy: a `peft` model, all in train or all in eval mode, before the trainer is made from it. One adapter is in
            training, whatever its name and kind (LoRA, DoRA, `modules_to_save`); others may lie beside it, inactive.

    Returns:
        The same policy in the same mode: its adapter still active and trainable, and a frozen copy of all its
        weights that shares no tensor with it.

    Raises:
        ValueError: the policy has no adapters, or already keeps a reference.
    """
    if not hasattr(policy, "peft_config"):
        raise ValueError(
            f"expected a peft model with an adapter, got {type(policy).__name__}; use make_reference instead"
        )
    if REFERENCE in policy.peft_config:
        raise ValueError("expected a policy without a reference adapter, got one; the reference is never refreshed")
    raise NotImplementedError("lesson11: keep_reference_adapter")


def enable_gradient_checkpointing(model: Model) -> Model:
    """Keep only each block's input for the backward, and compute the rest again there: less memory, one more forward.

    Given. Hugging Face models check themselves whether they are in training mode, so that is switched on as well;
    `PPOTrainer` sets dropout to 0, and a rollout puts models in evaluation mode for its time.

    Args:
        model: actor and critic, or either; changed in place.

    Returns:
        The same model; its outputs and gradients are the same numbers as before.
    """
    for module in _language_models(model):
        # transformers has renamed the method within version 5
        enable = getattr(module, "activation_checkpointing_enable", None) or module.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return model.train()


def _language_models(model: torch.nn.Module) -> Iterator[Any]:
    """The outermost Hugging Face models in a module."""
    if hasattr(model, "gradient_checkpointing_enable"):
        yield model
    else:
        for child in model.children():
            yield from _language_models(child)
