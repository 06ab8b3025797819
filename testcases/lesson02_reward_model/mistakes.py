"""Mistakes in lesson 2, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

PAIRWISE = "pairwise_loss: the loss of a comparison"
WRONG = "What people get wrong"


class LastTokenIndex(Wrong, of="last_token_index"):
    number_of_tokens_minus_one = instead("return attention_mask.long().sum(dim=1) - 1")
    """you count the real tokens, which gives the last index only if all padding is on the right"""
    counted_from_the_first_token = instead(
        "real = attention_mask.bool()\nreturn first_true_index(real) + real.sum(dim=1) - 1"
    )
    """you count the real tokens from the first one on, which ends too early where the mask has a gap between them"""
    always_the_last_column = edit(
        "first_true_index(attention_mask.bool().flip(dims=[1])) => "
        "torch.zeros_like(attention_mask[:, 0], dtype=torch.int64)"
    )
    """you always take the last column, which is padding in a right-padded row"""
    first_real_token = instead("return first_true_index(attention_mask.bool())")
    """you find the first real token instead of the last one"""
    counted_from_the_right = edit("length - 1 -  => ")
    """you count the index from the right; turn the index in the flipped mask into length - 1 - index"""
    one_past_the_last = edit("length - 1 => length")
    """you convert the index with length instead of length - 1, so it is one too large"""
    up_to_the_first_padding = instead("return first_true_index(~attention_mask.bool()) - 1")
    """you stop before the first padding, but padding may also be on the left or between two real tokens"""
    before_the_first_pad = instead("return attention_mask.long().argmin(dim=1) - 1")
    """you take the token before the first padding token, which is wrong if there is none or if padding is on the
    left"""


class Forward(Wrong, of="RewardModel.forward"):
    last_column_read = edit("last_token_index(attention_mask) => -1")
    """you read [:, -1], which is the score of a padding token in a right-padded row"""
    column_of_the_first_row_read = edit(
        "hidden[rows, last_token_index(attention_mask)] => hidden[:, last_token_index(attention_mask)[0]]"
    )
    """every row is read at the column where the first one ends; pair each row with its own column"""
    positions_not_passed = edit("position_ids(attention_mask) => None")
    """you don't pass position_ids, so the backbone counts the padding on the left and the score depends on it"""
    positions_from_one = edit("position_ids(attention_mask) => attention_mask.long().cumsum(dim=1)")
    """your positions count from 1, but the first real token is at 0"""
    mask_not_passed = edit("=attention_mask => =None")
    """you don't pass the mask to the backbone, so it reads the padding on the left as text"""
    first_token_read = edit("last_token_index(attention_mask) => first_true_index(attention_mask.bool())")
    """you read the first real token, where a causal model has seen nothing else yet"""
    token_before_the_last_read = edit(
        "last_token_index(attention_mask) => (last_token_index(attention_mask) - 1).clamp(min=0)"
    )
    """you read one token too early, as if a score were shifted like a log-probability"""
    mean_over_the_tokens = edit(
        "hidden[rows, last_token_index(attention_mask)] => "
        "hidden.masked_fill(~attention_mask.unsqueeze(-1), 0.0).sum(dim=1) / attention_mask.sum(dim=1, keepdim=True)"
    )
    """you average over the real tokens, but the score is read at the last one"""
    read_at_the_number_of_tokens = edit("last_token_index(attention_mask) => attention_mask.sum(dim=1) - 1")
    """you index by the number of real tokens, which is a token in the middle if the padding is on the left"""
    padding_found_by_its_id = first("attention_mask = input_ids != 0", read=WRONG)
    """you find padding by its id (0 here), but a text may end in that same token, as with pad == eos"""
    squeezed_to_a_number = edit("squeeze(-1) => squeeze()")
    """squeeze() without a dimension makes a scalar of a batch of one row; squeeze(-1) keeps the row"""
    score_squashed = edit("squeeze(-1) => squeeze(-1).sigmoid()", read=PAIRWISE)
    """you pass the score through a sigmoid, but a score may be any number, and the sigmoid belongs to the loss"""
    backbone_detached = edit("hidden[ => hidden.detach()[")
    """you detach the backbone (by detach or no_grad), but backbone and head should be trained together"""


