"""Wrong and other right repairs, as changes of the reference. A wrong one's `why` says which behavior is still wrong,
and never where the bug is."""

from testcases.harness.oracle.mutations import Right, Wrong, edit, first, instead


class CreditPacked(Wrong, of="credit_packed"):
    last_token_expects_itself = edit("else 0.0", "else critic[step]")
    """the other responses have no influence any more, but a response on its own now gets another credit"""
    advantages_run_on = edit(
        "backwards = []",
        "backwards, carry = [], rewards.new_zeros(())",
        "    carry = rewards.new_zeros(())\n    for",
        "    for",
    )
    """a response still gets another credit as soon as one more stands in the stream"""
    large_credit_cut_off = edit(
        "step + 1 < end",
        "step + 1 < len(critic)",
        "torch.stack(backwards[::-1])",
        "torch.stack(backwards[::-1]).clamp(-3.0, 3.0)",
    )
    """large numbers are cut off; the smaller ones are as wrong as before"""

    without_what_comes_next = edit("critic[step + 1] if step + 1 < end else 0.0", "0.0")
    """the other responses have no influence any more, but a response of several tokens now gets another credit"""


class RightCreditPacked(Right, of="credit_packed"):
    one_response_after_the_other = instead("""
        found = []
        for part, guide in zip(rewards.split(list(lengths)), critic.split(list(lengths)), strict=True):
            gaps = part + discount * torch.cat([guide[1:], guide.new_zeros(1)]) - guide
            total, row = 0.0, []
            for gap in gaps.flip(0):
                total = gap + discount * decay * total
                row.append(total)
            found.extend(reversed(row))
        return torch.stack(found).detach()
    """)
    """each response cut out of the stream"""
    critic_followed_by_a_zero = edit(
        "critic[step + 1] if step + 1 < end else 0.0", "torch.cat([critic[:end], critic.new_zeros(1)])[step + 1]"
    )
    """a zero appended to each response"""


class PessimisticGain(Wrong, of="pessimistic_gain"):
    only_the_bounded_ratio = instead("return (ratios.clamp(1 - width, 1 + width) * merits.detach()).mean()")
    """a token that moved the wrong way has no gradient to come back with"""
    not_bounded = instead("return (ratios * merits.detach()).mean()")
    """moving far away is still worth something: look beyond 1 +- width"""
    edges_exchanged = edit("1 + width", "1 - width")
    """tokens now stop counting before they have moved at all"""


class RightPessimisticGain(Right, of="pessimistic_gain"):
    loss_of_the_larger_cost = instead("""
        cost = -merits.detach()
        return -torch.maximum(ratios * cost, ratios.clamp(1 - width, 1 + width) * cost).mean()
    """)
    """as a loss, with the clipped ratio"""
    by_cases = instead("""
        merits = merits.detach()
        good = ratios.clamp(max=1 + width) * merits
        bad = ratios.clamp(min=1 - width) * merits
        return torch.where(merits > 0, good, bad).mean()
    """)
    """one bound for each sign"""


class BoundedError(Wrong, of="bounded_error"):
    only_the_held_error = instead("""
        held = anchors.detach() + (estimates - anchors.detach()).clamp(-room, room)
        return (held - targets.detach()).square().mean() / 2
    """)
    """an estimate that moved far in the wrong direction has no gradient to come back with"""
    a_large_move_still_gains = instead("return (estimates - targets.detach()).square().mean() / 2")
    """moving further than the room still gains something"""
    mean_of_both = edit(
        "torch.where(free_error > held_error, free_error, held_error).mean() / 2",
        "(free_error + held_error).mean() / 4",
    )
    """half of the gain of a move that is too large is still there"""


class RightBoundedError(Right, of="bounded_error"):
    by_maximum = edit(
        "torch.where(free_error > held_error, free_error, held_error)", "torch.maximum(free_error, held_error)"
    )
    """torch has a name for it"""
    bounds_as_tensors = edit(
        "anchors + (estimates - anchors).clamp(-room, room)",
        "torch.minimum(torch.maximum(estimates, anchors - room), anchors + room)",
        "torch.where(free_error > held_error, free_error, held_error).mean() / 2",
        "torch.stack([free_error, held_error]).amax(dim=0).mul(0.5).mean()",
    )
    """an interval around each anchor"""


