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
    """no token is ever held: beyond the interval a token gains nothing more"""
    held_above_only = edit(f"{INTERVAL} => max=1 + clip_epsilon", read=PESSIMIST)
    """good tokens are held above the interval, but bad ones not below it"""
    held_below_only = edit(f"{INTERVAL} => min=1 - clip_epsilon", read=PESSIMIST)
    """bad tokens are held below the interval, but good ones not above it"""
    held_at_the_advantage = edit(
        f"{SMALLER} => torch.where(ratio * advantages > clipped * advantages, advantages, ratio * advantages)"
    )
    """a held token counts its advantage, as at ratio 1: it keeps the objective of the interval's end"""
    product_in_the_interval = edit(f"clipped * advantages => (ratio * advantages).clamp({INTERVAL})")
    """the product of ratio and advantage is held to the interval, which belongs to the ratio alone"""
    objective_interval_around_0 = edit(f"{INTERVAL} => -clip_epsilon, clip_epsilon")
    """the interval lies around 0, but it should lie around 1, the ratio of a token that has not moved"""
    mean_of_the_objectives = edit(f"{SMALLER} => {SMALLER}.mean()")
    """the mean is taken here, but one number per token should be returned"""
    by_compute_ppo_loss = instead("""
        pairs = zip(ratio.log().reshape(-1, 1), advantages.reshape(-1, 1))
        losses = [compute_ppo_loss(new, torch.zeros_like(new), one, clip_epsilon) for new, one in pairs]
        return -torch.stack(losses).reshape(ratio.shape)
    """)
    """it calls compute_ppo_loss, which comes later and generalizes it: write the six cases without it"""


