"""Wrong repairs and tests, as changes of the reference. A `why` says which behavior is still wrong, and never where
the bug is."""

from testcases.harness.oracle.mutations import Wrong, edit, instead


class CreditPacked(Wrong, of="credit_packed"):
    last_token_expects_itself = edit("else 0.0 => else critic[step]")
    """the other responses have no influence any more, but a response on its own now gets another credit"""
    advantages_run_on = edit(
        "backwards = [] => backwards, carry = [], rewards.new_zeros(())",
        "    carry = rewards.new_zeros(())\n    for =>     for",
    )
    """a response still gets another credit as soon as one more stands in the stream"""


class PessimisticGain(Wrong, of="pessimistic_gain"):
    only_the_bounded_ratio = instead("return (ratios.clamp(1 - width, 1 + width) * merits.detach()).mean()")
    """a token that moved the wrong way has no gradient to come back with"""
    not_bounded = instead("return (ratios * merits.detach()).mean()")
    """a policy that moves far away still gains something, so look beyond 1 +- width"""
    edges_exchanged = edit("1 + width => 1 - width")
    """tokens now stop counting before they have moved at all"""


class BoundedError(Wrong, of="bounded_error"):
    only_the_held_error = instead("""
        held = anchors.detach() + (estimates - anchors.detach()).clamp(-room, room)
        return (held - targets.detach()).square().mean() / 2
    """)
    """an estimate that moved far in the wrong direction has no gradient to come back with"""
    a_large_move_still_gains = instead("return (estimates - targets.detach()).square().mean() / 2")
    """moving further than the room still gains something"""
    mean_of_both = edit(
        "torch.where(free_error > held_error, free_error, held_error).mean() / 2 => "
        "(free_error + held_error).mean() / 4"
    )
    """half of the gain of a move that is too large is still there"""


class MergeMoments(Wrong, of="merge_moments"):
    counts_the_columns = edit("scores.numel() => scores.shape[1]")
    """one batch of many prompts still differs from many batches of one"""
    batch_variance_by_n_minus_1 = edit("scores.var(unbiased=False) => scores.var()")
    """the moments are close for large batches, but those of two halves together still aren't those of the whole"""

    prompts_counted_as_scores = edit(
        "scores.numel() => len(scores)", "scores.var(unbiased=False) => scores.mean(dim=1).var(unbiased=False)"
    )
    """the moments are now those of one number for each prompt, not those of all scores"""


class SampledDrift(Wrong, of="sampled_drift"):
    heat_not_used = edit("(policy_logits / heat) => policy_logits", "(frozen_logits / heat) => frozen_logits")
    """equal models have no drift now, but tokens sampled at another temperature have other probabilities than these"""
    log_probs_divided = edit(
        "(policy_logits / heat).log_softmax(-1) => policy_logits.log_softmax(-1) / heat",
        "(frozen_logits / heat).log_softmax(-1) => frozen_logits.log_softmax(-1) / heat",
    )
    """equal models have no drift now, but the probabilities behind these numbers don't add up to 1"""
    negative_drift_dropped = edit(
        "(frozen_logits / heat) => frozen_logits", ".squeeze(-1) => .squeeze(-1).clamp(min=0.0)"
    )
    """the mean is no longer negative, but equal models still differ"""


class ReadPrompts(Wrong, of="read_prompts"):
    one_place_late = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0) => visible.long().cumsum(dim=1).clamp(max=tokens.shape[1] - 1)"
    )
    """the batch has no influence any more, but a prompt alone now reads as another vector"""
    all_in_the_first_place = edit("(visible.long().cumsum(dim=1) - 1).clamp(min=0) => torch.zeros_like(tokens)")
    """a prompt and the same words in another order now read the same"""


class SumInGroups(Wrong, of="sum_in_groups"):
    in_order_of_length = edit("[order.argsort()] => ")
    """the sums are right, and still stand beside other rows than their own"""
    padding_counted = edit(".masked_fill(outside, 0.0) => ")
    """the order is right, but what stands after a row now enters its sum"""


