"""Live models for lesson 7. Most are toys whose answers can be read off: each number shows what the body was told.

`Digits` gives token `id` at position `pos`, with `seen` real tokens up to and including it, the features (id, pos,
seen). A head of weights (1, 10, 100) turns them into digits: the second token of a text, a 5, gives 215.
Without position ids it counts columns, and without a mask it sees padding, as GPT-2 does.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, get_peft_model  # It takes seconds to load: not in a student's time.
from torch import Tensor, nn
from torch.func import functional_call

DIGITS = [[1.0, 10.0, 100.0]]


class BodyOutput(NamedTuple):
    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None


class LanguageModelOutput(NamedTuple):
    logits: Tensor
    hidden_states: tuple[Tensor, ...] | None


class Digits(nn.Module):
    """A body without attention: features (id, pos, seen), times `gain`.

    As with GPT-2, the second positional argument is not the mask.
    """

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=3)
        self.gain = nn.Parameter(torch.full((3,), gain))
        self.register_buffer("offset", torch.zeros(3))
        self.calls = 0

    def forward(
        self,
        input_ids: Tensor,
        *,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        output_hidden_states: bool = False,
        **ignored: Any,
    ) -> BodyOutput:
        self.calls += 1
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        columns = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        positions = columns if position_ids is None else position_ids.expand_as(input_ids)
        features = torch.stack([input_ids, positions, mask.cumsum(dim=1)], dim=-1)
        hidden = features.to(self.gain.dtype) * self.gain + self.offset
        return BodyOutput(hidden, (features.to(hidden.dtype), hidden) if output_hidden_states else None)


class DigitPolicy(nn.Module):
    """A language model of two words on `Digits`: logits (215, -215) after a 5 in second place.

    Its head has the name that GPT-NeoX gives it, and is not tied to the embeddings. `words_for`: for how many positions
    the last pass computed logits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=3)
        self.transformer = Digits()
        self.embed_in = nn.Embedding.from_pretrained(torch.ones(2, 3))
        self.embed_out = nn.Linear(3, 2)
        self.words_for = 0
        with torch.no_grad():
            self.embed_out.weight.copy_(torch.tensor([*DIGITS, [-1.0, -10.0, -100.0]]))
            self.embed_out.bias.zero_()

    @property
    def base_model(self) -> nn.Module:
        return self.transformer

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_in

    def get_output_embeddings(self) -> nn.Module:
        return self.embed_out

    def forward(self, input_ids: Tensor, *, logits_to_keep: int = 0, **given: Any) -> LanguageModelOutput:
        hidden, states = self.transformer(input_ids, **given)
        kept = hidden[:, -logits_to_keep:] if logits_to_keep else hidden
        self.words_for = kept.shape[1]
        return LanguageModelOutput(self.embed_out(kept), states)


class DigitCritic(nn.Module):
    """A finished critic: 215.5 after a 5 in second place."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Digits()
        self.head = _digit_head()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.long()
        positions = (mask.cumsum(dim=1) - 1) * mask
        hidden = self.backbone(input_ids=input_ids, attention_mask=mask, position_ids=positions).last_hidden_state
        return self.head(hidden).squeeze(-1)


def _digit_head() -> nn.Linear:
    head = nn.Linear(3, 1)
    with torch.no_grad():
        head.weight.copy_(torch.tensor(DIGITS))
        head.bias.fill_(0.5)
    return head


class _Method(nn.Module):
    """Calls a method of a model as a forward, so that its parameters can be given from outside."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *arguments: Any) -> Any:
        return getattr(self.model, self.name)(*arguments)


def _with(model: nn.Module, parameters: dict[str, Tensor | None], *arguments: Any, method: str = "forward") -> Any:
    """Call a model with these parameters in place of its own: gradients then reach the tensors that were given."""
    given = {f"model.{name}": value for name, value in parameters.items() if value is not None}
    return functional_call(_Method(model, method), given, arguments)


def _on_real_tokens(answer: Any, mask: Tensor) -> Any:
    """0 where the number means nothing; an answer of another shape as it is, for the comparison to say so."""
    if not isinstance(answer, Tensor) or answer.shape[:2] != mask.shape:
        return answer
    mask = mask.bool()
    return answer.masked_fill(~(mask if answer.dim() == 2 else mask.unsqueeze(-1)), 0.0)


