"""Mistakes in lesson 5, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

APPROX_KL = "ppo_statistics, continued: approx_kl"
OLD = "The old policy is not the reference"
PESSIMIST = "Six cases and a pessimistic bound"
WRONG = "What people get wrong"
KL = "log_ratio.expm1() - log_ratio"
TIMES_MASK = ".mul(1 if mask is None else mask / mask.double().mean()).mean()"
SELECTED = "[... if mask is None else mask].mean()"
INTERVAL = "1 - clip_epsilon, 1 + clip_epsilon"
SMALLER = "torch.minimum(ratio * advantages, clipped * advantages)"


class ClippedObjective(Wrong, of="clipped_objective"):
    larger_of_the_two = edit("minimum => maximum", read=PESSIMIST)
    """you take the larger of the two objectives, which is an optimistic bound, not a pessimistic one"""
    held_on_both_sides = edit(f"{SMALLER} => clipped * advantages", read=PESSIMIST)
    """the ratio is clipped on both sides, so a token that moved the wrong way gets no gradient to come back"""
    never_held = edit(f"{SMALLER} => ratio * advantages", read=PESSIMIST)
    """no token is ever held, but beyond the interval a token should gain nothing more"""
    held_above_only = edit(f"{INTERVAL} => max=1 + clip_epsilon", read=PESSIMIST)
    """good tokens are held above the interval, but bad ones not below it"""
    held_below_only = edit(f"{INTERVAL} => min=1 - clip_epsilon", read=PESSIMIST)
    """bad tokens are held below the interval, but good ones not above it"""
    smaller_of_the_ratios = edit(f"{SMALLER} => torch.minimum(ratio, clipped) * advantages", read=PESSIMIST)
    """you take the smaller of the two ratios, before the advantage, so a bad token is never held below the interval;
    take the smaller of the two products"""
    held_from_the_inverse_on = edit("(1 - clip_epsilon => (1 / (1 + clip_epsilon)", read=PESSIMIST)
    """the interval begins at 1 / (1 + clip_epsilon), but its two ends are equally far from 1: 1 - clip_epsilon"""
    held_at_the_advantage = edit(
        f"{SMALLER} => torch.where(ratio * advantages > clipped * advantages, advantages, ratio * advantages)"
    )
    """a held token counts its advantage, as at ratio 1, but it should keep the objective of the interval's end"""
    product_in_the_interval = edit(f"clipped * advantages => (ratio * advantages).clamp({INTERVAL})")
    """you hold the product of ratio and advantage to the interval, which belongs to the ratio alone"""
    objective_interval_around_0 = edit(f"{INTERVAL} => -clip_epsilon, clip_epsilon")
    """the interval lies around 0, but it should lie around 1, the ratio of a token that has not moved"""
    by_compute_ppo_loss = instead("""
        pairs = zip(ratio.log().reshape(-1, 1), advantages.reshape(-1, 1))
        losses = [compute_ppo_loss(new, torch.zeros_like(new), one, clip_epsilon) for new, one in pairs]
        return -torch.stack(losses).reshape(ratio.shape)
    """)
    """you call compute_ppo_loss, which comes later and generalizes it; write the six cases without it"""


