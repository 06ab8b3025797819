"""Mistakes in lesson 13, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit

WRONG = "What people get wrong"


class GroupAdvantages(Wrong, of="group_advantages"):
    over_the_whole_batch = edit("mean(dim=1, keepdim=True) => mean()", "std(dim=1, keepdim=True) => std()")
    """mean and standard deviation are those of the whole batch, but a response is compared with those to its own
    prompt"""
    down_the_prompts = edit("scores.mean(dim=1 => scores.mean(dim=0", "scores.std(dim=1 => scores.std(dim=0")
    """you compare down the batch, with responses to other prompts, but a group is a row"""
    divided_by_n = edit("scores.std(dim=1, keepdim=True) => scores.std(dim=1, keepdim=True, unbiased=False)")
    """the standard deviation is divided by K, but it should be the unbiased one, by K - 1"""
    variance_in_place_of_its_root = edit("scores.std( => scores.var(")
    """you divide by the variance, but it should be by its root, the standard deviation"""
    epsilon_under_the_root = edit(
        "(scores.std(dim=1, keepdim=True) + epsilon) => (scores.var(dim=1, keepdim=True) + epsilon).sqrt()"
    )
    """epsilon is added to the variance, under the root, but here it's added to the standard deviation"""
    baseline_without_the_own_score = edit(
        "scores.mean(dim=1, keepdim=True) => (scores.sum(dim=1, keepdim=True) - scores) / (scores.shape[1] - 1)"
    )
    """the mean of the others is subtracted, as RLOO does, but here it's the mean of all K"""
    never_centered = edit("scores - scores.mean(dim=1, keepdim=True) => scores * 1")
    """nothing is subtracted, so only the scale is that of the group"""
    gradient_into_the_scores = edit("scores.detach() => scores * 1", read=WRONG)
    """the scores keep their gradient, but advantages are data"""


class ClippedTokenLosses(Wrong, of="clipped_token_losses"):
    bounds_swapped = edit("1 - clip_low, 1 + clip_high => 1 - clip_high, 1 + clip_low")
    """the two bounds are swapped; clip_high is the room above 1"""
    one_bound_for_both = edit("1 + clip_high => 1 + clip_low")
    """clip_low is used on both sides, but the upper bound is clip_high"""
    maximum_of_the_objectives = edit("torch.minimum => torch.maximum")
    """the larger objective is taken, but the smaller one is the pessimistic bound"""
    clipped_term_alone = edit("torch.minimum(ratio * advantages, clipped * advantages) => (clipped * advantages)")
    """only the clipped term is left, so a token that has moved the wrong way loses its gradient"""
    bad_tokens_always_clipped = edit(
        "torch.minimum(ratio * advantages, clipped * advantages) => "
        "torch.where(advantages > 0, torch.minimum(ratio, clipped), clipped).mul(advantages)"
    )
    """where the advantage is negative the clipped ratio is always taken, but the minimum is for both signs"""
    masked_too_late = edit(".masked_fill(~mask, 0.0).exp() => .exp()", read=WRONG)
    """you mask after the exponential, and the gradient of NaN is NaN all the same"""
    old_log_probs_not_detached = edit("old_log_probs.detach() => old_log_probs", read=WRONG)
    """the sampling policy receives a gradient, but its log-probabilities are data"""


class CispoTokenLosses(Wrong, of="cispo_token_losses"):
    weight_not_detached = edit(
        "(log_probs - old_log_probs).detach() => (log_probs - old_log_probs.detach())", read=WRONG
    )
    """the weight isn't held constant, so below the cap a gradient flows through the ratio as well"""
    ratio_in_place_of_the_log_prob = edit(
        "(log_probs - old_log_probs).detach() => (log_probs - old_log_probs.detach())",
        "* log_probs).masked_fill => ).masked_fill",
    )
    """the clipped ratio multiplies the advantage, without the log-probability, so above the cap its gradient is 0
    again"""
    minimum_as_in_ppo = edit(
        "(log_probs - old_log_probs).detach() => (log_probs - old_log_probs.detach())",
        "log_ratio.exp().clamp(max=ratio_cap) => log_ratio.exp()",
        "(-weights * advantages.detach().unsqueeze(1) * log_probs) => "
        "-torch.minimum(weights * advantages.detach()[:, None], weights.clamp(max=ratio_cap) * "
        "advantages.detach()[:, None])",
    )
    """this is PPO's minimum with an upper bound alone, so a good token above the cap loses its gradient, and a bad one
    isn't held"""
    log_ratio_in_place_of_the_log_prob = edit(
        "* log_probs).masked_fill => * (log_probs - old_log_probs.detach())).masked_fill"
    )
    """the weight multiplies the log-ratio, so its gradient is right, but the loss isn't that of the paper"""
    no_cap = edit(".clamp(max=ratio_cap) => ")
    """there is no cap, so a token that has become a hundred times as probable weighs a hundred times as much"""
    bounded_below_as_well = edit("clamp(max=ratio_cap) => clamp(2 - ratio_cap, ratio_cap)")
    """the weight is bounded below as well, as far from 1 as above, so a token that has become improbable weighs too
    much"""
    cispo_dropped_above_the_cap = edit(
        "log_ratio.exp().clamp(max=ratio_cap) => (log_ratio.exp() * (log_ratio.exp() <= ratio_cap))"
    )
    """tokens above the cap are dropped, but here they keep the weight ratio_cap"""
    cispo_cap_of_the_logarithm = edit(".exp().clamp(max=ratio_cap) => .clamp(max=ratio_cap).exp()")
    """the log-ratio is cut off at the cap, but the ratio should be"""