class PPOLoss(Wrong, of="compute_ppo_loss"):
    minimum_of_the_losses = edit(
        "-torch.minimum(unclipped, clipped) => torch.minimum(-unclipped, -clipped)", read=PESSIMIST
    )
    """the minimum is taken of the two losses; it is the minimum of the objectives, so the maximum of the losses"""
    smaller_of_the_means = edit("(unclipped, clipped).mean() => (unclipped.mean(), clipped.mean())", read=PESSIMIST)
    """the smaller is chosen for the whole batch, after the means; it is chosen token by token"""
    clipped_term_alone = edit("torch.minimum(unclipped, clipped) => clipped", read=PESSIMIST)
    """only the clipped term: a token that has moved the wrong way gets no gradient to come back"""
    never_clipped = edit("torch.minimum(unclipped, clipped) => unclipped", read="Why clip")
    """nothing is clipped, so the gain grows with the ratio without end"""
    clip_epsilon_fixed_at_02 = first("clip_epsilon = 0.2")
    """clip_epsilon is fixed at its default; the argument is ignored"""
    clipped_above_only = edit("1 - clip_epsilon, 1 + => max=1 +", read=PESSIMIST)
    """only the upper bound is there: bad tokens may become less likely without end"""
    clipped_below_only = edit("1 - clip_epsilon, 1 + clip_epsilon => min=1 - clip_epsilon", read=PESSIMIST)
    """only the lower bound is there: good tokens may become more likely without end"""
    clipped_twice = edit(".mean() => .maximum(3 * advantages.clamp(max=0.0)).mean()", read=PESSIMIST)
    """the loss of a bad token is capped at 3 times its advantage (dual-clip PPO); here a loss keeps its gradient"""
    product_clipped = edit(
        "ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages => "
        "unclipped.clamp(1 - clip_epsilon, 1 + clip_epsilon)"
    )
    """the product of ratio and advantage is clipped; the interval belongs to the ratio alone"""
    interval_around_0 = edit("1 - clip_epsilon, 1 + clip_epsilon => -clip_epsilon, clip_epsilon")
    """the ratio is clipped around 0; it is 1 where nothing has moved"""
    log_ratio_clipped = edit(
        "ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) => ratio.log().clamp(-clip_epsilon, clip_epsilon).exp()"
    )
    """log(ratio) is clipped to clip_epsilon: the interval is 1 - clip_epsilon to 1 + clip_epsilon of the ratio"""
    lower_bound_is_a_quotient = edit("1 - clip_epsilon => 1 / (1 + clip_epsilon)")
    """the lower bound is 1 / (1 + clip_epsilon); it is 1 - clip_epsilon"""
    ratio_inverted = edit("log_probs - old_log_probs => old_log_probs - log_probs")
    """the ratio is inverted, and it should be new / old, exp(log_probs - old_log_probs)"""
    exp_forgotten = edit("torch.exp => ")
    """the difference of log-probabilities is used as the ratio, but it's the ratio's logarithm, so exp is missing"""
    log_probs_divided = edit("torch.exp(log_probs - old_log_probs) => log_probs / old_log_probs")
    """log-probabilities are divided; the ratio of probabilities is exp of their difference"""
    probabilities_divided = edit(
        "torch.exp(log_probs - old_log_probs) => log_probs.exp() / old_log_probs.exp()", read=WRONG
    )
    """two probabilities are divided: exp(-110) is 0 in float32, so 0 / 0 = NaN; subtract the logarithms, then exp"""
    objective_returned = edit("-torch => torch")
    """the sign is missing: this is the objective, which is maximized; a loss is minimized"""
    tokens_summed = edit(".mean() => .sum()")
    """the tokens are summed, but you should take their mean, so that larger batches don't make larger steps"""
    mean_of_row_means = first("""
if mask is not None and mask.dim() > 1:
    rows = zip(log_probs, old_log_probs, advantages, mask)
    return torch.stack([compute_ppo_loss(*row[:3], clip_epsilon, row[3]) for row in rows if row[3].any()]).mean()
""")
    """a mean of row means: tokens of short responses then count more; each real token counts once"""
    mask_ignored = first("mask = None", read=WRONG)
    """the mask is ignored: padding is averaged like a real token"""
    divided_by_every_column = edit(".mean() => .sum() / (ratio if mask is None else mask).numel()", read=WRONG)
    """the sum over real tokens is divided by all columns: the loss shrinks as padding grows"""
    only_tokens_with_an_advantage_counted = edit(".mean() => .sum() / (advantages != 0).sum()")
    """tokens of advantage 0 are not counted, but they are real tokens, so the mean counts them"""
    mask_multiplied = edit("_select(mask => _select(None", f".mean() => {TIMES_MASK}", read=WRONG)
    """multiplied by the mask after computing: NaN * 0 is NaN, so select the real tokens first"""
    selected_after_exp = edit("_select(mask => _select(None", f".mean() => {SELECTED}", read=WRONG)
    """the loss is selected, but after exp: NaN or infinity under the mask comes back in the gradient as 0 * NaN"""
    mask_inverted = first("mask = None if mask is None else ~mask")
    """the mask is read as a padding mask: True is a real token"""
    ratio_detached = edit("(log_probs - => (log_probs.detach() -", read=WRONG)
    """the ratio is detached, so no gradient reaches the policy and it learns nothing"""
    ratio_to_itself = first("old_log_probs = log_probs", read=OLD)
    """both log-probabilities come from the policy in training: the ratio is always 1 and nothing is ever clipped"""
    reinforce_without_a_ratio = edit(
        "torch.minimum(unclipped, clipped) => (log_probs * advantages)", read="Importance sampling"
    )
    """plain policy gradient: advantage times log-probability, without the ratio, is wrong after the first step"""
    old_log_probs_not_detached = edit("old_log_probs.detach() => old_log_probs", read=WRONG)
    """a gradient flows into old_log_probs, but the policy that sampled is a constant, so detach it"""
    advantages_not_detached = edit("advantages.detach() => advantages", read=WRONG)
    """a gradient flows into the advantages, so the policy loss would train the critic, and you should detach them"""
    nothing_detached = edit("old_log_probs.detach(), advantages.detach() => old_log_probs, advantages")
    """nothing is detached: only log_probs may receive a gradient"""
    advantages_whitened_here = edit(
        "ratio =  => advantages = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)\nratio = ",
        read="PPO2: details that are not in the paper",
    )
    """the advantages are whitened here; the trainer does that, once for a rollout, not for each minibatch"""
    ppo_loss_not_reduced = edit(".mean() => ")
    """one loss for each token is returned: the mean over the real tokens is missing"""


