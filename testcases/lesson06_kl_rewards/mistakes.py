"""Mistakes in lesson 6, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

FLOAT32 = "Small and large log-ratios"
WRONG = "What people get wrong"


class NonnegativeKL(Wrong, of="nonnegative_kl"):
    log_ratio_alone = edit("torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio")
    """you return the log-ratio alone, whose mean is right, but which is negative wherever the reference finds the
    token more likely"""
    negative_ones_cut_off = edit(
        "torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio.clamp(min=0.0)"
    )
    """you set negative log-ratios to 0, which raises the mean above the KL"""
    size_of_the_log_ratio = edit("torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio.abs()")
    """this is the absolute value of the log-ratio, which is never negative, but its mean is above the KL"""
    half_the_square = edit("torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio => log_ratio.square() / 2")
    """this is half the square (k2), which is never negative, but its mean is the KL only for close models"""
    other_direction = edit("(-log_ratio) => log_ratio", "+ log_ratio => - log_ratio", read=WRONG)
    """your ratio in exp(r) - 1 - r is inverted, and it should be reference / policy, which is exp(-r)"""
    the_mean_1_not_subtracted = edit("expm1 => exp")
    """you don't subtract the 1, which is the mean of reference / policy, so two equal models have a KL of 1"""
    half_of_what_is_needed = edit("torch.expm1( => 0.5 * torch.expm1(")
    """the mean is right, but with this factor the estimate is negative at some tokens; its slope at r = 0 must be 0"""
    term_of_mean_0_alone = edit(" + log_ratio => ")
    """you return the added term alone, whose mean is 0, and the log-ratio is missing"""
    digits_rounded_away = edit("expm1 => exp", "+ log_ratio => - 1 + log_ratio", read=FLOAT32)
    """exp(-r) - 1 loses the digits of a small KL in float32, and at the start every KL is small; use expm1"""
    exponent_not_capped = edit(".clamp(max=MAX_LOG_RATIO) => ", read=FLOAT32)
    """you don't cap the exponent, so one unlikely token makes it infinite in float32"""
    not_in_half_precision = edit("(torch.float16, torch.bfloat16) => ()", read=FLOAT32)
    """you don't convert half precision, whose rounding error is as large as the KL"""
    by_estimate_kl = instead('return estimate_kl(log_probs, ref_log_probs, "k3")')
    """you call estimate_kl, which comes later and generalizes it; find the formula yourself"""


class EstimateKL(Wrong, of="estimate_kl"):
    k1_clamped_at_zero = edit("return log_ratio\n => return log_ratio.clamp(min=0.0)\n", read=WRONG)
    """you clamp k1 at 0, and without its negative terms the mean is too large"""
    k1_made_positive = edit("return log_ratio\n => return log_ratio.abs()\n", read=WRONG)
    """you take abs() of k1, but a single token's estimate may be negative, and only the KL itself may not"""
    k3_ratio_inverted = edit("(-log_ratio) => log_ratio", "+ log_ratio => - log_ratio", read=WRONG)
    """k3 uses the inverted ratio, and exp(r) - 1 - r doesn't estimate this KL; it is exp(-r) - 1 + r"""
    policy_and_reference_swapped = edit("log_probs - ref_log_probs => ref_log_probs - log_probs")
    """this is reference minus policy, but KL(policy || reference) starts from log_probs - ref_log_probs"""
    k1_negated = edit("return log_ratio\n => return -log_ratio\n")
    """k1 has the sign of a reward, but it should be a KL here, because compute_rewards adds the minus"""
    k2_without_the_half = edit(" / 2 => ")
    """k2 lacks its factor 1/2, so it's twice as large as the KL even for close models"""
    k2_not_squared = edit(".square() => .abs()")
    """k2 is computed as |r| / 2, but the log-ratio should be squared"""
    k3_with_the_wrong_sign_in_the_exponent = edit("(-log_ratio) => log_ratio")
    """k3 has exp(r), with r = log_probs - ref_log_probs, but exp(r) - 1 + r is no KL; the exponent is -r"""
    k3_minus_the_log_ratio = edit("+ log_ratio => - log_ratio")
    """k3 ends in - r, but it should be exp(-r) - 1 + r, so that the variations of both parts cancel"""
    k3_without_the_log_ratio = edit(" + log_ratio => ")
    """k3 lacks its + r, and exp(-r) - 1 alone has the mean 0, whatever the models are"""
    k3_without_minus_one = edit("expm1 => exp")
    """k3 lacks its - 1, so the KL of two equal models would be 1 nat"""
    k3_by_exp_minus_one = edit("expm1 => exp", "+ log_ratio => - 1 + log_ratio", read=FLOAT32)
    """exp(-r) - 1 loses the digits of a small KL in float32, and at the start every KL is small; use expm1"""
    k3_may_overflow = edit(".clamp(max=MAX_LOG_RATIO) => ", read=FLOAT32)
    """you don't cap the exponent of k3, so one unlikely token makes it infinite in float32"""
    log_ratio_capped = edit("log_probs - ref_log_probs => (log_probs - ref_log_probs).clamp(-20.0, 20.0)", read=FLOAT32)
    """you cap the log-ratio itself, but only the exponent of k3 is capped, and r is added as it is"""
    k3_clamped_to_10 = edit(
        "torch.expm1( => (torch.expm1(", "+ log_ratio => + log_ratio).clamp(-10.0, 10.0)", read=FLOAT32
    )
    """you clamp k3 to 10 afterwards; cap the exponent instead, at 20"""
    always_k1 = first('estimator = "k1"')
    """the estimator has no effect, because this is k1 whatever was asked for"""
    k2_and_k3_swapped = edit('"k2" => "k3"')
    """k2 and k3 are exchanged, but k2 is r^2 / 2 and k3 is exp(-r) - 1 + r"""
    # areal-project/AReaL#408
    k2_overwritten_by_k3 = edit("return log_ratio.square() / 2 => pass")
    """k2 gives k3, because the `else` of a later `if` overwrites it; write `elif`, or return at once"""

    subtracted_in_half_precision = edit(
        "log_probs.float(), ref_log_probs.float() => (log_probs - ref_log_probs).float(), 0", read=FLOAT32
    )
    """you subtract in half precision and convert the difference, which is already rounded; convert first"""
    half_precision_kept = edit("(torch.float16, torch.bfloat16) => ()", read=FLOAT32)
    """you don't convert half precision, whose rounding error is as large as the KL"""
    ratio_of_probabilities = edit(
        "log_probs - ref_log_probs => (log_probs.exp() / ref_log_probs.exp()).log()", read=FLOAT32
    )
    """you divide probabilities, which is 0 / 0 for an unlikely token; subtract the logarithms"""


