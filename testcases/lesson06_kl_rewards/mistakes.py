"""Mistakes in lesson 6, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

LOSS = "The same estimate as a loss"
FLOAT32 = "Small and large log-ratios"
WRONG = "What people get wrong"


class NonnegativeKL(Wrong, of="nonnegative_kl"):
    log_ratio_alone = edit("torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio")
    """the log-ratio alone: its mean is right, but it is negative wherever the reference finds the token more likely"""
    negative_ones_cut_off = edit(
        "torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio.clamp(min=0.0)"
    )
    """the negative log-ratios are set to 0: that raises the mean above the KL"""
    size_of_the_log_ratio = edit("torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio.abs()")
    """this is the absolute value of the log-ratio, which is never negative, but its mean is above the KL"""
    half_the_square = edit("torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio.square() / 2")
    """this is half the square (k2), which is never negative, but its mean is the KL only for close models"""
    other_direction = edit("(-log_ratio) => log_ratio", "+ log_ratio => - log_ratio", read=WRONG)
    """exp(r) - 1 - r has the ratio inverted, because reference / policy, exp(-r), has mean 1 under the policy"""
    the_mean_1_not_subtracted = edit("expm1 => exp")
    """reference / policy has the mean 1, not 0: the 1 is missing, and two equal models have a KL of 1"""
    half_of_what_is_needed = edit("torch.expm1( => 0.5 * torch.expm1(")
    """the mean is right, but with this factor the estimate is negative at some tokens: its slope at r = 0 must be 0"""
    term_of_mean_0_alone = edit(" + log_ratio => ")
    """the added term alone: its mean is 0, the log-ratio is missing"""
    digits_rounded_away = edit("expm1 => exp", "+ log_ratio => - 1 + log_ratio", read=FLOAT32)
    """exp(-r) - 1 in float32 rounds away a small KL, and at the start every KL is small: use expm1"""
    exponent_not_capped = edit(".clamp(max=MAX_LOG_RATIO) => ", read=FLOAT32)
    """the exponent is not capped: one unlikely token makes it infinite in float32"""
    not_in_half_precision = edit("(torch.float16, torch.bfloat16) => ()", read=FLOAT32)
    """half precision is not converted: its rounding error is as large as the KL"""
    by_estimate_kl = instead('return estimate_kl(log_probs, ref_log_probs, "k3")')
    """it calls estimate_kl, which comes later and generalizes it: find the formula yourself"""


class EstimateKL(Wrong, of="estimate_kl"):
    k1_clamped_at_zero = edit("return log_ratio\n => return log_ratio.clamp(min=0.0)\n", read=WRONG)
    """k1 is clamped at 0, and without its negative terms the mean is too large"""
    k1_made_positive = edit("return log_ratio\n => return log_ratio.abs()\n", read=WRONG)
    """abs() is taken of k1, but a single token's estimate may be negative, only the KL itself may not"""
    k3_ratio_inverted = edit("(-log_ratio) => log_ratio", "+ log_ratio => - log_ratio", read=WRONG)
    """k3 uses the inverted ratio, and exp(r) - 1 - r doesn't estimate this KL; it is exp(-r) - 1 + r"""
    policy_and_reference_swapped = edit("log_probs - ref_log_probs => ref_log_probs - log_probs")
    """reference minus policy: KL(policy || reference) starts from log_probs - ref_log_probs"""
    k1_negated = edit("return log_ratio\n => return -log_ratio\n")
    """k1 has the sign of a reward, but it should be a KL here, because compute_rewards adds the minus"""
    k2_without_the_half = edit(" / 2 => ")
    """k2 lacks its factor 1/2, so it's twice as large as the KL even for close models"""
    k2_not_squared = edit(".square() => .abs()")
    """k2 is computed as |r| / 2, but the log-ratio should be squared"""
    k3_with_the_wrong_sign_in_the_exponent = edit("(-log_ratio) => log_ratio")
    """k3 with exp(r), r = log_probs - ref_log_probs: exp(r) - 1 + r is no KL, the exponent is -r"""
    k3_minus_the_log_ratio = edit("+ log_ratio => - log_ratio")
    """k3 with - r at its end: it is exp(-r) - 1 + r, so that the variations of both parts cancel"""
    k3_without_the_log_ratio = edit(" + log_ratio => ")
    """k3 without + r: exp(-r) - 1 alone has the mean 0, whatever the models are"""
    k3_without_minus_one = edit("expm1 => exp")
    """k3 without - 1: the KL of two equal models would be 1 nat"""
    k3_by_exp_minus_one = edit("expm1 => exp", "+ log_ratio => - 1 + log_ratio", read=FLOAT32)
    """exp(-r) - 1 in float32 rounds away a small KL, and at the start every KL is small: use expm1"""
    k3_may_overflow = edit(".clamp(max=MAX_LOG_RATIO) => ", read=FLOAT32)
    """the exponent of k3 is not capped: one unlikely token makes it infinite in float32"""
    log_ratio_capped = edit("log_probs - ref_log_probs => (log_probs - ref_log_probs).clamp(-20.0, 20.0)", read=FLOAT32)
    """the log-ratio itself is capped: only the exponent of k3 is, r is added as it is"""
    k3_clamped_to_10 = edit(
        "torch.expm1( => (torch.expm1(", "+ log_ratio => + log_ratio).clamp(-10.0, 10.0)", read=FLOAT32
    )
    """k3 is clamped to 10 afterwards: cap the exponent, at 20"""
    always_k1 = first('estimator = "k1"')
    """the estimator is ignored: this is k1 whatever was asked for"""
    always_k3 = first('estimator = "k3"')
    """the estimator is ignored: this is k3 whatever was asked for"""
    k2_and_k3_swapped = edit('"k2" => "k3"')
    """k2 and k3 are exchanged: k2 is r^2 / 2, k3 is exp(-r) - 1 + r"""
    # areal-project/AReaL#408
    k2_overwritten_by_k3 = edit("return log_ratio.square() / 2 => pass")
    """k2 gives k3: the `else` of a later `if` overwrites it; write `elif`, or return at once"""

    subtracted_in_half_precision = edit(
        "log_probs.float(), ref_log_probs.float() => (log_probs - ref_log_probs).float(), 0", read=FLOAT32
    )
    """subtracted in half precision, then converted: the difference is already rounded, convert first"""
    half_precision_kept = edit("(torch.float16, torch.bfloat16) => ()", read=FLOAT32)
    """half precision is not converted: its rounding error is as large as the KL"""
    everything_in_float32 = edit("log_probs.dtype in (torch.float16, torch.bfloat16) => True", read=FLOAT32)
    """float64 is reduced to float32: convert only float16 and bfloat16"""
    ratio_of_probabilities = edit(
        "log_probs - ref_log_probs => (log_probs.exp() / ref_log_probs.exp()).log()", read=FLOAT32
    )
    """divides probabilities: that is 0 / 0 for an unlikely token; subtract the logarithms"""
    weighted_with_the_probability = edit(
        "return log_ratio\n => return log_probs.exp() * log_ratio\n",
        "return log_ratio.square() => return log_probs.exp() * log_ratio.square()",
        "return torch.expm1( => return log_probs.exp() * (torch.expm1(",
        "+ log_ratio => + log_ratio)",
    )
    """weighted by the probability of the token: sampling from the policy already does that"""
    mean_of_the_tokens = edit(
        "return log_ratio\n => return log_ratio.mean()\n",
        ".square() => .square().mean()",
        "torch.expm1( => (torch.expm1(",
        "+ log_ratio => + log_ratio).mean()",
    )
    """averaged over the tokens: return one number per token, unmasked"""


