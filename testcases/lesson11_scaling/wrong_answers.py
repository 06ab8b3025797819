"""Wrong ideas about several processes, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from solutions.lesson11_scaling import masked_moments, merge_moments, merge_statistics, plan_microbatches
from testcases.engine import misconception

PLAN = "plan_microbatches: deal the rows like cards"
WEIGHT = "gradient_weight: a share of all tokens"
STATISTICS = "merge_statistics: what the whole minibatch says"
MOMENTS = "merge_moments: variance within and between"
WHITEN = "global_masked_whiten: three numbers travel"
REFERENCE = "keep_reference_adapter: where the policy started"
STEP = "optimiser_step: decided in common"


# plan_microbatches


def _cut(hands, size):
    return [[hand[start : start + size] for start in range(0, max(map(len, hands)), size)] for hand in hands]


def _dealt(order, n_processes, micro_batch_size):
    hands = [order[process::n_processes] for process in range(n_processes)]
    return _cut(hands, micro_batch_size or max(map(len, hands)))


def _longest_first(lengths):
    return lengths.argsort(descending=True, stable=True)


@misconception(
    "plan_microbatches",
    why="the rows are dealt in the order in which they came: one process may get all long ones; sort them first",
    read=PLAN,
)
def dealt_without_sorting(lengths, n_processes, micro_batch_size=None):
    return _dealt(torch.arange(len(lengths)), n_processes, micro_batch_size)


@misconception(
    "plan_microbatches",
    why="shortest first: the row over, where it does not divide, is then the longest; deal the longest first",
    read=PLAN,
)
def shortest_first(lengths, n_processes, micro_batch_size=None):
    return _dealt(lengths.argsort(stable=True), n_processes, micro_batch_size)


@misconception(
    "plan_microbatches",
    why="of two equally long rows the later one comes first; argsort with descending=True, stable=True keeps the order",
    read=PLAN,
)
def later_of_equals_first(lengths, n_processes, micro_batch_size=None):
    return _dealt(lengths.argsort(stable=True).flip(0), n_processes, micro_batch_size)


@misconception(
    "plan_microbatches",
    why="each process gets consecutive rows of the sorted ones, the first all long ones: the others wait for it; deal",
    read=PLAN,
)
def blocks_in_place_of_cards(lengths, n_processes, micro_batch_size=None):
    hands = list(_longest_first(lengths).tensor_split(n_processes))
    return _cut(hands, micro_batch_size or max(map(len, hands)))


@misconception(
    "plan_microbatches",
    why="a process whose rows are used up stays away from the last pass, and the others wait; give it empty ones",
    read=PLAN,
)
def empty_microbatches_left_out(lengths, n_processes, micro_batch_size=None):
    plan = _dealt(_longest_first(lengths), n_processes, micro_batch_size)
    return [[index for index in own if len(index)] for own in plan]


@misconception(
    "plan_microbatches",
    why="micro_batch_size is shared among the processes; it is what one process computes at once",
    read=PLAN,
)
def size_shared_among_processes(lengths, n_processes, micro_batch_size=None):
    size = None if micro_batch_size is None else max(micro_batch_size // n_processes, 1)
    return _dealt(_longest_first(lengths), n_processes, size)


@misconception(
    "plan_microbatches",
    why="rows that do not divide are dropped; each row belongs to exactly one process",
    read=PLAN,
)
def rest_dropped(lengths, n_processes, micro_batch_size=None):
    order = _longest_first(lengths)
    kept = order[: max(len(order) // n_processes, 1) * n_processes]
    return _dealt(kept, n_processes, micro_batch_size)


@misconception(
    "plan_microbatches",
    why="rows are repeated until it divides, as DistributedSampler does: they count twice; leave it empty",
    read=PLAN,
)
def rows_repeated(lengths, n_processes, micro_batch_size=None):
    order = _longest_first(lengths)
    missing = -len(order) % n_processes
    return _dealt(torch.cat([order, order.repeat(missing)[:missing]]), n_processes, micro_batch_size)


@misconception(
    "plan_microbatches",
    why="None is taken as one row at a time; it means all rows of the process at once",
    read=PLAN,
)
def none_means_row_by_row(lengths, n_processes, micro_batch_size=None):
    return _dealt(_longest_first(lengths), n_processes, micro_batch_size or 1)


@misconception(
    "plan_microbatches",
    why="micro_batch_size is taken as the number of microbatches; it is the number of rows in each",
    read=PLAN,
)
def number_in_place_of_size(lengths, n_processes, micro_batch_size=None):
    longest = -(-len(lengths) // n_processes)
    size = None if micro_batch_size is None else -(-longest // micro_batch_size)
    return _dealt(_longest_first(lengths), n_processes, size)


def _padded(hands):
    """As many microbatches in each process as in the one with the most."""
    most = max(map(len, hands))
    return [[*hand, *[torch.empty(0, dtype=torch.int64)] * (most - len(hand))] for hand in hands]


@misconception(
    "plan_microbatches",
    why="dealt there and back like a snake: the i-th row goes to process i % n_processes, always from the first on",
    read=PLAN,
)
def dealt_like_a_snake(lengths, n_processes, micro_batch_size=None):
    order, hands = _longest_first(lengths), [[] for _ in range(n_processes)]
    for number, row in enumerate(order.tolist()):
        turn, place = divmod(number, n_processes)
        hands[place if turn % 2 == 0 else n_processes - 1 - place].append(row)
    hands = [torch.tensor(hand, dtype=torch.int64) for hand in hands]
    return _cut(hands, micro_batch_size or max(map(len, hands)))


@misconception(
    "plan_microbatches",
    why="cut first, then whole microbatches are dealt: the first gets the longest rows; deal rows, then cut each hand",
    read=PLAN,
)
def microbatches_dealt(lengths, n_processes, micro_batch_size=None):
    size = micro_batch_size or -(-len(lengths) // n_processes)
    pieces = _longest_first(lengths).split(size)
    return _padded([list(pieces[process::n_processes]) for process in range(n_processes)])


@misconception(
    "plan_microbatches",
    why="one microbatch too many, empty everywhere: as many as the process with the most rows needs, no more",
    read=PLAN,
)
def one_microbatch_too_many(lengths, n_processes, micro_batch_size=None):
    plan = _dealt(_longest_first(lengths), n_processes, micro_batch_size)
    return [[*own, own[0][:0]] for own in plan]


# gradient_weight


@misconception(
    "gradient_weight",
    why="DistributedDataParallel takes the mean over processes: without n_processes every step is too small",
    read=WEIGHT,
)
def mean_over_processes_forgotten(tokens, total_tokens, n_processes=1):
    return tokens / total_tokens


@misconception(
    "gradient_weight",
    why="divided by the processes a second time: DistributedDataParallel has done it, so multiply",
    read=WEIGHT,
)
def divided_by_processes_twice(tokens, total_tokens, n_processes=1):
    return tokens / total_tokens / n_processes


@misconception(
    "gradient_weight",
    why="the sum of the means: each microbatch counts in full, so the step grows with their number",
    read=WEIGHT,
)
def every_microbatch_in_full(tokens, total_tokens, n_processes=1):
    return float(n_processes if tokens else 0)


@misconception(
    "gradient_weight",
    why="not divided by the tokens of the minibatch: the mean loss becomes a sum over tokens",
    read=WEIGHT,
)
def sum_over_tokens(tokens, total_tokens, n_processes=1):
    return float(n_processes * tokens)


@misconception(
    "gradient_weight",
    why="the share is upside down: tokens of the microbatch over those of the minibatch",
    read=WEIGHT,
)
def share_upside_down(tokens, total_tokens, n_processes=1):
    return n_processes * total_tokens / max(tokens, 1)


@misconception(
    "gradient_weight",
    why="whole numbers only: // throws the fraction away, and nearly every weight is 0",
    read=WEIGHT,
)
def share_rounded_down(tokens, total_tokens, n_processes=1):
    return float(n_processes * tokens // total_tokens)


@misconception(
    "gradient_weight",
    why="every microbatch weighs 1, as if its loss were a sum: it is a mean, so give it its share of the tokens",
    read=WEIGHT,
)
def no_weight_at_all(tokens, total_tokens, n_processes=1):
    return 1.0


@misconception(
    "gradient_weight",
    why="each process weighs the same: their microbatches have different numbers of tokens",
    read=WEIGHT,
)
def one_share_for_each_process(tokens, total_tokens, n_processes=1):
    return 1 / n_processes


# merge_statistics


def _merged(parts, shares):
    return {name: sum(share * part[name] for part, share in zip(parts, shares, strict=True)) for name in parts[0]}


def _shares(tokens):
    return [count / sum(tokens) for count in tokens]


def _with_tokens(parts, tokens):
    return [part for part, count in zip(parts, tokens, strict=True) if count]


@misconception(
    "merge_statistics",
    why="a mean of means: a part with one token counts as much as one with a thousand; weight by tokens",
    read=STATISTICS,
)
def statistics_as_mean_of_means(parts, tokens):
    real = _with_tokens(parts, tokens)
    return _merged(real, [1 / len(real)] * len(real)) | {"ratio_max": max(part["ratio_max"] for part in real)}


@misconception(
    "merge_statistics",
    why="ratio_max is averaged like the others; the largest of all tokens is the largest of the parts' largest",
    read=STATISTICS,
)
def largest_ratio_averaged(parts, tokens):
    real = _with_tokens(parts, tokens)
    return _merged(real, _shares([count for count in tokens if count]))


@misconception(
    "merge_statistics",
    why="a part without tokens is multiplied by 0, and 0 times NaN is NaN; leave it out",
    read=STATISTICS,
)
def empty_part_multiplied_by_zero(parts, tokens):
    largest = max(part["ratio_max"] for part in _with_tokens(parts, tokens))
    return _merged(parts, _shares(tokens)) | {"ratio_max": largest}


@misconception(
    "merge_statistics",
    why="the largest ratio is taken over parts without tokens as well; they count nothing",
    read=STATISTICS,
)
def largest_ratio_of_an_empty_part(parts, tokens):
    real = _merged(_with_tokens(parts, tokens), _shares([count for count in tokens if count]))
    return real | {"ratio_max": max(part["ratio_max"] for part in parts)}


@misconception(
    "merge_statistics",
    why="each part overwrites the one before: only the last is reported; add them up by tokens",
    read=STATISTICS,
)
def last_part_reported(parts, tokens):
    return dict(_with_tokens(parts, tokens)[-1])


@misconception(
    "merge_statistics",
    why="only the first part is reported, as when the first process logs its own numbers",
    read=STATISTICS,
)
def first_part_reported(parts, tokens):
    return dict(_with_tokens(parts, tokens)[0])


@misconception(
    "merge_statistics",
    why="the weighted sum is not divided by all tokens: numbers grow with the batch",
    read=STATISTICS,
)
def statistics_summed(parts, tokens):
    real = _with_tokens(parts, tokens)
    counts = [count for count in tokens if count]
    return _merged(real, counts) | {"ratio_max": max(part["ratio_max"] for part in real)}


@misconception(
    "merge_statistics",
    why="the largest of every statistic is taken; only ratio_max is a largest, the others are means",
    read=STATISTICS,
)
def largest_of_everything(parts, tokens):
    real = _with_tokens(parts, tokens)
    return {name: max(part[name] for part in real) for name in real[0]}


@misconception(
    "merge_statistics",
    why="NaN is hidden: where a part with tokens says NaN the answer is NaN, and the ratio guard sees it",
    read=STATISTICS,
)
def nan_hidden_in_the_means(parts, tokens):
    clean = [{name: 0.0 if value != value else value for name, value in part.items()} for part in parts]
    real = _merged(_with_tokens(clean, tokens), _shares([count for count in tokens if count]))
    return real | {"ratio_max": max(part["ratio_max"] for part in _with_tokens(parts, tokens))}


@misconception(
    "merge_statistics",
    why="the largest ratio starts from 1: all of them may be smaller",
    read=STATISTICS,
)
def largest_ratio_at_least_one(parts, tokens):
    real = _with_tokens(parts, tokens)
    largest = max(1.0, *(part["ratio_max"] for part in real))
    return _merged(real, _shares([count for count in tokens if count])) | {"ratio_max": largest}


# merge_moments


def _real(moments):
    return moments[moments[:, 0] > 0].unbind(dim=1)


@misconception(
    "merge_moments",
    why="a mean of means: it is right only where all parts have as many tokens; weight by counts",
    read=MOMENTS,
)
def moments_with_mean_of_means(moments):
    counts, means, squares = _real(moments)
    mean = means.mean()
    return torch.stack([counts.sum(), mean, (squares + counts * (means - mean).square()).sum()])


@misconception(
    "merge_moments",
    why="squared deviations are only added: that is the variance within the parts; their means differ as well",
    read=MOMENTS,
)
def variance_within_only(moments):
    counts, means, squares = _real(moments)
    return torch.stack([counts.sum(), (counts * means).sum() / counts.sum(), squares.sum()])


@misconception(
    "merge_moments",
    why="the squared deviations are averaged over the parts; they are sums, and sums are added",
    read=MOMENTS,
)
def squares_averaged(moments):
    counts, means, squares = _real(moments)
    mean = (counts * means).sum() / counts.sum()
    return torch.stack([counts.sum(), mean, (squares + counts * (means - mean).square()).mean()])


@misconception(
    "merge_moments",
    why="what the means differ by counts once a part; it counts once for each token of the part",
    read=MOMENTS,
)
def between_without_counts(moments):
    counts, means, squares = _real(moments)
    mean = (counts * means).sum() / counts.sum()
    return torch.stack([counts.sum(), mean, (squares + (means - mean).square()).sum()])


@misconception(
    "merge_moments",
    why="a part without tokens is kept: its mean may be NaN, and 0 times NaN is NaN; drop it first",
    read=MOMENTS,
)
def empty_part_kept(moments):
    counts, means, squares = moments.unbind(dim=1)
    mean = (counts * means).sum() / counts.sum()
    return torch.stack([counts.sum(), mean, (squares + counts * (means - mean).square()).sum()])


@misconception(
    "merge_moments",
    why="the number of parts in place of the number of tokens: the variance is divided by it later",
    read=MOMENTS,
)
def parts_counted(moments):
    counts, means, squares = _real(moments)
    mean = (counts * means).sum() / counts.sum()
    spread = (squares + counts * (means - mean).square()).sum()
    return torch.stack([torch.ones_like(counts).sum(), mean, spread])


@misconception(
    "merge_moments",
    why="the sum of squares minus n mean^2: with a large mean the difference of two large numbers is all rounding",
    read=MOMENTS,
)
def difference_of_large_numbers(moments):
    counts, means, squares = _real(moments)
    mean = (counts * means).sum() / counts.sum()
    return torch.stack([counts.sum(), mean, (squares + counts * means.square()).sum() - counts.sum() * mean.square()])


@misconception(
    "merge_moments",
    why="NaN is taken as 0: only a part without tokens may be dropped, one with tokens makes the answer NaN",
    read=MOMENTS,
)
def nan_taken_as_zero(moments):
    counts, means, squares = moments.nan_to_num().unbind(dim=1)
    mean = (counts * means).sum() / counts.sum()
    return torch.stack([counts.sum(), mean, (squares + counts * (means - mean).square()).sum()])


@misconception(
    "merge_moments",
    why="the third number is a variance: it is the sum of squared deviations, which adds up over parts",
    read=MOMENTS,
)
def variance_in_place_of_squares(moments):
    counts, means, squares = _real(moments)
    mean = (counts * means).sum() / counts.sum()
    return torch.stack([counts.sum(), mean, (squares + counts * (means - mean).square()).sum() / counts.sum()])


# global_masked_whiten


def _whitened(values, mask, mean, variance, shift_mean, kept=None):
    whitened = (values[mask] - mean) * torch.rsqrt(variance + 1e-8)
    if not shift_mean:
        whitened = whitened + (mean if kept is None else kept)
    return torch.zeros_like(values).masked_scatter(mask, whitened)


def _all(values, mask, gather):
    count, mean, squares = merge_moments(gather(masked_moments(values, mask)))
    return count, mean, squares / (count - 1).clamp(min=1)


@misconception(
    "global_masked_whiten",
    why="mean and variance are those of this process: each whitens with other numbers; gather the moments",
    read=WHITEN,
)
def whitened_alone(values, mask, gather, shift_mean=True):
    gather(masked_moments(values, mask))
    count, mean, squares = masked_moments(values, mask)
    return _whitened(values, mask, mean, squares / (count - 1).clamp(min=1), shift_mean)


@misconception(
    "global_masked_whiten",
    why="the mean is that of all processes, the variance that of this one; both belong to all tokens",
    read=WHITEN,
)
def variance_of_this_process(values, mask, gather, shift_mean=True):
    _, mean, _ = _all(values, mask, gather)
    count, _, squares = masked_moments(values, mask)
    return _whitened(values, mask, mean, squares / (count - 1).clamp(min=1), shift_mean)


@misconception(
    "global_masked_whiten",
    why="the variance is that of all processes, the mean that of this one; both belong to all tokens",
    read=WHITEN,
)
def mean_of_this_process(values, mask, gather, shift_mean=True):
    _, _, variance = _all(values, mask, gather)
    return _whitened(values, mask, values[mask].mean(), variance, shift_mean)


@misconception(
    "global_masked_whiten",
    why="the moments of the processes are averaged, so variance between them is lost; merge_moments merges them",
    read=WHITEN,
)
def moments_averaged(values, mask, gather, shift_mean=True):
    moments = gather(masked_moments(values, mask))
    variances = moments[:, 2] / (moments[:, 0] - 1).clamp(min=1)
    return _whitened(values, mask, moments[:, 1].mean(), variances.mean(), shift_mean)


@misconception(
    "global_masked_whiten",
    why="divided by n: masked_whiten has the unbiased variance, divided by n - 1, and two processes must equal one",
    read=WHITEN,
)
def variance_divided_by_n(values, mask, gather, shift_mean=True):
    count, mean, squares = merge_moments(gather(masked_moments(values, mask)))
    return _whitened(values, mask, mean, squares / count, shift_mean)


@misconception(
    "global_masked_whiten",
    why="one is taken from n in each process; of all tokens together it is taken once",
    read=WHITEN,
)
def one_less_in_each_process(values, mask, gather, shift_mean=True):
    moments = gather(masked_moments(values, mask))
    count, mean, squares = merge_moments(moments)
    return _whitened(values, mask, mean, squares / (count - len(moments)).clamp(min=1), shift_mean)


@misconception(
    "global_masked_whiten",
    why="shift_mean is upside down: True centres the values, False keeps their mean",
    read=WHITEN,
)
def shift_upside_down(values, mask, gather, shift_mean=True):
    _, mean, variance = _all(values, mask, gather)
    return _whitened(values, mask, mean, variance, not shift_mean)


@misconception(
    "global_masked_whiten",
    why="shift_mean is ignored: rewards would lose their mean",
    read=WHITEN,
)
def shift_ignored(values, mask, gather, shift_mean=True):
    _, mean, variance = _all(values, mask, gather)
    return _whitened(values, mask, mean, variance, True)


@misconception(
    "global_masked_whiten",
    why="the mean that is kept is this process's own; the values were shifted by the mean of all",
    read=WHITEN,
)
def own_mean_kept(values, mask, gather, shift_mean=True):
    _, mean, variance = _all(values, mask, gather)
    return _whitened(values, mask, mean, variance, shift_mean, kept=values[mask].mean())


@misconception(
    "global_masked_whiten",
    why="divided by the variance: scale by its square root",
    read=WHITEN,
)
def divided_by_variance(values, mask, gather, shift_mean=True):
    _, mean, variance = _all(values, mask, gather)
    return _whitened(values, mask, mean, variance.square(), shift_mean)


@misconception(
    "global_masked_whiten",
    why="what stands under the mask is whitened as well; the answer is 0 there",
    read=WHITEN,
)
def padding_left_filled(values, mask, gather, shift_mean=True):
    _, mean, variance = _all(values, mask, gather)
    whitened = (values - mean) * torch.rsqrt(variance + 1e-8)
    return whitened if shift_mean else whitened + mean


@misconception(
    "global_masked_whiten",
    why="asked twice, once for the mean and once for the variance: one gather brings all three numbers",
    read=WHITEN,
)
def gathered_twice(values, mask, gather, shift_mean=True):
    _, mean, _ = _all(values, mask, gather)
    _, _, variance = _all(values, mask, gather)
    return _whitened(values, mask, mean, variance, shift_mean)


# keep_reference_adapter


def _kept(policy):
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    trained = policy.active_adapter
    weights = get_peft_model_state_dict(policy, adapter_name=trained)
    policy.add_adapter("reference", policy.peft_config[trained])
    set_peft_model_state_dict(policy, weights, adapter_name="reference")
    policy.set_adapter(trained)
    return policy


@misconception(
    "keep_reference_adapter",
    why="nothing is kept: with the adapters off the reference is the base model, not the SFT policy",
    read=REFERENCE,
)
def base_model_as_reference(policy):
    return policy


@misconception(
    "keep_reference_adapter",
    why="the new adapter is empty: it adds nothing, so the reference is the base model; copy the weights",
    read=REFERENCE,
)
def empty_reference(policy):
    trained = policy.active_adapter
    policy.add_adapter("reference", policy.peft_config[trained])
    policy.set_adapter(trained)
    return policy


@misconception(
    "keep_reference_adapter",
    why="the reference is left active: training would move it, and the policy would stand still",
    read=REFERENCE,
)
def reference_left_active(policy):
    _kept(policy).set_adapter("reference")
    return policy


@misconception(
    "keep_reference_adapter",
    why="the reference is left trainable: the optimiser takes it in, and weight by weight it may move",
    read=REFERENCE,
)
def reference_left_trainable(policy):
    _kept(policy)
    for name, weight in policy.named_parameters():
        if ".reference." in name:
            weight.requires_grad_(True)
    return policy


@misconception(
    "keep_reference_adapter",
    why="the reference shares its tensors with the policy's adapter, so it is trained along; copy them",
    read=REFERENCE,
)
def reference_shares_tensors(policy):
    trained = policy.active_adapter
    _kept(policy)
    for module in policy.modules():
        for part in ("lora_A", "lora_B"):
            if hasattr(module, part):
                getattr(module, part)["reference"] = getattr(module, part)[trained]
    return policy


@misconception(
    "keep_reference_adapter",
    why="everything is frozen, the policy's own adapter included: nothing is left to train",
    read=REFERENCE,
)
def policy_frozen_too(policy):
    return _kept(policy).requires_grad_(False)


@misconception(
    "keep_reference_adapter",
    why="the reference is active though it is frozen: the policy would answer as its reference; set_adapter back",
    read=REFERENCE,
)
def frozen_reference_left_active(policy):
    trainable = {name for name, weight in policy.named_parameters() if weight.requires_grad}
    _kept(policy).set_adapter("reference")
    for name, weight in policy.named_parameters():
        weight.requires_grad_(name in trainable)
    return policy


@misconception(
    "keep_reference_adapter",
    why="the copy is rounded to 16 bits: the KL is then not 0 at the first step; keep the dtype",
    read=REFERENCE,
)
def reference_rounded(policy):
    _kept(policy)
    for name, weight in policy.named_parameters():
        if ".reference." in name:
            weight.data = weight.data.bfloat16().float()
    return policy


@misconception(
    "keep_reference_adapter",
    why="the policy is left in eval mode: training goes on with it, in the mode it came in",
    read=REFERENCE,
)
def policy_left_in_eval_mode(policy):
    return _kept(policy).eval()


# optimiser_step


def _is_spike(ratio_mean, threshold):
    return not ratio_mean <= threshold


def _step(
    self,
    minibatch,
    *,
    plan=None,
    weight=lambda tokens, total, own, count: count * tokens / total,
    merge=lambda self, parts: merge_statistics(*zip(*self.processes.collect(parts), strict=True)),
    report=None,
    quiet=True,
    skip_empty=False,
    empty_counts=False,
    early=True,
    guard=_is_spike,
    clip=True,
    clip_by=None,
    forget=True,
    backward_outside=False,
    first_only=False,
):
    """The reference's step, with one thing changed."""
    lengths, processes = minibatch.mask.sum(dim=1), self.processes
    make = plan or (lambda: plan_microbatches(lengths, processes.count, self.config.micro_batch_size))
    own = make()[0 if plan else processes.index]
    if skip_empty:
        own = [index for index in own if len(index)]
    total, held = int(lengths.sum()), sum(int(lengths[index].sum()) for index in own)
    parts, merged, is_spike = [], {}, False
    for index in own:
        is_last = len(parts) == len(own) - 1
        with nullcontext() if is_last or not quiet else self.accelerator.no_sync(self.model):
            rows = index if len(index) else torch.tensor([0])
            loss, statistics = self.compute_loss(minibatch.rows(rows))
            tokens = int(lengths[rows if empty_counts else index].sum())
            parts.append((statistics, tokens))
            if is_last and early:
                merged = merge(self, parts)
                is_spike = guard(merged["ratio_mean"], self.config.ratio_threshold)
                if is_spike:
                    break
            if not backward_outside:
                self.accelerator.backward(loss * weight(tokens, total, held, processes.count))
        if backward_outside:
            self.accelerator.backward(loss * weight(tokens, total, held, processes.count))
    if not early:
        merged = merge(self, parts)
        is_spike = guard(merged["ratio_mean"], self.config.ratio_threshold)
    grad_norm = 0.0
    if not is_spike:
        limit = self.config.max_grad_norm if clip else float("inf")
        grad_norm = float((clip_by or self.accelerator.clip_grad_norm_)(self.model.parameters(), limit))
        if processes.is_first or not first_only:
            self.optimizer.step()
    if forget is True or (forget == "after a step" and not is_spike):
        self.optimizer.zero_grad(set_to_none=True)
    shown = merged if report is None else report(parts)
    return shown | {"grad_norm": grad_norm, "skipped_share": float(is_spike)}