class ValueLoss(Wrong, of="compute_value_loss"):
    smaller_square = edit("maximum => minimum")
    """the smaller square is taken, so large errors vanish; take the larger, which is the pessimistic one"""
    value_clipped_around_0 = edit("old_values + (values - old_values) => values")
    """the value itself is clipped around 0; the interval lies around the old value"""
    value_clipped_as_a_ratio = edit(
        "+ (values - old_values).clamp(-clip_epsilon, clip_epsilon) => "
        "* (values / old_values).clamp(1 - clip_epsilon, 1 + clip_epsilon)"
    )
    """the interval is taken as 1 +- clip_epsilon times the old value, like a ratio; it is old value +- clip_epsilon"""
    value_never_clipped = edit("(clipped - returns) => (values - returns)")
    """nothing is clipped (or it's clipped around returns, which changes nothing), so this is half the squared error"""
    clipped_value_alone = edit("(values - returns) => (clipped - returns)")
    """only the clipped value is compared: a critic beyond the interval gets no gradient to come back"""
    half_forgotten = edit("0.5 *  => ")
    """the factor one half is missing, so value_coef counts twice"""
    half_taken_twice = edit("0.5 => 0.25")
    """the factor one half is applied twice, so value_coef counts half"""
    absolute_errors = edit(
        "(values - returns).square() => (values - returns).abs()",
        "(clipped - returns).square() => (clipped - returns).abs()",
    )
    """absolute errors in place of squares"""
    larger_of_the_means = edit(".square(),  => .square().mean(), ", ".square()).mean() => .square().mean())")
    """the larger is chosen for the whole batch, after the means; it is chosen token by token"""
    squares_summed = edit(".mean() => .sum()")
    """the tokens are summed, and it should be their mean"""
    value_mean_of_row_means = first("""
if mask is not None and mask.dim() > 1:
    rows = zip(values, old_values, returns, mask)
    return torch.stack([compute_value_loss(*row[:3], clip_epsilon, row[3]) for row in rows if row[3].any()]).mean()
""")
    """a mean of row means: tokens of short responses then count more; each real token counts once"""
    value_divided_by_every_column = edit(".mean() => .sum() / (values if mask is None else mask).numel()", read=WRONG)
    """the sum over real tokens is divided by all columns: the loss shrinks as padding grows"""
    value_mask_multiplied = edit("_select(mask => _select(None", f".mean() => {TIMES_MASK}", read=WRONG)
    """multiplied by the mask after squaring: NaN * 0 is NaN, so select the real tokens first"""
    targets_not_detached = edit("old_values.detach(), returns.detach() => old_values, returns", read=WRONG)
    """a gradient flows into old_values or returns: both are constants of the rollout, detach them"""
    old_values_not_detached = edit("old_values.detach() => old_values", read=WRONG)
    """the old values are left in the graph: they are the critic's estimates when the responses were collected"""


class CombineLosses(Wrong, of="combine_losses"):
    entropy_added = edit("- => +")
    """the entropy is added, so minimizing the loss lowers it"""
    entropy_left_out = edit(" - entropy_coef * entropy => ")
    """the entropy is left out"""
    another_half = edit("value_coef => 0.5 * value_coef")
    """the value loss is halved once more, but compute_value_loss already has the factor one half"""
    value_loss_subtracted = edit("+ => -")
    """the value loss is subtracted, but here each part is already a loss (the paper maximizes its sum)"""
    policy_loss_negated = edit("policy_loss => -policy_loss")
    """the policy loss is negated a second time: compute_ppo_loss has the minus already"""
    coefficients_swapped = first("value_coef, entropy_coef = entropy_coef, value_coef")
    """the two coefficients are swapped"""


