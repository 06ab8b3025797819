"""Models copied and frozen: the critic from the reward model, freeze and the reference."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from .scenarios_digits import Digits
from .scenarios_models import (
    dropouts_of,
    fill,
    first_numbers,
    give_gradients,
    gpt2,
    gradients_of,
    in_train_mode,
    listed,
    reward_model_on,
    shared_tensors,
    trainable_in,
)


def critic_of(
    lesson: Any, gain: Tensor, weight: Tensor, bias: Tensor, frozen: tuple[str, ...] = (), trained: bool = False
) -> Any:
    """The critic made from a reward model with these weights; `trained` then adds 1 to all that the critic holds.

    Another one was made before the reward model had them.
    """
    reward_model = reward_model_on(lesson, Digits()).to(gain.dtype)
    lesson.critic_from_reward_model(reward_model)
    with torch.no_grad():
        reward_model.backbone.gain.copy_(gain)
        reward_model.backbone.offset.fill_(7.0)
        reward_model.head.weight.copy_(weight)
        reward_model.head.bias.copy_(bias)
    for part in frozen:  # "" is the whole.
        reward_model.get_submodule(part).requires_grad_(False).eval()
    give_gradients(reward_model)
    slopes = gradients_of(reward_model)
    torch.manual_seed(0)
    critic = lesson.critic_from_reward_model(reward_model)
    shared = shared_tensors(critic, reward_model)
    answer = {
        "class": type(critic).__name__,
        "backbone": critic.backbone.gain.detach().clone(),
        "buffer": critic.backbone.offset.detach().clone(),
        "head_weight": critic.head.weight.detach().clone(),
        "head_bias": critic.head.bias.detach().clone(),
        "shared": listed(shared),
        "trainable": listed(trainable_in(critic)),
    }
    if trained:
        _add(critic, 1.0)
    left = (reward_model.backbone.gain, reward_model.backbone.offset, reward_model.head.weight, reward_model.head.bias)
    answer["reward_model"] = torch.cat([tensor.detach().flatten() for tensor in left])
    answer["reward_model_trainable"] = listed(trainable_in(reward_model))
    answer["reward_model_gradients_as_before"] = slopes == gradients_of(reward_model)
    return answer


def gpt2_critic(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int, dtype: str) -> Any:
    """The critic at the last token of each row (they have no padding on the right), and the score.

    All of the reward model is frozen but its first parameter.
    """
    reward_model = reward_model_on(lesson, gpt2(seed).transformer).to(getattr(torch, dtype))
    fill(reward_model.head, seed)
    reward_model.requires_grad_(False).eval()
    next(reward_model.parameters()).requires_grad_(True)
    critic = lesson.critic_from_reward_model(reward_model)
    values = critic(input_ids, attention_mask)
    return {
        "value": values[:, -1].detach(),
        "score": reward_model(input_ids, attention_mask).detach(),
        "shared": listed(shared_tensors(critic, reward_model)),
        "frozen": listed(name for name, parameter in critic.named_parameters() if not parameter.requires_grad),
    }


class Layers(nn.Sequential):
    """Parameters at three depths, and dropout at two; made from its config, as a model of Hugging Face is."""

    def __init__(self, config: SimpleNamespace) -> None:
        inner = nn.Sequential(nn.LayerNorm(2), nn.Dropout(0.5), nn.Linear(2, 1))
        super().__init__(nn.Linear(2, 2), nn.Dropout(0.5), inner)
        self.config = config
        self.register_parameter(config.scale, nn.Parameter(torch.tensor([1.0])))
        self.register_buffer("steps", torch.tensor([0.0]))


def _layers(numbers: Tensor | None = None, scale: str = "scale") -> nn.Module:
    """Each parameter is filled with its number; `scale` is the name of the one in front."""
    model = Layers(SimpleNamespace(scale=scale)).double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.fill_(number + 1.0 if numbers is None else numbers[number])
    return model


def _prepared(frozen: tuple[str, ...], evaluating: tuple[str, ...], **made: Any) -> nn.Module:
    """The layers in train mode, but for the parameters and modules of these names ("" is the whole)."""
    model = _layers(**made).train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for name, module in model.named_modules():
        if name in evaluating:
            module.training = False
    return model


def frozen_layers(lesson: Any, frozen: tuple[str, ...] = (), evaluating: tuple[str, ...] = (), **made: Any) -> Any:
    model = _prepared(frozen, evaluating, **made)
    result = lesson.freeze(model)
    new = sorted(vars(model).keys() - vars(_layers(**made)).keys())
    return {**_state(result, model), "weights": first_numbers(model), "new_attributes": listed(new)}


def _state(result: Any, model: nn.Module) -> dict[str, Any]:
    """What `freeze` gave back, and how it left the model."""
    return {
        "same_model": result is model,
        "trainable": listed(trainable_in(model)),
        "train_mode": listed(in_train_mode(model)),
    }


def frozen_output(lesson: Any, x: Tensor) -> Any:
    """What a frozen model gives twice: dropout would make them differ, and a gradient would reach its weights."""
    model = _prepared((), ()).to(x.dtype)
    lesson.freeze(model)
    torch.manual_seed(0)
    first, second = model(x), model(x)
    return {"first": first, "second": second, "learns": first.requires_grad}


def reference_of(
    lesson: Any, frozen: tuple[str, ...] = (), evaluating: tuple[str, ...] = (), trained: float = 0.0, **made: Any
) -> Any:
    """The reference of a policy, and both after `trained` was added to all that the policy holds.

    Another reference was made before, when the policy held other numbers.
    """
    policy = _prepared(frozen, evaluating, **made)
    give_gradients(policy)
    slopes, dropout = gradients_of(policy), dropouts_of(policy)
    held = [tensor.detach().clone() for tensor in (*policy.parameters(), *policy.buffers())]
    _add(policy, 1.0)
    lesson.make_reference(policy)
    with torch.no_grad():
        for tensor, number in zip((*policy.parameters(), *policy.buffers()), held, strict=True):
            tensor.copy_(number)
    torch.manual_seed(0)
    reference = lesson.make_reference(policy)
    left = {"gradients_as_before": slopes == gradients_of(policy), "dropout_as_before": dropout == dropouts_of(policy)}
    _add(policy, trained)
    return {
        "class": type(reference).__name__,
        "weights": first_numbers(reference),
        "shared": listed(shared_tensors(reference, policy)),
        "trainable": listed(trainable_in(reference)),
        "train_mode": listed(in_train_mode(reference)),
        "policy_weights": first_numbers(policy),
        "policy_trainable": listed(trainable_in(policy)),
        "policy_train_mode": listed(in_train_mode(policy)),
        **{f"policy_{name}": value for name, value in left.items()},
    }


def _add(model: nn.Module, number: float) -> None:
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.add_(number)
