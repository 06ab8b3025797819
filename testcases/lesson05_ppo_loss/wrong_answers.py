"""Wrong ideas about PPO's losses, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

import torch

from testcases.engine import misconception

PPO = "compute_ppo_loss: clip what profits"
VALUE = "compute_value_loss: half the larger square"
COMBINE = "combine_losses: one number, three signs"
STATISTICS = "ppo_statistics: watch the movement"
PENALTY = "compute_kl_penalty_loss: a price instead of a clip"
BETA = "update_beta: steer the price"
OLD = "The old policy is not the reference"
PESSIMIST = "Six cases and a pessimist"
WRONG = "What people get wrong"


def _real(mask, *tensors):
    return tensors if mask is None else tuple(tensor[mask] for tensor in tensors)


def _terms(log_probs, old_log_probs, advantages, mask):
    """Ratio and advantages of the real tokens, as the right answer has them."""
    log_probs, old, advantages = _real(mask, log_probs, old_log_probs.detach(), advantages.detach())
    return torch.exp(log_probs - old), advantages


def _clip(ratio, clip_epsilon):
    return ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)


def _losses(ratio, advantages, clip_epsilon):
    return -torch.minimum(ratio * advantages, _clip(ratio, clip_epsilon) * advantages)


def _row_means(per_token, mask):
    """Mean over the rows of the mean over each row's real tokens."""
    if mask is None or mask.dim() < 2:
        return per_token.mean() if per_token.dim() < 2 else per_token.mean(dim=-1).mean()
    counts = mask.sum(dim=-1)
    sums = per_token.masked_fill(~mask, 0.0).sum(dim=-1)
    return (sums[counts > 0] / counts[counts > 0]).mean()


# compute_ppo_loss