class MergeMoments(Wrong, of="merge_moments"):
    counts_the_columns = edit("scores.numel()", "scores.shape[1]")
    """one batch of many prompts still differs from many batches of one"""
    counts_one = edit("scores.numel()", "1")
    """all scores together still have other moments than batch by batch"""
    batch_variance_by_n_minus_1 = edit("scores.var(unbiased=False)", "scores.var()")
    """close for large batches, but two halves still have other moments than the whole"""

    prompts_counted_as_scores = edit(
        "scores.numel()", "len(scores)", "scores.var(unbiased=False)", "scores.mean(dim=1).var(unbiased=False)"
    )
    """the moments are now those of one number for each prompt, not those of all scores"""


class RightMergeMoments(Right, of="merge_moments"):
    by_second_moments = instead("""
        total = seen + scores.numel()
        middle = (mean * seen + scores.sum().item()) / total
        about = (variance + (mean - middle) ** 2) * seen + (scores - middle).square().sum().item()
        return Moments(total, middle, about / total)
    """)
    """squares about the new mean"""
    one_score_after_the_other = instead("""
        squares = variance * seen
        for score in scores.flatten().tolist():
            seen += 1
            shift = score - mean
            mean += shift / seen
            squares += shift * (score - mean)
        return Moments(seen, mean, squares / seen)
    """)
    """Welford's recursion"""

    rows_times_columns = instead("""
        prompts, responses = scores.shape
        added = prompts * responses
        total = seen + added
        shift = scores.mean().item() - mean
        squares = variance * seen + scores.var(unbiased=False).item() * added + shift**2 * seen * added / total
        return Moments(total, mean + shift * added / total, squares / total)
    """)
    """the number of scores from the two sizes"""


class SampledDrift(Wrong, of="sampled_drift"):
    heat_not_used = edit("(policy_logits / heat)", "policy_logits", "(frozen_logits / heat)", "frozen_logits")
    """zero for equal models, but tokens sampled at another temperature have other probabilities than these"""
    log_probs_divided = edit(
        "(policy_logits / heat).log_softmax(-1)",
        "policy_logits.log_softmax(-1) / heat",
        "(frozen_logits / heat).log_softmax(-1)",
        "frozen_logits.log_softmax(-1) / heat",
    )
    """zero for equal models, but the probabilities behind these numbers do not add up to 1"""
    negative_drift_dropped = edit(
        "(frozen_logits / heat)", "frozen_logits", ".squeeze(-1)", ".squeeze(-1).clamp(min=0.0)"
    )
    """the mean is no longer negative, but equal models still differ"""


class RightSampledDrift(Right, of="sampled_drift"):
    in_a_loop_over_both = instead("""
        chosen = []
        for logits in (policy_logits / heat, frozen_logits / heat):
            chosen.append(logits.gather(-1, tokens[..., None])[..., 0] - logits.logsumexp(dim=-1))
        return chosen[0] - chosen[1]
    """)
    """the logit minus the log of the sum"""
    difference_first = instead("""
        whole = (policy_logits / heat).log_softmax(-1) - (frozen_logits / heat).log_softmax(-1)
        return whole.take_along_dim(tokens.unsqueeze(-1), dim=-1).squeeze(-1)
    """)
    """for all words, then the sampled one"""


class ReadPrompts(Wrong, of="read_prompts"):
    places_counted_from_the_end = edit(
        "visible.long().cumsum(dim=1) - 1", "visible.long().flip(1).cumsum(dim=1).flip(1) - 1"
    )
    """the batch has no influence any more, but a prompt alone now reads as another vector"""
    one_place_late = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0)", "visible.long().cumsum(dim=1).clamp(max=tokens.shape[1] - 1)"
    )
    """the batch has no influence any more, but a prompt alone now reads as another vector"""
    all_in_the_first_place = edit("(visible.long().cumsum(dim=1) - 1).clamp(min=0)", "torch.zeros_like(tokens)")
    """a prompt and the same words in another order now read the same"""

    one_place_late_and_around = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0)", "visible.long().cumsum(dim=1) % len(places)"
    )
    """the batch has no influence any more, but a prompt alone now reads as another vector"""


class RightReadPrompts(Right, of="read_prompts"):
    first_column_subtracted = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0)",
        "(torch.arange(tokens.shape[1]) - visible.long().argmax(dim=1, keepdim=True)).clamp(min=0)",
    )
    """the column minus that of the first token"""
    prompt_by_prompt = instead("""
        vectors = []
        for row, real in zip(tokens, visible, strict=True):
            row = row[real]
            vectors.append((words[row] * places[: len(row)]).sum(dim=0) / len(row))
        return torch.stack(vectors)
    """)
    """each prompt alone"""