class PairwiseLoss(Wrong, of="pairwise_loss"):
    log_of_a_rounded_sigmoid = edit("logsigmoid(difference) => difference.sigmoid().log()")
    """log(sigmoid(x)) and log(1 + exp(-x)) make the loss infinite where x is far below 0; use logsigmoid"""
    log_of_sigmoid_plus_epsilon = edit("logsigmoid(difference) => (difference.sigmoid() + 1e-8).log()")
    """a small number inside the logarithm hides the infinity, but it changes the loss and makes the gradient 0"""
    chosen_and_rejected_swapped = edit("chosen - rejected => rejected - chosen")
    """chosen and rejected are swapped, so the loss falls when the worse one wins"""
    minus_forgotten = edit("-logsigmoid => logsigmoid")
    """the minus sign is missing, so this is a log-likelihood, which one maximizes, but a loss is minimized"""
    summed_over_the_pairs = edit("mean() => sum()")
    """you take the sum over the pairs, but it should be their mean"""
    loss_of_the_mean_difference = edit("(difference).mean() => (difference.mean())")
    """this is the loss of the mean difference, but you should compute each pair's loss first, then the mean"""
    every_chosen_against_every_rejected = edit(
        "chosen - rejected => chosen.unsqueeze(1) - rejected", "- margin => - margin.unsqueeze(1)"
    )
    """you compare each chosen response with each rejected one, but they answer different prompts; compare row by row"""
    margin_added = edit("- margin => + margin")
    """you add the margin, but it must make winning harder; subtract it"""
    margin_outside_the_sigmoid = instead(
        "return (-logsigmoid(chosen - rejected) + (0.0 if margin is None else margin)).mean()"
    )
    """you add the margin to the loss, but it belongs inside the sigmoid; subtract it from the difference"""
    probability_without_logarithm = edit("-logsigmoid(difference) => 1 - difference.sigmoid()")
    """this is the probability of being wrong, without a logarithm, so a confident mistake is hardly penalized"""
    squared_error_against_labels = instead("return ((chosen - 1).square() + rejected.square()).mean() / 2", read=WRONG)
    """you take squared errors against 1 and 0, but comparisons say which text is better, not what a text is worth"""
    hinge = edit("-logsigmoid(difference) => (1 - difference).clamp(min=0)")
    """a hinge loss is 0 for each pair that wins by more than 1, and here such a pair still counts; use -logsigmoid"""


class RankingLoss(Wrong, of="ranking_loss"):
    neighbors_only = edit("scores[:, better] - scores[:, worse] => scores[:, :-1] - scores[:, 1:]")
    """only neighbors are compared, but all K (K - 1) / 2 pairs should be"""
    best_against_the_rest = edit("scores[:, better] - scores[:, worse] => scores[:, :1] - scores[:, 1:]")
    """only the best is compared with the others, but the others should also be compared with one another"""
    diagonal_included = edit("offset=1 => offset=0")
    """you compare each response with itself as well, and such a pair teaches nothing"""
    both_directions = edit("return => better, worse = torch.cat([better, worse]), torch.cat([worse, better])\nreturn")
    """you count each pair in both directions, which says that each is better than the other"""
    summed_over_the_pairs_of_a_prompt = edit(".mean() => .sum(dim=1).mean()")
    """you take the sum over the pairs of a prompt, but it should be divided by K (K - 1) / 2"""
    divided_by_k = edit(".mean() => .sum(dim=1).mean() / scores.shape[1]")
    """you divide the sum over the pairs of a prompt by K, but there are K (K - 1) / 2 pairs"""
    summed_over_the_prompts = edit(".mean() => .mean(dim=1).sum()")
    """you take the sum over the prompts, but it should be the mean over pairs and prompts"""
    sorted_by_score = first("scores = scores.sort(dim=1, descending=True).values")
    """you sort the scores first, but the given order is the label, so the scores must not change it"""
    pairs_across_prompts = first("scores = scores.reshape(1, -1)")
    """you compare across prompts, but only the scores of responses to one prompt are comparable"""
    softmax_over_the_rest = instead("""
        losses = [scores[:, place:].logsumexp(dim=1) - scores[:, place] for place in range(scores.shape[1] - 1)]
        return torch.stack(losses).mean()
    """)
    """you take a softmax over the remaining responses, rank by rank (Plackett-Luce), but this loss is the mean over
    pairs"""


