"""Wrong ideas about the KL and the rewards, as code. Each is rejected by the basic suite, and named when submitted."""

from __future__ import annotations

import torch

from testcases.engine import misconception

KL = "estimate_kl: one token, three estimates"
REWARDS = "compute_rewards: a price on every token, the score on the last"
STOP = "penalize_missing_stop: subtract"
UPDATE = "AdaptiveKLController.update: steer the price"
LOSS = "The same estimate as a loss"
FLOAT32 = "Small and large log-ratios"
WRONG = "What people get wrong"


def _log_ratio(log_probs, ref_log_probs):
    if log_probs.dtype in (torch.float16, torch.bfloat16):
        log_probs, ref_log_probs = log_probs.float(), ref_log_probs.float()
    return log_probs - ref_log_probs


def _kl(log_ratio, estimator):
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio.square() / 2
    return torch.expm1((-log_ratio).clamp(max=20.0)) + log_ratio


def _estimate(log_probs, ref_log_probs, estimator):
    return _kl(_log_ratio(log_probs, ref_log_probs), estimator)


# estimate_kl


@misconception(
    "estimate_kl",
    why="k1 is clamped at 0: the tokens that pay back are lost, so the mean is too large (0.401, the KL is 0.244)",
    read=WRONG,
)
def k1_clamped_at_zero(log_probs, ref_log_probs, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator)
    return kl.clamp(min=0.0) if estimator == "k1" else kl


@misconception(
    "estimate_kl", why="abs() of k1: a token may well have a negative estimate, only the mean may not", read=WRONG
)
def k1_made_positive(log_probs, ref_log_probs, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator)
    return kl.abs() if estimator == "k1" else kl


