"""What a trainer is made of, held against each other before anything is trained; and whether dropout is off."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .config import PPOConfig
from .shapes import text_config, tokens_of

if TYPE_CHECKING:
    from accelerate import Accelerator

SIXTEEN_BITS = (torch.bfloat16, torch.float16)
ROUNDING = 1e-3
"""Of the largest number: some kernels of a GPU add in no fixed order, and dropout changes more."""


def check_parts(model: Any, reward_model: Any, ref_model: Any, config: Any) -> None:
    """Refuse, by a ValueError, what would fail later in words of another library, or train something else."""
    has_critic = hasattr(model, "value_model") or hasattr(model, "value_head")
    actor_and_critic = isinstance(model, nn.Module) and hasattr(model, "policy") and has_critic
    for name, value, fits, what in (
        ("model", model, actor_and_critic, "actor and critic, PolicyAndValue(policy, ValueModel(backbone))"),
        ("ref_model", ref_model, isinstance(ref_model, nn.Module | None), "make_reference(policy), or None with LoRA"),
        ("config", config, isinstance(config, PPOConfig), "a PPOConfig of ppo_by_hand"),
    ):
        if not fits:
            raise ValueError(f"expected {name} to be {what}, got {_brief(value)}")
    for name, decoder in (("the policy", model.policy), ("ref_model", ref_model)):
        _check_decoder(name, decoder)
    critic = getattr(model, "value_model", None)
    for name, backbone in (
        ("ValueModel", getattr(critic, "backbone", critic)),
        ("RewardModel", getattr(reward_model, "backbone", None)),
    ):
        if _has_head(backbone):
            raise ValueError(
                f"expected {name} to be made of a backbone, which has no head, got one of {_brief(backbone)}; load the "
                "backbone with AutoModel, or make a critic with ValueModel.from_classifier(model)"
            )
    is_classifier = isinstance(getattr(reward_model, "score", None), nn.Linear) and hasattr(reward_model, "config")
    if is_classifier and text_config(reward_model).pad_token_id is None:
        raise ValueError(
            "expected the reward model to have a pad token, without which it would read padding as the end of a text, "
            f"got {_brief(reward_model)} with none; set its config.pad_token_id to the pad token of its tokenizer"
        )
    _check_weights(model, critic, ref_model)
    _check_tokens(model.policy, critic, ref_model, reward_model, config)


def _brief(value: object) -> str:
    return f"a {type(value).__name__}" if isinstance(value, nn.Module) else repr(value)[:80]


def _check_decoder(name: str, policy: Any) -> None:
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
    known = inspect.signature(getattr(inner, "_orig_mod", inner).forward).parameters
    has_cache = bool({"past_key_values", "cache"} & known.keys())
    has_encoder = getattr(inner.config, "is_encoder_decoder", False)
    if inner.get_output_embeddings() is None or has_encoder or not has_cache:
        raise ValueError(
            f"expected {name} to be a causal language model without an encoder and with a key-value cache "
            f"(past_key_values), got {_brief(inner)}; load one such as Llama or Qwen with AutoModelForCausalLM"
        )


def _has_head(model: Any) -> bool:
    """Tell whether a Hugging Face model is more than a backbone; `peft` calls its own wrapper the base model."""
    inner = getattr(model, "get_base_model", lambda: model)()
    return getattr(inner, "base_model", inner) is not inner


def _check_weights(model: Any, critic: nn.Module | None, ref_model: nn.Module | None) -> None:
    if not all(weight.device.type != "meta" and bool(weight.isfinite().all()) for weight in model.parameters()):
        raise ValueError("expected weights that are finite numbers, got NaN, infinity or none; load the model again")
    own = {id(weight) for weight in model.policy.parameters()}
    if critic is not None and any(id(weight) in own for weight in critic.parameters()):
        raise ValueError(
            "expected the critic to share no weight with the policy, got some that both have; load its backbone again, "
            "or take SharedPolicyAndValue(policy)"
        )
    if not any(weight.requires_grad for weight in model.policy.parameters()):
        raise ValueError(
            "expected weights of the policy to train, got a policy that is frozen whole; call requires_grad_(True), or "
            "load its adapter with is_trainable=True"
        )
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    narrow = [weight.dtype for weight in trained if weight.dtype in SIXTEEN_BITS]
    if narrow:
        raise ValueError(
            f"expected the weights that are trained in float32, got {narrow[0]}, in which most steps are too small to "
            "change a weight; load the models in float32 (dtype) and start with accelerate launch --mixed_precision "
            "bf16, which computes in 16 bits, or train LoRA adapters, which are float32"
        )
    changing = {id(weight) for weight in trained}
    if ref_model is not None and any(id(weight) in changing for weight in ref_model.parameters()):
        raise ValueError(
            "expected ref_model to have weights of its own, got some that are trained, and would be frozen with it; "
            "use make_reference(policy), or None with LoRA"
        )


def _check_tokens(policy: Any, critic: Any, ref_model: Any, reward_model: Any, config: PPOConfig) -> None:
    known = tokens_of(policy)
    if known is None:
        return
    for name, reader in (("ref_model", ref_model), ("the critic", critic), ("the reward model", reward_model)):
        found = tokens_of(getattr(reader, "backbone", reader))
        if found is not None and (found < known or (found > known and reader is reward_model)):
            raise ValueError(
                f"expected {name} to have the policy's {known} tokens, got {found}, so it would read other words; load "
                "it from a model with the same tokenizer, give a reward model the texts by text_reward(model, "
                "tokenizer), or call resize_token_embeddings on it if the tokenizer is the same"
            )
    if config.pad_token_id >= known:
        raise ValueError(
            f"expected pad_token_id to be one of the policy's {known} tokens, got {config.pad_token_id}; call "
            "resize_token_embeddings on the models, or pad with the stop token"
        )


def check_no_dropout(wrapped: nn.Module, config: PPOConfig, accelerator: Accelerator) -> None:
    """Refuse a model of which two passes in train mode differ, whatever the dropout in it is called.

    Dropout that a Hugging Face model reads from its config in each pass is set to 0 there, but only if they differ.
    Torch's random states are left as they are. `wrapped` is actor and critic in train mode, as Accelerate gave them.
    """
    model, device = accelerator.unwrap_model(wrapped), accelerator.device
    length = 1 + min(config.max_new_tokens, 7)  # of a prompt token and a response, as the run needs anyway
    ids = torch.arange(2 * length, device=device).reshape(2, length) % (tokens_of(model.policy) or 1)
    batch = ids, torch.ones_like(ids, dtype=torch.bool), 1
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(gpus), warnings.catch_warnings(), torch.no_grad(), accelerator.autocast():
        warnings.simplefilter("ignore")  # checkpointing warns where there is no gradient
        if _agree(model(*batch), model(*batch)):
            return
        for module in model.modules():
            if hasattr(module, "config"):
                set_to_zero(module.config)
        if _agree(model(*batch), model(*batch)):
            return
    raise ValueError(
        "expected the same numbers from two passes of the models in train mode, got others: the policy that is trained "
        "would not be the one that sampled; set their dropout, or other noise, to 0"
    )


def set_to_zero(owner: Any) -> None:
    """Set to 0 each number of a module, or of a model's config, that is dropout by its name."""
    for name, value in list(getattr(owner, "__dict__", {}).items()):
        if "drop" in name.lower() and isinstance(value, float) and value > 0.0:
            setattr(owner, name, 0.0)


def _agree(some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """The same but for rounding, and for the infinite logits of tokens that a model forbids."""

    def rounding(numbers: Tensor) -> float:
        return ROUNDING * float(numbers.nan_to_num(posinf=0.0, neginf=0.0).abs().max())

    return all(
        torch.allclose(one, other, rtol=0.0, atol=rounding(one)) for one, other in zip(some, others, strict=True)
    )
