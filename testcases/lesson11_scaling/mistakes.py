"""Mistakes in lesson 11, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead


class PlanMicrobatches(Wrong, of="plan_microbatches"):
    assigned_without_sorting = edit("argsort(lengths,  => argsort(0 * lengths, ")
    """the rows are assigned in the order of the minibatch, so one process may get all long ones; sort them first"""
    shortest_first = edit("descending=True,  => ")
    """the shortest come first, so a row left over by an uneven division is the longest; sort the longest first"""
    later_of_equals_first = edit("descending=True, stable=True) => stable=True).flip(0)")
    """of two equally long rows the later one comes first; argsort with descending=True, stable=True keeps the order"""
    blocks_in_place_of_cards = edit(
        "[longest_first[process::n_processes] for process in range(n_processes)] => "
        "longest_first.tensor_split(n_processes)"
    )
    """each process gets consecutive sorted rows, so the first gets all long ones and the others wait; assign
    round-robin"""
    empty_microbatches_left_out = edit("in starts] => in starts if start < len(share)]")
    """a process whose rows are used up stays away from the last pass, and the others wait; give it empty ones"""
    own_rows_split = edit("[share[start : start + size] for start in starts] => list(share.split(size))")
    """each process splits only its own rows, so one with fewer rows ends early, and the others wait for it; give it
    empty microbatches"""
    rest_dropped = edit(
        "-(-len(lengths) // n_processes) => max(len(lengths) // n_processes, 1)",
        "[process::n_processes] => [process::n_processes][:most_rows]",
    )
    """rows are dropped if their number doesn't divide, but each row belongs to exactly one process"""
    rows_repeated = edit(
        "longest_first[process::n_processes] => longest_first.repeat(n_processes)[process::n_processes][:most_rows]"
    )
    """rows are repeated until their number divides, as DistributedSampler does, so they count twice; leave the place
    empty"""
    none_means_row_by_row = edit("or most_rows => or 1")
    """None is taken as one row at a time; it means all rows of the process at once"""
    number_in_place_of_size = edit("micro_batch_size or most_rows => -(-most_rows // (micro_batch_size or 1))")
    """micro_batch_size is taken as the number of microbatches; it is the number of rows in each"""


class GradientWeight(Wrong, of="gradient_weight"):
    mean_over_processes_forgotten = edit("n_processes *  => ")
    """DistributedDataParallel takes the mean over processes, so without n_processes every step is too small"""
    divided_by_processes_twice = edit("n_processes * tokens / total_tokens => tokens / total_tokens / n_processes")
    """you divide by the processes a second time, but DistributedDataParallel has done it already; multiply instead"""
    every_microbatch_in_full = instead("return float(n_processes if tokens else 0)")
    """you take the sum of the means, so each microbatch counts in full, and the step grows with their number"""
    sum_over_tokens = instead("return float(n_processes * tokens)")
    """you don't divide by the tokens of the minibatch, so the mean loss becomes a sum over tokens"""
    share_upside_down = edit("tokens / total_tokens => total_tokens / max(tokens, 1)")
    """the share is upside down; divide the tokens of the microbatch by those of the minibatch"""
    no_weight_at_all = instead("return 1.0")
    """every microbatch weighs 1, as if its loss were a sum, but it's a mean; give it its share of the tokens"""


class MergeStatistics(Wrong, of="merge_statistics"):
    statistics_as_mean_of_means = edit("share * part[name] => part[name] / len(counted)")
    """you take a mean of means, so a part with one token counts as much as one with a thousand; weight by tokens"""
    largest_ratio_averaged = edit('max(part["ratio_max"] for part, _ in counted) => merged["ratio_max"]')
    """ratio_max is averaged like the others; the largest of all tokens is the largest of the parts' largest"""
    empty_part_multiplied_by_zero = edit(
        " if count] => ]", "for part, _ in counted => for part, share in counted if share"
    )
    """a part without tokens is multiplied by 0, and 0 times NaN is NaN; leave it out"""
    largest_ratio_of_an_empty_part = edit("for part, _ in counted => for part in parts")
    """the largest ratio is taken over parts without tokens as well; they count nothing"""
    last_part_reported = instead("return [part for part, count in zip(parts, tokens) if count][-1]")
    """each part overwrites the one before, so only the last is reported; add them up by tokens"""
    first_part_reported = instead("return [part for part, count in zip(parts, tokens) if count][0]")
    """only the first part is reported, as when the first process logs its own numbers"""
    statistics_summed = edit("count / total => count")
    """the weighted sum isn't divided by all tokens, so the numbers grow with the batch"""
    nan_hidden_in_the_means = edit("counted) for name => counted if part[name] == part[name]) for name")
    """NaN is hidden, but where a part with tokens says NaN the answer should be NaN, so that the ratio guard sees it"""


