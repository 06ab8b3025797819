"""Other right ways to write lesson 2, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead


class RightLastTokenIndex(Right, of="last_token_index"):
    row_by_row = instead("return torch.stack([row.nonzero()[-1, 0] for row in attention_mask])")
    """a loop over the rows"""


class RightForward(Right, of="RewardModel.forward"):
    positions_and_head_by_hand = instead("""
        positions = (attention_mask.long().cumsum(dim=1) - 1).clamp(min=0)
        given = {"attention_mask": attention_mask.long(), "position_ids": positions, "use_cache": False}
        hidden = self.backbone(input_ids, **given, return_dict=False)[0]
        read = hidden[torch.arange(len(hidden)), last_token_index(attention_mask)]
        return read @ self.head.weight[0] + self.head.bias
    """)
    """a tuple, positions on padding behind the text anything, the head multiplied out"""


class RightPairwiseLoss(Right, of="pairwise_loss"):
    logaddexp = instead("""
        needed = rejected if margin is None else rejected + margin
        return (torch.logaddexp(chosen, needed) - chosen).mean()
    """)
    """log(exp(chosen) + exp(rejected)) - chosen, and the margin on the other side"""


class RightRankingLoss(Right, of="ranking_loss"):
    combinations = instead("""
        from itertools import combinations

        pairs = combinations(scores.unbind(dim=1), 2)
        return torch.stack([pairwise_loss(better, worse) for better, worse in pairs]).mean()
    """)
    """the pairwise loss of each pair of columns"""
    by_distance = instead("""
        count, total = scores.shape[1], 0.0
        for distance in range(1, count):
            total = total - logsigmoid(scores[:, :-distance] - scores[:, distance:]).sum(dim=1)
        return (total / (count * (count - 1) / 2)).mean()
    """)
    """neighbors first, then those two places apart, and so on"""


class RightTokenPairwiseLoss(Right, of="token_pairwise_loss"):
    differed_until_now = instead("""
        has_differed = (chosen_ids != rejected_ids).cumsum(dim=1) > 0
        compared = has_differed & ((chosen_ids != pad_token_id) | (rejected_ids != pad_token_id))
        difference = torch.where(compared, chosen_scores - rejected_scores, 0.0)
        share = compared / compared.sum(dim=1, keepdim=True, dtype=difference.dtype)
        return -(logsigmoid(difference) * share).sum(dim=1).mean()
    """)
    """no positions: a running count says what has differed, and each place has a share of 1"""


class RightPreferenceAccuracy(Right, of="preference_accuracy"):
    counted = instead("return torch.count_nonzero(chosen > rejected) / len(chosen)")
    """a count over the number"""
    python_numbers = instead("""
        pairs = zip(chosen.tolist(), rejected.tolist(), strict=True)
        return torch.tensor([float(better > worse) for better, worse in pairs]).mean()
    """)
    """pair by pair, in Python"""


class RightCalibrate(Right, of="calibrate"):
    python_statistics = instead("""
        import statistics

        scores = [score for batch in batches for score in model(*batch).tolist()]
        if len(set(scores)) < 2:
            raise ValueError("expected two different scores")
        mean, std = statistics.fmean(scores), statistics.stdev(scores)
        model.head.weight /= std
        model.head.bias -= mean
        model.head.bias /= std
    """)
    """scores as Python numbers"""
    through_data_of_the_parameters = edit(
        "model.head.weight.div_(std) => model.head.weight.data = model.head.weight / std",
        "model.head.bias.sub_(mean).div_(std) => model.head.bias.data = (model.head.bias - mean) / std",
    )
    """the same parameters with other data"""


class RightTrainRewardModel(Right, of="train_reward_model"):
    nested_loops = instead("""
        optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0)
        count, draw, history = len(pairs.chosen_ids), torch.Generator(), []
        draw.manual_seed(config.seed)
        steps = config.epochs * -(-count // config.batch_size)
        model.train()
        for _ in range(config.epochs):
            order = torch.randperm(count, generator=draw)
            for start in range(0, count, config.batch_size):
                batch = pairs.rows(order[start : start + config.batch_size])
                chosen = model(batch.chosen_ids, batch.chosen_mask)
                rejected = model(batch.rejected_ids, batch.rejected_mask)
                loss = pairwise_loss(chosen, rejected)
                for group in optimizer.param_groups:
                    group["lr"] = config.learning_rate * (1 - len(history) / steps)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
                optimizer.step()
                optimizer.zero_grad()
                history.append({"accuracy": float(preference_accuracy(chosen, rejected)), "loss": float(loss)})
        model.eval()
        return history
    """)
    """two forward passes a step, and the rate set by hand"""
    scaled_to_exactly_the_norm = edit(
        "nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm) => "
        "slopes = [parameter.grad for parameter in model.parameters()]\n"
        "    norm = torch.cat([slope.flatten() for slope in slopes]).norm()\n"
        "    if norm > config.max_grad_norm:\n"
        "        for slope in slopes:\n"
        "            slope.mul_(config.max_grad_norm / norm)"
    )
    """as the docstring says; torch divides by the norm + 1e-6"""


class PublishedLastTokenIndex(Published, of="last_token_index"):
    transformers = instead("""
        token_indices = torch.arange(attention_mask.shape[-1], device=attention_mask.device)
        return (token_indices * attention_mask.to(torch.int32)).argmax(-1)
    """)
    """transformers, ForSequenceClassification, with the mask in place of the padding id"""
    openrlhf = instead("return attention_mask.size(1) - 1 - attention_mask.long().fliplr().argmax(dim=1)")
    """OpenRLHF, the index of the stop token in its reward model"""


class PublishedForward(Published, of="RewardModel.forward"):
    openrlhf = instead("""
        position_ids = attention_mask.long().cumsum(-1) - 1
        position_ids.masked_fill_(attention_mask == 0, 1)
        last_hidden_states = self.backbone(
            input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=False
        ).last_hidden_state
        values = self.head(last_hidden_states).squeeze(-1)
        eos_indices = last_token_index(attention_mask).unsqueeze(1)
        return values.gather(dim=1, index=eos_indices).squeeze(1)
    """)
    """OpenRLHF, its reward model: a value at every position, then that of the last token"""


class PublishedPairwiseLoss(Published, of="pairwise_loss"):
    trl = instead("""
        if margin is not None:
            return -torch.nn.functional.logsigmoid(chosen - rejected - margin).mean()
        return -torch.nn.functional.logsigmoid(chosen - rejected).mean()
    """)
    """TRL, RewardTrainer; OpenRLHF, PairWiseLoss"""


class PublishedTokenPairwiseLoss(Published, of="token_pairwise_loss"):
    deepspeed_chat = instead("""
        loss, seq_len = 0.0, chosen_ids.shape[1]
        for i in range(len(chosen_ids)):
            c_inds = (chosen_ids[i] == pad_token_id).nonzero()
            c_ind = c_inds[0].item() if len(c_inds) > 0 else seq_len
            r_inds = (rejected_ids[i] == pad_token_id).nonzero()
            r_ind = r_inds[0].item() if len(r_inds) > 0 else seq_len
            end_ind = max(c_ind, r_ind)
            divergence_ind = (chosen_ids[i] != rejected_ids[i]).nonzero()[0].item()
            c_truncated_reward = chosen_scores[i][divergence_ind:end_ind]
            r_truncated_reward = rejected_scores[i][divergence_ind:end_ind]
            loss = loss - torch.nn.functional.logsigmoid(c_truncated_reward - r_truncated_reward).mean()
        return loss / len(chosen_ids)
    """)
    """DeepSpeed-Chat, RewardModel.forward, without padding at the beginning"""
