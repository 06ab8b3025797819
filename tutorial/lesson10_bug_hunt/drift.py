"""A block: how far the sampling policy has drifted from the frozen model, token by token."""

from __future__ import annotations

from torch import Tensor


def sampled_drift(policy_logits: Tensor, frozen_logits: Tensor, tokens: Tensor, heat: float) -> Tensor:
    """Return each sampled token's log-probability under the policy minus that under the frozen model.

    Both are at the temperature `heat`, at which the tokens were sampled. The mean of the difference over samples
    estimates a KL divergence.

    Args:
        policy_logits: (B, T, V), position t holds the distribution of token t.
        frozen_logits: (B, T, V), of the frozen model on the same tokens.
        tokens: (B, T), sampled from the policy at this temperature.
        heat: temperature, positive.

    Returns:
        (B, T), in nats.
    """
    chosen = tokens.unsqueeze(-1)
    log_policy = (policy_logits / heat).log_softmax(-1)
    log_frozen = frozen_logits.log_softmax(-1)
    return (log_policy.gather(-1, chosen) - log_frozen.gather(-1, chosen)).squeeze(-1)