class SumInGroups(Wrong, of="sum_in_groups"):
    in_order_of_length = edit("[order.argsort()]", "")
    """the sums are right, and still stand beside other rows than their own"""
    reversed_order = edit("[order.argsort()]", ".flip(0)")
    """the sums are right, and still stand beside other rows than their own"""
    padding_counted = edit(".masked_fill(outside, 0.0)", "")
    """the order is right, but what stands after a row now enters its sum"""


class RightSumInGroups(Right, of="sum_in_groups"):
    written_into_place = edit(
        "sums, first = [], 0",
        "sums, first = numbers.new_zeros(len(order)), 0",
        "    sums.append(numbers[group, :width].masked_fill(outside, 0.0).sum(dim=1))",
        "    part = numbers[group, :width].masked_fill(outside, 0.0).sum(dim=1)\n"
        "    sums = sums.index_put((group,), part)",
        "torch.cat(sums)[order.argsort()]",
        "sums",
    )
    """each group's sums are written where they belong"""
    rows_in_their_own_order = edit(
        "lengths.argsort(stable=True)",
        "torch.arange(len(lengths))",
        "torch.cat(sums)[order.argsort()]",
        "torch.cat(sums)",
    )
    """groups of neighbors: nothing to put back"""
    each_row_by_its_own_slice = instead("""
        order = lengths.argsort(stable=True).tolist()
        sums, group = numbers.new_zeros(len(order)), []
        for row in order:
            if group and (len(group) + 1) * int(lengths[row]) > budget:
                group = []
            group.append(row)
            sums[row] = sum(numbers[row, column] for column in range(int(lengths[row])))
        return sums
    """)
    """column by column: a row must not have more numbers than columns"""


class LabelReplies(Wrong, of="label_replies"):
    last_column_only = edit(
        "return Rows(tokens, labels)",
        "labels = labels.masked_fill(tokens == end, IGNORED)\n"
        "labels[:, -1] = tokens[:, -1]\n"
        "return Rows(tokens, labels)",
    )
    """right for the longest row of a batch only: give it a batch of several lengths"""
    filling_learned = edit(
        "labels[row, len(prompts[row]) : len(whole)] = torch.tensor(replies[row])",
        "labels[row, len(prompts[row]) :] = tokens[row, len(prompts[row]) :]",
    )
    """the model is now taught tokens that nobody wrote"""
    always_ends = edit(
        "return Rows(tokens, labels)",
        "for row, whole in enumerate(wholes):\n"
        "    labels[row, min(len(whole), tokens.shape[1] - 1)] = end\n"
        "return Rows(tokens, labels)",
    )
    """replies that were cut off are now taught to end there"""

    every_end_learned = edit(
        "return Rows(tokens, labels)", "return Rows(tokens, torch.where(tokens == end, tokens, labels))"
    )
    """the model learns to stop again, and is also taught tokens that it never wrote"""
    one_end_in_a_row = edit(
        "return Rows(tokens, labels)",
        "follows = (tokens == end) & (tokens.roll(1, 1) == end)\n"
        "return Rows(tokens, labels.masked_fill(follows, IGNORED))",
    )
    """the model learns to stop again, but not after every prompt: give it prompts of all kinds"""


class RightLabelReplies(Right, of="label_replies"):
    lists_first = instead("""
        long = max(len(prompt) + len(reply) for prompt, reply in zip(prompts, replies, strict=True))
        rows, marks = [], []
        for prompt, reply in zip(prompts, replies, strict=True):
            rest = long - len(prompt) - len(reply)
            rows.append([*prompt, *reply, *[end] * rest])
            marks.append([IGNORED] * len(prompt) + reply + [IGNORED] * rest)
        return Rows(torch.tensor(rows), torch.tensor(marks))
    """)
    """as lists, converted at the end"""
    labels_by_position = edit(
        "labels = torch.full_like(tokens, IGNORED)\n",
        "kept = torch.zeros_like(tokens, dtype=torch.bool)\n",
        "labels[row, len(prompts[row]) : len(whole)] = torch.tensor(replies[row])",
        "kept[row, len(prompts[row]) : len(whole)] = True",
        "Rows(tokens, labels)",
        "Rows(tokens, tokens.masked_fill(~kept, IGNORED))",
    )
    """a mask of positions"""


class TrainChain(Wrong, of="train_chain"):
    reward_of_one_step = edit('"target": advantage + critic', '"target": batch["earned"]')
    """the value loss moves now, but the critic learns another quantity than the rewards from a place on"""
    without_its_own_estimate = edit('"target": advantage + critic', '"target": advantage')
    """the value loss moves now, but it does not stay small when the critic is already right"""
    centered_targets = edit(
        '    batch = {**batch, "credit": advantage, "target": advantage + critic}',
        "    advantage = advantage - advantage.mean()\n"
        '    batch = {**batch, "credit": advantage, "target": advantage + critic}',
    )
    """the value loss moves now, but the critic does not find the mean of the rewards"""


