"""Lesson 7: the four models of PPO for RLHF: actor and critic are trained, reference and reward model are frozen."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ppo_by_hand.core.shapes import check_number, check_shapes
from ppo_by_hand.core.validate import set_to_zero

from ..lesson01_masked_sequences import position_ids
from ..lesson02_reward_model import RewardModel, ScalarHead

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

Model = TypeVar("Model", bound=nn.Module)

REFERENCE = "reference"
"""Name of the adapter that is the reference of a LoRA policy."""


class ResponseOutputs(NamedTuple):
    """What one forward pass of actor and critic gives for the response tokens."""

    logits: Tensor
    """(B, T, V): logits[:, t] is the distribution that token t was drawn from (before the temperature)."""
    values: Tensor
    """(B, T): values[:, t] = V(s_t), the value of the text before token t."""


def response_logits(policy: nn.Module, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
    """Return the logits that predict the response tokens, and compute none over the vocabulary for the prompt.

    Given, not an exercise: it is lesson 1's shift, done inside the model. Of the T + 1 last positions the last one
    predicts what would come after the response, and is dropped.

    Args:
        policy: a Hugging Face causal language model.
        input_ids: (B, L) int64, left-padded prompt of length P, then the response.
        attention_mask: (B, L) bool.
        prompt_length: P.

    Returns:
        (B, T, V) with T = L - P.

    Raises:
        ValueError: shapes disagree, or no response is left after the prompt.
    """
    _check_inputs(input_ids, attention_mask, prompt_length)
    output = policy(
        input_ids=input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids(attention_mask),
        logits_to_keep=input_ids.shape[1] - prompt_length + 1,
        use_cache=False,
    )
    return output.logits[:, :-1]


class ValueModel(nn.Module):
    """The critic: a transformer backbone with a linear head that reads *every* position.

    Args:
        backbone: as in `RewardModel`; its own copy, not the policy's backbone (two optimizers on one
            backbone would undo each other's steps; see `SharedPolicyAndValue`).
    """

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        self.backbone = backbone
        self.head: nn.Linear = ScalarHead(backbone)

    @classmethod
    def from_classifier(cls, classifier: Any) -> ValueModel:
        """Make a critic that starts as a copy of a sequence classifier of one label, backbone and head. Given.

        Raises:
            ValueError: its head is not one linear layer.
        """
        head = getattr(classifier, "score", None)
        if not isinstance(head, nn.Linear) or head.out_features != 1:
            raise ValueError(
                "expected a sequence classifier whose head is one linear layer with one label, got "
                f"{type(classifier).__name__}; start from a backbone: ValueModel(AutoModel.from_pretrained(name))"
            )
        critic = cls(copy.deepcopy(classifier.base_model))
        with torch.no_grad():
            critic.head.weight.copy_(head.weight)
            if head.bias is not None:
                critic.head.bias.copy_(head.bias)
        return critic.requires_grad_(True)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Estimate the reward to come after reading the text up to and including each position.

        Args:
            input_ids: (B, L) int64, padded on either side.
            attention_mask: (B, L) bool.

        Returns:
            (B, L); at padding positions the number means nothing. The model keeps nothing of a batch.

        Raises:
            ValueError: shapes disagree.
        """
        check_shapes(input_ids=(input_ids, "B L"), attention_mask=(attention_mask, "B L"))
        raise NotImplementedError("lesson07: ValueModel.forward")


