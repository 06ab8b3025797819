"""Critic, actor and both together, on toys that answer in digits and on small language models."""

from typing import Any

import torch
from torch import Tensor, nn

from .scenarios_digits import DigitCritic, DigitPolicy, Digits, digit_head
from .scenarios_models import fill, gpt2, in_train_mode, llama, on_real_tokens, reward_model_on, with_parameters


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
    values = with_parameters(model.to(getattr(torch, dtype)), parameters, input_ids, attention_mask)
    return on_real_tokens(values, attention_mask)


def value_model_modes(lesson: Any, input_ids: Tensor, attention_mask: Tensor) -> Any:
    model = lesson.ValueModel(Digits()).double()
    model.head.eval()
    modes = in_train_mode(model)
    model(input_ids, attention_mask)
    return {"modes_as_before": modes == in_train_mode(model)}


def gpt2_values(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int) -> Any:
    model = lesson.ValueModel(gpt2(seed).transformer).double()
    fill(model.head, seed)
    return on_real_tokens(model(input_ids, attention_mask), attention_mask)


def gpt2_last_value_and_score(lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int) -> Any:
    """The critic at the last token, and the reward model with the same backbone and head."""
    critic = lesson.ValueModel(gpt2(seed).transformer).double()
    fill(critic.head, seed)
    scorer = reward_model_on(lesson, critic.backbone)
    scorer.head = critic.head
    return {"value": critic(input_ids, attention_mask)[:, -1], "score": scorer(input_ids, attention_mask)}


def actor_critic(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    policy_gain: Tensor | None = None,
    critic_gain: Tensor | None = None,
    dtype: str = "float64",
    evaluating: bool = False,
    frozen: str = "none",
    scale: float = 1.0,
) -> Any:
    """`frozen`: one of the two models. `scale`: what the policy multiplies its head's logits by."""
    model = _actor_and_critic(lesson, dtype).train(not evaluating)
    model.policy.scale = scale
    getattr(model, frozen, nn.Module()).requires_grad_(False)
    parameters = {"policy.transformer.gain": policy_gain, "value_model.backbone.gain": critic_gain}
    outputs = with_parameters(model, parameters, input_ids, attention_mask, prompt_length)
    return _response_part(outputs, attention_mask, prompt_length)


def actor_critic_passes(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = _actor_and_critic(lesson)
    return _passes(model, model.forward, input_ids, attention_mask, prompt_length)


def gpt2_actor_critic(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int, seed: int) -> Any:
    model = lesson.PolicyAndValue(gpt2(seed), DigitCritic().double())
    return _response_part(model(input_ids, attention_mask, prompt_length), attention_mask, prompt_length)


def values_alone(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    critic_gain: Tensor | None = None,
    dtype: str = "float64",
    evaluating: bool = False,
) -> Any:
    model = _actor_and_critic(lesson, dtype).train(not evaluating)
    parameters = {"value_model.backbone.gain": critic_gain}
    values = with_parameters(model, parameters, input_ids, attention_mask, prompt_length, method="response_values")
    return on_real_tokens(values, attention_mask[:, prompt_length:])


def values_alone_passes(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    model = _actor_and_critic(lesson)
    return _passes(model, model.response_values, input_ids, attention_mask, prompt_length)


def shared_actor_critic(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    prompt_length: int,
    dtype: str = "float64",
    evaluating: bool = False,
    scale: float = 1.0,
    **given: Tensor,
) -> Any:
    """`given`: gain, value_head, word_head, word_bias instead of the toy's own. `scale`: as in `actor_critic`."""
    model = lesson.SharedPolicyAndValue(DigitPolicy())
    model.policy.scale = scale
    model.value_head = digit_head()
    model.train(not evaluating)
    places = {
        "gain": "policy.transformer.gain",
        "value_head": "value_head.weight",
        "word_head": "policy.embed_out.weight",
        "word_bias": "policy.embed_out.bias",
    }
    parameters = {places[name]: tensor for name, tensor in given.items()}
    outputs = with_parameters(model.to(getattr(torch, dtype)), parameters, input_ids, attention_mask, prompt_length)
    return _response_part(outputs, attention_mask, prompt_length)


def shared_passes(lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    policy = DigitPolicy()
    lesson.SharedPolicyAndValue(policy).double()(input_ids, attention_mask, prompt_length)
    return {
        "passes_of_the_backbone": policy.transformer.calls,
        "logits_for_the_prompt": _has_words_for_the_prompt(policy, attention_mask, prompt_length),
    }


def shared_on_a_language_model(
    lesson: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int, seed: int, architecture: str
) -> Any:
    policy = gpt2(seed) if architecture == "gpt2" else llama(seed)
    model = lesson.SharedPolicyAndValue(policy).double()
    fill(model.value_head, seed)
    return _response_part(model(input_ids, attention_mask, prompt_length), attention_mask, prompt_length)


def _actor_and_critic(lesson: Any, dtype: str = "float64") -> Any:
    return lesson.PolicyAndValue(DigitPolicy(), DigitCritic()).to(getattr(torch, dtype))


def _passes(model: nn.Module, method: Any, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Any:
    """What a method of PolicyAndValue costs, the second time as the first, and whether it leaves the modes as they
    were."""
    model.value_model.head.eval()
    modes = in_train_mode(model)
    with torch.no_grad():
        method(input_ids, attention_mask, prompt_length)
        model.policy.transformer.calls = model.value_model.backbone.calls = model.policy.words_for = 0
        method(input_ids, attention_mask, prompt_length)
    return {
        "passes_of_the_policy": model.policy.transformer.calls,
        "passes_of_the_critic": model.value_model.backbone.calls,
        "logits_for_the_prompt": _has_words_for_the_prompt(model.policy, attention_mask, prompt_length),
        "modes_as_before": modes == in_train_mode(model),
    }


def _has_words_for_the_prompt(policy: DigitPolicy, attention_mask: Tensor, prompt_length: int) -> bool:
    """More than T + 1 positions a row; `logits_to_keep` computes one more than the T that are wanted."""
    rows, columns = attention_mask.shape
    return policy.words_for > rows * (columns - prompt_length + 1)


def _response_part(outputs: Any, attention_mask: Tensor, prompt_length: int) -> dict[str, Any]:
    if not (hasattr(outputs, "logits") and hasattr(outputs, "values")):
        raise ValueError(
            f"expected forward to return a ResponseOutputs(logits, values), got a {type(outputs).__name__}"
        )
    mask = attention_mask[:, prompt_length:]
    return {"logits": on_real_tokens(outputs.logits, mask), "values": on_real_tokens(outputs.values, mask)}