class RightTrainChain(Right, of="train_chain"):
    target_read_from_the_batch = edit(
        'batch = {**batch, "credit": advantage, "target": advantage + critic}',
        'batch["credit"] = advantage\n    batch["target"] = batch["credit"] + critic',
    )
    """the batch is filled first"""
    target_without_the_batch = edit(
        ', "target": advantage + critic}',
        "}\n    goal = critic + advantage",
        '(batch["target"] - critic).square()',
        "(goal - critic).square()",
        'critic + rate * (batch["target"] - critic).mean(dim=0)',
        "(1 - rate) * critic + rate * goal.mean(dim=0)",
    )
    """the targets in a name of their own"""


class TrainBandit(Wrong, of="train_bandit"):
    curiosity_without_effect = edit("gain + curiosity * entropy", "gain")
    """the collapse is slower, but curiosity has no effect at all now"""
    sampled_answers_only = edit("gain + curiosity * entropy", "gain - curiosity * log_chances[answers].mean()")
    """it depends on which answers happened to be drawn: no payoff at all still moves the policy at random"""
    steps_down = edit(
        "gain + curiosity * entropy", "gain - curiosity * entropy", "scores + rate * slope", "scores - rate * slope"
    )
    """the policy stays undecided, and its reward falls now"""


class RightTrainBandit(Right, of="train_bandit"):
    as_a_loss = edit(
        "torch.autograd.grad(gain + curiosity * entropy, leaf)",
        "torch.autograd.grad(-(gain + curiosity * entropy), leaf)",
        "scores + rate * slope",
        "scores - rate * slope",
    )
    """a loss to be descended"""
    negative_entropy_subtracted = edit(
        "        entropy = -(log_chances.exp() * log_chances).sum()",
        "        order = (log_chances.exp() * log_chances).sum()",
        "gain + curiosity * entropy",
        "gain - curiosity * order",
    )
    """minus a minus"""


class TrainSliced(Wrong, of="train_sliced"):
    by_the_number_of_replies = edit("real.sum()", "len(replies)")
    """the slices agree now, but the steps have another size than with tokens that count once"""
    means_added = edit("-weighted.sum() / real.sum()", "-weighted.mean()")
    """the result still depends on `rows`, now even for replies of equal length"""
    weighted_by_rows = edit("-weighted.sum() / real.sum()", "-weighted.mean() * len(part) / len(replies)")
    """right for replies of equal length, and it still depends on `rows` for others"""

    sums_added = edit("-weighted.sum() / real.sum()", "-weighted.sum()")
    """the slices agree now, but a batch of more tokens makes a larger step"""


class RightTrainSliced(Right, of="train_sliced"):
    mean_times_share = edit("-weighted.sum() / real.sum()", "-weighted.mean() * (len(weighted) / int(lengths.sum()))")
    """each slice weighted by its share of the tokens"""
    whole_batch_at_once = edit("torch.arange(len(replies)).split(rows)", "[torch.arange(len(replies))]")
    """one slice, where memory allows it"""


class TrainContexts(Wrong, of="train_contexts"):
    compared_with_the_start = edit(
        "chosen = chances.log()[questions, answers]", "chosen = start.log_softmax(dim=1)[questions, answers]"
    )
    """the ratios move now, but those of the first pass of a later update are not 1"""
    nothing_is_bounded = edit(
        "torch.minimum(ratios * merits, ratios.clamp(1 - width, 1 + width) * merits)", "ratios * merits"
    )
    """the logged ratios move now, but a smaller width changes nothing"""
    no_way_back = edit(
        "torch.minimum(ratios * merits, ratios.clamp(1 - width, 1 + width) * merits)",
        "ratios.clamp(1 - width, 1 + width) * merits",
    )
    """the ratios move now, but an answer that moved the wrong way does not come back"""


class RightTrainContexts(Right, of="train_contexts"):
    read_from_the_scores = edit("chances.log()[questions, answers]", "scores.log_softmax(dim=1)[questions, answers]")
    """from the scores"""
    ratio_of_probabilities = edit(
        "chosen = chances.log()[questions, answers]",
        "chosen = chances[questions, answers]",
        "(leaf.log_softmax(dim=1)[questions, answers] - chosen).exp()",
        "leaf.softmax(dim=1)[questions, answers] / chosen",
    )
    """probabilities divided"""