# ValueModel.forward


def value_model(
    lesson: Any, input_ids: Tensor, attention_mask: Tensor, gain: Tensor | None = None, head: Tensor | None = None
) -> Any:
    model = lesson.ValueModel(Digits())
    model.head = _digit_head()
    values = _with(model.double(), {"backbone.gain": gain, "head.weight": head}, input_ids, attention_mask)
    return _on_real_tokens(values, attention_mask)


def value_model_modes(lesson: Any, input_ids: Tensor, attention_mask: Tensor) -> Any:
    model = lesson.ValueModel(Digits()).double()
    model.head.eval()
    modes = _training(model)
    model(input_ids, attention_mask)
    return {"modes_as_before": modes == _training(model)}


def value_model_float32(lesson: Any, input_ids: Tensor, attention_mask: Tensor) -> Any:
    model = lesson.ValueModel(Digits())
    model.head = _digit_head()
    return _on_real_tokens(model(input_ids, attention_mask), attention_mask)


def gpt2_values(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int) -> Any:
    model = lesson.ValueModel(_gpt2(seed).transformer).double()
    _fill(model.head, seed)
    return _on_real_tokens(model(input_ids, attention_mask), attention_mask)


def gpt2_last_value_and_score(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int) -> Any:
    """The critic at the last token, and the reward model with the same body and head."""
    critic = lesson.ValueModel(_gpt2(seed).transformer).double()
    _fill(critic.head, seed)
    scorer = _reward_model(lesson, critic.backbone)
    scorer.head = critic.head
    return {"value": critic(input_ids, attention_mask)[:, -1], "score": scorer(input_ids, attention_mask)}


# PolicyAndValue


def actor_critic(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    policy_gain: Tensor | None = None,
    critic_gain: Tensor | None = None,
) -> Any:
    model = lesson.PolicyAndValue(DigitPolicy(), DigitCritic()).double()
    parameters = {"policy.transformer.gain": policy_gain, "value_model.backbone.gain": critic_gain}
    outputs = _with(model, parameters, input_ids, attention_mask, prompt_length)
    return _response_part(outputs, attention_mask, prompt_length)