class TokenPairwiseLoss(Wrong, of="token_pairwise_loss"):
    prefix_compared = edit("(position >= start.unsqueeze(1)) &  => ")
    """the comparison starts at the first token, but it should start at the first one that differs"""
    starts_one_late = edit("position >= start => position > start")
    """the comparison starts after the first token that differs, but that token should count as well"""
    ends_with_the_shorter = edit("maximum => minimum")
    """the comparison ends with the shorter text, but it should go on to the end of the longer one"""
    ends_with_the_chosen = edit("rejected_ids == pad_token_id => chosen_ids == pad_token_id")
    """you end with the chosen text, but the comparison goes on to the end of the longer one"""
    one_pad_counted = edit("position < end => position <= end", read=WRONG)
    """you count one padding token as text, which fits OPT only (num_padding_at_beginning = 1); end before it"""
    padding_compared = edit(" & (position < end.unsqueeze(1)) => ")
    """you compare all columns to the end, but scores at padding positions mean nothing"""
    only_where_tokens_differ = edit("end.unsqueeze(1)) => end.unsqueeze(1)) & (chosen_ids != rejected_ids)")
    """you compare only where the tokens differ, but after the first difference every position has read another text"""
    only_the_first_difference = edit(
        "(position >= start.unsqueeze(1)) & (position < end.unsqueeze(1)) => position == start.unsqueeze(1)"
    )
    """you compare only the first token that differs, but all tokens from there to the end count"""
    each_token_counts_once = edit("(losses.sum(dim=1) / compared.sum(dim=1)).mean() => losses.sum() / compared.sum()")
    """you average over all tokens of the batch, but each pair should be averaged by itself, then the pairs"""
    summed_over_the_positions = edit(" / compared.sum(dim=1) => ")
    """you sum the positions of a pair, but they should be averaged"""
    divided_by_the_width = edit("(losses.sum(dim=1) / compared.sum(dim=1)).mean() => losses.mean()")
    """you divide by the width of the batch instead of the number of positions that are compared"""
    masked_after_the_loss = edit(".masked_fill(~compared, 0.0) => ")
    """you multiply the mask in afterwards, but 0 * NaN is NaN; replace the values before you compute"""
    one_span_for_the_batch = edit(
        "end.unsqueeze(1)) => end.unsqueeze(1))\ncompared = compared.any(dim=0).expand_as(compared)"
    )
    """you use one start and one end for the whole batch, but each pair has its own"""
    pad_fixed_at_0 = first("pad_token_id = 0")
    """you take 0 for the padding token, but it is pad_token_id"""


class PreferenceAccuracy(Wrong, of="preference_accuracy"):
    ties_are_right = edit("> => >=")
    """a tie counts as right, so a model that gives every text the same score would be perfect"""
    ties_are_half_right = edit("float() => float().add(0.5 * (chosen == rejected))")
    """a tie counts as half right, but only a strictly higher score should count"""
    positive_is_right = edit("rejected => 0")
    """you check whether a score is positive, but only the difference of two scores has a meaning"""
    mean_scores_compared = edit("(chosen > rejected) => (chosen.mean() > rejected.mean())")
    """you compare the mean scores, but each pair is right or wrong by itself"""
    number_of_right_pairs = edit("mean() => sum()")
    """you return the number of right pairs, but it should be their fraction"""
    mean_probability = edit("(chosen > rejected) => (chosen - rejected).sigmoid().detach()")
    """this is the mean probability of the chosen response, so a pair with a small difference counts about half"""


class Calibrate(Wrong, of="calibrate"):
    standard_deviation_divided_by_n = edit("std() => std(correction=0)")
    """you divide the variance by n, but the unbiased one is divided by n - 1"""
    averaged_over_batches = instead("""
        parts = [model(input_ids, attention_mask) for input_ids, attention_mask in batches]
        mean = torch.stack([part.mean() for part in parts]).mean()
        std = torch.stack([part.std() if len(part) > 1 else 0 * part[0] for part in parts]).mean()
        model.head.weight.div_(std)
        model.head.bias.sub_(mean).div_(std)
    """)
    """you average the statistics of the batches, but they should be the mean and standard deviation of all rows
    together"""
    close_together_taken_for_equal = edit(
        "scores.unique().numel() < 2 => len(scores) < 2 or torch.allclose(scores, scores[0])"
    )
    """you refuse scores that are close together, but only equal ones cannot be calibrated"""
    equal_scores_by_std = edit("scores.unique().numel() < 2 => len(scores) < 2 or scores.std() == 0")
    """std == 0 misses equal scores, whose computed standard deviation is often slightly above 0; compare the scores"""
    the_last_batch_decides = first("batches = list(batches)[-1:]")
    """you calibrate for each batch in turn, so only the last one counts; put all rows together first"""
    bias_not_divided = edit("sub_(mean).div_(std) => sub_(mean)")
    """you shift the bias but don't divide it, though (w h + b - mean) / std divides every term"""
    old_bias_not_divided = edit("sub_(mean).div_(std) => sub_(mean / std)")
    """you divide the mean but not the old bias, though (w h + b - mean) / std divides every term"""
    divided_before_shifted = edit("sub_(mean).div_(std) => div_(std).sub_(mean)")
    """you divide first and then shift, but the mean is in the old units; subtract it before you divide"""
    divided_by_the_variance = edit("std() => var()")
    """you divide by the variance, but it should be the standard deviation, its square root"""
    bias_forgotten = edit("model.head.bias.sub_(mean).div_(std) => ")
    """you scale the weight but leave the bias unchanged"""
    head_replaced = edit(
        "model.head.weight.div_(std) => model.head.weight = nn.Parameter(model.head.weight / std)",
        "model.head.bias.sub_(mean).div_(std) => model.head.bias = nn.Parameter((model.head.bias - mean) / std)",
    )
    """you replace the head's parameters, but an optimizer may still hold the old ones; update them in place"""
    calibrated_into_train_mode = first("model.train()")
    """you leave the model in train mode, so its dropout makes every score noisy"""