class MergeMoments(Wrong, of="merge_moments"):
    moments_with_mean_of_means = edit("(counts * means).sum() / counts.sum() => means.mean()")
    """you take a mean of means, which is right only where all parts have as many tokens; weight by counts"""
    variance_within_only = edit(" + counts * (means - mean).square() => ")
    """you only add the squared deviations, which are the variance within the parts, but their means differ as well"""
    between_without_counts = edit("+ counts *  => + ")
    """the distance between the means counts once for each part, but it should count once for each token of the part"""
    empty_part_kept = edit("[moments[:, 0] > 0] => ")
    """a part without tokens is kept, but its mean may be NaN, and 0 times NaN is NaN; drop it first"""
    difference_of_large_numbers = edit(
        "(means - mean).square()).sum() => means.square()).sum() - counts.sum() * mean.square()"
    )
    """you take the sum of squares minus n mean^2, and with a large mean this difference of large numbers is all
    rounding"""
    nan_taken_as_zero = first("moments = moments.nan_to_num()")
    """NaN is taken as 0, but only a part without tokens may be dropped, and NaN in one with tokens makes the answer
    NaN"""
    variance_in_place_of_squares = edit(".square()).sum() => .square()).sum() / counts.sum()")
    """the third number is a variance, but it should be the sum of squared deviations, which adds up over parts"""


class GlobalMaskedWhiten(Wrong, of="global_masked_whiten"):
    own_nan_hidden = edit("masked_moments(values, mask) => masked_moments(values.nan_to_num(), mask)")
    """NaN of this process is replaced before the moments, so the other processes never hear of its broken numbers"""
    whitened_alone = edit("whitened = ( => count, mean, squares = masked_moments(values, mask)\nwhitened = (")
    """mean and variance are those of this process, so each process whitens with other numbers; gather the moments"""
    nothing_gathered = edit("merge_moments(gather(masked_moments(values, mask))) => masked_moments(values, mask)")
    """`gather` is never called, so each process whitens with its own mean and variance, and the others wait for it"""
    own_mean_added_back = edit("whitened + mean => whitened + values[mask].mean()")
    """with shift_mean=False you add back this process's own mean, but the mean of all processes is kept"""
    moments_averaged = edit(
        "count, mean, squares = merge_moments(gather(masked_moments(values, mask))) => "
        "moments = gather(masked_moments(values, mask))\n"
        "mean, variances = moments[:, 1].mean(), moments[:, 2] / (moments[:, 0] - 1).clamp(min=1)",
        "squares / (count - 1).clamp(min=1) => variances.mean()",
    )
    """the moments of the processes are averaged, so variance between them is lost; merge_moments merges them"""
    variance_by_own_count = edit("(count - 1).clamp => (mask.sum() - 1).clamp")
    """the squares come from all processes, but you divide by the tokens of this one; use the merged count"""
    variance_divided_by_n = edit("(count - 1).clamp(min=1) => count")
    """you divide by n, but masked_whiten divides by n - 1, and two processes should give what one gives"""
    single_token_divided_by_zero = edit(".clamp(min=1) => ")
    """with a single token n - 1 is 0, and 0 / 0 is NaN, but its variance should be 0"""
    one_less_in_each_process = edit("gather( => moments := gather(", "count - 1 => count - len(moments)")
    """each process subtracts 1 from its own n; subtract it once, from the number of all tokens"""
    gathered_twice = first("gather(masked_moments(values, mask))")
    """you gather twice, once for the mean and once for the variance, but one gather brings all three numbers"""


class KeepReferenceAdapter(Wrong, of="keep_reference_adapter"):
    base_model_as_reference = instead("return policy")
    """nothing is kept, so with the adapters off the reference is the base model, not the SFT policy"""
    empty_reference = edit("set_peft_model_state_dict(policy, weights, adapter_name=REFERENCE)\n => ")
    """the new adapter is empty and adds nothing, so the reference is the base model; copy the weights"""
    reference_left_active = edit("set_adapter(trained) => set_adapter(REFERENCE)")
    """the reference is left active, so training would move it, and the policy would stand still"""
    reference_left_trainable = edit(
        "return policy => "
        "[weight.requires_grad_() for name, weight in policy.named_parameters() if REFERENCE in name]\n"
        "return policy"
    )
    """the reference is left trainable, so the optimizer gets its parameters, and may change them"""
    reference_shares_tensors = edit(
        "return policy => "
        'for layer in (one for one in policy.modules() if hasattr(one, "lora_A")):\n'
        "    layer.lora_A[REFERENCE], layer.lora_B[REFERENCE] = layer.lora_A[trained], layer.lora_B[trained]\n"
        "return policy"
    )
    """the reference shares its tensors with the policy's adapter, so it is trained along; copy them"""
    policy_frozen_too = edit("return policy => return policy.requires_grad_(False)")
    """everything is frozen, the policy's own adapter included, so nothing is left to train"""
    reference_rounded = edit(
        "(policy, weights, => (policy, {name: weight.bfloat16() for name, weight in weights.items()},"
    )
    """the copy is rounded to 16 bits, so the KL isn't 0 at the first step; keep the dtype"""
    policy_left_in_eval_mode = edit("return policy => return policy.eval()")
    """the policy is left in eval mode, but training goes on with it, in the mode it came in"""


