"""What a trainer is made of, held against each other before anything is trained."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from .config import PPOConfig
from .shapes import text_config, tokens_of
from .texts import takes

SIXTEEN_BITS = (torch.bfloat16, torch.float16)


def check_parts(model: Any, reward_model: Any, ref_model: Any, config: Any) -> None:
    """Refuse models and settings that would fail later, in words of another library, or train something else.

    Args: as `PPOTrainer`.

    Raises:
        ValueError: one is of another kind, knows fewer tokens than the policy writes, or leaves nothing to train.
    """
    has_critic = hasattr(model, "value_model") or hasattr(model, "value_head")
    actor_and_critic = isinstance(model, nn.Module) and hasattr(model, "policy") and has_critic
    for name, value, fits, what in (
        ("model", model, actor_and_critic, "actor and critic, PolicyAndValue(policy, ValueModel(backbone))"),
        ("ref_model", ref_model, isinstance(ref_model, nn.Module | None), "make_reference(policy), or None with LoRA"),
        ("config", config, isinstance(config, PPOConfig), "a PPOConfig of ppo_by_hand"),
    ):
        if not fits:
            raise ValueError(f"expected {name} to be {what}, got {_brief(value)}")
    for name, reader in (("policy", model.policy), ("reference", ref_model)):
        is_none = not isinstance(reader, nn.Module) and (reader is not None or name == "policy")
        if is_none or (hasattr(reader, "get_output_embeddings") and reader.get_output_embeddings() is None):
            fix = "load one with AutoModelForCausalLM"
            raise ValueError(f"expected the {name} to be a causal language model, got {_brief(reader)}; {fix}")
    _check_kind(model.policy)
    _check_critic(getattr(model, "value_model", None))
    _check_sharing(model.policy, getattr(model, "value_model", None))
    _check_weights(model, ref_model)
    _check_tokens(model, ref_model, config)
    _check_reward_model(reward_model, model.policy)


def _brief(value: object) -> str:
    return f"a {type(value).__name__}" if isinstance(value, nn.Module) else repr(value)[:80]


def _check_kind(policy: Any) -> None:
    """Refuse a model that isn't a decoder with a key-value cache, and adapters that write into the prompt."""
    adapters = (getattr(policy, "peft_config", None) or {}).values()
    if any(getattr(adapter, "is_prompt_learning", False) for adapter in adapters):
        raise ValueError(
            "expected adapters inside the policy's layers, such as LoRA's, got prefix or prompt tuning, whose learned "
            "tokens stand before the prompt, where sampling and training disagree on the positions; use LoraConfig"
        )
    inner = getattr(policy, "get_base_model", lambda: policy)()
    if not hasattr(inner, "get_output_embeddings"):
        return
    if getattr(inner.config, "is_encoder_decoder", False):
        raise ValueError(
            f"expected the policy to be a decoder, which goes on with its prompt, got {_brief(inner)} with an encoder "
            "for the prompt; load one with AutoModelForCausalLM"
        )
    known = inspect.signature(getattr(inner, "_orig_mod", inner).forward).parameters
    if not {"past_key_values", "cache"} & known.keys():
        raise ValueError(
            f"expected the policy to have a key-value cache (past_key_values), got {_brief(inner)}, which has "
            "none; take a transformer such as Llama or Qwen"
        )


def _check_reward_model(reward_model: Any, policy: Any) -> None:
    """Refuse one that reads other tokens than the policy's; a function reads none."""
    if not isinstance(reward_model, nn.Module):
        return
    backbone = getattr(reward_model, "backbone", None)
    if _has_head(backbone):
        raise ValueError(
            "expected RewardModel to be made of a backbone, which has no head, got one of a "
            f"{type(backbone).__name__}; load the backbone with AutoModel, or give the trainer a classifier itself"
        )
    found, known = tokens_of(reward_model if backbone is None else backbone), tokens_of(policy)
    if None not in (found, known) and found != known:
        raise ValueError(
            f"expected a reward model of the policy's {known} tokens, got one of {found}, which would read other "
            "words; text_reward(model, tokenizer) gives it the texts, or call resize_token_embeddings on it if the "
            "tokenizer is the same"
        )
    if _is_classifier(reward_model) and getattr(text_config(reward_model), "pad_token_id", 0) is None:
        raise ValueError(
            "expected the reward model to have a pad token, without which it reads only one row at once, got a "
            f"{type(reward_model).__name__} with none; set reward_model.config.pad_token_id to the pad token of its "
            "tokenizer"
        )


