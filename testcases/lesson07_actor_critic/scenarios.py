"""Live models for lesson 7. Most are toys whose answers can be read off."""

import builtins
import importlib
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from peft import LoraConfig, get_peft_model  # It takes seconds to load: not in a student's time.
from torch import Tensor, nn
from torch.func import functional_call

from testcases.harness.doubles.calls import after_another_batch
from testcases.harness.doubles.models import Line

from .scenarios_digits import DigitCritic, DigitPolicy, Digits, digit_head


def value_model(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    gain: Tensor | None = None,
    head: Tensor | None = None,
    dtype: str = "float64",
    evaluating: bool = False,
) -> Any:
    model = lesson.ValueModel(Digits(refuses_a_cache=True)).train(not evaluating)
    model.head = digit_head().train(not evaluating)
    parameters = {"backbone.gain": gain, "head.weight": head}
    values = _with_parameters(model.to(getattr(torch, dtype)), parameters, input_ids, attention_mask)
    return _on_real_tokens(values, attention_mask)


def actor_critic(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    method: str = "forward",
    policy_gain: Tensor | None = None,
    critic_gain: Tensor | None = None,
    evaluating: bool = False,
    frozen: str = "none",
    scale: float = 1.0,
) -> Any:
    """Two toys that answer in digits: after a 5 as the second token of a text the logits are (215, -215), the value is
    215.5.

    Args:
        method: "forward", or "response_values".
        frozen: one of the two models.
        scale: what the policy multiplies its head's logits by.
    """
    model = lesson.PolicyAndValue(DigitPolicy(), DigitCritic()).double().train(not evaluating)
    model.policy.scale = scale
    getattr(model, frozen, nn.Module()).requires_grad_(False)
    parameters = {"policy.transformer.gain": policy_gain, "value_model.backbone.gain": critic_gain}
    outputs = _with_parameters(model, parameters, input_ids, attention_mask, prompt_length, method=method)
    return _response_part(outputs, attention_mask, prompt_length, method)


def shared_actor_critic(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    evaluating: bool = False,
    scale: float = 1.0,
    **given: Tensor,
) -> Any:
    """A toy that answers in digits, with two heads: after a 5 as the second token of a text the logits are (215, -215),
    the value is 215.5.

    Args:
        scale: as in `actor_critic`.
        given: gain, value_head, word_head, word_bias instead of the toy's own.
    """
    model = lesson.SharedPolicyAndValue(DigitPolicy())
    model.policy.scale = scale
    model.value_head = digit_head()
    places = {
        "gain": "policy.transformer.gain",
        "value_head": "value_head.weight",
        "word_head": "policy.embed_out.weight",
        "word_bias": "policy.embed_out.bias",
    }
    parameters = {places[name]: tensor for name, tensor in given.items()}
    model.double().train(not evaluating)
    outputs = _with_parameters(model, parameters, input_ids, attention_mask, prompt_length)
    return _response_part(outputs, attention_mask, prompt_length)


def passes(
    lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int, method: str = "forward"
) -> dict[str, Any]:
    """What a call costs; `method`: as in `actor_critic`, or "shared"."""
    policy, critic = DigitPolicy(), DigitCritic()
    if method == "shared":
        call = lesson.SharedPolicyAndValue(policy).double()
    else:
        call = getattr(lesson.PolicyAndValue(policy, critic).double(), method)
    with torch.no_grad():
        call(input_ids, attention_mask, prompt_length)
    rows, columns = attention_mask.shape
    return {
        "passes_of_the_policy": policy.transformer.calls,
        "passes_of_the_critic": critic.backbone.calls,
        # More than T + 1 positions a row; `logits_to_keep` computes one more than the T that are wanted.
        "logits_for_the_prompt": policy.words_for > rows * (columns - prompt_length + 1),
    }