class LabelReplies(Wrong, of="label_replies"):
    last_column_only = edit(
        "return Rows(tokens, labels) => "
        "labels = labels.masked_fill(tokens == end, IGNORED)\n"
        "labels[:, -1] = tokens[:, -1]\n"
        "return Rows(tokens, labels)"
    )
    """the answer is right for the longest row of a batch only, so give it a batch of several lengths"""
    filling_learned = edit(
        "labels[row, len(prompts[row]) : len(whole)] = torch.tensor(replies[row]) => "
        "labels[row, len(prompts[row]) :] = tokens[row, len(prompts[row]) :]"
    )
    """the model is now taught tokens that nobody wrote"""
    always_ends = edit(
        "return Rows(tokens, labels) => "
        "for row, whole in enumerate(wholes):\n"
        "    labels[row, min(len(whole), tokens.shape[1] - 1)] = end\n"
        "return Rows(tokens, labels)"
    )
    """replies that were cut off are now taught to end there"""

    every_end_learned = edit(
        "return Rows(tokens, labels) => return Rows(tokens, torch.where(tokens == end, tokens, labels))"
    )
    """the model learns to stop again, and is also taught tokens that it never wrote"""
    one_end_in_a_row = edit(
        "return Rows(tokens, labels) => "
        "follows = (tokens == end) & (tokens.roll(1, 1) == end)\n"
        "return Rows(tokens, labels.masked_fill(follows, IGNORED))"
    )
    """the model learns to stop again, but not after every prompt, so give it prompts of all kinds"""


class TrainChain(Wrong, of="train_chain"):
    reward_of_one_step = edit('"target": advantage + critic => "target": batch["earned"]')
    """the value loss moves now, but the critic learns another quantity than the rewards from a place on"""
    without_its_own_estimate = edit('"target": advantage + critic => "target": advantage')
    """the value loss moves now, but it does not stay small when the critic is already right"""
    centered_targets = edit(
        '    batch = {**batch, "credit": advantage, "target": advantage + critic} => '
        "    advantage = advantage - advantage.mean()\n"
        '    batch = {**batch, "credit": advantage, "target": advantage + critic}'
    )
    """the value loss moves now, but the critic does not find the mean of the rewards"""


class TrainBandit(Wrong, of="train_bandit"):
    curiosity_without_effect = edit("gain + curiosity * entropy => gain")
    """the collapse is slower, but curiosity has no effect at all now"""
    sampled_answers_only = edit("gain + curiosity * entropy => gain - curiosity * log_chances[answers].mean()")
    """it depends on which answers happened to be drawn, so a policy without any payoff still moves at random"""
    steps_down = edit(
        "gain + curiosity * entropy => gain - curiosity * entropy", "scores + rate * slope => scores - rate * slope"
    )
    """the policy stays undecided, but its reward falls now"""


class TrainSliced(Wrong, of="train_sliced"):
    by_the_number_of_replies = edit("real.sum() => len(replies)")
    """the slices agree now, but the steps have another size than with tokens that count once"""
    weighted_by_rows = edit("-weighted.sum() / real.sum() => -weighted.mean() * len(part) / len(replies)")
    """the result is right for replies of equal length, but for others it still depends on `rows`"""

    sums_added = edit("-weighted.sum() / real.sum() => -weighted.sum()")
    """the slices agree now, but a batch of more tokens makes a larger step"""


class TrainContexts(Wrong, of="train_contexts"):
    compared_with_the_start = edit(
        "chosen = chances.log()[questions, answers] => chosen = start.log_softmax(dim=1)[questions, answers]"
    )
    """the ratios move now, but those of the first pass of a later update are not 1"""
    nothing_is_bounded = edit(
        "torch.minimum(ratios * merits, ratios.clamp(1 - width, 1 + width) * merits) => ratios * merits"
    )
    """the logged ratios move now, but a smaller width changes nothing"""
    no_way_back = edit(
        "torch.minimum(ratios * merits, ratios.clamp(1 - width, 1 + width) * merits) => "
        "ratios.clamp(1 - width, 1 + width) * merits"
    )
    """the ratios move now, but an answer that moved the wrong way does not come back"""