class PolicyAndValue(nn.Module):
    """Actor and critic as one module, so that one optimizer and one checkpoint hold both.

    Args:
        policy: a Hugging Face causal language model.
        value_model: a critic that shares no parameter with the policy.
    """

    def __init__(self, policy: PreTrainedModel, value_model: ValueModel) -> None:
        super().__init__()
        self.policy = policy
        self.value_model = value_model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> ResponseOutputs:
        """Return the logits and values of the response tokens.

        Args:
            input_ids: (B, L) int64, left-padded prompt of length P, then the right-padded response.
            attention_mask: (B, L) bool.
            prompt_length: P, 1 <= P < L.

        Returns:
            logits (B, T, V) and values (B, T), both taken *before* the token they belong to, from one forward pass of
            each model; no logits over the vocabulary are computed for the prompt. Either model may be frozen: the other
            has its gradient all the same. Nothing of a batch is kept.

        Raises:
            ValueError: shapes disagree, or no response is left after the prompt.
        """
        _check_inputs(input_ids, attention_mask, prompt_length)
        raise NotImplementedError("lesson07: PolicyAndValue.forward")

    def response_values(self, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
        """Return the values (B, T), with gradient and no forward pass of the policy; arguments as in `forward`."""
        _check_inputs(input_ids, attention_mask, prompt_length)
        raise NotImplementedError("lesson07: PolicyAndValue.response_values")


class SharedPolicyAndValue(nn.Module):
    """Actor and critic on one backbone: less memory, one forward pass, and two losses on the same weights.

    It must be trained by *one* optimizer over `parameters()`: with one for the policy and one for the critic,
    each would move the shared backbone by a full step, whatever the weight of its loss.

    Args:
        policy: a Hugging Face causal language model; the value head is added beside its language-model head.
    """

    def __init__(self, policy: PreTrainedModel) -> None:
        super().__init__()
        self.policy = policy
        self.value_head = ScalarHead(policy)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> ResponseOutputs:
        """Return logits (B, T, V) and values (B, T) from one forward pass; all else as in `PolicyAndValue`.

        The logits are the policy's own: some models scale or cap what their head gives. `logits_to_keep` may be a
        number, which counts from the end, or a tensor of positions. The value head reads the last of the hidden states.
        """
        _check_inputs(input_ids, attention_mask, prompt_length)
        raise NotImplementedError("lesson07: SharedPolicyAndValue.forward")

    def response_values(self, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
        """Return the values (B, T) alone, from the backbone, which keeps no hidden states but the last."""
        _check_inputs(input_ids, attention_mask, prompt_length)
        # `peft` calls the whole language model its base model.
        policy: Any = getattr(self.policy, "get_base_model", lambda: self.policy)()
        hidden = policy.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids(attention_mask),
            use_cache=False,
        ).last_hidden_state
        return self.value_head(hidden[:, prompt_length - 1 : -1]).squeeze(-1)


def critic_from_reward_model(reward_model: RewardModel) -> ValueModel:
    """Make a critic that starts as a copy of the reward model, so that at the last token its value is the score.

    Args:
        reward_model: left as it is, gradients included, and never trained through the critic.

    Returns:
        A new, trainable `ValueModel` of the reward model's dtype and device that shares no tensor with it; each of its
        parameters requires a gradient, even where the reward model was frozen.

    Source: Stiennon et al., "Learning to summarize from human feedback", 2020, section 3.4.
    """
    raise NotImplementedError("lesson07: critic_from_reward_model")


def freeze(model: Model) -> Model:
    """Stop training a model, in place: no parameter requires a gradient, dropout is off. Return the same model.

    Some or all of its parameters may be frozen already, and some or all of its modules in eval mode.
    """
    raise NotImplementedError("lesson07: freeze")


def make_reference(policy: PreTrainedModel) -> PreTrainedModel:
    """Make a frozen copy of the policy as it is now: the SFT model that the KL is measured against.

    Args:
        policy: left as it is; training it later does not change the copy.

    Returns:
        A model of the same class that shares no tensor with the policy.
    """
    raise NotImplementedError("lesson07: make_reference")


@contextmanager
def reference_mode(policy: PeftModel) -> Iterator[PeftModel]:
    """Let a LoRA policy be its own reference inside this context, so that no second model is held in memory.

    If the policy has an adapter named "reference" (a copy of the SFT adapter it started from), that one is
    switched on; otherwise all adapters are off. A policy that started from an SFT *adapter* needs the first:
    the bare base model is not what it started from, and the KL would be large at step 0.

    Args:
        policy: a `peft` model with LoRA layers of any kind, switched on, and no other trained copies of layers
            (`modules_to_save`). Its adapters, and what is trained of them, may change from one use to the next.

    Yields:
        The policy, under `torch.no_grad`. (Not under `torch.inference_mode`, whose tensors cannot enter a loss.)
        Afterwards adapter and `requires_grad` are restored, also after an exception.

    Raises:
        ValueError: the policy has no adapters (use `make_reference`).
    """
    if not hasattr(policy, "peft_config"):
        raise ValueError(
            f"expected a peft model with adapters, got {type(policy).__name__}; use make_reference instead"
        )
    raise NotImplementedError("lesson07: reference_mode")


def shared_parameters(first: nn.Module, second: nn.Module) -> list[str]:
    """Name, as in `first`, the parameters that `second` holds too: none if two optimizers are safe."""
    held = {id(parameter) for parameter in second.parameters()}
    return [name for name, parameter in first.named_parameters() if id(parameter) in held]


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[nn.Module]:
    """Put a model into eval mode inside this context; afterwards each submodule is in the mode it was in."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield model
    finally:
        for module, was_training in training.items():
            module.training = was_training


def disable_dropout(model: nn.Module) -> None:
    """Set the dropout of every module of the model to 0, in place: `nn.Dropout`, and numbers that are called so.

    With dropout on, the policy that is trained is not the policy that sampled: the ratio is not 1 before the
    first step, and the KL to the reference is noise. `PPOTrainer` measures whether any is left.
    """
    for module in model.modules():
        set_to_zero(module)
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0


def _check_inputs(input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> None:
    check_shapes(input_ids=(input_ids, "B L"), attention_mask=(attention_mask, "B L"))
    check_number("prompt_length", prompt_length, 1, input_ids.shape[1] - 1)
