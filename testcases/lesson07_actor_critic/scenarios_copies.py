"""Models copied and frozen: the critic from the reward model, freeze and the reference; what can be told of a model."""

import importlib
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from .scenarios_digits import Digits, digit_head


def critic_of(
    lesson: Any, gain: Tensor, weight: Tensor, bias: Tensor, frozen: tuple[str, ...] = (), trained: bool = False
) -> Any:
    """The critic made from a reward model with these weights; `trained` then adds 1 to all that the critic holds.

    Another one was made before the reward model had them.
    """
    reward_model = _reward_model_on(lesson, Digits()).to(gain.dtype)
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
    answer = {
        "class": type(critic).__name__,
        "backbone": critic.backbone.gain.detach().clone(),
        "buffer": critic.backbone.offset.detach().clone(),
        "head_weight": critic.head.weight.detach().clone(),
        "head_bias": critic.head.bias.detach().clone(),
        "shared": listed(_shared_tensors(critic, reward_model)),
        "trainable": listed(trainable_in(critic)),
    }
    if trained:
        _add(critic, 1.0)
    left = (reward_model.backbone.gain, reward_model.backbone.offset, reward_model.head.weight, reward_model.head.bias)
    answer["reward_model"] = torch.cat([tensor.detach().flatten() for tensor in left])
    answer["reward_model_trainable"] = listed(trainable_in(reward_model))
    answer["reward_model_gradients_as_before"] = slopes == gradients_of(reward_model)
    return answer


def critic_and_score(lesson: Any, input_ids: Tensor, attention_mask: Tensor) -> Any:
    """The critic at the last token of each row (they have no padding on the right), and the score."""
    reward_model = _reward_model_on(lesson, Digits()).double()
    reward_model.head = digit_head().double()
    values = lesson.critic_from_reward_model(reward_model)(input_ids, attention_mask)
    return {"value": values[:, -1].detach(), "score": reward_model(input_ids, attention_mask).detach()}


def _reward_model_on(lesson: Any, backbone: nn.Module) -> Any:
    lesson02 = importlib.import_module("..lesson02_reward_model", lesson.__name__)
    return lesson02.RewardModel(backbone)


class Layers(nn.Sequential):
    """Parameters at three depths, and dropout at two; made from its config, as a model of Hugging Face is."""

    def __init__(self, config: SimpleNamespace) -> None:
        inner = nn.Sequential(nn.LayerNorm(2), nn.Dropout(0.5), nn.Linear(2, 1))
        super().__init__(nn.Linear(2, 2), nn.Dropout(0.5), inner)
        self.config = config
        self.register_parameter(config.scale, nn.Parameter(torch.tensor([1.0])))
        self.register_buffer("steps", torch.tensor([0.0]))


def _layers(
    frozen: tuple[str, ...] = (), evaluating: tuple[str, ...] = (), numbers: Tensor | None = None, scale: str = "scale"
) -> nn.Module:
    """The layers in train mode, but for the parameters and modules of these names ("" is the whole).

    Each parameter is filled with its number; `scale` is the name of the one in front.
    """
    model = Layers(SimpleNamespace(scale=scale)).double().train()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.fill_(number + 1.0 if numbers is None else numbers[number])
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for name, module in model.named_modules():
        if name in evaluating:
            module.training = False
    return model


def frozen_layers(lesson: Any, **made: Any) -> Any:
    """What `freeze` gives back and how it leaves the model, of which "outputs" are two: dropout would make them
    differ."""
    model = _layers(**made)
    result = lesson.freeze(model)
    torch.manual_seed(0)
    ones = torch.ones(1, 2, dtype=torch.float64)
    return {
        "same_model": result is model,
        "trainable": listed(trainable_in(model)),
        "train_mode": listed(in_train_mode(model)),
        "weights": _first_numbers(model),
        "outputs": torch.cat([model(ones), model(ones)]).detach(),
        "new_attributes": listed(sorted(vars(model).keys() - vars(_layers(**made)).keys())),
    }


def reference_of(lesson: Any, trained: float = 0.0, **made: Any) -> Any:
    """The reference of a policy, and both after `trained` was added to all that the policy holds.

    Another reference was made before, when the policy held other numbers.
    """
    policy = _layers(**made)
    give_gradients(policy)
    slopes, dropout = gradients_of(policy), _dropouts_of(policy)
    held = [tensor.detach().clone() for tensor in (*policy.parameters(), *policy.buffers())]
    _add(policy, 1.0)
    lesson.make_reference(policy)
    with torch.no_grad():
        for tensor, number in zip((*policy.parameters(), *policy.buffers()), held, strict=True):
            tensor.copy_(number)
    torch.manual_seed(0)
    reference = lesson.make_reference(policy)
    left = {
        "policy_gradients_as_before": slopes == gradients_of(policy),
        "policy_dropout_as_before": dropout == _dropouts_of(policy),
    }
    _add(policy, trained)
    return {
        "class": type(reference).__name__,
        "weights": _first_numbers(reference),
        "shared": listed(_shared_tensors(reference, policy)),
        "trainable": listed(trainable_in(reference)),
        "train_mode": listed(in_train_mode(reference)),
        "policy_weights": _first_numbers(policy),
        "policy_trainable": listed(trainable_in(policy)),
        "policy_train_mode": listed(in_train_mode(policy)),
        **left,
    }


def _add(model: nn.Module, number: float) -> None:
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.add_(number)


def _first_numbers(model: nn.Module) -> Tensor:
    """First number of each parameter and buffer: the layers are filled with one number each."""
    return torch.stack([tensor.detach().flatten()[0] for tensor in (*model.parameters(), *model.buffers())])


def trainable_in(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def in_train_mode(model: nn.Module) -> list[str]:
    return [name or "the whole" for name, module in model.named_modules() if module.training]


def give_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5) if parameter.requires_grad else None


def gradients_of(model: nn.Module) -> dict[str, Any]:
    """The gradients that have been accumulated so far."""
    return {name: None if tensor.grad is None else tensor.grad.tolist() for name, tensor in model.named_parameters()}


def _dropouts_of(model: nn.Module) -> list[float]:
    return [module.p for module in model.modules() if isinstance(module, nn.Dropout)]


def _shared_tensors(first: nn.Module, second: nn.Module) -> list[str]:
    """Names in `first` of what stands in the same memory as something of `second`."""
    places = {tensor.data_ptr() for tensor in (*second.parameters(), *second.buffers())}
    named = (*first.named_parameters(), *first.named_buffers())
    return [name for name, tensor in named if tensor.data_ptr() in places]


def listed(names: Any) -> str:
    return ", ".join(names) or "none"