NOTHING = "nothing is asserted about what comes back: a test earns something only if some mistake makes it fail"
PLAIN = "only the plainest case is tested, in which most mistakes do not show"
STRICT = "a number is expected that no right implementation gives: work it out by hand once more"


class TestComputeGae(Wrong, of="test_compute_gae"):
    gae_without_an_assertion = instead("compute_gae(leaf([1.0]), leaf([2.0, 4.0]), torch.tensor([0]))", why=NOTHING)
    gae_of_a_single_step = instead(
        "assert close(compute_gae(leaf([1.0]), leaf([2.0, 4.0]), torch.tensor([0]), 0.5, 0.25)[0], [1.0])", why=PLAIN
    )
    gae_expects_another_number = instead(
        "assert close(compute_gae(leaf([1.0]), leaf([2.0, 4.0]), torch.tensor([0]), 0.5, 0.5)[0], [2.0])", why=STRICT
    )


class RightTestComputeGae(Right, of="test_compute_gae"):
    more_numbers = edit(
        "assert close(slopes[0], [[4.0, 4.5]])",
        "assert close(slopes[0], [[4.0, 4.5]]) and advantages.shape == returns.shape",
    )
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


class TestComputePpoLoss(Wrong, of="test_compute_ppo_loss"):
    ppo_loss_without_an_assertion = instead("compute_ppo_loss(leaf([-1.0]), leaf([-1.0]), leaf([1.0]))", why=NOTHING)
    ppo_loss_where_nothing_has_moved = instead(
        "assert close(compute_ppo_loss(leaf([0.0, 0.0]), leaf([0.0, 0.0]), leaf([1.0, -3.0])), 1.0)", why=PLAIN
    )
    ppo_loss_expects_another_number = instead(
        "assert close(compute_ppo_loss(leaf([0.0, 0.0]), leaf([0.0, 0.0]), leaf([1.0, -3.0])), -1.0)", why=STRICT
    )


class RightTestComputePpoLoss(Right, of="test_compute_ppo_loss"):
    more_numbers = edit("(0.2, 0.5, None)", "(0.2, 0.5, 0.3, None)")
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


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


class RightTestComputeRewards(Right, of="test_compute_rewards"):
    more_numbers = edit("[9.0, -9.0, 7.0]", "[9.0, -11.0, 6.0]")
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


class TestResponseMask(Wrong, of="test_response_mask"):
    mask_without_an_assertion = instead("response_mask(torch.tensor([[5, 2, 2]]), (2,))", why=NOTHING)
    mask_of_one_row = instead(
        "assert response_mask(torch.tensor([[5, 6, 2, 7]]), (2,)).tolist() == [[True, True, True, False]]", why=PLAIN
    )
    mask_expects_another_number = instead(
        "assert response_mask(torch.tensor([[5, 6, 2, 7]]), (2,)).tolist() == [[True, True, False, False]]", why=STRICT
    )


class RightTestResponseMask(Right, of="test_response_mask"):
    more_numbers = edit("(40, length)", "(50, length)")
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


class Diagnose(Wrong, of="diagnose"):
    always_healthy = instead('return "healthy"')
    """every run is called healthy: compare the logs of two of them"""
    clip_fraction_only = instead("""
        if max(log["clip_fraction"]) == 0.0:
            return "ratio_stays_one"
        return "step_too_large" if max(log["clip_fraction"][:4]) > 0.73 else "healthy"
    """)
    """only the clip fraction is read: other faults leave it as it is"""
    end_of_the_run_only = edit('abs(log["kl"][0]) > 1e-3', 'abs(log["kl"][-1]) > 1e-3')
    """a KL at the end of a run is no fault: every policy that learns has one"""


class RightDiagnose(Right, of="diagnose"):
    reference_first = edit(
        """if max(abs(ratio - 1) for ratio in log["first_ratio"]) > 1e-3:
    return "sampling_mismatch"
if abs(log["kl"][0]) > 1e-3:
    return "wrong_reference"
""",
        """if abs(log["kl"][0]) > 0.01:
    return "wrong_reference"
if any(abs(ratio - 1) > 0.01 for ratio in log["first_ratio"]):
    return "sampling_mismatch"
""",
    )
    """the two checks of the first step in the other order"""
    critic_before_the_clip = edit(
        'max(map(abs, log["explained_variance"])) < 1e-3',
        'not any(share > 1e-3 for share in log["explained_variance"])',
    )
    """no update explains anything"""