class ComputeRewards(Wrong, of="compute_rewards"):
    score_one_past_the_end = edit(
        "last_token_index(mask) => (last_token_index(mask) + 1).clamp(max=mask.shape[1] - 1)", read=WRONG
    )
    """the score is one position after the last token: it reaches that token discounted by gamma * lam"""
    score_in_the_last_column = edit("last_token_index(mask) => -1")
    """the score is in the last column, which is padding for a short response"""
    score_at_the_number_of_tokens = edit("last_token_index(mask) => mask.sum(dim=1) - 1")
    """the real tokens are counted to find the last: with a gap inside, that is too early"""
    score_before_the_last_token = edit("last_token_index(mask) => (last_token_index(mask) - 1).clamp(min=0)")
    """the score is on the token before the last: the index is off by one"""
    score_on_the_first_token = edit("last_token_index(mask) => mask.int().argmax(dim=1)")
    """the score is on the first token, but it belongs to the last real one"""
    score_on_every_token = edit("[rows, last_token_index(mask)] => ", "clip_score) => clip_score).unsqueeze(1) * mask")
    """every token gets the score, so a long response gets it many times"""
    score_divided_evenly = edit(
        "[rows, last_token_index(mask)] => ",
        "clip_score) => clip_score).unsqueeze(1) * mask / mask.sum(dim=1, keepdim=True)",
    )
    """the score is divided among the tokens, but all of it should go to the last one"""
    columns_of_all_rows = edit("[rows,  => [:, ")
    """rewards[:, last] uses every row's column in every row: pair each row with its own column"""
    last_token_without_kl = edit("+= => =")
    """the score replaces the KL of the last token, but it should be added to it"""
    kl_is_rewarded = edit("-kl_coef => kl_coef", read=WRONG)
    """the KL is added: leaving the reference is rewarded; the factor is minus kl_coef"""
    score_without_the_penalty = edit("-kl_coef => 0.0")
    """the KL is left out: nothing keeps the policy near the reference"""
    penalty_without_the_score = edit("scores.clamp(-clip_score, clip_score) => 0.0")
    """the score is left out: only the KL penalty is there"""
    kl_coef_fixed_at_01 = edit("-kl_coef => -0.1")
    """kl_coef is fixed at its default: the argument is ignored"""
    kl_coef_on_the_score_too = edit("+=  => += kl_coef * ")
    """kl_coef multiplies the score as well: it weighs the KL only"""
    penalty_clamped_at_zero = edit("0.0) => 0.0).clamp(max=0.0)", read=WRONG)
    """the KL is clamped at 0: tokens with a negative estimate must have a positive KL term"""
    score_not_clipped = edit(".clamp(-clip_score, clip_score) => ")
    """the score is not clipped: one outlier of the reward model dominates the batch"""
    score_clipped_above_only = edit("-clip_score, clip_score => max=clip_score")
    """the score is clipped from above only, and very low scores should be clipped as well"""
    score_clipped_at_zero = edit("-clip_score => 0.0")
    """the score is clipped to [0, clip_score]: a negative score becomes 0"""
    clip_fixed_at_5 = first("clip_score = 5.0")
    """clip_score is fixed at its default: the argument is ignored"""
    reward_clipped_with_the_kl = edit(
        ".clamp(-clip_score, clip_score) => ",
        "return rewards => return rewards.clamp(-clip_score, clip_score)",
        read=WRONG,
    )
    """the whole reward is clipped, but only the score should be, or a large KL costs no more than a small one"""
    clipped_score_and_sum = edit("return rewards => return rewards.clamp(-clip_score, clip_score)", read=WRONG)
    """the score is clipped, and then the sum with the KL again: that limits the KL penalty of the last token"""
    kl_clipped_like_the_score = edit("estimator) => estimator).clamp(-clip_score, clip_score)", read=WRONG)
    """the KL is clipped like the score: the penalty then stops growing with the distance"""
    rewards_always_with_k1 = edit('estimator => "k1"')
    """the estimator is ignored: this is k1 whatever was asked for"""
    kl_on_padding = edit(".masked_fill(~mask, 0.0) => ", read=WRONG)
    """padding tokens have a KL penalty: the policy did not sample them"""
    rewards_mask_multiplied = edit(".masked_fill(~mask, 0.0) =>  * mask")
    """the mask is multiplied in: 0 * NaN is NaN, so replace values with masked_fill or where"""
    rewards_mask_inverted = edit("~mask => mask")
    """the mask is taken for a padding mask: True is a real token"""
    kl_summed_on_the_last_token = edit(
        "rewards = rewards.masked_fill(~mask, 0.0) => "
        "total = rewards.masked_fill(~mask, 0.0).sum(dim=1)\n"
        "rewards = torch.zeros_like(rewards)",
        "+=  => += total + ",
    )
    """the whole KL is on the last token: each token gets its own, or credit assignment is lost"""
    kl_averaged_over_the_response = edit("0.0) => 0.0) / mask.sum(dim=1, keepdim=True)")
    """the KL is divided by the length: a long response then has a smaller penalty per token"""
    log_probs_overwritten = edit("return rewards => log_probs.sub_(ref_log_probs)\nreturn rewards", read=WRONG)
    """the caller's log_probs become the KL in place: the ratio of lesson 5 still needs them"""
    rewards_with_gradient = first("torch.set_grad_enabled(True)")
    """the rewards carry a gradient: they are data, the no_grad above must stay"""


