"""Critic, actor and both together, on toys that answer in digits."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from testcases.harness.doubles.calls import forget_the_batch

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
    """What a call costs, the second time as the first; `method`: as in `actor_critic`, or "shared"."""
    policy, critic = DigitPolicy(), DigitCritic()
    if method == "shared":
        call = lesson.SharedPolicyAndValue(policy).double()
    else:
        call = getattr(lesson.PolicyAndValue(policy, critic).double(), method)
    with torch.no_grad():
        call(input_ids, attention_mask, prompt_length)
        policy.transformer.calls = critic.backbone.calls = policy.words_for = 0
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
    """Call a model with these parameters in place of its own: gradients then reach the tensors that were given.

    It has read another batch of the same shape before, of which it may keep nothing.
    """
    forget_the_batch(model, method, *(part.flip(0) if isinstance(part, Tensor) else part for part in arguments))
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