class TrainRewardModel(Wrong, of="train_reward_model"):
    order_as_given = edit(
        "torch.randperm(len(pairs.chosen_ids), generator=order) => torch.arange(len(pairs.chosen_ids))"
    )
    """you never shuffle, so the comparisons come in the order they were given"""
    one_order_for_all_epochs = edit("generator=order => generator=order.manual_seed(config.seed)")
    """you use the same order in each epoch; shuffle in each, with one generator that is seeded once, before the
    first"""
    order_from_the_global_generator = edit("order = torch.Generator(). => torch.", ", generator=order => ")
    """you draw the order from the global generator; use a torch.Generator seeded with config.seed"""
    last_batch_dropped = edit(
        "decay = => batches = [index for index in batches if len(index) == len(batches[0])]\ndecay ="
    )
    """you drop the smaller last batch, so those comparisons are never used"""
    batches_across_epochs = edit("decay = => batches = torch.cat(batches).split(config.batch_size)\ndecay =")
    """your batches cross the end of an epoch; split each epoch separately"""
    drawn_with_replacement = edit(
        "torch.randperm(len(pairs.chosen_ids), generator=order) => "
        "torch.randint(len(pairs.chosen_ids), pairs.chosen_ids.shape[:1], generator=order)"
    )
    """you draw with replacement, so some comparisons come twice and others never"""
    pairs_torn_apart = first("""
        other = torch.Generator().manual_seed(config.seed + 1)
        apart = pairs.rows(torch.randperm(len(pairs.chosen_ids), generator=other))
        pairs = pairs._replace(rejected_ids=apart.rejected_ids, rejected_mask=apart.rejected_mask)
    """)
    """you shuffle chosen and rejected separately, so the two responses answer different prompts"""
    trained_on_the_wrong_side = edit("pairwise_loss(chosen, rejected) => pairwise_loss(rejected, chosen)")
    """chosen and rejected are swapped, so the model learns to prefer the worse one"""
    one_mask_for_both = edit("batch.rejected_mask => batch.chosen_mask")
    """you use the mask of the chosen response for the rejected one as well"""
    learning_rate_constant = edit("decay.step() => ")
    """the learning rate doesn't decay linearly to 0 over all steps of the training"""
    decays_before_the_first_step = edit(
        "LinearLR(optimizer, 1.0, 0.0, total_iters=len(batches)) => "
        "LambdaLR(optimizer, lambda k: 1 - (k + 1) / len(batches))"
    )
    """you decay the learning rate before the first step, but step 0 should use the full one"""
    last_step_wasted = edit("total_iters=len(batches) => total_iters=len(batches) - 1")
    """the learning rate is 0 at the last step, which then does nothing, but 0 should come after it"""
    gradients_not_clipped = edit("config.max_grad_norm => torch.inf")
    """you don't clip the gradients, so one unusual batch can change the model too much"""
    clipped_by_value = edit("clip_grad_norm_ => clip_grad_value_")
    """you clip each component by itself, which changes the direction of the gradient; clip the norm"""
    gradients_accumulate = edit("optimizer.zero_grad(set_to_none=True) => ")
    """you never zero the gradients, so those of all earlier steps are added"""
    only_the_head_trained = edit("AdamW(model.parameters() => AdamW(model.head.parameters()")
    """only the head is trained, but the backbone should be trained as well"""
    weight_decay_left_on = edit(", weight_decay=0.0 => ")
    """AdamW's own weight_decay of 0.01 is still on, but this exercise asks for none"""
    left_in_train_mode = edit("model.eval() => ")
    """you leave the model in train mode, so with dropout its scores are random"""
    trained_in_eval_mode = edit("model.train() => ")
    """you train in eval mode, because model.train() is missing"""
