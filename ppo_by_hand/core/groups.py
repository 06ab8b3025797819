"""PPO's trainer without a critic: advantages of groups, and the KL penalty as a term of the loss.

Functions of the lessons are passed in, since what is given imports none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from .config import PPOConfig

Loss = Callable[[Any, Any], tuple[Tensor, dict[str, float]]]
GROUP_EPSILON = 1e-4
"""Added to the standard deviation of a group: TRL's."""
OF_A_CRITIC = ("value_mean", "return_std", "explained_variance")
"""Metrics that say nothing where there is none."""


def with_group_advantages(experience: Any, config: PPOConfig, leave_one_out: Callable[[Tensor], Tensor]) -> Any:
    """The same experience, each token with the advantage of its response in its group.

    A response counts with the sum of its rewards: its score, and the KL penalties where those are in the reward.

    Args:
        experience: lesson 8's `Experience` of whole groups, the responses to a prompt in neighboring rows.
        config: `advantages` "rloo" or "grpo", and `samples_per_prompt`.
        leave_one_out: lesson 3's baseline.

    Returns:
        Experience whose returns are 0: nobody learns them.

    Raises:
        ValueError: the rows are not groups of `samples_per_prompt` responses to one prompt.
    """
    size = config.samples_per_prompt
    _check_groups(experience, size)
    totals = experience.rewards.sum(dim=1).view(-1, size)
    advantages = totals - leave_one_out(totals)
    if config.advantages == "grpo":
        from_the_mean = advantages * (size - 1) / size
        advantages = from_the_mean / (totals.std(dim=1, keepdim=True) + GROUP_EPSILON)
    each = advantages.view(-1, 1).expand_as(experience.mask).masked_fill(~experience.mask, 0.0)
    return replace(experience, advantages=each, returns=experience.returns.new_zeros(each.shape))


def _check_groups(experience: Any, size: int) -> None:
    if len(experience) % size:
        raise ValueError(
            f"expected groups of {size} responses (samples_per_prompt), got {len(experience)} rows; "
            "repeat each prompt that often, as `train` does"
        )
    prompts = experience.input_ids[:, : experience.prompt_length].view(-1, size, experience.prompt_length)
    if not (prompts == prompts[:, :1]).all():
        raise ValueError(
            f"expected each {size} rows in a row to answer one prompt (samples_per_prompt), got different prompts in a "
            "group; repeat each prompt that often, as `train` does"
        )


def with_kl_in_the_loss(gather_log_probs: Callable[..., Tensor]) -> Callable[[Loss], Loss]:
    """The same method of the trainer; with `kl_in="loss"` it adds kl_coef * the mean of ratio * k3 over real tokens.

    Of each token, given its prefix, the gradient is that of KL(policy || reference), also after several steps (lesson
    13). The log-probabilities are those of the forward pass that the method makes.

    Args:
        gather_log_probs: lesson 1's.
    """

    def decorate(compute_loss: Loss) -> Loss:
        @functools.wraps(compute_loss)
        def wrapped(trainer: Any, batch: Any) -> tuple[Tensor, dict[str, float]]:
            if trainer.config.kl_in == "reward":
                return compute_loss(trainer, batch)
            seen: list[Tensor] = []
            hook = trainer.model.register_forward_hook(lambda model, inputs, outputs: seen.append(outputs.logits))
            try:
                loss, statistics = compute_loss(trainer, batch)
            finally:
                hook.remove()
            now = gather_log_probs(seen[0], batch.responses, trainer.config.temperature)
            kl = kl_term(now, batch.log_probs, batch.ref_log_probs, batch.mask)
            return loss + trainer.kl_controller.value * kl, statistics | {"kl_loss": kl.item()}

        return wrapped

    return decorate


def kl_term(log_probs: Tensor, old_log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor) -> Tensor:
    """Mean of ratio * k3 over the real tokens."""
    ratio = (log_probs - old_log_probs).masked_fill(~mask, 0.0).exp()
    to_reference = (ref_log_probs - log_probs).masked_fill(~mask, 0.0)
    return (ratio * (to_reference.expm1() - to_reference)).sum() / mask.sum()