class _Method(nn.Module):
    """Calls a method of a model as a forward, so that its parameters can be given from outside."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *arguments: Any) -> Any:
        return getattr(self.model, self.name)(*arguments)


def _with_parameters(
    model: nn.Module, parameters: dict[str, Tensor | None], *arguments: Any, method: str = "forward"
) -> Any:
    """Call a model, after another batch, with these parameters in place of its own: gradients reach what was given."""
    after_another_batch(model, method, *arguments)
    dtype = next(model.parameters()).dtype
    given = {f"model.{name}": value.to(dtype) for name, value in parameters.items() if value is not None}
    return functional_call(_Method(model, method), given, arguments)


def _on_real_tokens(answer: Any, mask: Tensor) -> Any:
    """0 where the number means nothing; an answer of another shape as it is, for the comparison to say so."""
    if not isinstance(answer, Tensor) or answer.shape[:2] != mask.shape:
        return answer
    mask = mask.bool()
    return answer.masked_fill(~(mask if answer.dim() == 2 else mask.unsqueeze(-1)), 0.0)


def _response_part(outputs: Any, attention_mask: Tensor, prompt_length: int, method: str = "forward") -> Any:
    mask = attention_mask[:, prompt_length:]
    if method == "response_values":
        return _on_real_tokens(outputs, mask)
    if not (hasattr(outputs, "logits") and hasattr(outputs, "values")):
        raise ValueError(
            f"expected forward to return a ResponseOutputs(logits, values), got a {type(outputs).__name__}"
        )
    return {"logits": _on_real_tokens(outputs.logits, mask), "values": _on_real_tokens(outputs.values, mask)}


def critic_of(
    lesson: Any, gain: Tensor, weight: Tensor, bias: Tensor, frozen: tuple[str, ...] = (), trained: bool = False
) -> Any:
    """The critic made from a reward model with these weights; `trained` then adds 1 to all that the critic holds."""
    reward_model = _reward_model_on(lesson, Digits()).to(gain.dtype)
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
    """The reference of a policy, and both after `trained` was added to all that the policy holds."""
    policy = _layers(**made)
    give_gradients(policy)
    slopes, dropout = gradients_of(policy), _dropouts_of(policy)
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


def lora_line(
    lesson: Any,
    adapters: dict[str, float],
    active: str,
    trainable: str | None = None,
    interrupted: str | None = None,
    no_grad: bool = False,
) -> Any:
    """y(1) before, inside and after the context. Each adapter adds its number to the slope 1 of the base model.

    Args:
        adapters: without any, the policy is the base model itself.
        active: the adapter that is trained.
        trainable: the parameters that require a gradient before; what `peft` chose where None.
        interrupted: an exception of this name leaves the context; KeyboardInterrupt is no Exception.
        no_grad: the caller has switched gradients off.
    """
    policy = _lora(lesson, adapters, active)
    if trainable is not None:
        for name, parameter in policy.named_parameters():
            parameter.requires_grad_(_short(name) in trainable.split())
    give_gradients(policy)
    policy.train().base_model.model.slope.eval()
    modes, gradients = in_train_mode(policy), gradients_of(policy)
    x = torch.ones(1, 1, dtype=torch.float64)
    before = policy(x).item()
    with torch.no_grad() if no_grad else nullcontext():
        inside = _inside(lesson, policy, x, getattr(builtins, interrupted)() if interrupted else None)
    after = policy(x)
    return {
        "before": before,
        **inside,
        "after": after.item(),
        "learns_after": after.requires_grad,
        "active_after": str(policy.active_adapter),
        "trainable_after": listed(_short(name) for name in trainable_in(policy)),
        "modes_as_before": modes == in_train_mode(policy),
        "all_in_train_mode": all(module.training for module in policy.modules()),
        "gradients_as_before": gradients == gradients_of(policy),
    }


def _inside(lesson: Any, policy: Any, x: Tensor, interruption: BaseException | None) -> dict[str, Any]:
    """What stands in the context, and whether the interruption comes out of it."""
    answer: dict[str, Any] = {"exception_came_out": False}
    try:
        with lesson.reference_mode(policy) as yielded:
            y = (policy if yielded is None else yielded)(x)
            answer |= {
                "inside": y.item(),
                "inside_can_be_used_for_training": not y.is_inference(),
                "learns_inside": y.requires_grad or torch.is_grad_enabled(),
                "yielded": "the policy" if yielded is policy else type(yielded).__name__,
            }
            if interruption:
                raise interruption
    except BaseException as error:
        if error is not interruption:
            raise
        answer["exception_came_out"] = True
    return answer | {"gradients_on_after": torch.is_grad_enabled()}


def _lora(lesson: Any, adapters: dict[str, float], active: str) -> Any:
    """A `peft` model of rank 1 on `Line`: A is 1, and B is the number that the adapter adds."""
    if not adapters:
        with lesson.reference_mode(Line()) as policy:
            return policy
    config = LoraConfig(r=1, lora_alpha=1, lora_dropout=0.0, target_modules=["slope"])
    first, *others = adapters
    policy = get_peft_model(Line(), config, adapter_name=first)
    for name in others:
        policy.add_adapter(name, config)
    policy.set_adapter(active)
    slope = policy.base_model.model.slope
    with torch.no_grad():
        for name, added in adapters.items():
            slope.lora_A[name].weight.fill_(1.0)
            slope.lora_B[name].weight.fill_(added)
    return policy.double()


def _short(name: str) -> str:
    """ "base_model.model.slope.lora_A.policy.weight" -> "lora_A.policy"."""
    return name.removeprefix("base_model.model.slope.").removesuffix(".weight")