def actor_critic_passes(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = lesson.PolicyAndValue(DigitPolicy(), DigitCritic()).double()
    model.value_model.head.eval()
    modes = _training(model)
    model(input_ids, attention_mask, prompt_length)
    return {
        "passes_of_the_policy": model.policy.transformer.calls,
        "passes_of_the_critic": model.value_model.backbone.calls,
        "positions_with_logits": model.policy.words_for,
        "modes_as_before": modes == _training(model),
    }


def actor_critic_float32(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = lesson.PolicyAndValue(DigitPolicy(), DigitCritic())
    return _response_part(model(input_ids, attention_mask, prompt_length), attention_mask, prompt_length)


def gpt2_actor_critic(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int, seed: int) -> Any:
    model = lesson.PolicyAndValue(_gpt2(seed), DigitCritic().double())
    return _response_part(model(input_ids, attention_mask, prompt_length), attention_mask, prompt_length)


def values_alone(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    critic_gain: Tensor | None = None,
) -> Any:
    model = lesson.PolicyAndValue(DigitPolicy(), DigitCritic()).double()
    parameters = {"value_model.backbone.gain": critic_gain}
    values = _with(model, parameters, input_ids, attention_mask, prompt_length, method="response_values")
    return _on_real_tokens(values, attention_mask[:, prompt_length:])


def values_alone_passes(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = lesson.PolicyAndValue(DigitPolicy(), DigitCritic()).double()
    model.value_model.head.eval()
    modes = _training(model)
    model.response_values(input_ids, attention_mask, prompt_length)
    return {
        "passes_of_the_policy": model.policy.transformer.calls,
        "passes_of_the_critic": model.value_model.backbone.calls,
        "modes_as_before": modes == _training(model),
    }


def values_alone_float32(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = lesson.PolicyAndValue(DigitPolicy(), DigitCritic())
    return _on_real_tokens(
        model.response_values(input_ids, attention_mask, prompt_length), attention_mask[:, prompt_length:]
    )


def _response_part(outputs: Any, attention_mask: Tensor, prompt_length: int) -> dict[str, Any]:
    if not (hasattr(outputs, "logits") and hasattr(outputs, "values")):
        raise ValueError(
            f"expected forward to return a ResponseOutputs(logits, values), got a {type(outputs).__name__}"
        )
    mask = attention_mask[:, prompt_length:]
    return {"logits": _on_real_tokens(outputs.logits, mask), "values": _on_real_tokens(outputs.values, mask)}


# SharedPolicyAndValue.forward


def shared_actor_critic(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    gain: Tensor | None = None,
    value_head: Tensor | None = None,
    word_head: Tensor | None = None,
    word_bias: Tensor | None = None,
) -> Any:
    model = lesson.SharedPolicyAndValue(DigitPolicy())
    model.value_head = _digit_head()
    parameters = {
        "policy.transformer.gain": gain,
        "value_head.weight": value_head,
        "policy.embed_out.weight": word_head,
        "policy.embed_out.bias": word_bias,
    }
    outputs = _with(model.double(), parameters, input_ids, attention_mask, prompt_length)
    return _response_part(outputs, attention_mask, prompt_length)


def shared_passes(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = lesson.SharedPolicyAndValue(DigitPolicy()).double()
    positions = []
    model.policy.embed_out.register_forward_pre_hook(lambda head, given: positions.append(given[0].shape[-2]))
    model(input_ids, attention_mask, prompt_length)
    return {"passes_of_the_body": model.policy.transformer.calls, "positions_with_logits": sum(positions)}


def shared_float32(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = lesson.SharedPolicyAndValue(DigitPolicy())
    model.value_head = _digit_head()
    return _response_part(model(input_ids, attention_mask, prompt_length), attention_mask, prompt_length)


def shared_on_a_language_model(
    lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int, seed: int, architecture: str
) -> Any:
    policy = _gpt2(seed) if architecture == "gpt2" else _llama(seed)
    model = lesson.SharedPolicyAndValue(policy).double()
    _fill(model.value_head, seed)
    return _response_part(model(input_ids, attention_mask, prompt_length), attention_mask, prompt_length)


# critic_from_reward_model


def critic_of(
    lesson: Any,
    gain: Tensor,
    weight: Tensor,
    bias: Tensor,
    frozen: bool = False,
    trained: bool = False,
) -> Any:
    """The critic made from a reward model with these weights; `trained` then adds 1 to all that the critic holds."""
    reward_model = _reward_model(lesson, Digits()).to(gain.dtype)
    with torch.no_grad():
        reward_model.backbone.gain.copy_(gain)
        reward_model.backbone.offset.fill_(7.0)
        reward_model.head.weight.copy_(weight)
        reward_model.head.bias.copy_(bias)
    if frozen:
        reward_model.requires_grad_(False).eval()
    torch.manual_seed(0)
    critic = lesson.critic_from_reward_model(reward_model)
    shared = _shared_tensors(critic, reward_model)
    answer = {
        "class": type(critic).__name__,
        "body": critic.backbone.gain.detach().clone(),
        "buffer": critic.backbone.offset.detach().clone(),
        "head_weight": critic.head.weight.detach().clone(),
        "head_bias": critic.head.bias.detach().clone(),
        "shared": _listed(shared),
        "trainable": _listed(_trainable(critic)),
    }
    if trained:
        with torch.no_grad():
            for tensor in (*critic.parameters(), *critic.buffers()):
                tensor.add_(1.0)
    left = (reward_model.backbone.gain, reward_model.backbone.offset, reward_model.head.weight, reward_model.head.bias)
    answer["reward_model"] = torch.cat([tensor.detach().flatten() for tensor in left])
    answer["reward_model_trainable"] = _listed(_trainable(reward_model))
    return answer


def gpt2_critic(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int, dtype: str) -> Any:
    """The critic at the last token of each row (they have no padding on the right), and the score."""
    reward_model = _reward_model(lesson, _gpt2(seed).transformer).to(getattr(torch, dtype))
    _fill(reward_model.head, seed)
    reward_model.requires_grad_(False).eval()
    critic = lesson.critic_from_reward_model(reward_model)
    values = critic(input_ids, attention_mask)
    return {
        "value": values[:, -1].detach(),
        "score": reward_model(input_ids, attention_mask),
        "shared": _listed(_shared_tensors(critic, reward_model)),
        "frozen": _listed(name for name, parameter in critic.named_parameters() if not parameter.requires_grad),
    }


# freeze, make_reference


def _layers() -> nn.Module:
    """Parameters at three depths, and dropout at two."""
    model = nn.Sequential(
        nn.Linear(2, 2), nn.Dropout(0.5), nn.Sequential(nn.LayerNorm(2), nn.Dropout(0.5), nn.Linear(2, 1))
    )
    model.scale = nn.Parameter(torch.tensor([1.0]))
    model.register_buffer("steps", torch.tensor([0.0]))
    model = model.double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.fill_(number + 1.0)
    return model


def _prepared(frozen: tuple[str, ...], evaluating: tuple[str, ...]) -> nn.Module:
    """The layers in train mode, but for the parameters and modules of these names ("" is the whole)."""
    model = _layers().train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for name, module in model.named_modules():
        if name in evaluating:
            module.training = False
    return model


def frozen_layers(lesson: Any, frozen: tuple[str, ...] = (), evaluating: tuple[str, ...] = ()) -> Any:
    model = _prepared(frozen, evaluating)
    result = lesson.freeze(model)
    return {
        "same_model": result is model,
        "trainable": _listed(_trainable(model)),
        "train_mode": _listed(_training(model)),
        "weights": _weights(model),
        "new_attributes": _listed(sorted(vars(model).keys() - vars(_layers()).keys())),
    }


def frozen_output(lesson: Any, x: Tensor) -> Any:
    """What a frozen model gives twice: dropout would make them differ, and a gradient would reach its weights."""
    model = _prepared((), ())
    lesson.freeze(model)
    torch.manual_seed(0)
    first, second = model(x), model(x)
    return {"first": first, "second": second, "learns": first.requires_grad}


def gpt2_frozen(lesson: Any, seed: int) -> Any:
    model = _gpt2(seed, dropout=0.1).train()
    result = lesson.freeze(model)
    return {
        "same_model": result is model,
        "trainable": _listed(_trainable(model)),
        "train_mode": _listed(_training(model)),
    }


def reference_of(
    lesson: Any, frozen: tuple[str, ...] = (), evaluating: tuple[str, ...] = (), trained: float = 0.0
) -> Any:
    """The reference of a policy, and both after `trained` was added to all that the policy holds."""
    policy = _prepared(frozen, evaluating)
    for parameter in policy.parameters():
        parameter.grad = torch.full_like(parameter, 0.5) if parameter.requires_grad else None
    slopes, dropout = _slopes(policy), _dropout(policy)
    torch.manual_seed(0)
    reference = lesson.make_reference(policy)
    left = {"gradients_as_before": slopes == _slopes(policy), "dropout_as_before": dropout == _dropout(policy)}
    with torch.no_grad():
        for tensor in (*policy.parameters(), *policy.buffers()):
            tensor.add_(trained)
    return {
        "class": type(reference).__name__,
        "weights": _weights(reference),
        "shared": _listed(_shared_tensors(reference, policy)),
        "trainable": _listed(_trainable(reference)),
        "train_mode": _listed(_training(reference)),
        "policy_weights": _weights(policy),
        "policy_trainable": _listed(_trainable(policy)),
        "policy_train_mode": _listed(_training(policy)),
        **{f"policy_{name}": value for name, value in left.items()},
    }


def gpt2_reference(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int) -> Any:
    """Logits of the reference before and after one step of the policy, and those of the policy before it."""
    policy = _gpt2(seed)
    before = _logits(policy, input_ids, attention_mask)
    reference = lesson.make_reference(policy)
    at_once = _logits(reference, input_ids, attention_mask)
    _step(policy, input_ids, attention_mask)
    return {
        "policy_before": before.detach(),
        "reference_before": at_once,
        "reference_after": _logits(reference, input_ids, attention_mask),
        "policy_moved": bool((_logits(policy, input_ids, attention_mask) - before).abs().max() > 1e-3),
        "tied": reference.get_input_embeddings().weight is reference.get_output_embeddings().weight,
    }


# reference_mode


class Line(nn.Module):
    """y = x: the base model under the adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.slope.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.slope(x)


class _Interrupted(Exception):
    """Raised inside the context, on purpose."""


ERRORS: dict[str, type[BaseException]] = {
    "an error of its own": _Interrupted,
    "out of memory": RuntimeError,
    "stopped from the keyboard": KeyboardInterrupt,
    "a generator around it is closed": GeneratorExit,
}


def lora_line(
    lesson: Any,
    adapters: dict[str, float],
    active: str,
    trainable: str | None = None,
    interrupted: bool = False,
    no_grad: bool = False,
    error: str = "an error of its own",
) -> Any:
    """y(1) before, inside and after the context. Each adapter adds its number to the slope 1 of the base model.

    Args:
        active: the adapter that is trained.
        trainable: the parameters that require a gradient before; what `peft` chose where None.
        interrupted: an exception leaves the context.
        no_grad: the caller has switched gradients off.
        error: what leaves it, of ERRORS.
    """
    interruption = ERRORS[error]()
    policy = _lora(adapters, active)
    if trainable is not None:
        for name, parameter in policy.named_parameters():
            parameter.requires_grad_(_short(name) in trainable.split())
    for parameter in policy.parameters():
        parameter.grad = torch.full_like(parameter, 0.5) if parameter.requires_grad else None
    policy.base_model.model.slope.eval()
    modes, slopes = _training(policy), _slopes(policy)
    x = torch.ones(1, 1, dtype=torch.float64)
    answer: dict[str, Any] = {"before": policy(x).item()}
    with torch.no_grad() if no_grad else nullcontext():
        try:
            with lesson.reference_mode(policy) as yielded:
                inside = (policy if yielded is None else yielded)(x)
                answer |= {
                    "inside": inside.item(),
                    "inside_can_be_used_for_training": not inside.is_inference(),
                    "learns_inside": inside.requires_grad or torch.is_grad_enabled(),
                    "yielded": "the policy" if yielded is policy else type(yielded).__name__,
                }
                if interrupted:
                    raise interruption
            answer["exception_came_out"] = False
        except type(interruption):
            answer["exception_came_out"] = True
        answer["gradients_on_after"] = torch.is_grad_enabled()
    after = policy(x)
    return answer | {
        "after": after.item(),
        "learns_after": after.requires_grad,
        "active_after": str(policy.active_adapter),
        "trainable_after": _listed(_short(name) for name in _trainable(policy)),
        "modes_as_before": modes == _training(policy),
        "all_in_train_mode": all(module.training for module in policy.modules()),
        "gradients_as_before": slopes == _slopes(policy),
    }


def refused_model(lesson: Any) -> Any:
    with lesson.reference_mode(Line()) as policy:
        return policy(torch.ones(1, 1)).item()


def gpt2_lora(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int, from_sft_adapter: bool) -> Any:
    """Logits at step 0 and in reference mode, and both after a step of the policy."""
    policy = _gpt2_lora(seed, from_sft_adapter)
    names = {name for name, parameter in policy.named_parameters() if parameter.requires_grad}
    answer = {"policy_at_step_0": _logits(policy, input_ids, attention_mask).detach()}
    with lesson.reference_mode(policy) as reference:
        answer["reference_at_step_0"] = _logits(reference, input_ids, attention_mask)
    _step(policy, input_ids, attention_mask)
    with lesson.reference_mode(policy) as reference:
        answer["reference_after"] = _logits(reference, input_ids, attention_mask)
    answer["policy_after"] = _logits(policy, input_ids, attention_mask).detach()
    answer["same_trainable"] = names == set(_trainable(policy))
    return answer


def _lora(adapters: dict[str, float], active: str) -> Any:
    """A `peft` model of rank 1 on `Line`: A is 1, and B is the number that the adapter adds."""
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


def _gpt2_lora(seed: int, from_sft_adapter: bool) -> Any:
    """A GPT-2 whose policy adapter starts as a copy of an SFT adapter, named "reference", or as nothing."""
    config = LoraConfig(r=2, lora_alpha=4, lora_dropout=0.0, target_modules=["c_attn"], fan_in_fan_out=True)
    with _seeded(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers in words that are going out of use
        policy = get_peft_model(_gpt2(seed), config, adapter_name="policy")
        if from_sft_adapter:
            policy.add_adapter("reference", config)
            trained = {name: tensor for name, tensor in policy.named_parameters() if ".policy." in name}
            for name, tensor in policy.named_parameters():
                if ".reference." in name:
                    tensor.data.normal_(std=0.5)
                    trained[name.replace(".reference.", ".policy.")].data.copy_(tensor.data)
    return policy.double().eval()


def _short(name: str) -> str:
    """ "base_model.model.slope.lora_A.policy.weight" -> "lora_A.policy"."""
    return name.removeprefix("base_model.model.slope.").removesuffix(".weight")


# Small parts


def _reward_model(lesson: Any, backbone: nn.Module) -> Any:
    lesson02 = importlib.import_module("..lesson02_reward_model", lesson.__name__)
    return lesson02.RewardModel(backbone)


def _gpt2(seed: int, dropout: float = 0.0) -> Any:
    from tiny_models.builders import build_gpt2

    return build_gpt2(
        12, n_layer=1, n_embd=16, n_head=2, n_positions=16, dropout=dropout, eos_token_id=1, pad_token_id=0, seed=seed
    ).double()


def _llama(seed: int) -> Any:
    from tiny_models.builders import build_llama

    return build_llama(
        12, n_layer=1, n_embd=16, n_head=2, n_positions=16, eos_token_id=1, pad_token_id=0, seed=seed
    ).double()


def language_model_logits(
    lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int, architecture: str
) -> Tensor:
    """(B, L, V), without any code of the lesson: the logits of every position."""
    policy = _gpt2(seed) if architecture == "gpt2" else _llama(seed)
    return _logits(policy, input_ids, attention_mask).detach()


def _logits(policy: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    mask = attention_mask.long()
    positions = (mask.cumsum(dim=1) - 1) * mask
    logits = policy(input_ids=input_ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
    return _on_real_tokens(logits, attention_mask)


def _step(policy: Any, input_ids: Tensor, attention_mask: Tensor) -> None:
    """Move every parameter that learns."""
    loss = _logits(policy, input_ids, attention_mask).log_softmax(dim=-1)[..., 3].sum()
    learning = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    for parameter, slope in zip(learning, torch.autograd.grad(loss, learning, allow_unused=True), strict=True):
        if slope is not None:
            parameter.data.sub_(0.5 * slope)


def _fill(head: nn.Linear, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (head.weight, head.bias):
            tensor.copy_(torch.randn(tensor.shape, generator=draw, dtype=torch.float64))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _weights(model: nn.Module) -> Tensor:
    """First number of each parameter and buffer: the layers are filled with one number each."""
    return torch.stack([tensor.detach().flatten()[0] for tensor in (*model.parameters(), *model.buffers())])


def _trainable(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def _training(model: nn.Module) -> list[str]:
    return [name or "the whole" for name, module in model.named_modules() if module.training]


def _slopes(model: nn.Module) -> dict[str, Any]:
    """The gradients that have been accumulated so far."""
    return {name: None if tensor.grad is None else tensor.grad.tolist() for name, tensor in model.named_parameters()}


def _dropout(model: nn.Module) -> list[float]:
    return [module.p for module in model.modules() if isinstance(module, nn.Dropout)]


def _shared_tensors(first: nn.Module, second: nn.Module) -> list[str]:
    """Names in `first` of what stands in the same memory as something of `second`."""
    places = {tensor.data_ptr() for tensor in (*second.parameters(), *second.buffers())}
    named = (*first.named_parameters(), *first.named_buffers())
    return [name for name, tensor in named if tensor.data_ptr() in places]


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