class PenalizeMissingStop(Wrong, of="penalize_missing_stop"):
    score_replaced_by_the_penalty = edit("scores - penalty => torch.full_like(scores, -penalty)")
    """the penalty replaces the score, but it should be subtracted from it, or all unfinished responses look alike"""
    stopping_is_penalized = edit("scores, scores - penalty => scores - penalty, scores")
    """responses that did stop are penalized: the condition is inverted"""
    penalty_added = edit("scores - penalty => scores + penalty")
    """the penalty is added, so not stopping is rewarded"""
    only_the_first_stop_token = first("stop_token_ids = stop_token_ids[:1]")
    """only the first of the stop tokens counts: any of them ends a response"""
    stop_only_in_the_last_column = first("responses = responses[:, -1:]")
    """only the last column is checked, but a response that stopped early ends in padding"""
    padding_cut_off_first = first("responses = responses.masked_fill((responses == 0).cumsum(dim=1) > 0, -1)")
    """nothing after the first 0 is looked at: 0 may be an ordinary token, and a stop in the padding counts as well"""
    one_stop_for_the_batch = edit("any(dim=1) => any()")
    """one stop token anywhere in the batch counts for all rows: check each row separately"""
    score_capped_at_the_penalty = edit("scores - penalty => scores.clamp(max=-penalty)")
    """the score is lowered to -penalty at most: subtract, also from a bad score"""
    penalty_for_each_token = edit("- penalty => - penalty * responses.shape[1]")
    """the penalty is subtracted once per token: subtract it once per response"""
    penalized_in_place = edit("torch.where( => scores.copy_(torch.where(", "- penalty) => - penalty))")
    """the caller's scores are changed in place: make a new tensor"""


