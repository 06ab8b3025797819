"""Actor, critic and reference of the preset `hub`, made from the user's models; and the policy that is saved."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from ppo_by_hand.core.files import first_line
from ppo_by_hand.core.heads import start_from_classifier
from ppo_by_hand.hub.options import HubOptions

from ..lesson07_actor_critic import PolicyAlone, PolicyAndValue, ValueModel, make_reference

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def make_models(
    policy: PreTrainedModel, value: nn.Module | None, options: HubOptions, has_critic: bool = True
) -> tuple[PolicyAndValue | PolicyAlone, PreTrainedModel | None]:
    """Actor and critic, and the reference: None for a LoRA policy, which is its own.

    Args:
        policy: becomes the actor.
        value: a sequence classifier to start the critic from; None takes the policy's backbone and a new head.
        options: dtype of the reference, adapters, gradient checkpointing.
        has_critic: False where advantages come from groups: then no critic is made.

    Raises:
        ValueError: the classifier's head is not one linear layer, or no module has a name of `lora_targets`.
    """
    critic = make_critic(policy, value) if has_critic else None
    reference = None
    if options.lora_rank:
        if critic is not None:
            critic.backbone = with_adapter(critic.backbone, options)
        policy = with_adapter(policy, options)
    else:
        reference = make_reference(policy)
        if options.frozen_dtype != "auto":
            reference = reference.to(getattr(torch, options.frozen_dtype))
    model = PolicyAlone(policy) if critic is None else PolicyAndValue(policy, critic)
    if options.gradient_checkpointing:
        from ..lesson11_scaling import enable_gradient_checkpointing

        enable_gradient_checkpointing(model)
    return model, reference


def make_critic(policy: PreTrainedModel, value: nn.Module | None) -> ValueModel:
    """A critic with a backbone of its own in the policy's dtype."""
    if value is None:
        critic = ValueModel(cast("PreTrainedModel", copy.deepcopy(policy.base_model)))
    else:
        backbone: Any = value.base_model
        critic = start_from_classifier(ValueModel(backbone), value)
    critic.backbone.to(dtype=policy.dtype)  # type: ignore[call-arg]
    return critic.requires_grad_(True)


def with_adapter(model: PreTrainedModel, options: HubOptions) -> PreTrainedModel:
    """The model with a new LoRA adapter, all other weights frozen; its answers are the same until a step is made.

    Raises:
        ValueError: no module has a name of `lora_targets`.
    """
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    targets = options.lora_targets
    config = LoraConfig(
        r=options.lora_rank,
        lora_alpha=options.lora_alpha,  # type: ignore[arg-type]
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


def policy_to_save(trainer: Any) -> Any:
    """The policy with all its weights in the first process; every process must call it."""
    return trainer.whole_policy() if hasattr(trainer, "whole_policy") else trainer.policy


def merged(policy: Any, dtype: torch.dtype) -> PreTrainedModel:
    """The policy as it is saved: without adapters, which are merged into it, and in the dtype that it came in."""
    whole = policy.merge_and_unload() if hasattr(policy, "peft_config") else policy
    return cast("PreTrainedModel", whole.to(dtype))