class ComputeRewards(Wrong, of="compute_rewards"):
    score_one_past_the_end = edit(
        "last_token_index(mask) => (last_token_index(mask) + 1).clamp(max=mask.shape[1] - 1)", read=WRONG
    )
    """the score is one position after the last token, so it reaches that token discounted by gamma * lam"""
    score_in_the_last_column = edit("last_token_index(mask) => -1")
    """the score is in the last column, which is padding for a short response"""
    score_at_the_number_of_tokens = edit("last_token_index(mask) => mask.sum(dim=1) - 1")
    """you count the real tokens to find the last, which is too early if there is a gap inside"""
    score_before_the_last_token = edit("last_token_index(mask) => (last_token_index(mask) - 1).clamp(min=0)")
    """the score is on the token before the last, because the index is off by one"""
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
    """rewards[:, last] uses every row's column in every row; pair each row with its own column"""
    last_token_without_kl = edit("+= => =")
    """the score replaces the KL of the last token, but it should be added to it"""
    kl_is_rewarded = edit("-kl_coef => kl_coef", read=WRONG)
    """the KL is added, so leaving the reference is rewarded; the factor is minus kl_coef"""
    penalty_without_the_score = edit("scores.clamp(-clip_score, clip_score) => 0.0")
    """the score is left out, so only the KL penalty is there"""
    kl_coef_on_the_score_too = edit("+=  => += kl_coef * ")
    """kl_coef multiplies the score as well, but it should weigh the KL only"""
    penalty_clamped_at_zero = edit("0.0) => 0.0).clamp(max=0.0)", read=WRONG)
    """you clamp the KL at 0, but a token with a negative estimate should have a positive KL term"""
    score_not_clipped = edit(".clamp(-clip_score, clip_score) => ")
    """you don't clip the score, so one outlier of the reward model dominates the batch"""
    score_clipped_above_only = edit("-clip_score, clip_score => max=clip_score")
    """the score is clipped from above only, and very low scores should be clipped as well"""
    score_clipped_at_zero = edit("-clip_score => 0.0")
    """you clip the score to [0, clip_score], so a negative score becomes 0"""
    reward_clipped_with_the_kl = edit(
        ".clamp(-clip_score, clip_score) => ",
        "return rewards => return rewards.clamp(-clip_score, clip_score)",
        read=WRONG,
    )
    """the whole reward is clipped, but only the score should be, or a large KL costs no more than a small one"""
    clipped_score_and_sum = edit("return rewards => return rewards.clamp(-clip_score, clip_score)", read=WRONG)
    """you clip the score and then the sum with the KL again, which limits the KL penalty of the last token"""
    kl_clipped_like_the_score = edit("estimator) => estimator).clamp(-clip_score, clip_score)", read=WRONG)
    """you clip the KL like the score, so the penalty stops growing with the distance"""
    rewards_always_with_k1 = edit('estimator => "k1"')
    """the estimator has no effect, because this is k1 whatever was asked for"""
    kl_on_padding = edit(".masked_fill(~mask, 0.0) => ", read=WRONG)
    """padding tokens have a KL penalty, but the policy did not sample them"""
    rewards_mask_multiplied = edit(".masked_fill(~mask, 0.0) =>  * mask")
    """you multiply by the mask, but 0 * NaN is NaN; replace values with masked_fill or where"""
    kl_summed_on_the_last_token = edit(
        "rewards = rewards.masked_fill(~mask, 0.0) => "
        "total = rewards.masked_fill(~mask, 0.0).sum(dim=1)\n"
        "rewards = torch.zeros_like(rewards)",
        "+=  => += total + ",
    )
    """the whole KL is on the last token, but each token should get its own, or credit assignment is lost"""
    kl_averaged_over_the_response = edit("0.0) => 0.0) / mask.sum(dim=1, keepdim=True)")
    """you divide the KL by the length, so a long response has a smaller penalty per token"""
    log_probs_overwritten = edit("return rewards => log_probs.sub_(ref_log_probs)\nreturn rewards", read=WRONG)
    """you turn the caller's log_probs into the KL in place, but the ratio of lesson 5 still needs them"""
    rewards_with_gradient = first("torch.set_grad_enabled(True)")
    """the rewards carry a gradient, but they are data; the no_grad above must stay"""