class PPOStatistics(Wrong, of="ppo_statistics"):
    outside_taken_for_clipped = edit("is_clipped.double() => ((ratio - 1).abs() > clip_epsilon).double()")
    """clip_fraction counts every token outside the interval; one that moved the wrong way keeps its gradient"""
    unclipped_fraction = edit("< => >=")
    """clip_fraction counts the tokens that keep their gradient, not those that lose it"""
    losing_side_counted = edit("< => >")
    """clip_fraction counts the wrong side: where the unclipped objective is the smaller, nothing is clipped"""
    good_tokens_counted_only = edit("1 - clip_epsilon, 1 + => max=1 +")
    """clip_fraction sees the upper bound only: bad tokens are clipped below the lower one"""
    bound_taken_for_clipped = edit(
        "is_clipped.double() => "
        "((ratio >= 1 + clip_epsilon) & (advantages > 0) | (ratio <= 1 - clip_epsilon) & (advantages < 0)).double()"
    )
    """a ratio at the bound itself is counted: there nothing is clipped yet, the ratio has to be beyond it"""
    clip_fraction_always_0 = edit(
        "is_clipped =  => clipped = ",
        " < ratio * advantages => \nis_clipped = clipped < torch.minimum(clipped, ratio * advantages)",
    )
    """the clipped objective is compared with the minimum, of which it is a part: clip_fraction is always 0"""
    kl_of_new_minus_old = edit(f"{KL} => log_ratio", read=APPROX_KL)
    """approx_kl is the mean of new - old, which is about -KL on samples of the old policy"""
    kl_of_old_minus_new = edit(f"{KL} => -log_ratio", read=APPROX_KL)
    """approx_kl is the mean of old - new, which is right on average but noisy and sometimes below 0; use ratio - 1 -
    log(ratio)"""
    kl_of_half_squares = edit(f"{KL} => 0.5 * log_ratio.square()", read=APPROX_KL)
    """approx_kl is half the mean square of log(ratio), as PPO2 logs it: near the KL for small steps only"""
    kl_of_the_ratio_inverted = edit(f"{KL} => (-log_ratio).expm1() + log_ratio", read=APPROX_KL)
    """approx_kl uses old / new, but the tokens come from the old policy, so the ratio in it should be new / old"""
    kl_of_minus_the_ratio = edit(f"{KL} => -ratio", read=APPROX_KL)
    """approx_kl is the mean of minus the ratio: that is -1, not 0, while nothing has moved"""
    geometric_mean = edit("ratio.mean() => log_ratio.mean().exp()")
    """ratio_mean is exp of the mean log(ratio), the geometric mean; it is the mean of the ratios"""
    # PrimeIntellect-ai/prime-rl#580
    mean_ratio_over_padding = edit(
        "log_probs, old_log_probs, advantages = _select => whole = (log_probs - old_log_probs).exp()\n"
        "log_probs, old_log_probs, advantages = _select",
        "ratio.mean() => whole.mean()",
    )
    """ratio_mean counts padding as well, while the other three are of the real tokens"""
    statistics_of_the_clipped_ratio = edit("return => ratio = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)\nreturn")
    """the ratios are clipped first: the log then hides what it should show"""
    statistics_mask_ignored = first("mask = None", read=WRONG)
    """the mask is ignored: padding is counted like a real token"""
    tensors_returned = edit(
        "return { => statistics = {",
        "} => }\nreturn {name: torch.tensor(value, dtype=torch.float64) for name, value in statistics.items()}",
    )
    """tensors are returned: a log needs Python floats, use .item()"""