def _of_this_process(parts):
    real = [part for part in parts if part[1]] or parts
    return merge_statistics([part for part, _ in real], [max(tokens, 1) for _, tokens in real])


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the gradients are averaged over processes, which the weight does not make up for: the step is too small",
    read=STEP,
)
def mean_over_processes_not_made_up_for(self, minibatch):
    return _step(self, minibatch, weight=lambda tokens, total, own, count: tokens / total)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="weighted by this process's own tokens: the result is a mean of the processes' means; use those of all",
    read=STEP,
)
def mean_of_the_processes_means(self, minibatch):
    return _step(self, minibatch, weight=lambda tokens, total, own, count: tokens / max(own, 1))


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="microbatches are averaged, not weighted by tokens: a short row counts as much as a long one",
    read=STEP,
)
def mean_of_the_microbatches_means(self, minibatch):
    lengths = minibatch.mask.sum(dim=1)
    own = plan_microbatches(lengths, self.processes.count, self.config.micro_batch_size)[self.processes.index]
    return _step(self, minibatch, weight=lambda tokens, total, held, count: 1 / len(own))


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="every process computes all rows: nothing is gained, and each row counts once for each process",
    read=STEP,
)
def all_rows_in_every_process(self, minibatch):
    lengths = minibatch.mask.sum(dim=1)
    return _step(self, minibatch, plan=lambda: plan_microbatches(lengths, 1, self.config.micro_batch_size))


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="micro_batch_size is ignored: each process computes all its rows at once, and memory runs out",
    read=STEP,
)
def micro_batch_size_ignored(self, minibatch):
    lengths, index = minibatch.mask.sum(dim=1), self.processes.index
    return _step(self, minibatch, plan=lambda: plan_microbatches(lengths, self.processes.count)[index:])


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="an empty microbatch is passed over: this process exchanges nothing, and the others wait; give it weight 0",
    read=STEP,
)
def empty_microbatch_passed_over(self, minibatch):
    return _step(self, minibatch, skip_empty=True)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the row in place of an empty microbatch counts: it is in another process already; its tokens are 0",
    read=STEP,
)
def stand_in_row_counts(self, minibatch):
    return _step(self, minibatch, empty_counts=True)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="gradients are exchanged in every backward; once, in the last one, is enough: the others under no_sync",
    read=STEP,
)
def exchanged_in_every_backward(self, minibatch):
    return _step(self, minibatch, quiet=False)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="each process looks at its own ratio: one skips the step, the other waits for its gradients; merge first",
    read=STEP,
)
def spike_judged_alone(self, minibatch):
    def merge(self, parts):
        merge_statistics(*zip(*self.processes.collect(parts), strict=True))
        return _of_this_process(parts)

    return _step(self, minibatch, merge=merge)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="each process reports its own rows; the statistics are those of the whole minibatch",
    read=STEP,
)
def own_statistics_reported(self, minibatch):
    return _step(self, minibatch, report=_of_this_process)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the largest of the microbatches' mean ratios is judged: one rare row stops all; judge the mean over tokens",
    read=STEP,
)
def worst_microbatch_judged(self, minibatch):
    def merge(self, parts):
        collected = self.processes.collect(parts)
        worst = max(part["ratio_mean"] for part, tokens in collected if tokens)
        return merge_statistics(*zip(*collected, strict=True)) | {"ratio_mean": worst}

    return _step(self, minibatch, merge=merge)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="no ratio guard: a spike is trained on, in all processes",
    read=STEP,
)
def spikes_trained_on(self, minibatch):
    return _step(self, minibatch, guard=lambda mean, threshold: False)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the spike is seen after the last backward: its gradients have been exchanged for nothing; look before",
    read=STEP,
)
def spike_seen_too_late(self, minibatch):
    return _step(self, minibatch, early=False)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the gradients of a skipped step stay and come back in the next one; forget them in both cases",
    read=STEP,
)
def skipped_gradients_kept(self, minibatch):
    return _step(self, minibatch, forget="after a step")


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the gradients are forgotten before a step, so the last ones stay and hold memory in the next rollout",
    read=STEP,
)
def gradients_forgotten_before_the_step(self, minibatch):
    self.optimizer.zero_grad(set_to_none=True)
    return _step(self, minibatch, forget=False)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="a ratio exactly at the threshold counts as a spike; only one that exceeds it does",
    read=STEP,
)
def threshold_itself_is_a_spike(self, minibatch):
    return _step(self, minibatch, guard=lambda mean, threshold: not mean < threshold)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="NaN passes the guard, since NaN > threshold is False; ask for not (ratio <= threshold)",
    read=STEP,
)
def nan_passes_the_merged_guard(self, minibatch):
    return _step(self, minibatch, guard=lambda mean, threshold: mean > threshold)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the backward is outside no_sync: DDP decides in the forward, but FSDP in the backward; both belong under it",
    read=STEP,
)
def backward_outside_no_sync(self, minibatch):
    return _step(self, minibatch, backward_outside=True)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="torch's clip_grad_norm_ knows nothing of split or scaled gradients; ask self.accelerator.clip_grad_norm_",
    read=STEP,
)
def clipped_by_torch(self, minibatch):
    return _step(self, minibatch, clip_by=torch.nn.utils.clip_grad_norm_)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="weights by rows: a row of one token then counts as much as one of a thousand; weigh by tokens",
    read=STEP,
)
def weighted_by_rows(self, minibatch):
    lengths, processes = minibatch.mask.sum(dim=1), self.processes
    own = iter(plan_microbatches(lengths, processes.count, self.config.micro_batch_size)[processes.index])
    return _step(self, minibatch, weight=lambda *rest: processes.count * len(next(own)) / len(lengths))


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="divided by the number of microbatches as well: the weights already add up to one mean",
    read=STEP,
)
def divided_by_microbatches_too(self, minibatch):
    lengths, processes = minibatch.mask.sum(dim=1), self.processes
    number = len(plan_microbatches(lengths, processes.count, self.config.micro_batch_size)[0])
    return _step(self, minibatch, weight=lambda tokens, total, own, count: count * tokens / total / number)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="only the first process steps: the others train on with old weights, and no two are alike any more",
    read=STEP,
)
def only_the_first_process_steps(self, minibatch):
    return _step(self, minibatch, first_only=True)


@misconception(
    "DistributedPPOTrainer.optimiser_step",
    why="the gradient is not clipped; max_grad_norm bounds the norm of the merged gradient",
    read=STEP,
)
def gradient_not_clipped(self, minibatch):
    return _step(self, minibatch, clip=False)
