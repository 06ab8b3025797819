from .actor_critic import (
    PolicyAndValue,
    ResponseOutputs,
    SharedPolicyAndValue,
    ValueModel,
    critic_from_reward_model,
    disable_dropout,
    evaluation_mode,
    freeze,
    make_reference,
    reference_mode,
    response_logits,
    shared_parameters,
)

__all__ = [
    "PolicyAndValue",
    "ResponseOutputs",
    "SharedPolicyAndValue",
    "ValueModel",
    "critic_from_reward_model",
    "disable_dropout",
    "evaluation_mode",
    "freeze",
    "make_reference",
    "reference_mode",
    "response_logits",
    "shared_parameters",
]