class PenalizeMissingStop(Wrong, of="penalize_missing_stop"):
    score_replaced_by_the_penalty = edit("scores - penalty => torch.full_like(scores, -penalty)")
    """the penalty replaces the score, but it should be subtracted from it, or all unfinished responses look alike"""
    stopping_is_penalized = edit("scores, scores - penalty => scores - penalty, scores")
    """you penalize responses that did stop, because the condition is inverted"""
    penalty_added = edit("scores - penalty => scores + penalty")
    """the penalty is added, so not stopping is rewarded"""
    only_the_first_stop_token = first("stop_token_ids = stop_token_ids[:1]")
    """you count only the first of the stop tokens, but any of them ends a response"""
    stop_only_in_the_last_column = first("responses = responses[:, -1:]")
    """only the last column is checked, but a response that stopped early ends in padding"""
    padding_cut_off_first = first("responses = responses.masked_fill((responses == 0).cumsum(dim=1) > 0, -1)")
    """you look at nothing after the first 0, but 0 may be an ordinary token, and a stop in the padding counts as
    well"""
    one_stop_for_the_batch = edit("any(dim=1) => any()")
    """one stop token anywhere in the batch counts for all rows; check each row separately"""
    score_capped_at_the_penalty = edit("scores - penalty => scores.clamp(max=-penalty)")
    """you lower the score to -penalty at most, but the penalty is subtracted, even from a bad score"""
    penalty_for_each_token = edit("- penalty => - penalty * responses.shape[1]")
    """you subtract the penalty once per token, but it should be once per response"""


class Update(Wrong, of="AdaptiveKLController.update"):
    error_not_clipped = edit("min(max(current / self.target - 1, -0.2), 0.2) => current / self.target - 1")
    """the error is not clipped, so it's 9 at ten times the target, but it should be at most 0.2"""
    error_clipped_above_only = edit("max(current / self.target - 1, -0.2) => current / self.target - 1")
    """the error is clipped from above only, but it should be clipped on both sides"""
    product_clipped = edit(
        "current / self.target - 1 => (current / self.target - 1) * n_steps / self.horizon",
        "error * n_steps / self.horizon => error",
    )
    """you clip the product instead of the error; clip first, then scale by n_steps / horizon"""
    coefficient_falls_above_the_target = edit("1 + error => 1 - error")
    """the sign is inverted, because above the target the coefficient has to rise"""
    error_in_nats = edit("current / self.target - 1 => current - self.target")
    """the error is the difference in nats, but it should be relative, so divide by the target"""
    one_not_subtracted = edit(" - 1 => ")
    """1 is not subtracted, but on target the coefficient must not change"""
    always_a_fifth = edit(
        "min(max(current / self.target - 1, -0.2), 0.2) => 0.2 * ((current > self.target) - (current < self.target))"
    )
    """you use only the sign of the error, but the step has to shrink near the target"""
    coefficient_only_rises = edit("1 + error => 1 + abs(error)")
    """the error loses its sign, so the coefficient can only rise"""
    n_steps_ignored = edit(" * n_steps => ")
    """n_steps is ignored, but many responses should change the coefficient by more than a few do"""
    horizon_ignored = edit(" / self.horizon => ")
    """you ignore the horizon, but it determines how slowly the coefficient changes"""
    horizon_and_n_steps_exchanged = edit("n_steps / self.horizon => self.horizon / n_steps")
    """you compute horizon / n_steps, but the step is n_steps / horizon, larger for a batch with more responses"""
    step_added = edit("*= 1 + => +=")
    """the step is added to the coefficient, but it's a relative change, so you should multiply"""
    coefficient_returned_not_kept = edit(
        "self.value *= 1 + error * n_steps / self.horizon => return self.value * (1 + error * n_steps / self.horizon)"
    )
    """you return the new coefficient but don't store it; set self.value"""