class KLPenaltyLoss(Wrong, of="compute_kl_penalty_loss"):
    penalty_subtracted = edit("+ beta => - beta")
    """the penalty is subtracted, so the loss rewards moving away"""
    no_penalty = edit(" + beta * kl => ")
    """there is no penalty at all: nothing limits the policy"""
    penalty_of_new_minus_old = edit(f"{KL} => log_ratio")
    """the penalty is log(ratio), whose mean is minus the KL, so it rewards moving away from the old policy"""
    penalty_of_old_minus_new = edit(f"{KL} => -log_ratio")
    """the penalty is old - new: right on average, but single tokens may be rewarded for moving; use ratio - 1 -
    log(ratio)"""
    penalty_of_half_squares = edit(f"{KL} => 0.5 * log_ratio.square()")
    """the penalty is half the square of log(ratio), which is near the KL only for small steps"""
    penalty_of_the_ratio_inverted = edit(f"{KL} => (-log_ratio).expm1() + log_ratio")
    """the penalty uses old / new, but the tokens come from the old policy, so the ratio in it should be new / old"""
    penalty_detached = edit("* kl => * kl.detach()")
    """the penalty is detached: it is in the value of the loss but not in its gradient"""
    # allenai/open-instruct#535
    penalty_averaged_over_padding = edit(
        "log_probs, old_log_probs, advantages = _select => whole = log_probs - old_log_probs.detach()\n"
        "log_probs, old_log_probs, advantages = _select",
        f"{KL} => whole.expm1() - whole",
        " + beta * kl).mean() => ).mean() + beta * kl.mean()",
    )
    """the penalty is averaged over padding as well: it is a mean over real tokens like the objective beside it"""
    clipped_and_penalized = edit(
        "-log_ratio.exp() * advantages => "
        "-torch.minimum(log_ratio.exp() * advantages, log_ratio.exp().clamp(0.8, 1.2) * advantages)"
    )
    """the ratio is clipped as well: here the penalty takes the place of the clip"""
    penalty_without_a_ratio = edit("log_ratio.exp() => log_probs")
    """plain policy gradient with a penalty: the ratio, which corrects for old samples, is missing"""
    penalty_loss_summed = edit(".mean() => .sum()")
    """the tokens are summed, and it should be their mean"""
    penalty_mask_multiplied = edit("_select(mask => _select(None", f".mean() => {TIMES_MASK}", read=WRONG)
    """multiplied by the mask after computing: NaN * 0 is NaN, so select the real tokens first"""
    penalty_nothing_detached = edit(
        "old_log_probs.detach(), advantages.detach() => old_log_probs, advantages", read=WRONG
    )
    """a gradient flows into old_log_probs or advantages: both are constants of the rollout, detach them"""


class UpdateBeta(Wrong, of="update_beta"):
    cheaper_when_too_far = edit("beta * 2 => beta * 0.5", "beta / 2 => beta * 2")
    """the direction is reversed: after too large a step beta must grow"""
    factor_of_15 = edit("beta * 2 => beta * 1.5", "beta / 2 => beta / 1.5")
    """beta is changed by a factor 1.5, but it should be doubled or halved, since 1.5 belongs to the bounds"""
    bounds_at_2 = edit("1.5 * target_kl => 2 * target_kl", "target_kl / 1.5 => target_kl / 2")
    """the bounds are at twice and half the target, but they should be at 1.5 and 1 / 1.5 times the target"""
    no_bounds = edit("1.5 * target_kl => target_kl", "target_kl / 1.5 => target_kl")
    """there are no bounds: beta changes at every update, even close to the target"""
    lower_bound_at_half = edit("target_kl / 1.5 => target_kl / 2")
    """the lower bound is half the target, but it should be target_kl / 1.5"""
    bounds_outside = edit("> => >=", "< => <=")
    """the bounds count as outside: at the bound itself beta stays"""
    never_cheaper = edit("beta / 2 => beta")
    """beta only ever rises: it must fall when the policy hardly moves"""
    never_raised = edit("beta * 2 => beta")
    """beta only ever falls: it must rise when the policy moves too far"""
    proportional = instead("return beta * kl / target_kl")
    """beta follows the quotient kl / target_kl: it is a rule of two steps, doubled, halved or kept"""
    target_ignored = first("target_kl = 1.0")
    """target_kl is ignored: the KL is compared with 1.5 itself"""
    two_added = edit("beta * 2 => beta + 2", "beta / 2 => beta - 2")
    """2 is added or subtracted, but beta should be multiplied or divided by 2"""