class ReduceLosses(Wrong, of="reduce_losses"):
    mean_over_padding = edit('int(mask.sum()) if denominator == "tokens" => mask.numel() if denominator == "tokens"')
    """padding is counted, but the mean is over the real tokens"""
    always_by_tokens = edit(
        'if denominator == "responses": => if False:', 'if denominator == "tokens" else len(losses) => '
    )
    """the denominator is ignored, but each choice divides by another number"""
    row_means_by_the_longest_row = edit("mask.sum(dim=1, keepdim=True).clamp(min=1) => mask.shape[1]")
    """each row is divided by the width of the batch, but a response's mean is over its own tokens"""
    empty_row_is_nan = edit(".clamp(min=1) => ")
    """a response without a token gives 0 / 0 = NaN, but its loss is 0"""
    empty_rows_not_counted = edit("else len(losses) => else int(mask.any(dim=1).sum())")
    """responses without a token are left out, but they count, with a loss of 0"""
    constant_without_the_responses = edit("(total * constant if => (constant if")
    """you divide by the constant alone, so the loss grows with the batch; divide by it times the responses"""
    window_ignored = edit("if total is None: => if True:")
    """total isn't used here, so a microbatch is divided by its own count, and short ones weigh too much"""
    mask_multiplied = edit("losses.masked_fill(~mask, 0.0) => losses * mask", read=WRONG)
    """the mask is multiplied in, and 0 * NaN is NaN"""


class SequenceRatio(Wrong, of="sequence_ratio"):
    divided_by_the_width = edit("mask.sum(dim=1) => mask.shape[1]")
    """you divide by the width of the batch, but the mean is over the response's own tokens"""
    mean_of_the_ratios = edit(
        "(log_ratio / mask.sum(dim=1) if per_token else log_ratio).exp() => "
        "((log_probs - old_log_probs.detach()).masked_fill(~mask, -torch.inf).exp().sum(dim=1) / mask.sum(dim=1)"
        " if per_token else log_ratio.exp())"
    )
    """you take the mean of the token ratios; take the mean of their logarithms, then exp"""
    sequence_exp_forgotten = edit(".exp() => ")
    """this is still the logarithm of the ratio, because exp is missing"""
    sequence_masked_too_late = edit(".masked_fill(~mask, 0.0).sum(dim=1) => .sum(dim=1)")
    """the padding enters the sum, because the mask comes too late or not at all"""


class KlTokenLosses(Wrong, of="kl_token_losses"):
    ratio_left_out = edit("log_ratio.exp() * ( => 1.0 * (")
    """the ratio is left out, so this is k3 alone, whose gradient is that of another divergence"""
    ratio_is_data = edit("log_ratio.exp() * => log_ratio.detach().exp() *")
    """the ratio is detached, but the gradient should flow through both factors"""
    k1_in_place_of_k3 = edit("(to_reference.expm1() - to_reference) => (-to_reference)")
    """you take k1 instead of k3, so the loss is negative for half of the tokens"""
    ratio_of_k3_inverted = edit("(to_reference.expm1() - to_reference) => ((-to_reference).expm1() + to_reference)")
    """the ratio in k3 is inverted; it's reference / policy"""
    one_forgotten = edit("to_reference.expm1() => to_reference.exp()")
    """the 1 is missing, but policy and reference that agree must cost 0"""
    exp_minus_one = edit("to_reference.expm1() => to_reference.exp() - 1")
    """exp(x) - 1 in float32 rounds away a small difference; torch.expm1 keeps it"""


class TruncatedImportanceWeights(Wrong, of="truncated_importance_weights"):
    never_capped = edit(".clamp(max=cap) => ")
    """nothing is cut off, so one token that the sampler held for impossible outweighs all others"""
    raised_to_a_floor = edit(".clamp(max=cap) => .clamp(min=1 / cap, max=cap)")
    """small weights are raised to 1 / cap, but only the large ones are cut"""
    cap_of_the_logarithm = edit(".exp().clamp(max=cap) => .clamp(max=cap).exp()")
    """the logarithm is cut at the cap, but the weight itself should be"""
    set_to_0_above_the_cap = edit("log_weight.exp() => (log_weight.exp() * (log_weight.exp() <= cap))")
    """tokens above the cap are dropped (as IcePop does), but here they keep the weight cap"""
    gradient_through_the_weights = edit(".detach() => ", read=WRONG)
    """a gradient flows through the weights, but they are data"""