class PPOLoss(Wrong, of="compute_ppo_loss"):
    minimum_of_the_losses = edit(
        "-torch.minimum(unclipped, clipped) => torch.minimum(-unclipped, -clipped)", read=PESSIMIST
    )
    """you take the minimum of the two losses, but it should be the minimum of the objectives, so the
    maximum of the losses"""
    smaller_of_the_means = edit("(unclipped, clipped).mean() => (unclipped.mean(), clipped.mean())", read=PESSIMIST)
    """you choose the smaller for the whole batch, after the means, but it should be chosen token by token"""
    clipped_term_alone = edit("torch.minimum(unclipped, clipped) => clipped", read=PESSIMIST)
    """only the clipped term is left, so a token that has moved the wrong way gets no gradient to come back"""
    never_clipped = edit("torch.minimum(unclipped, clipped) => unclipped", read="Why clip")
    """nothing is clipped, so the gain grows with the ratio without end"""
    clipped_above_only = edit("1 - clip_epsilon, 1 + => max=1 +", read=PESSIMIST)
    """only the upper bound is there, so bad tokens may become less likely without end"""
    clipped_below_only = edit("1 - clip_epsilon, 1 + clip_epsilon => min=1 - clip_epsilon", read=PESSIMIST)
    """only the lower bound is there, so good tokens may become more likely without end"""
    clipped_twice = edit(".mean() => .maximum(3 * advantages.clamp(max=0.0)).mean()", read=PESSIMIST)
    """you cap a bad token's loss at 3 times its advantage (dual-clip PPO), but here the loss keeps its gradient"""
    product_clipped = edit(
        "ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages => "
        "unclipped.clamp(1 - clip_epsilon, 1 + clip_epsilon)"
    )
    """you clip the product of ratio and advantage, but the interval belongs to the ratio alone"""
    interval_around_0 = edit("1 - clip_epsilon, 1 + clip_epsilon => -clip_epsilon, clip_epsilon")
    """you clip the ratio around 0, but it is 1 where nothing has moved"""
    log_ratio_clipped = edit(
        "ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) => ratio.log().clamp(-clip_epsilon, clip_epsilon).exp()"
    )
    """you clip log(ratio) to clip_epsilon, but the ratio itself should stay between 1 - clip_epsilon and 1 +
    clip_epsilon"""
    lower_bound_is_a_quotient = edit("1 - clip_epsilon => 1 / (1 + clip_epsilon)")
    """your lower bound is 1 / (1 + clip_epsilon), but it should be 1 - clip_epsilon"""
    ratio_inverted = edit("log_probs - old_log_probs => old_log_probs - log_probs")
    """your ratio is inverted, and it should be new / old, exp(log_probs - old_log_probs)"""
    exp_forgotten = edit("torch.exp => ")
    """the difference of log-probabilities is used as the ratio, but it's the ratio's logarithm, so exp is missing"""
    log_probs_divided = edit("torch.exp(log_probs - old_log_probs) => log_probs / old_log_probs")
    """you divide log-probabilities, but the ratio of probabilities is exp of their difference"""
    probabilities_divided = edit(
        "torch.exp(log_probs - old_log_probs) => log_probs.exp() / old_log_probs.exp()", read=WRONG
    )
    """you divide two probabilities, but exp(-110) is 0 in float32, and 0 / 0 is NaN; subtract the logarithms, then
    exp"""
    objective_returned = edit("-torch => torch")
    """the minus is missing, so this is the objective, which is maximized, but a loss is minimized"""
    tokens_summed = edit(".mean() => .sum()")
    """the tokens are summed, but you should take their mean, so that larger batches don't make larger steps"""
    mean_of_row_means = first("""
if mask is not None and mask.dim() > 1:
    rows = zip(log_probs, old_log_probs, advantages, mask)
    return torch.stack([compute_ppo_loss(*row[:3], clip_epsilon, row[3]) for row in rows if row[3].any()]).mean()
""")
    """you take a mean of row means, so tokens of short responses count more, but each real token should count once"""
    mask_ignored = first("mask = None", read=WRONG)
    """you ignore the mask, so padding is averaged like a real token"""
    divided_by_every_column = edit(".mean() => .sum() / (ratio if mask is None else mask).numel()", read=WRONG)
    """you divide the sum over real tokens by all columns, so the loss shrinks as padding grows"""
    only_tokens_with_an_advantage_counted = edit(".mean() => .sum() / (advantages != 0).sum()")
    """tokens of advantage 0 are not counted, but they are real tokens, so the mean counts them"""
    mask_multiplied = edit("_select(mask => _select(None", f".mean() => {TIMES_MASK}", read=WRONG)
    """you multiply by the mask after computing, but NaN * 0 is NaN; select the real tokens first"""
    selected_after_exp = edit("_select(mask => _select(None", f".mean() => {SELECTED}", read=WRONG)
    """you select after exp, so NaN or infinity under the mask comes back in the gradient as 0 * NaN"""
    ratio_detached = edit("(log_probs - => (log_probs.detach() -", read=WRONG)
    """the ratio is detached, so no gradient reaches the policy and it learns nothing"""
    ratio_to_itself = first("old_log_probs = log_probs", read=OLD)
    """both log-probabilities come from the policy in training, so the ratio is always 1 and nothing is ever clipped"""
    reinforce_without_a_ratio = edit(
        "torch.minimum(unclipped, clipped) => (log_probs * advantages)", read="Importance sampling"
    )
    """this is plain policy gradient, advantage times log-probability, which is wrong after the first step without the
    ratio"""
    old_log_probs_not_detached = edit("old_log_probs.detach() => old_log_probs", read=WRONG)
    """a gradient flows into old_log_probs, but the policy that sampled is a constant, so detach it"""
    advantages_not_detached = edit("advantages.detach() => advantages", read=WRONG)
    """a gradient flows into the advantages, so the policy loss would train the critic; detach them"""
    advantages_whitened_here = edit(
        "ratio =  => advantages = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)\nratio = ",
        read="PPO2: details that are not in the paper",
    )
    """you whiten the advantages here, but the trainer does that once for a rollout, not for each minibatch"""