NOTHING = "nothing is asserted about what comes back, but a test earns something only if some mistake makes it fail"
PLAIN = "only the plainest case is tested, in which most mistakes do not show"
STRICT = "no right implementation gives the number that you expect, so work it out by hand once more"


class TestComputeGae(Wrong, of="test_compute_gae"):
    gae_without_an_assertion = instead("compute_gae(leaf([1.0]), leaf([2.0, 4.0]), torch.tensor([0]))", why=NOTHING)
    gae_of_a_single_step = instead(
        "assert close(compute_gae(leaf([1.0]), leaf([2.0, 4.0]), torch.tensor([0]), 0.5, 0.25)[0], [1.0])", why=PLAIN
    )
    gae_expects_another_number = instead(
        "assert close(compute_gae(leaf([1.0]), leaf([2.0, 4.0]), torch.tensor([0]), 0.5, 0.5)[0], [2.0])", why=STRICT
    )


class TestComputePpoLoss(Wrong, of="test_compute_ppo_loss"):
    ppo_loss_without_an_assertion = instead("compute_ppo_loss(leaf([-1.0]), leaf([-1.0]), leaf([1.0]))", why=NOTHING)
    ppo_loss_where_nothing_has_moved = instead(
        "assert close(compute_ppo_loss(leaf([0.0, 0.0]), leaf([0.0, 0.0]), leaf([1.0, -3.0])), 1.0)", why=PLAIN
    )
    ppo_loss_expects_another_number = instead(
        "assert close(compute_ppo_loss(leaf([0.0, 0.0]), leaf([0.0, 0.0]), leaf([1.0, -3.0])), -1.0)", why=STRICT
    )


class TestComputeRewards(Wrong, of="test_compute_rewards"):
    rewards_without_an_assertion = instead(
        "compute_rewards(leaf([1.0]), leaf([[-1.0]]), leaf([[-1.0]]), torch.tensor([[True]]))", why=NOTHING
    )
    rewards_of_one_row = instead(
        """
        real = torch.tensor([[True, True]])
        rewards = compute_rewards(leaf([1.0]), leaf([[-1.0, -2.0]]), leaf([[-1.5, -2.0]]), real, kl_coef=0.2)
        assert close(rewards, [[-0.1, 1.0]])
        """,
        why=PLAIN,
    )
    rewards_expects_another_number = instead(
        """
        real = torch.tensor([[True, True]])
        assert close(compute_rewards(leaf([1.0]), leaf([[-1.0, -2.0]]), leaf([[-1.0, -2.0]]), real), [[1.0, 1.0]])
        """,
        why=STRICT,
    )


class TestResponseMask(Wrong, of="test_response_mask"):
    mask_without_an_assertion = instead("response_mask(torch.tensor([[5, 2, 2]]), (2,))", why=NOTHING)
    mask_of_one_row = instead(
        "assert response_mask(torch.tensor([[5, 6, 2, 7]]), (2,)).tolist() == [[True, True, True, False]]", why=PLAIN
    )
    mask_expects_another_number = instead(
        "assert response_mask(torch.tensor([[5, 6, 2, 7]]), (2,)).tolist() == [[True, True, False, False]]", why=STRICT
    )


class Diagnose(Wrong, of="diagnose"):
    always_healthy = instead('return "healthy"')
    """every run is called healthy, so compare the logs of two of them"""
    clip_fraction_only = instead("""
        if max(log["clip_fraction"]) == 0.0:
            return "ratio_stays_one"
        return "step_too_large" if max(log["clip_fraction"][:4]) > 0.73 else "healthy"
    """)
    """only the clip fraction is read, but other faults leave it as it is"""
    end_of_the_run_only = edit('abs(log["kl"][0]) > 1e-3 => abs(log["kl"][-1]) > 1e-3')
    """a KL at the end of a run is no fault, because every policy that learns has one"""
