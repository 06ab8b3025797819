"""Live models for lesson 7. Most are toys whose answers can be read off."""

from .scenarios_adapters import gpt2_lora, lora_line, refused_model
from .scenarios_copies import (
    critic_of,
    frozen_layers,
    frozen_output,
    gpt2_critic,
    gpt2_frozen,
    gpt2_reference,
    reference_of,
)
from .scenarios_models import language_model_logits
from .scenarios_values import (
    actor_critic,
    actor_critic_passes,
    gpt2_actor_critic,
    gpt2_last_value_and_score,
    gpt2_values,
    shared_actor_critic,
    shared_on_a_language_model,
    shared_passes,
    value_model,
    value_model_modes,
    values_alone,
    values_alone_passes,
)

__all__ = [
    "actor_critic",
    "actor_critic_passes",
    "critic_of",
    "frozen_layers",
    "frozen_output",
    "gpt2_actor_critic",
    "gpt2_critic",
    "gpt2_frozen",
    "gpt2_last_value_and_score",
    "gpt2_lora",
    "gpt2_reference",
    "gpt2_values",
    "language_model_logits",
    "lora_line",
    "reference_of",
    "refused_model",
    "shared_actor_critic",
    "shared_on_a_language_model",
    "shared_passes",
    "value_model",
    "value_model_modes",
    "values_alone",
    "values_alone_passes",
]