class ValueLoss(Wrong, of="compute_value_loss"):
    smaller_square = edit("maximum => minimum")
    """you take the smaller square, so large errors vanish; take the larger, which is the pessimistic one"""
    value_clipped_around_0 = edit("old_values + (values - old_values) => values")
    """you clip the value itself around 0, but the interval lies around the old value"""
    value_clipped_as_a_ratio = edit(
        "+ (values - old_values).clamp(-clip_epsilon, clip_epsilon) => "
        "* (values / old_values).clamp(1 - clip_epsilon, 1 + clip_epsilon)"
    )
    """your interval is the old value times 1 +- clip_epsilon, like a ratio's, but it should be the old value +-
    clip_epsilon"""
    value_never_clipped = edit("(clipped - returns) => (values - returns)")
    """nothing is clipped (or it's clipped around returns, which changes nothing), so this is half the squared error"""
    clipped_value_alone = edit("(values - returns) => (clipped - returns)")
    """you compare only the clipped value, so a critic beyond the interval gets no gradient to come back"""
    half_forgotten = edit("0.5 *  => ")
    """the factor one half is missing, so value_coef counts twice"""
    half_taken_twice = edit("0.5 => 0.25")
    """the factor one half is applied twice, so value_coef counts half"""
    larger_of_the_means = edit(".square(),  => .square().mean(), ", ".square()).mean() => .square().mean())")
    """you choose the larger for the whole batch, after the means, but it should be chosen token by token"""
    squares_summed = edit(".mean() => .sum()")
    """you sum the tokens, but you should take their mean"""
    value_mean_of_row_means = first("""
if mask is not None and mask.dim() > 1:
    rows = zip(values, old_values, returns, mask)
    return torch.stack([compute_value_loss(*row[:3], clip_epsilon, row[3]) for row in rows if row[3].any()]).mean()
""")
    """you take a mean of row means, so tokens of short responses count more, but each real token should count once"""
    value_divided_by_every_column = edit(".mean() => .sum() / (values if mask is None else mask).numel()", read=WRONG)
    """you divide the sum over real tokens by all columns, so the loss shrinks as padding grows"""
    value_mask_multiplied = edit("_select(mask => _select(None", f".mean() => {TIMES_MASK}", read=WRONG)
    """you multiply by the mask after squaring, but NaN * 0 is NaN; select the real tokens first"""
    targets_not_detached = edit("old_values.detach(), returns.detach() => old_values, returns", read=WRONG)
    """a gradient flows into old_values or returns, but both are constants of the rollout; detach them"""
    old_values_not_detached = edit("old_values.detach() => old_values", read=WRONG)
    """a gradient flows into old_values, but they are the critic's estimates from when the responses were collected"""