def _check_critic(critic: Any) -> None:
    backbone = getattr(critic, "backbone", critic)
    if hasattr(critic, "get_input_embeddings") or _has_head(backbone):
        fix = "call ValueModel.from_classifier(model)" if _is_classifier(backbone) else "load one with AutoModel"
        raise ValueError(
            "expected the critic to be ValueModel(backbone), the backbone without a head, got a "
            f"{type(backbone).__name__}; {fix}"
        )


def _is_classifier(model: Any) -> bool:
    """Tell whether it's a decoder that classifies sequences: it reads the last token that isn't padding."""
    return hasattr(model, "config") and isinstance(getattr(model, "score", None), nn.Linear)


def _has_head(model: Any) -> bool:
    """Tell whether a Hugging Face model is more than a backbone; `peft` calls its own wrapper the base model."""
    inner = getattr(model, "get_base_model", lambda: model)()
    return getattr(inner, "base_model", inner) is not inner


def _check_sharing(policy: nn.Module, critic: nn.Module | None) -> None:
    own = {id(weight) for weight in policy.parameters()}
    shared = 0 if critic is None else sum(id(weight) in own for weight in critic.parameters())
    if shared:
        raise ValueError(
            f"expected the critic to share no weight with the policy, got {shared} that both have; load its backbone "
            "again, or take SharedPolicyAndValue(policy)"
        )


def check_functions(**functions: object) -> None:
    """Check that each of these, if it's given, is a function of an argument.

    Raises:
        ValueError: one of them isn't.
    """
    for name, function in functions.items():
        if function is not None and (not callable(function) or not takes(function, 1)):
            what = "function with an argument" if callable(function) else "function"
            raise ValueError(f"expected {name} to be a {what}, got {function!r}")


def _check_weights(model: Any, ref_model: nn.Module | None) -> None:
    if not all(weight.device.type != "meta" and bool(weight.isfinite().all()) for weight in model.parameters()):
        raise ValueError("expected weights that are finite numbers, got NaN, infinity or none; load the model again")
    trained = {id(weight) for weight in model.parameters() if weight.requires_grad}
    if not any(weight.requires_grad for weight in model.policy.parameters()):
        raise ValueError(
            "expected weights of the policy to train, got a policy that is frozen whole; call requires_grad_(True), or "
            "load its adapter with is_trainable=True"
        )
    narrow = [weight.dtype for weight in model.parameters() if weight.requires_grad and weight.dtype in SIXTEEN_BITS]
    if narrow:
        raise ValueError(
            f"expected the weights that are trained in float32, got {narrow[0]}, in which most steps are too small to "
            "change a weight; load the models in float32 (dtype) and start with accelerate launch --mixed_precision "
            "bf16, which computes in 16 bits, or train LoRA adapters, which are float32"
        )
    if ref_model is not None and any(id(weight) in trained for weight in ref_model.parameters()):
        raise ValueError(
            "expected ref_model to have weights of its own, got some that are trained, and would be frozen with it; "
            "use make_reference(policy), or None with LoRA"
        )


def _check_tokens(model: Any, ref_model: nn.Module | None, config: PPOConfig) -> None:
    known = tokens_of(model.policy)
    if known is None:
        return
    backbone = getattr(getattr(model, "value_model", None), "backbone", None)
    for name, reader in (("ref_model", ref_model), ("the critic", backbone)):
        found = tokens_of(reader)
        if found is not None and found < known:
            raise ValueError(
                f"expected {name} to know the {known} tokens that the policy may write, got {found}; "
                "load it from a model with the same tokenizer"
            )
    if config.pad_token_id >= known:
        raise ValueError(
            f"expected pad_token_id to be one of the policy's {known} tokens, got {config.pad_token_id}; call "
            "resize_token_embeddings on the models, or pad with the stop token"
        )
    if min(config.stop_token_ids) >= known:
        raise ValueError(
            f"expected one of stop_token_ids among the policy's {known} tokens, got {config.stop_token_ids}: no "
            "response could end; take those of the policy's tokenizer"
        )