@misconception(
    "compute_ppo_loss",
    why="the minimum is taken of the two losses; it is the minimum of the objectives, so the maximum of the losses",
    read=PESSIMIST,
)
def minimum_of_the_losses(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return torch.minimum(-ratio * advantages, -_clip(ratio, clip_epsilon) * advantages).mean()


@misconception(
    "compute_ppo_loss",
    why="the smaller is chosen for the whole batch, after the means; it is chosen token by token",
    read=PESSIMIST,
)
def smaller_of_the_means(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -torch.minimum((ratio * advantages).mean(), (_clip(ratio, clip_epsilon) * advantages).mean())


@misconception(
    "compute_ppo_loss",
    why="only the clipped term: a token that has moved the wrong way gets no gradient to come back",
    read=PESSIMIST,
)
def clipped_term_alone(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -(_clip(ratio, clip_epsilon) * advantages).mean()


@misconception(
    "compute_ppo_loss", why="nothing is clipped: the profit grows with the ratio without end", read="Why clip"
)
def never_clipped(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -(ratio * advantages).mean()


@misconception("compute_ppo_loss", why="clip_epsilon is fixed at its default; the argument is ignored", read=PPO)
def clip_epsilon_fixed_at_02(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(ratio, advantages, 0.2).mean()


@misconception("compute_ppo_loss", why="only the upper bound is there: bad tokens may fall without end", read=PESSIMIST)
def clipped_above_only(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -torch.minimum(ratio * advantages, ratio.clamp(max=1 + clip_epsilon) * advantages).mean()


@misconception(
    "compute_ppo_loss", why="only the lower bound is there: good tokens may rise without end", read=PESSIMIST
)
def clipped_below_only(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -torch.minimum(ratio * advantages, ratio.clamp(min=1 - clip_epsilon) * advantages).mean()


@misconception(
    "compute_ppo_loss",
    why="the loss of a bad token is capped at 3 times its advantage (dual-clip PPO); here a loss keeps its gradient",
    read=PESSIMIST,
)
def clipped_twice(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    losses = _losses(ratio, advantages, clip_epsilon)
    return torch.where(advantages < 0, torch.minimum(losses, -3 * advantages), losses).mean()


@misconception(
    "compute_ppo_loss",
    why="the product of ratio and advantage is clipped; the interval belongs to the ratio alone",
    read=PPO,
)
def product_clipped(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -torch.minimum(ratio * advantages, _clip(ratio * advantages, clip_epsilon)).mean()


@misconception("compute_ppo_loss", why="the ratio is clipped around 0; it is 1 where nothing has moved", read=PPO)
def interval_around_0(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -torch.minimum(ratio * advantages, ratio.clamp(-clip_epsilon, clip_epsilon) * advantages).mean()


@misconception(
    "compute_ppo_loss",
    why="log(ratio) is clipped to clip_epsilon: the interval is 1 - clip_epsilon to 1 + clip_epsilon of the ratio",
    read=PPO,
)
def log_ratio_clipped(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    near = ratio.log().clamp(-clip_epsilon, clip_epsilon).exp()
    return -torch.minimum(ratio * advantages, near * advantages).mean()


@misconception(
    "compute_ppo_loss",
    why="the lower bound is 1 / (1 + clip_epsilon); it is 1 - clip_epsilon",
    read=PPO,
)
def lower_bound_is_a_quotient(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    near = ratio.clamp(1 / (1 + clip_epsilon), 1 + clip_epsilon)
    return -torch.minimum(ratio * advantages, near * advantages).mean()


@misconception(
    "compute_ppo_loss", why="the ratio is turned over: it is new / old, exp(log_probs - old_log_probs)", read=PPO
)
def ratio_turned_over(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(1 / ratio, advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="the difference of log-probabilities is taken for the ratio: it is the ratio's logarithm, exp is missing",
    read=PPO,
)
def exp_forgotten(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(ratio.log(), advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="log-probabilities are divided; the ratio of probabilities is exp of their difference",
    read=PPO,
)
def log_probs_divided(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    log_probs, old, advantages = _real(mask, log_probs, old_log_probs.detach(), advantages.detach())
    return _losses(log_probs / old, advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss", why="the sign is missing: this is the objective to maximise, a loss is minimised", read=PPO
)
def objective_returned(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -_losses(ratio, advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss", why="summed over the tokens: it is a mean, so that long batches do not step further", read=PPO
)
def tokens_summed(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(ratio, advantages, clip_epsilon).sum()


@misconception(
    "compute_ppo_loss",
    why="a mean of row means: tokens of short responses then count more; each real token counts once",
    read=PPO,
)
def mean_of_row_means(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio = torch.exp(log_probs - old_log_probs.detach())
    return _row_means(_losses(ratio, advantages.detach(), clip_epsilon), mask)


@misconception("compute_ppo_loss", why="the mask is ignored: padding is averaged in like a token", read=WRONG)
def mask_ignored(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, None)
    return _losses(ratio, advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="the sum over real tokens is divided by all columns: the loss shrinks as padding grows",
    read=WRONG,
)
def divided_by_every_column(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, real = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(ratio, real, clip_epsilon).sum() / advantages.numel()


@misconception(
    "compute_ppo_loss",
    why="multiplied by the mask after computing: NaN * 0 is NaN, so select the real tokens first",
    read=WRONG,
)
def mask_multiplied(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, None)
    losses = _losses(ratio, advantages, clip_epsilon)
    return losses.mean() if mask is None else (losses * mask).sum() / mask.sum()


@misconception(
    "compute_ppo_loss",
    why="the loss is selected, but after exp: NaN or infinity under the mask comes back in the gradient as 0 * NaN",
    read=WRONG,
)
def selected_after_exp(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, None)
    losses = _losses(ratio, advantages, clip_epsilon)
    return losses.mean() if mask is None else losses.masked_fill(~mask, 0.0).sum() / mask.sum()


@misconception("compute_ppo_loss", why="the mask is taken for a padding mask: True is a real token", read=PPO)
def mask_inverted(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, None if mask is None else ~mask)
    return _losses(ratio, advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="the ratio is detached: it is the only way in for the gradient, and the policy learns nothing",
    read=WRONG,
)
def ratio_detached(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(ratio.detach(), advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="both log-probabilities come from the policy in training: the ratio is always 1 and nothing is ever clipped",
    read=OLD,
)
def ratio_to_itself(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, log_probs, advantages, mask)
    return _losses(ratio, advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="plain policy gradient: advantage times log-probability, without the ratio, is wrong after the first step",
    read="Importance sampling",
)
def reinforce_without_a_ratio(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    log_probs, advantages = _real(mask, log_probs, advantages.detach())
    return -(log_probs * advantages).mean()


@misconception(
    "compute_ppo_loss",
    why="a gradient flows into old_log_probs: the policy that sampled is a recorded number, detach it",
    read=WRONG,
)
def old_log_probs_not_detached(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    log_probs, old_log_probs, advantages = _real(mask, log_probs, old_log_probs, advantages.detach())
    return _losses(torch.exp(log_probs - old_log_probs), advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="a gradient flows into the advantages: through them the policy loss would train the critic, detach them",
    read=WRONG,
)
def advantages_not_detached(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    log_probs, old, advantages = _real(mask, log_probs, old_log_probs.detach(), advantages)
    return _losses(torch.exp(log_probs - old), advantages, clip_epsilon).mean()


@misconception("compute_ppo_loss", why="nothing is detached: only log_probs may receive a gradient", read=PPO)
def nothing_detached(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    log_probs, old_log_probs, advantages = _real(mask, log_probs, old_log_probs, advantages)
    return _losses(torch.exp(log_probs - old_log_probs), advantages, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss",
    why="the advantages are whitened here; the trainer does that, once for a rollout, not for each minibatch",
    read="PPO2: what the code has and the paper has not",
)
def advantages_whitened_here(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    white = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    return _losses(ratio, white, clip_epsilon).mean()


@misconception(
    "compute_ppo_loss", why="one loss for each token is returned: the mean over the real tokens is missing", read=PPO
)
def ppo_loss_not_reduced(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(ratio, advantages, clip_epsilon)


@misconception(
    "compute_ppo_loss", why="the padding is overwritten in the caller's tensors: the next epoch needs them", read=PPO
)
def padding_overwritten_in_place(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    if mask is not None:
        old_log_probs.detach().masked_fill_(~mask, 0.0)
        advantages.detach().masked_fill_(~mask, 0.0)
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return _losses(ratio, advantages, clip_epsilon).mean()


# compute_value_loss


def _near(values, old_values, clip_epsilon):
    return old_values + (values - old_values).clamp(-clip_epsilon, clip_epsilon)


def _critic(values, old_values, returns, mask):
    return _real(mask, values, old_values.detach(), returns.detach())


def _squares(values, old_values, returns, clip_epsilon):
    near = _near(values, old_values, clip_epsilon)
    return torch.maximum((values - returns).square(), (near - returns).square())


@misconception(
    "compute_value_loss",
    why="the smaller square is taken: large errors vanish; pessimistic is the larger",
    read=VALUE,
)
def smaller_square(values, old_values, returns, clip_epsilon=0.2, mask=None):
    values, old_values, returns = _critic(values, old_values, returns, mask)
    near = _near(values, old_values, clip_epsilon)
    return 0.5 * torch.minimum((values - returns).square(), (near - returns).square()).mean()


@misconception(
    "compute_value_loss",
    why="the value itself is clipped to clip_epsilon; the interval lies around the old value",
    read=VALUE,
)
def value_clipped_around_0(values, old_values, returns, clip_epsilon=0.2, mask=None):
    values, old_values, returns = _critic(values, old_values, returns, mask)
    near = values.clamp(-clip_epsilon, clip_epsilon)
    return 0.5 * torch.maximum((values - returns).square(), (near - returns).square()).mean()


@misconception(
    "compute_value_loss",
    why="the interval is taken as 1 +- clip_epsilon times the old value, like a ratio; it is old value +- clip_epsilon",
    read=VALUE,
)
def value_clipped_as_a_ratio(values, old_values, returns, clip_epsilon=0.2, mask=None):
    values, old_values, returns = _critic(values, old_values, returns, mask)
    near = old_values * _clip(values / old_values, clip_epsilon)
    return 0.5 * torch.maximum((values - returns).square(), (near - returns).square()).mean()


@misconception(
    "compute_value_loss",
    why="the old value is not added back: the clipped movement alone is compared with the returns",
    read=VALUE,
)
def old_value_not_added_back(values, old_values, returns, clip_epsilon=0.2, mask=None):
    values, old_values, returns = _critic(values, old_values, returns, mask)
    near = (values - old_values).clamp(-clip_epsilon, clip_epsilon)
    return 0.5 * torch.maximum((values - returns).square(), (near - returns).square()).mean()


@misconception(
    "compute_value_loss",
    why="nothing is clipped (or it is clipped around returns, which changes nothing): plain half squared error",
    read=VALUE,
)
def value_never_clipped(values, old_values, returns, clip_epsilon=0.2, mask=None):
    values, old_values, returns = _critic(values, old_values, returns, mask)
    return 0.5 * (values - returns).square().mean()


@misconception(
    "compute_value_loss",
    why="only the clipped value is compared: a critic beyond the interval gets no gradient to come back",
    read=VALUE,
)
def clipped_value_alone(values, old_values, returns, clip_epsilon=0.2, mask=None):
    values, old_values, returns = _critic(values, old_values, returns, mask)
    return 0.5 * (_near(values, old_values, clip_epsilon) - returns).square().mean()


@misconception("compute_value_loss", why="clip_epsilon is fixed at its default; the argument is ignored", read=VALUE)
def value_clip_fixed_at_02(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_critic(values, old_values, returns, mask), 0.2).mean()


@misconception("compute_value_loss", why="the one half is missing: the effective value_coef doubles", read=VALUE)
def half_forgotten(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return _squares(*_critic(values, old_values, returns, mask), clip_epsilon).mean()


@misconception("compute_value_loss", why="the one half is there twice: the effective value_coef halves", read=VALUE)
def half_taken_twice(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.25 * _squares(*_critic(values, old_values, returns, mask), clip_epsilon).mean()


@misconception("compute_value_loss", why="absolute errors in place of squares", read=VALUE)
def absolute_errors(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_critic(values, old_values, returns, mask), clip_epsilon).sqrt().mean()


@misconception("compute_value_loss", why="the sign is turned round: the error is minimised, not maximised", read=VALUE)
def error_maximised(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return -0.5 * _squares(*_critic(values, old_values, returns, mask), clip_epsilon).mean()


@misconception(
    "compute_value_loss",
    why="the larger is chosen for the whole batch, after the means; it is chosen token by token",
    read=VALUE,
)
def larger_of_the_means(values, old_values, returns, clip_epsilon=0.2, mask=None):
    values, old_values, returns = _critic(values, old_values, returns, mask)
    near = _near(values, old_values, clip_epsilon)
    return 0.5 * torch.maximum((values - returns).square().mean(), (near - returns).square().mean())


@misconception("compute_value_loss", why="summed over the tokens: it is a mean", read=VALUE)
def squares_summed(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_critic(values, old_values, returns, mask), clip_epsilon).sum()


@misconception(
    "compute_value_loss",
    why="a mean of row means: tokens of short responses then count more; each real token counts once",
    read=VALUE,
)
def value_mean_of_row_means(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _row_means(_squares(values, old_values.detach(), returns.detach(), clip_epsilon), mask)


@misconception("compute_value_loss", why="the mask is ignored: the critic is trained on padding", read=WRONG)
def value_mask_ignored(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_critic(values, old_values, returns, None), clip_epsilon).mean()


@misconception(
    "compute_value_loss",
    why="the sum over real tokens is divided by all columns: the loss shrinks as padding grows",
    read=WRONG,
)
def value_divided_by_every_column(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_critic(values, old_values, returns, mask), clip_epsilon).sum() / values.numel()


@misconception(
    "compute_value_loss",
    why="multiplied by the mask after squaring: NaN * 0 is NaN, so select the real tokens first",
    read=WRONG,
)
def value_mask_multiplied(values, old_values, returns, clip_epsilon=0.2, mask=None):
    squares = 0.5 * _squares(*_critic(values, old_values, returns, None), clip_epsilon)
    return squares.mean() if mask is None else (squares * mask).sum() / mask.sum()


@misconception("compute_value_loss", why="the mask is taken for a padding mask: True is a real token", read=VALUE)
def value_mask_inverted(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_critic(values, old_values, returns, None if mask is None else ~mask), clip_epsilon).mean()


@misconception(
    "compute_value_loss",
    why="a gradient flows into old_values or returns: both are recorded numbers, detach them",
    read=WRONG,
)
def targets_not_detached(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_real(mask, values, old_values, returns), clip_epsilon).mean()


@misconception(
    "compute_value_loss",
    why="the returns are left in the graph: a moving target, the critic chases itself",
    read=WRONG,
)
def returns_not_detached(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_real(mask, values, old_values.detach(), returns), clip_epsilon).mean()


@misconception(
    "compute_value_loss",
    why="the old values are left in the graph: they are what the critic said when the responses were collected",
    read=WRONG,
)
def old_values_not_detached(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_real(mask, values, old_values, returns.detach()), clip_epsilon).mean()


@misconception("compute_value_loss", why="the values are detached: the critic learns nothing", read=WRONG)
def values_detached(values, old_values, returns, clip_epsilon=0.2, mask=None):
    return 0.5 * _squares(*_critic(values.detach(), old_values, returns, mask), clip_epsilon).mean()


# combine_losses


@misconception(
    "combine_losses", why="the entropy is added: minimising the loss then takes the entropy away", read=COMBINE
)
def entropy_added(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + value_coef * value_loss + entropy_coef * entropy


@misconception("combine_losses", why="the entropy is left out", read=COMBINE)
def entropy_left_out(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + value_coef * value_loss


@misconception(
    "combine_losses", why="the entropy is detached: the bonus is in the number but not in the gradient", read=COMBINE
)
def entropy_detached(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + value_coef * value_loss - entropy_coef * entropy.detach()


@misconception("combine_losses", why="the value loss is not weighted: value_coef is ignored", read=COMBINE)
def value_coef_ignored(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + value_loss - entropy_coef * entropy


@misconception("combine_losses", why="value_coef is fixed at its default; the argument is ignored", read=COMBINE)
def value_coef_fixed_at_01(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + 0.1 * value_loss - entropy_coef * entropy


@misconception("combine_losses", why="the entropy is not weighted: entropy_coef is ignored", read=COMBINE)
def entropy_coef_ignored(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + value_coef * value_loss - entropy


@misconception(
    "combine_losses",
    why="another one half on the value loss: compute_value_loss has it already, so value_coef is halved",
    read=COMBINE,
)
def another_half(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + 0.5 * value_coef * value_loss - entropy_coef * entropy


@misconception(
    "combine_losses",
    why="the value loss is subtracted: the paper maximises its sum, here each part is already a loss",
    read=COMBINE,
)
def value_loss_subtracted(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss - value_coef * value_loss - entropy_coef * entropy


@misconception(
    "combine_losses",
    why="the policy loss is negated a second time: compute_ppo_loss has the minus already",
    read=COMBINE,
)
def policy_loss_negated(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return -policy_loss + value_coef * value_loss - entropy_coef * entropy


@misconception("combine_losses", why="the two coefficients have changed places", read=COMBINE)
def coefficients_swapped(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + entropy_coef * value_loss - value_coef * entropy


@misconception("combine_losses", why="averaged over the three parts: they are summed with their weights", read=COMBINE)
def parts_averaged(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return (policy_loss + value_coef * value_loss - entropy_coef * entropy) / 3


@misconception(
    "combine_losses", why="the value loss is detached: the critic is in the number but never trained", read=COMBINE
)
def value_loss_detached(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return policy_loss + value_coef * value_loss.detach() - entropy_coef * entropy


@misconception("combine_losses", why="a number without a graph: nothing can be trained with it", read=COMBINE)
def graph_cut(policy_loss, value_loss, entropy, value_coef=0.1, entropy_coef=0.0):
    return (policy_loss + value_coef * value_loss - entropy_coef * entropy).detach()


# ppo_statistics


def _statistics(ratio, advantages, clip_epsilon, **changed):
    """The right four, from real tokens, and what is changed about them."""
    found = {
        "ratio_mean": ratio.mean(),
        "ratio_max": ratio.max(),
        "approx_kl": (ratio - 1 - ratio.log()).mean(),
        "clip_fraction": (_clip(ratio, clip_epsilon) * advantages < ratio * advantages).double().mean(),
    }
    return {name: changed.get(name, value).item() for name, value in found.items()}


def _ratio(log_probs, old_log_probs, advantages, mask):
    with torch.no_grad():
        return _terms(log_probs, old_log_probs, advantages, mask)


@misconception(
    "ppo_statistics",
    why="clip_fraction counts every token outside the interval; where the token loses, the clip cuts nothing",
    read=STATISTICS,
)
def outside_taken_for_clipped(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    outside = ((ratio - 1).abs() > clip_epsilon).double().mean()
    return _statistics(ratio, advantages, clip_epsilon, clip_fraction=outside)


@misconception(
    "ppo_statistics",
    why="clip_fraction counts the tokens that are left their gradient, not those that lose it",
    read=STATISTICS,
)
def unclipped_fraction(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    kept = (_clip(ratio, clip_epsilon) * advantages >= ratio * advantages).double().mean()
    return _statistics(ratio, advantages, clip_epsilon, clip_fraction=kept)


@misconception(
    "ppo_statistics",
    why="clip_fraction counts the wrong side: where the unclipped objective is the smaller, nothing is cut",
    read=STATISTICS,
)
def losing_side_counted(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    losing = (_clip(ratio, clip_epsilon) * advantages > ratio * advantages).double().mean()
    return _statistics(ratio, advantages, clip_epsilon, clip_fraction=losing)


@misconception(
    "ppo_statistics",
    why="clip_fraction sees the upper bound only: bad tokens are clipped below the lower one",
    read=STATISTICS,
)
def good_tokens_counted_only(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    above = ((ratio > 1 + clip_epsilon) & (advantages > 0)).double().mean()
    return _statistics(ratio, advantages, clip_epsilon, clip_fraction=above)


@misconception(
    "ppo_statistics",
    why="the clipped objective is compared with the minimum, of which it is a part: clip_fraction is always 0",
    read=STATISTICS,
)
def clip_fraction_always_0(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, clip_fraction=torch.zeros(()))


@misconception("ppo_statistics", why="clip_epsilon is fixed at its default; the argument is ignored", read=STATISTICS)
def statistics_at_02(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, 0.2)


@misconception(
    "ppo_statistics",
    why="approx_kl is the mean of new - old: samples of the old policy make that about -KL",
    read="ppo_statistics, continued: approx_kl",
)
def kl_of_new_minus_old(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, approx_kl=ratio.log().mean())


@misconception(
    "ppo_statistics",
    why="approx_kl is the mean of old - new: right on average, but noisier, even below 0; use ratio - 1 - log(ratio)",
    read="ppo_statistics, continued: approx_kl",
)
def kl_of_old_minus_new(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, approx_kl=-ratio.log().mean())


@misconception(
    "ppo_statistics",
    why="approx_kl is half the mean square of log(ratio), as PPO2 logs it: near the KL for small steps only",
    read="ppo_statistics, continued: approx_kl",
)
def kl_of_half_squares(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, approx_kl=0.5 * ratio.log().square().mean())


@misconception(
    "ppo_statistics",
    why="approx_kl uses old / new: the tokens come from the old policy, so the ratio in it is new / old",
    read="ppo_statistics, continued: approx_kl",
)
def kl_of_the_ratio_turned_over(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, approx_kl=(1 / ratio - 1 + ratio.log()).mean())


@misconception(
    "ppo_statistics",
    why="approx_kl is ratio * log(ratio): that weights old samples to KL(new || old), the other direction",
    read="ppo_statistics, continued: approx_kl",
)
def kl_of_new_from_old(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, approx_kl=(ratio * ratio.log()).mean())


@misconception(
    "ppo_statistics",
    why="approx_kl is the mean of minus the ratio: that is -1, not 0, while nothing has moved",
    read="ppo_statistics, continued: approx_kl",
)
def kl_of_minus_the_ratio(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, approx_kl=-ratio.mean())


@misconception("ppo_statistics", why="approx_kl is summed over the tokens: it is a mean", read=STATISTICS)
def kl_summed(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, approx_kl=(ratio - 1 - ratio.log()).sum())


@misconception("ppo_statistics", why="the ratio is turned over: it is new / old", read=STATISTICS)
def statistics_of_the_ratio_turned_over(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(1 / ratio, advantages, clip_epsilon)


@misconception(
    "ppo_statistics",
    why="ratio_mean is exp of the mean log(ratio), the geometric mean; it is the mean of the ratios",
    read=STATISTICS,
)
def geometric_mean(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, ratio_mean=ratio.log().mean().exp())


@misconception(
    "ppo_statistics", why="the ratios are clipped first: the log then hides what it should show", read=STATISTICS
)
def statistics_of_the_clipped_ratio(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    near = _clip(ratio, clip_epsilon)
    return _statistics(ratio, advantages, clip_epsilon, ratio_mean=near.mean(), ratio_max=near.max())


@misconception(
    "ppo_statistics", why="ratio_max is the largest distance from 1; it is the largest ratio", read=STATISTICS
)
def largest_distance_from_1(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    return _statistics(ratio, advantages, clip_epsilon, ratio_max=(ratio - 1).abs().max())


@misconception("ppo_statistics", why="the mask is ignored: padding is counted like a token", read=WRONG)
def statistics_mask_ignored(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, None)
    return _statistics(ratio, advantages, clip_epsilon)


@misconception(
    "ppo_statistics",
    why="padding is turned into ratio 1 and counted: it dilutes all four; select the real tokens",
    read=WRONG,
)
def padding_counted_as_ratio_1(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, None)
    if mask is not None:
        ratio, advantages = ratio.masked_fill(~mask, 1.0), advantages.masked_fill(~mask, 0.0)
    return _statistics(ratio, advantages, clip_epsilon)


@misconception("ppo_statistics", why="tensors are returned: a log needs Python floats, use .item()", read=STATISTICS)
def tensors_returned(log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None):
    ratio, advantages = _ratio(log_probs, old_log_probs, advantages, mask)
    found = _statistics(ratio, advantages, clip_epsilon)
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}


# compute_kl_penalty_loss


def _price(ratio):
    return ratio - 1 - ratio.log()


@misconception(
    "compute_kl_penalty_loss", why="the price is subtracted: the loss then pays for moving away", read=PENALTY
)
def price_subtracted(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages - beta * _price(ratio)).mean()


@misconception(
    "compute_kl_penalty_loss", why="the sign of the objective is missing: ratio * advantage is maximised", read=PENALTY
)
def advantage_minimised(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (ratio * advantages + beta * _price(ratio)).mean()


@misconception("compute_kl_penalty_loss", why="beta is ignored: the price of a nat is 1", read=PENALTY)
def beta_ignored(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages + _price(ratio)).mean()


@misconception("compute_kl_penalty_loss", why="there is no price at all: nothing holds the policy", read=PENALTY)
def no_price(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return -(ratio * advantages).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="the penalty is log(ratio), new - old: its mean over old samples is minus the KL, so it pays for moving",
    read=PENALTY,
)
def penalty_of_new_minus_old(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages + beta * ratio.log()).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="the penalty is old - new: right on average, but each token may be paid for moving; use ratio - 1 - log(ratio)",
    read=PENALTY,
)
def penalty_of_old_minus_new(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages - beta * ratio.log()).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="the penalty is half the square of log(ratio): near the KL for small steps only",
    read=PENALTY,
)
def penalty_of_half_squares(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages + beta * 0.5 * ratio.log().square()).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="the penalty uses old / new: the tokens come from the old policy, so the ratio in it is new / old",
    read=PENALTY,
)
def penalty_of_the_ratio_turned_over(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages + beta * (1 / ratio - 1 + ratio.log())).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="the penalty is ratio * log(ratio): that weights old samples to KL(new || old), the other direction",
    read=PENALTY,
)
def penalty_of_new_from_old(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages + beta * ratio * ratio.log()).mean()


@misconception(
    "compute_kl_penalty_loss", why="the penalty is detached: it is in the number but holds nothing back", read=PENALTY
)
def penalty_detached(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages + beta * _price(ratio).detach()).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="the ratio is clipped as well: here the price takes the place of the clip",
    read=PENALTY,
)
def clipped_and_priced(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (_losses(ratio, advantages, 0.2) + beta * _price(ratio)).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="plain policy gradient with a price: the ratio, which corrects for old samples, is missing",
    read=PENALTY,
)
def price_without_a_ratio(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    real = _real(mask, log_probs)[0]
    return (-real * advantages + beta * _price(ratio)).mean()


@misconception("compute_kl_penalty_loss", why="summed over the tokens: it is a mean", read=PENALTY)
def penalty_loss_summed(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, mask)
    return (-ratio * advantages + beta * _price(ratio)).sum()


@misconception(
    "compute_kl_penalty_loss",
    why="a mean of row means: tokens of short responses then count more; each real token counts once",
    read=PENALTY,
)
def penalty_mean_of_row_means(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio = torch.exp(log_probs - old_log_probs.detach())
    return _row_means(-ratio * advantages.detach() + beta * _price(ratio), mask)


@misconception("compute_kl_penalty_loss", why="the mask is ignored: padding is averaged in like a token", read=WRONG)
def penalty_mask_ignored(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, None)
    return (-ratio * advantages + beta * _price(ratio)).mean()


@misconception(
    "compute_kl_penalty_loss",
    why="multiplied by the mask after computing: NaN * 0 is NaN, so select the real tokens first",
    read=WRONG,
)
def penalty_mask_multiplied(log_probs, old_log_probs, advantages, beta, mask=None):
    ratio, advantages = _terms(log_probs, old_log_probs, advantages, None)
    losses = -ratio * advantages + beta * _price(ratio)
    return losses.mean() if mask is None else (losses * mask).sum() / mask.sum()


@misconception(
    "compute_kl_penalty_loss",
    why="a gradient flows into old_log_probs or advantages: both are recorded numbers, detach them",
    read=WRONG,
)
def penalty_nothing_detached(log_probs, old_log_probs, advantages, beta, mask=None):
    log_probs, old_log_probs, advantages = _real(mask, log_probs, old_log_probs, advantages)
    ratio = torch.exp(log_probs - old_log_probs)
    return (-ratio * advantages + beta * _price(ratio)).mean()


# update_beta


@misconception("update_beta", why="the direction is turned round: moving too far must make movement dearer", read=BETA)
def cheaper_when_too_far(beta, kl, target_kl):
    return beta / 2 if kl > 1.5 * target_kl else beta * 2 if kl < target_kl / 1.5 else beta


@misconception(
    "update_beta", why="the factor is 1.5: that is the width of the bounds, the price is doubled or halved", read=BETA
)
def factor_of_15(beta, kl, target_kl):
    return beta * 1.5 if kl > 1.5 * target_kl else beta / 1.5 if kl < target_kl / 1.5 else beta


@misconception("update_beta", why="the bounds are at twice and half the target: they are at 1.5 and 1 / 1.5", read=BETA)
def bounds_at_2(beta, kl, target_kl):
    return beta * 2 if kl > 2 * target_kl else beta / 2 if kl < target_kl / 2 else beta


@misconception("update_beta", why="1.5 and 2 have changed places", read=BETA)
def factor_and_bound_swapped(beta, kl, target_kl):
    return beta * 1.5 if kl > 2 * target_kl else beta / 1.5 if kl < target_kl / 2 else beta


@misconception(
    "update_beta", why="there are no bounds: the price jumps at every update, even close to the target", read=BETA
)
def no_bounds(beta, kl, target_kl):
    return beta * 2 if kl > target_kl else beta / 2 if kl < target_kl else beta


@misconception("update_beta", why="the lower bound is half the target: it is target_kl / 1.5", read=BETA)
def lower_bound_at_half(beta, kl, target_kl):
    return beta * 2 if kl > 1.5 * target_kl else beta / 2 if kl < 0.5 * target_kl else beta


@misconception(
    "update_beta", why="the lower bound is 1.5 times the target, like the upper: there is no room in between", read=BETA
)
def one_bound_for_both(beta, kl, target_kl):
    return beta * 2 if kl > 1.5 * target_kl else beta / 2 if kl < 1.5 * target_kl else beta


@misconception("update_beta", why="the bounds are taken as outside: at the bound itself the price stays", read=BETA)
def bounds_outside(beta, kl, target_kl):
    return beta * 2 if kl >= 1.5 * target_kl else beta / 2 if kl <= target_kl / 1.5 else beta


@misconception("update_beta", why="the price only ever rises: it must fall when the policy hardly moves", read=BETA)
def never_cheaper(beta, kl, target_kl):
    return beta * 2 if kl > 1.5 * target_kl else beta


@misconception("update_beta", why="the price only ever falls: it must rise when the policy moves too far", read=BETA)
def never_dearer(beta, kl, target_kl):
    return beta / 2 if kl < target_kl / 1.5 else beta


@misconception(
    "update_beta",
    why="the price follows the quotient kl / target_kl: it is a rule of two steps, doubled, halved or kept",
    read=BETA,
)
def proportional(beta, kl, target_kl):
    return beta * kl / target_kl


@misconception("update_beta", why="target_kl is ignored: the KL is compared with 1.5 itself", read=BETA)
def target_ignored(beta, kl, target_kl):
    return beta * 2 if kl > 1.5 else beta / 2 if kl < 1 / 1.5 else beta


@misconception("update_beta", why="2 is added or taken away: the price is multiplied or divided by 2", read=BETA)
def two_added(beta, kl, target_kl):
    return beta + 2 if kl > 1.5 * target_kl else beta - 2 if kl < target_kl / 1.5 else beta