class CombineLosses(Wrong, of="combine_losses"):
    entropy_added = edit("- => +")
    """the entropy is added, so minimizing the loss lowers it"""
    another_half = edit("value_coef => 0.5 * value_coef")
    """the value loss is halved once more, but compute_value_loss already has the factor one half"""
    policy_loss_negated = edit("policy_loss => -policy_loss")
    """you negate the policy loss a second time, but compute_ppo_loss already has the minus"""
    coefficients_swapped = first("value_coef, entropy_coef = entropy_coef, value_coef")
    """the two coefficients are swapped"""


class PPOStatistics(Wrong, of="ppo_statistics"):
    outside_taken_for_clipped = edit("is_clipped.double() => ((ratio - 1).abs() > clip_epsilon).double()")
    """clip_fraction counts every token outside the interval, but one that moved the wrong way keeps its
    gradient, so it isn't clipped"""
    unclipped_fraction = edit("< => >=")
    """clip_fraction counts the tokens that keep their gradient, not those that lose it"""
    good_tokens_counted_only = edit("1 - clip_epsilon, 1 + => max=1 +")
    """clip_fraction sees only the upper bound, but bad tokens are clipped below the lower one"""
    bound_taken_for_clipped = edit(
        "is_clipped.double() => "
        "((ratio >= 1 + clip_epsilon) & (advantages > 0) | (ratio <= 1 - clip_epsilon) & (advantages < 0)).double()"
    )
    """clip_fraction counts a ratio at the bound itself, but nothing is clipped until the ratio is beyond it"""
    clip_fraction_always_0 = edit(
        "is_clipped =  => clipped = ",
        " < ratio * advantages => \nis_clipped = clipped < torch.minimum(clipped, ratio * advantages)",
    )
    """you compare the clipped objective with a minimum that contains it, so clip_fraction is always 0"""
    kl_of_new_minus_old = edit(f"{KL} => log_ratio", read=APPROX_KL)
    """approx_kl is the mean of new - old, which is about -KL on samples of the old policy"""
    kl_of_old_minus_new = edit(f"{KL} => -log_ratio", read=APPROX_KL)
    """approx_kl is the mean of old - new, which is right on average but noisy and sometimes below 0; use ratio - 1 -
    log(ratio)"""
    kl_of_half_squares = edit(f"{KL} => 0.5 * log_ratio.square()", read=APPROX_KL)
    """approx_kl is half the mean square of log(ratio), as PPO2 logs it, which is near the KL for small steps only"""
    kl_of_the_ratio_inverted = edit(f"{KL} => (-log_ratio).expm1() + log_ratio", read=APPROX_KL)
    """approx_kl uses old / new, but the tokens come from the old policy, so the ratio in it should be new / old"""
    kl_of_minus_the_ratio = edit(f"{KL} => -ratio", read=APPROX_KL)
    """approx_kl is the mean of minus the ratio, which is -1 while nothing has moved, but it should be 0 then"""
    geometric_mean = edit("ratio.mean() => log_ratio.mean().exp()")
    """ratio_mean is exp of the mean log(ratio), the geometric mean, but it should be the mean of the ratios"""
    # PrimeIntellect-ai/prime-rl#580
    mean_ratio_over_padding = edit(
        "log_probs, old_log_probs, advantages = _select => whole = (log_probs - old_log_probs).exp()\n"
        "log_probs, old_log_probs, advantages = _select",
        "ratio.mean() => whole.mean()",
    )
    """ratio_mean counts padding as well, while the other three are of the real tokens"""
    statistics_of_the_clipped_ratio = edit("return => ratio = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)\nreturn")
    """you clip the ratios first, so the log hides what it should show"""


