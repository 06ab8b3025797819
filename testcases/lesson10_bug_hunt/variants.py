"""Other right ways to write lesson 10, and those of published code."""

from testcases.harness.oracle.mutations import Right, edit, first, instead


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
        "critic[step + 1] if step + 1 < end else 0.0 => torch.cat([critic[:end], critic.new_zeros(1)])[step + 1]"
    )
    """a zero appended to each response"""


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


class RightBoundedError(Right, of="bounded_error"):
    by_maximum = edit(
        "torch.where(free_error > held_error, free_error, held_error) => torch.maximum(free_error, held_error)"
    )
    """torch has a name for it"""
    bounds_as_tensors = edit(
        "anchors + (estimates - anchors).clamp(-room, room) => "
        "torch.minimum(torch.maximum(estimates, anchors - room), anchors + room)",
        "torch.where(free_error > held_error, free_error, held_error).mean() / 2 => "
        "torch.stack([free_error, held_error]).amax(dim=0).mul(0.5).mean()",
    )
    """an interval around each anchor"""


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


class RightReadPrompts(Right, of="read_prompts"):
    first_column_subtracted = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0) => "
        "(torch.arange(tokens.shape[1]) - visible.long().argmax(dim=1, keepdim=True)).clamp(min=0)"
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


class RightSumInGroups(Right, of="sum_in_groups"):
    written_into_place = edit(
        "sums, first = [], 0 => sums, first = numbers.new_zeros(len(order)), 0",
        "    sums.append(numbers[group, :width].masked_fill(outside, 0.0).sum(dim=1)) => "
        "    part = numbers[group, :width].masked_fill(outside, 0.0).sum(dim=1)\n"
        "    sums = sums.index_put((group,), part)",
        "torch.cat(sums)[order.argsort()] => sums",
    )
    """each group's sums are written where they belong"""
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
        "labels = torch.full_like(tokens, IGNORED)\n => kept = torch.zeros_like(tokens, dtype=torch.bool)\n",
        "labels[row, len(prompts[row]) : len(whole)] = torch.tensor(replies[row]) => "
        "kept[row, len(prompts[row]) : len(whole)] = True",
        "Rows(tokens, labels) => Rows(tokens, tokens.masked_fill(~kept, IGNORED))",
    )
    """a mask of positions"""


class RightTrainChain(Right, of="train_chain"):
    target_read_from_the_batch = edit(
        'batch = {**batch, "credit": advantage, "target": advantage + critic} => '
        'batch["credit"] = advantage\n'
        '    batch["target"] = batch["credit"] + critic'
    )
    """the batch is filled first"""
    target_without_the_batch = edit(
        ', "target": advantage + critic} => }\n    goal = critic + advantage',
        '(batch["target"] - critic).square() => (goal - critic).square()',
        'critic + rate * (batch["target"] - critic).mean(dim=0) => (1 - rate) * critic + rate * goal.mean(dim=0)',
    )
    """the targets in a name of their own"""


class RightTrainBandit(Right, of="train_bandit"):
    as_a_loss = edit(
        "torch.autograd.grad(gain + curiosity * entropy, leaf) => "
        "torch.autograd.grad(-(gain + curiosity * entropy), leaf)",
        "scores + rate * slope => scores - rate * slope",
    )
    """a loss to be descended"""
    negative_entropy_subtracted = edit(
        "        entropy = -(log_chances.exp() * log_chances).sum() => "
        "        order = (log_chances.exp() * log_chances).sum()",
        "gain + curiosity * entropy => gain - curiosity * order",
    )
    """minus a minus"""


class RightTrainSliced(Right, of="train_sliced"):
    mean_times_share = edit("-weighted.sum() / real.sum() => -weighted.mean() * (len(weighted) / int(lengths.sum()))")
    """each slice weighted by its share of the tokens"""
    whole_batch_at_once = edit("torch.arange(len(replies)).split(rows) => [torch.arange(len(replies))]")
    """one slice, where memory allows it"""


class RightTrainContexts(Right, of="train_contexts"):
    read_from_the_scores = edit("chances.log()[questions, answers] => scores.log_softmax(dim=1)[questions, answers]")
    """from the scores"""
    ratio_of_probabilities = edit(
        "chosen = chances.log()[questions, answers] => chosen = chances[questions, answers]",
        "(leaf.log_softmax(dim=1)[questions, answers] - chosen).exp() => "
        "leaf.softmax(dim=1)[questions, answers] / chosen",
    )
    """probabilities divided"""


class RightTestComputeGae(Right, of="test_compute_gae"):
    more_numbers = edit(
        "assert close(slopes[0], [[4.0, 4.5]]) => "
        "assert close(slopes[0], [[4.0, 4.5]]) and advantages.shape == returns.shape"
    )
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


class RightTestComputePpoLoss(Right, of="test_compute_ppo_loss"):
    more_numbers = edit("(0.2, 0.5, None) => (0.2, 0.5, 0.3, None)")
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


class RightTestComputeRewards(Right, of="test_compute_rewards"):
    more_numbers = edit("[9.0, -9.0, 7.0] => [9.0, -11.0, 6.0]")
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


class RightTestResponseMask(Right, of="test_response_mask"):
    more_numbers = edit("(40, length) => (50, length)")
    """more cases"""
    seeded_first = first("torch.manual_seed(3)")
    """with a seed, which nothing here needs"""


class RightDiagnose(Right, of="diagnose"):
    reference_first = edit(
        'if max(abs(ratio - 1) for ratio in log["first_ratio"]) > 1e-3:\n'
        '    return "sampling_mismatch"\n'
        'if abs(log["kl"][0]) > 1e-3:\n'
        '    return "wrong_reference"\n => '
        'if abs(log["kl"][0]) > 0.01:\n'
        '    return "wrong_reference"\n'
        'if any(abs(ratio - 1) > 0.01 for ratio in log["first_ratio"]):\n'
        '    return "sampling_mismatch"\n'
    )
    """the two checks of the first step in the other order"""
    critic_before_the_clip = edit(
        'max(map(abs, log["explained_variance"])) < 1e-3 => '
        'not any(share > 1e-3 for share in log["explained_variance"])'
    )
    """no update explains anything"""