class Update(Wrong, of="AdaptiveKLController.update"):
    error_not_clipped = edit("min(max(current / self.target - 1, -0.2), 0.2) => current / self.target - 1")
    """the error is not clipped, so it's 9 at ten times the target, and it should be at most 0.2"""
    error_clipped_above_only = edit("max(current / self.target - 1, -0.2) => current / self.target - 1")
    """the error is clipped from above only, and it should be clipped on both sides"""
    error_clipped_below_only = edit(
        "min(max(current / self.target - 1, -0.2), 0.2) => max(current / self.target - 1, -0.2)"
    )
    """the error is clipped from below only, and it should be clipped on both sides"""
    product_clipped = edit(
        "current / self.target - 1 => (current / self.target - 1) * n_steps / self.horizon",
        "error * n_steps / self.horizon => error",
    )
    """the product is clipped, not the error: clip first, then scale by n_steps / horizon"""
    coefficient_falls_above_the_target = edit("1 + error => 1 - error")
    """the sign is inverted: above the target the coefficient has to rise"""
    error_in_nats = edit("current / self.target - 1 => current - self.target")
    """the error is the difference in nats, but it should be relative, so divide by the target"""
    one_not_subtracted = edit(" - 1 => ")
    """1 is not subtracted: on target the coefficient must not change"""
    always_a_fifth = edit(
        "min(max(current / self.target - 1, -0.2), 0.2) => 0.2 * ((current > self.target) - (current < self.target))"
    )
    """only the sign of the error is used: the step has to shrink near the target"""
    coefficient_only_rises = edit("1 + error => 1 + abs(error)")
    """the error loses its sign: the coefficient can only rise"""
    n_steps_ignored = edit(" * n_steps => ")
    """n_steps is ignored, but many responses should change the coefficient by more than a few do"""
    horizon_ignored = edit(" / self.horizon => ")
    """the horizon is ignored: it determines how slowly the coefficient changes"""
    horizon_and_n_steps_exchanged = edit("n_steps / self.horizon => self.horizon / n_steps")
    """horizon / n_steps: the step is n_steps / horizon, the larger the more responses there are in the batch"""
    step_added = edit("*= 1 + => +=")
    """the step is added to the coefficient, but it's a relative change, so you should multiply"""
    coefficient_returned_not_kept = edit(
        "self.value *= 1 + error * n_steps / self.horizon => return self.value * (1 + error * n_steps / self.horizon)"
    )
    """the new coefficient is returned but not stored: set self.value"""