@misconception(
    "estimate_kl",
    why="k3 with the ratio upside down: exp(r) - 1 - r does not estimate this KL; it is exp(-r) - 1 + r",
    read=WRONG,
)
def k3_ratio_inverted(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = _log_ratio(log_probs, ref_log_probs)
    return torch.expm1(log_ratio.clamp(max=20.0)) - log_ratio if estimator == "k3" else _kl(log_ratio, estimator)


@misconception(
    "estimate_kl", why="reference minus policy: KL(policy || reference) starts from log_probs - ref_log_probs", read=KL
)
def policy_and_reference_swapped(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(ref_log_probs, log_probs, estimator)


@misconception(
    "estimate_kl", why="k1 has the sign of a reward: here it is a KL, the minus comes in compute_rewards", read=KL
)
def k1_negated(log_probs, ref_log_probs, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator)
    return -kl if estimator == "k1" else kl


@misconception(
    "estimate_kl", why="k2 without its half: r^2 / 2 agrees with the KL for close models, r^2 is twice it", read=KL
)
def k2_without_the_half(log_probs, ref_log_probs, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator)
    return 2 * kl if estimator == "k2" else kl


@misconception("estimate_kl", why="k2 as |r| / 2: the log-ratio is squared", read=KL)
def k2_not_squared(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = _log_ratio(log_probs, ref_log_probs)
    return log_ratio.abs() / 2 if estimator == "k2" else _kl(log_ratio, estimator)


@misconception(
    "estimate_kl",
    why="k3 with exp(r), r = log_probs - ref_log_probs: exp(r) - 1 + r is no KL, the exponent is -r",
    read=KL,
)
def k3_with_the_wrong_sign_in_the_exponent(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = _log_ratio(log_probs, ref_log_probs)
    return torch.expm1(log_ratio.clamp(max=20.0)) + log_ratio if estimator == "k3" else _kl(log_ratio, estimator)


@misconception(
    "estimate_kl",
    why="k3 with - r at its end: exp(-r) - 1 + r, so that the swing of both parts cancels",
    read=KL,
)
def k3_minus_the_log_ratio(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = _log_ratio(log_probs, ref_log_probs)
    return torch.expm1((-log_ratio).clamp(max=20.0)) - log_ratio if estimator == "k3" else _kl(log_ratio, estimator)


@misconception("estimate_kl", why="k3 without + r: exp(-r) - 1 alone has the mean 0, whatever the models are", read=KL)
def k3_without_the_log_ratio(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = _log_ratio(log_probs, ref_log_probs)
    return torch.expm1((-log_ratio).clamp(max=20.0)) if estimator == "k3" else _kl(log_ratio, estimator)


@misconception("estimate_kl", why="k3 without - 1: equal models then seem to differ by 1 nat", read=KL)
def k3_without_minus_one(log_probs, ref_log_probs, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator)
    return kl + 1 if estimator == "k3" else kl


@misconception(
    "estimate_kl",
    why="exp(-r) - 1 in float32 rounds away a small KL, which is all there is at the start: expm1 keeps it",
    read=FLOAT32,
)
def k3_by_exp_minus_one(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = _log_ratio(log_probs, ref_log_probs)
    return (-log_ratio).clamp(max=20.0).exp() - 1 + log_ratio if estimator == "k3" else _kl(log_ratio, estimator)


@misconception(
    "estimate_kl", why="the exponent of k3 is not capped: one unlikely token makes it infinite in float32", read=FLOAT32
)
def k3_may_overflow(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = _log_ratio(log_probs, ref_log_probs)
    return torch.expm1(-log_ratio) + log_ratio if estimator == "k3" else _kl(log_ratio, estimator)


@misconception(
    "estimate_kl", why="the log-ratio itself is capped: only the exponent of k3 is, r is added as it is", read=FLOAT32
)
def log_ratio_capped(log_probs, ref_log_probs, estimator="k1"):
    return _kl(_log_ratio(log_probs, ref_log_probs).clamp(-20.0, 20.0), estimator)


@misconception(
    "estimate_kl",
    why="the bare formulas: exp(-r) - 1 rounds a small KL away and overflows for a large r, and bfloat16 is kept",
    read=FLOAT32,
)
def bare_formulas(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = log_probs - ref_log_probs
    return (-log_ratio).exp() - 1 + log_ratio if estimator == "k3" else _kl(log_ratio, estimator)


@misconception("estimate_kl", why="k3 is clamped to 10 afterwards: cap the exponent, at 20", read=FLOAT32)
def k3_clamped_to_10(log_probs, ref_log_probs, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator)
    return kl.clamp(-10.0, 10.0) if estimator == "k3" else kl


@misconception("estimate_kl", why="the estimator is ignored: this is k1 whatever was asked for", read=KL)
def always_k1(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(log_probs, ref_log_probs, "k1")


@misconception("estimate_kl", why="the estimator is ignored: this is k3 whatever was asked for", read=KL)
def always_k3(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(log_probs, ref_log_probs, "k3")


@misconception("estimate_kl", why="k2 and k3 have changed places: k2 is r^2 / 2, k3 is exp(-r) - 1 + r", read=KL)
def k2_and_k3_swapped(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(log_probs, ref_log_probs, {"k1": "k1", "k2": "k3", "k3": "k2"}[estimator])


@misconception(
    "estimate_kl", why="the default is k3 here: it is k1, unbiased and with the right gradient in the reward", read=KL
)
def k3_by_default(log_probs, ref_log_probs, estimator="k3"):
    return _estimate(log_probs, ref_log_probs, estimator)


@misconception(
    "estimate_kl",
    why="subtracted in half precision, then converted: by then the difference is rounded away, convert first",
    read=FLOAT32,
)
def subtracted_in_half_precision(log_probs, ref_log_probs, estimator="k1"):
    log_ratio = log_probs - ref_log_probs
    return _kl(log_ratio.float() if log_ratio.dtype in (torch.float16, torch.bfloat16) else log_ratio, estimator)


@misconception("estimate_kl", why="half precision stays half precision: the noise is as large as the KL", read=FLOAT32)
def half_precision_kept(log_probs, ref_log_probs, estimator="k1"):
    return _kl(log_probs - ref_log_probs, estimator)


@misconception(
    "estimate_kl", why="float64 is cut down to float32: only float16 and bfloat16 are converted", read=FLOAT32
)
def everything_in_float32(log_probs, ref_log_probs, estimator="k1"):
    return _kl(log_probs.float() - ref_log_probs.float(), estimator)


@misconception(
    "estimate_kl",
    why="leaves the logarithms: exp() of both, then the ratio, is 0 / 0 for an unlikely token; subtract them",
    read=FLOAT32,
)
def ratio_of_probabilities(log_probs, ref_log_probs, estimator="k1"):
    if log_probs.dtype in (torch.float16, torch.bfloat16):
        log_probs, ref_log_probs = log_probs.float(), ref_log_probs.float()
    return _kl((log_probs.exp() / ref_log_probs.exp()).log(), estimator)


@misconception(
    "estimate_kl",
    why="weighted with the probability of the token: sampling from the policy has done that already",
    read=KL,
)
def weighted_with_the_probability(log_probs, ref_log_probs, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator)
    return log_probs.to(kl.dtype).exp() * kl


@misconception("estimate_kl", why="averaged over the tokens: one number for each token is asked for, unmasked", read=KL)
def mean_of_the_tokens(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(log_probs, ref_log_probs, estimator).mean()


@misconception("estimate_kl", why="summed over each response: one number for each token is asked for", read=KL)
def sum_of_the_response(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(log_probs, ref_log_probs, estimator).sum(dim=-1)


@misconception(
    "estimate_kl", why="the graph is cut: as a loss this would teach nothing; compute_rewards cuts it", read=LOSS
)
def kl_without_gradient(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(log_probs, ref_log_probs, estimator).detach()


@misconception(
    "estimate_kl", why="the reference is detached: it is frozen by its owner, no gradient is cut here", read=LOSS
)
def reference_detached(log_probs, ref_log_probs, estimator="k1"):
    return _estimate(log_probs, ref_log_probs.detach(), estimator)


# compute_rewards


def _last(mask):
    """Index of the last real token of each row."""
    return mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1)


def _priced(log_probs, ref_log_probs, mask, kl_coef, estimator):
    return -kl_coef * _estimate(log_probs, ref_log_probs, estimator).masked_fill(~mask, 0.0)


def _add_at(rewards, columns, scores):
    rewards = rewards.clone()
    rewards[torch.arange(len(scores)), columns] += scores
    return rewards


@misconception(
    "compute_rewards",
    why="the score stands one past the last token: it then reaches it discounted by gamma * lam",
    read=WRONG,
)
@torch.no_grad()
def score_one_past_the_end(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    columns = (_last(mask) + 1).clamp(max=mask.shape[1] - 1)
    return _add_at(rewards, columns, scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="the score stands in the last column: for a short response that is padding", read=REWARDS
)
@torch.no_grad()
def score_in_the_last_column(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, torch.full_like(_last(mask), -1), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards",
    why="the real tokens are counted to find the last: with a gap inside, that is too early",
    read=REWARDS,
)
@torch.no_grad()
def score_at_the_number_of_tokens(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, mask.sum(dim=1) - 1, scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="the score stands on the token before the last: the index is off by one", read=REWARDS
)
@torch.no_grad()
def score_before_the_last_token(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, (_last(mask) - 1).clamp(min=0), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards",
    why="the score stands on the first token: it belongs to the last, which ends the text",
    read=REWARDS,
)
@torch.no_grad()
def score_on_the_first_token(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, mask.int().argmax(dim=1), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="every token gets the score: a long response then earns it many times", read=REWARDS
)
@torch.no_grad()
def score_on_every_token(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return rewards + scores.clamp(-clip_score, clip_score).unsqueeze(1) * mask


@misconception(
    "compute_rewards", why="the score is spread over the tokens: it goes to the last one, whole", read=REWARDS
)
@torch.no_grad()
def score_spread_evenly(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return rewards + scores.clamp(-clip_score, clip_score).unsqueeze(1) * mask / mask.sum(dim=1, keepdim=True)


@misconception(
    "compute_rewards",
    why="rewards[:, last] takes every row's column in every row: pair each row with its own column",
    read=REWARDS,
)
@torch.no_grad()
def columns_of_all_rows(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    rewards[:, _last(mask)] += scores.clamp(-clip_score, clip_score)
    return rewards


@misconception("compute_rewards", why="the score replaces the KL of the last token: it is added to it", read=REWARDS)
@torch.no_grad()
def last_token_pays_nothing(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    rewards[torch.arange(len(scores)), _last(mask)] = scores.clamp(-clip_score, clip_score).to(rewards.dtype)
    return rewards


@misconception(
    "compute_rewards", why="the KL is added: drifting away is paid instead of priced; it is minus kl_coef", read=WRONG
)
@torch.no_grad()
def drifting_is_paid(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = -_priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="the KL is left out: nothing holds the policy back from exploiting the score", read=REWARDS
)
@torch.no_grad()
def score_without_a_price(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = torch.zeros_like(_priced(log_probs, ref_log_probs, mask, kl_coef, estimator))
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception("compute_rewards", why="the score is left out: only the price of drifting is there", read=REWARDS)
@torch.no_grad()
def price_without_a_score(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    return _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)


@misconception("compute_rewards", why="kl_coef is fixed at its default: the argument is ignored", read=REWARDS)
@torch.no_grad()
def price_fixed_at_01(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, 0.1, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards",
    why="kl_coef multiplies the score as well: it is the price of a nat, in units of score",
    read=REWARDS,
)
@torch.no_grad()
def price_on_the_score_too(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, _last(mask), kl_coef * scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards",
    why="the KL is clamped at 0: tokens that come back to the reference must be paid back",
    read=WRONG,
)
@torch.no_grad()
def price_clamped_at_zero(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator).clamp(max=0.0)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="the score is not clipped: one outlier of the reward model rules the batch", read=REWARDS
)
@torch.no_grad()
def score_not_clipped(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    return _add_at(_priced(log_probs, ref_log_probs, mask, kl_coef, estimator), _last(mask), scores)


@misconception(
    "compute_rewards", why="the score is clipped from above only: a very bad one is clipped, too", read=REWARDS
)
@torch.no_grad()
def score_clipped_above_only(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(max=clip_score))


@misconception(
    "compute_rewards", why="the score is clipped to [0, clip_score]: a bad response loses its minus", read=REWARDS
)
@torch.no_grad()
def score_clipped_at_zero(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(0.0, clip_score))


@misconception("compute_rewards", why="clip_score is fixed at its default: the argument is ignored", read=REWARDS)
@torch.no_grad()
def clip_fixed_at_5(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(-5.0, 5.0))


@misconception(
    "compute_rewards",
    why="the whole reward is clipped: clip the score, never the KL, or drifting gets a discount",
    read=WRONG,
)
@torch.no_grad()
def reward_clipped_with_the_kl(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _add_at(_priced(log_probs, ref_log_probs, mask, kl_coef, estimator), _last(mask), scores)
    return rewards.clamp(-clip_score, clip_score)


@misconception(
    "compute_rewards",
    why="the score is clipped, and the sum with the KL again: on the last token drifting far gets a discount",
    read=WRONG,
)
@torch.no_grad()
def clipped_score_and_sum(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    priced = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(priced, _last(mask), scores.clamp(-clip_score, clip_score)).clamp(-clip_score, clip_score)


@misconception(
    "compute_rewards",
    why="the KL is clipped like the score: a token far from the reference then costs no more",
    read=WRONG,
)
@torch.no_grad()
def kl_clipped_like_the_score(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    kl = _estimate(log_probs, ref_log_probs, estimator).clamp(-clip_score, clip_score)
    rewards = -kl_coef * kl.masked_fill(~mask, 0.0)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception("compute_rewards", why="the estimator is ignored: this is k1 whatever was asked for", read=REWARDS)
@torch.no_grad()
def rewards_always_with_k1(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, "k1")
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="the KL of the padding is charged: the policy did not write those tokens", read=WRONG
)
@torch.no_grad()
def padding_pays(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = -kl_coef * _estimate(log_probs, ref_log_probs, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards",
    why="the mask is multiplied in: 0 * NaN is NaN, so select with masked_fill or where",
    read=REWARDS,
)
@torch.no_grad()
def rewards_mask_multiplied(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = -kl_coef * _estimate(log_probs, ref_log_probs, estimator) * mask
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception("compute_rewards", why="the mask is taken for a padding mask: True is a real token", read=REWARDS)
@torch.no_grad()
def rewards_mask_inverted(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, ~mask, kl_coef, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards",
    why="the whole KL stands on the last token: each token pays its own, or credit is lost",
    read=REWARDS,
)
@torch.no_grad()
def kl_summed_on_the_last_token(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    price = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(torch.zeros_like(price), _last(mask), price.sum(dim=1) + scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="the KL is divided by the length: a long response then drifts for less", read=REWARDS
)
@torch.no_grad()
def kl_averaged_over_the_response(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator) / mask.sum(dim=1, keepdim=True)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards",
    why="the caller's log_probs become the KL in place: the ratio of lesson 5 still needs them",
    read=WRONG,
)
@torch.no_grad()
def log_probs_overwritten(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs.clone(), ref_log_probs, mask, kl_coef, estimator)
    log_probs.sub_(ref_log_probs)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


@misconception(
    "compute_rewards", why="the rewards carry a gradient: they are data, the no_grad above must stay", read=REWARDS
)
def rewards_with_gradient(scores, log_probs, ref_log_probs, mask, kl_coef=0.1, clip_score=5.0, estimator="k1"):
    rewards = _priced(log_probs, ref_log_probs, mask, kl_coef, estimator)
    return _add_at(rewards, _last(mask), scores.clamp(-clip_score, clip_score))


# penalize_missing_stop


def _stopped(responses, stop_token_ids):
    return torch.isin(responses, torch.tensor(stop_token_ids)).any(dim=1)


@misconception(
    "penalize_missing_stop",
    why="the penalty replaces the score: all unfinished responses look alike then, subtract it",
    read=STOP,
)
def score_replaced_by_the_penalty(scores, responses, stop_token_ids, penalty):
    return scores.masked_fill(~_stopped(responses, stop_token_ids), -penalty)


@misconception(
    "penalize_missing_stop", why="those that did stop are penalised: the test is the wrong way round", read=STOP
)
def stopping_is_penalized(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids), scores - penalty, scores)


@misconception("penalize_missing_stop", why="the penalty is added: not stopping is rewarded", read=STOP)
def penalty_added(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids), scores, scores + penalty)


@misconception(
    "penalize_missing_stop", why="only the first of the stop tokens counts: any of them ends a response", read=STOP
)
def only_the_first_stop_token(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids[:1]), scores, scores - penalty)


@misconception("penalize_missing_stop", why="every stop token has to be there: one of them is enough", read=STOP)
def all_stop_tokens_needed(scores, responses, stop_token_ids, penalty):
    found = torch.stack([(responses == stop).any(dim=1) for stop in stop_token_ids]).all(dim=0)
    return torch.where(found, scores, scores - penalty)


@misconception(
    "penalize_missing_stop",
    why="only the last column is looked at: a response that stopped early ends in padding",
    read=STOP,
)
def stop_only_in_the_last_column(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses[:, -1:], stop_token_ids), scores, scores - penalty)


@misconception("penalize_missing_stop", why="the last column is not looked at: a stop there is a stop", read=STOP)
def last_column_overlooked(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses[:, :-1], stop_token_ids), scores, scores - penalty)


@misconception("penalize_missing_stop", why="the first column is not looked at: a response may stop at once", read=STOP)
def first_column_overlooked(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses[:, 1:], stop_token_ids), scores, scores - penalty)


@misconception(
    "penalize_missing_stop",
    why="one stop anywhere in the batch excuses all rows: each row is judged for itself",
    read=STOP,
)
def one_stop_for_the_batch(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids).any(), scores, scores - penalty)


@misconception("penalize_missing_stop", why="every response is penalised, whether it stopped or not", read=STOP)
def all_penalized(scores, responses, stop_token_ids, penalty):
    return scores - penalty


@misconception("penalize_missing_stop", why="the penalty is fixed at 1: the argument is ignored", read=STOP)
def penalty_fixed_at_1(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids), scores, scores - 1)


@misconception(
    "penalize_missing_stop", why="the score is lowered to -penalty at most: subtract, also from a bad score", read=STOP
)
def score_capped_at_the_penalty(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids), scores, scores.clamp(max=-penalty))


@misconception(
    "penalize_missing_stop",
    why="the score is multiplied: a negative score would even rise, subtract instead",
    read=STOP,
)
def score_multiplied(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids), scores, scores * (1 - penalty))


@misconception("penalize_missing_stop", why="the penalty is charged for each token: it is charged once", read=STOP)
def penalty_for_each_token(scores, responses, stop_token_ids, penalty):
    return torch.where(_stopped(responses, stop_token_ids), scores, scores - penalty * responses.shape[1])


@misconception("penalize_missing_stop", why="the caller's scores are changed in place: make a new tensor", read=STOP)
def penalized_in_place(scores, responses, stop_token_ids, penalty):
    scores[~_stopped(responses, stop_token_ids)] -= penalty
    return scores


# AdaptiveKLController.update


def _error(self, current):
    return min(max(current / self.target - 1, -0.2), 0.2)


@misconception(
    "AdaptiveKLController.update",
    why="the error is not clipped: ten times the target moves the price by 900 %",
    read=UPDATE,
)
def error_not_clipped(self, current, n_steps):
    self.value *= 1 + (current / self.target - 1) * n_steps / self.horizon


@misconception(
    "AdaptiveKLController.update", why="the error is clipped from above only: it is clipped on both sides", read=UPDATE
)
def error_clipped_above_only(self, current, n_steps):
    self.value *= 1 + min(current / self.target - 1, 0.2) * n_steps / self.horizon


@misconception(
    "AdaptiveKLController.update", why="the error is clipped from below only: it is clipped on both sides", read=UPDATE
)
def error_clipped_below_only(self, current, n_steps):
    self.value *= 1 + max(current / self.target - 1, -0.2) * n_steps / self.horizon


@misconception(
    "AdaptiveKLController.update",
    why="n_steps / horizon is capped at 1: a batch larger than the horizon moves the price by more",
    read=UPDATE,
)
def horizon_taken_for_a_cap(self, current, n_steps):
    error = min(max(current / self.target - 1, -0.2), 0.2)
    self.value *= 1 + error * min(n_steps / self.horizon, 1.0)


@misconception(
    "AdaptiveKLController.update",
    why="the product is clipped, not the error: clip first, then scale by n_steps / horizon",
    read=UPDATE,
)
def product_clipped(self, current, n_steps):
    self.value *= 1 + min(max((current / self.target - 1) * n_steps / self.horizon, -0.2), 0.2)


@misconception(
    "AdaptiveKLController.update", why="the sign is turned round: above the target the price has to rise", read=UPDATE
)
def price_falls_above_the_target(self, current, n_steps):
    self.value *= 1 - _error(self, current) * n_steps / self.horizon


@misconception("AdaptiveKLController.update", why="target / current: the error is current / target - 1", read=UPDATE)
def target_by_current(self, current, n_steps):
    error = -0.2 if current == 0 else min(max(self.target / current - 1, -0.2), 0.2)
    self.value *= 1 + error * n_steps / self.horizon


@misconception(
    "AdaptiveKLController.update", why="the error is in nats: divide by the target, it is a proportion", read=UPDATE
)
def error_in_nats(self, current, n_steps):
    self.value *= 1 + min(max(current - self.target, -0.2), 0.2) * n_steps / self.horizon


@misconception("AdaptiveKLController.update", why="1 is not subtracted: on target the price must stay", read=UPDATE)
def one_not_subtracted(self, current, n_steps):
    self.value *= 1 + min(max(current / self.target, -0.2), 0.2) * n_steps / self.horizon


@misconception(
    "AdaptiveKLController.update",
    why="only the sign of the error is used: the step has to shrink near the target",
    read=UPDATE,
)
def always_a_fifth(self, current, n_steps):
    error = 0.2 * ((current > self.target) - (current < self.target))
    self.value *= 1 + error * n_steps / self.horizon


@misconception("AdaptiveKLController.update", why="the error loses its sign: the price can only rise", read=UPDATE)
def price_only_rises(self, current, n_steps):
    self.value *= 1 + abs(_error(self, current)) * n_steps / self.horizon


@misconception(
    "AdaptiveKLController.update", why="n_steps is ignored: many responses move the price further than few", read=UPDATE
)
def n_steps_ignored(self, current, n_steps):
    self.value *= 1 + _error(self, current) / self.horizon


@misconception(
    "AdaptiveKLController.update", why="the horizon is ignored: it says how slowly the price moves", read=UPDATE
)
def horizon_ignored(self, current, n_steps):
    self.value *= 1 + _error(self, current) * n_steps


@misconception(
    "AdaptiveKLController.update",
    why="neither n_steps nor the horizon is used: the price jumps by a fifth a batch",
    read=UPDATE,
)
def no_horizon_at_all(self, current, n_steps):
    self.value *= 1 + _error(self, current)


@misconception(
    "AdaptiveKLController.update", why="the step is added to the price: it is a proportion, so multiply", read=UPDATE
)
def price_moved_by_a_sum(self, current, n_steps):
    self.value += _error(self, current) * n_steps / self.horizon


@misconception(
    "AdaptiveKLController.update", why="the 1 is missing: the price is replaced by a small part of itself", read=UPDATE
)
def price_times_the_step(self, current, n_steps):
    self.value *= _error(self, current) * n_steps / self.horizon


@misconception("AdaptiveKLController.update", why="the price grows by exp(step): the rule is 1 + step", read=UPDATE)
def exponential_step(self, current, n_steps):
    self.value *= 2.718281828459045 ** (_error(self, current) * n_steps / self.horizon)


@misconception(
    "AdaptiveKLController.update",
    why="doubled or halved, as PPO-Penalty does with its beta (lesson 5): this controller moves in proportion",
    read=UPDATE,
)
def doubled_or_halved(self, current, n_steps):
    if current > 1.5 * self.target:
        self.value *= 2
    elif current < self.target / 1.5:
        self.value /= 2


@misconception(
    "AdaptiveKLController.update",
    why="each update starts from the first price: value has to keep what it has become",
    read=UPDATE,
)
def always_from_the_first_price(self, current, n_steps):
    self.first = getattr(self, "first", self.value)
    self.value = self.first * (1 + _error(self, current) * n_steps / self.horizon)


@misconception("AdaptiveKLController.update", why="the new price is returned but not kept: set self.value", read=UPDATE)
def price_returned_not_kept(self, current, n_steps):
    return self.value * (1 + _error(self, current) * n_steps / self.horizon)