class DpoLoss(Wrong, of="dpo_loss"):
    beta_of_the_policy_alone = edit(
        "(chosen - ref_chosen.detach()) - (rejected - ref_rejected.detach()) => "
        "beta * (chosen - rejected) - (ref_chosen - ref_rejected).detach()",
        "beta * margin => margin",
    )
    """beta multiplies the policy's margin alone, but the reference's margin is subtracted first, and beta comes last"""
    reference_left_out = edit(
        "(chosen - ref_chosen.detach()) - (rejected - ref_rejected.detach()) => chosen - rejected"
    )
    """the reference is left out, so a response that was rare before counts against itself"""
    pair_swapped = edit(
        "(chosen - ref_chosen.detach()) - (rejected - ref_rejected.detach()) => "
        "(rejected - ref_rejected.detach()) - (chosen - ref_chosen.detach())"
    )
    """chosen and rejected are swapped, so the worse response is made more likely"""
    reference_added = edit("(rejected - ref_rejected.detach()) => (rejected + ref_rejected.detach())")
    """one of the two references is added, but both are subtracted from their own response"""
    probabilities_subtracted = edit(
        "(chosen - ref_chosen.detach()) - (rejected - ref_rejected.detach()) => "
        "(chosen.exp() - ref_chosen.detach().exp()) - (rejected.exp() - ref_rejected.detach().exp())"
    )
    """probabilities are subtracted, but the score of a response is a logarithm, so log-probabilities should be"""
    beta_outside = edit("-logsigmoid(beta * margin).mean() => -beta * logsigmoid(margin).mean()")
    """beta stands outside of the logarithm, but it scales the margin"""
    beta_divides = edit("beta * margin => margin / beta")
    """you divide by beta, but it multiplies the margin"""
    summed = edit(".mean() => .sum()")
    """you take the sum over the pairs, and it should be their mean"""
    log_of_the_sigmoid = edit("logsigmoid(beta * margin) => torch.log(torch.sigmoid(beta * margin))")
    """log(sigmoid(x)) is -inf for large negative margins; logsigmoid is exact"""
    margin_of_the_means = edit("logsigmoid(beta * margin).mean() => logsigmoid(beta * margin.mean())")
    """you average before the logarithm, but each pair has a loss of its own"""


class ExpectedBestOfN(Wrong, of="expected_best_of_n"):
    maximum_of_all = edit(
        "(ordered * torch.tensor(shares, dtype=scores.dtype, device=scores.device)).sum(dim=1) => ordered[:, -1]"
    )
    """you take the best of all N, whatever n is"""
    first_n_only = edit(
        "(ordered * torch.tensor(shares, dtype=scores.dtype, device=scores.device)).sum(dim=1) => "
        "scores.detach()[:, :n].amax(dim=1)"
    )
    """you take the best of the first n, which is one choice among many, with more noise"""
    worst_of_n = edit(".sort(dim=1).values => .sort(dim=1, descending=True).values")
    """the scores are sorted downwards, so this is the mean of the worst of n"""
    never_sorted = edit(".sort(dim=1).values => ")
    """the scores aren't sorted, but the shares belong to ranks"""
    off_by_one = edit("math.comb(i, n - 1) => math.comb(i + 1, n)")
    """C(i + 1, n) counts every choice up to this rank, but only those that hold this response have it as their best;
    that's C(i, n - 1)"""
    with_replacement = edit("math.comb(i, n - 1) / choices => ((i + 1) / count) ** n - (i / count) ** n")
    """you draw with replacement, but a choice of n holds each response once"""


class BestOfNKl(Wrong, of="best_of_n_kl"):
    the_bound = edit("max(0.0, float(torch.special.xlogy(best, best / chances).sum())) => math.log(n) - (n - 1) / n")
    """this is the formula of the papers, an upper bound, which is far above the truth where few responses are
    possible"""
    log_n = edit("max(0.0, float(torch.special.xlogy(best, best / chances).sum())) => math.log(n)")
    """log n would be the KL if the best of n were one response of probability 1 / n"""
    direction_reversed = edit(
        "torch.special.xlogy(best, best / chances) => torch.special.xlogy(chances, chances / best)"
    )
    """you compute KL(policy || best of n), but the mean is over what the best of n gives"""
    best_first = edit(
        "chances = probabilities[probabilities > 0].double() => "
        "chances = probabilities[probabilities > 0].double().flip(0)"
    )
    """you put the best response first, so this is the KL of the worst of n; put the worst first"""
    share_of_those_below = edit(
        "best = up_to - torch.cat([up_to.new_zeros(1), up_to[:-1]]) => best = up_to / up_to.sum()"
    )
    """this is the probability that all n are at most this good; subtract that of all n being worse"""
    nan_at_probability_0 = edit("probabilities[probabilities > 0].double() => probabilities.double()")
    """a response that never comes gives 0 / 0; leave it out"""