class OptimizerStep(Wrong, of="DistributedPPOTrainer.optimizer_step"):
    mean_over_processes_not_made_up_for = edit("int(lengths.sum()), self.processes.count) => int(lengths.sum()))")
    """the gradients are averaged over processes, which the weight doesn't make up for, so the step is too small"""
    mean_of_the_processes_means = edit(
        "gradient_weight(tokens, int(lengths.sum()), self.processes.count) => "
        "tokens / max(int(lengths[torch.cat(own)].sum()), 1)"
    )
    """you weight by this process's own tokens, so the result is a mean of the processes' means; use the tokens of
    all"""
    own_tokens_taken_for_the_total = edit("int(lengths.sum()), self => int(lengths[torch.cat(own)].sum()), self")
    """total_tokens counts this process's own tokens, but it should count those of the minibatch in all processes"""
    mean_of_the_microbatches_means = edit(
        "gradient_weight(tokens, int(lengths.sum()), self.processes.count) => 1 / len(own)"
    )
    """microbatches are averaged, not weighted by tokens, so a short row counts as much as a long one"""
    all_rows_in_every_process = edit(
        "lengths.cpu(), self.processes.count => lengths.cpu(), 1", "plan[self.processes.index] => plan[0]"
    )
    """every process computes all rows, so nothing is gained, and each row counts once for each process"""
    micro_batch_size_ignored = edit(", self.config.micro_batch_size) => )")
    """micro_batch_size is ignored, so each process computes all its rows at once, and memory runs out"""
    empty_microbatch_passed_over = edit(
        "plan[self.processes.index] => [index for index in plan[self.processes.index] if len(index)]",
        "is_spike = not => is_spike = bool(merged) and not",
    )
    """an empty microbatch is passed over, so this process exchanges nothing, and the others wait; give it weight 0"""
    stand_in_row_counts = edit("lengths[index].sum() => lengths[index if len(index) else 0].sum()")
    """the row in place of an empty microbatch counts, but it's in another process already; its tokens are 0"""
    exchanged_in_every_backward = edit(
        "nullcontext() if is_last else self.accelerator.no_sync(self.model) => nullcontext()"
    )
    """gradients are exchanged in every backward, and once is enough; use no_sync for all others, forward and
    backward"""
    spike_decided_alone = edit(
        "self.processes.collect(parts) => ([part for part in parts if part[1]] or [(statistics, 1)])"
    )
    """each process looks at its own ratio, so one skips the step while the other waits for its gradients; merge
    first"""
    own_statistics_reported = edit(
        "return merged => "
        "return merge_statistics(*zip(*([part for part in parts if part[1]] or [(statistics, 1)]), strict=True))"
    )
    """each process reports its own rows; the statistics are those of the whole minibatch"""
    worst_microbatch_rows = edit(
        "self.processes.collect(parts), strict=True)) => "
        "(everyones := self.processes.collect(parts)), strict=True)) | {\n"
        '    "ratio_mean": max(part["ratio_mean"] for part, count in everyones if count)}'
    )
    """the largest of the microbatches' mean ratios decides, so one rare row stops all; test the mean over tokens"""
    spike_seen_too_late = edit("break => pass")
    """the spike is seen after the last backward, when its gradients have been exchanged for nothing; look before"""
    skipped_gradients_kept = edit("self.optimizer.zero_grad => is_spike or self.optimizer.zero_grad")
    """the gradients of a skipped step stay and come back in the next one; forget them in both cases"""
    gradients_forgotten_before_the_step = edit(
        "self.optimizer.zero_grad(set_to_none=True)\n => ",
        "lengths = => self.optimizer.zero_grad(set_to_none=True)\nlengths =",
    )
    """the gradients are forgotten before a step, so the last ones stay and hold memory in the next rollout"""
    backward_outside_no_sync = edit("        self.accelerator.backward =>     self.accelerator.backward")
    """the backward is outside no_sync, but FSDP decides there (DDP in the forward); both belong under no_sync"""
    clipped_by_torch = edit("self.accelerator.clip_grad_norm_ => torch.nn.utils.clip_grad_norm_")
    """torch's clip_grad_norm_ knows nothing of split or scaled gradients; ask self.accelerator.clip_grad_norm_"""
    only_the_first_process_steps = edit("self.optimizer.step() => self.processes.is_first and self.optimizer.step()")
    """only the first process steps, so the others train on with old weights, and no two are alike any more"""