class KLPenaltyLoss(Wrong, of="compute_kl_penalty_loss"):
    penalty_subtracted = edit("+ beta => - beta")
    """the penalty is subtracted, so the loss rewards moving away"""
    no_penalty = edit(" + beta * kl => ")
    """there is no penalty at all, so nothing limits the policy"""
    penalty_of_new_minus_old = edit(f"{KL} => log_ratio")
    """the penalty is log(ratio), whose mean is minus the KL, so it rewards moving away from the old policy"""
    penalty_of_old_minus_new = edit(f"{KL} => -log_ratio")
    """the penalty is old - new, which is right on average, but may reward single tokens for moving; use ratio - 1 -
    log(ratio)"""
    penalty_of_half_squares = edit(f"{KL} => 0.5 * log_ratio.square()")
    """the penalty is half the square of log(ratio), which is near the KL only for small steps"""
    penalty_of_the_ratio_inverted = edit(f"{KL} => (-log_ratio).expm1() + log_ratio")
    """the penalty uses old / new, but the tokens come from the old policy, so the ratio in it should be new / old"""
    penalty_detached = edit("* kl => * kl.detach()")
    """you detach the penalty, so it is in the value of the loss but not in its gradient"""
    # allenai/open-instruct#535
    penalty_averaged_over_padding = edit(
        "log_probs, old_log_probs, advantages = _select => whole = log_probs - old_log_probs.detach()\n"
        "log_probs, old_log_probs, advantages = _select",
        f"{KL} => whole.expm1() - whole",
        " + beta * kl).mean() => ).mean() + beta * kl.mean()",
    )
    """you average the penalty over padding as well, but it is a mean over real tokens like the objective beside it"""
    clipped_and_penalized = edit(
        "-log_ratio.exp() * advantages => "
        "-torch.minimum(log_ratio.exp() * advantages, log_ratio.exp().clamp(0.8, 1.2) * advantages)"
    )
    """you clip the ratio as well, but here the penalty takes the place of the clip"""
    penalty_without_a_ratio = edit("log_ratio.exp() => log_probs")
    """this is plain policy gradient with a penalty, and the ratio, which corrects for old samples, is missing"""
    penalty_loss_summed = edit(".mean() => .sum()")
    """you sum the tokens, but you should take their mean"""
    penalty_mask_multiplied = edit("_select(mask => _select(None", f".mean() => {TIMES_MASK}", read=WRONG)
    """you multiply by the mask after computing, but NaN * 0 is NaN; select the real tokens first"""
    penalty_nothing_detached = edit(
        "old_log_probs.detach(), advantages.detach() => old_log_probs, advantages", read=WRONG
    )
    """a gradient flows into old_log_probs or advantages, but both are constants of the rollout; detach them"""


class UpdateBeta(Wrong, of="update_beta"):
    cheaper_when_too_far = edit("beta * 2 => beta * 0.5", "beta / 2 => beta * 2")
    """the direction is reversed, because after too large a step beta must grow"""
    factor_of_15 = edit("beta * 2 => beta * 1.5", "beta / 2 => beta / 1.5")
    """beta is changed by a factor 1.5, but it should be doubled or halved, since 1.5 belongs to the bounds"""
    no_bounds = edit("1.5 * target_kl => target_kl", "target_kl / 1.5 => target_kl")
    """there are no bounds, so beta changes at every update, even close to the target"""
    lower_bound_at_half = edit("target_kl / 1.5 => target_kl / 2")
    """the lower bound is half the target, but it should be target_kl / 1.5"""
    bounds_outside = edit("> => >=", "< => <=")
    """you count the bounds as outside, but at the bound itself beta stays"""
    never_cheaper = edit("beta / 2 => beta")
    """beta only ever rises, but it must fall when the policy hardly moves"""
    proportional = instead("return beta * kl / target_kl")
    """beta follows the quotient kl / target_kl, but it should be doubled, halved or kept"""
