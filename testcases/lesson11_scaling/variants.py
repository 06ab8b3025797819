"""Other right ways to write lesson 11, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead


class RightPlanMicrobatches(Right, of="plan_microbatches"):
    sorted_in_python = instead("""
        import torch

        order = sorted(range(len(lengths)), key=lambda row: -int(lengths[row]))
        size = micro_batch_size or -(-len(order) // n_processes)
        shares = [order[process::n_processes] for process in range(n_processes)]
        starts = range(0, len(shares[0]), size)
        return [
            [torch.tensor(share[start : start + size], dtype=torch.int64) for start in starts] for share in shares
        ]
    """)
    """lists of numbers; Python's sort is stable, and the first process has the most rows"""
    as_a_table = instead("""
        from torch.nn.functional import pad

        order = lengths.sort(descending=True, stable=True).indices
        table = pad(order, (0, -len(order) % n_processes), value=-1).reshape(-1, n_processes).T
        pieces = [own.split(micro_batch_size or table.shape[1]) for own in table]
        return [[piece[piece >= 0] for piece in own] for own in pieces]
    """)
    """one row of the table a process; -1 stands where it has none"""


class RightGradientWeight(Right, of="gradient_weight"):
    share_times_processes = instead("return tokens / total_tokens * n_processes")
    """the share, then what makes up for the mean"""
    over_the_mean_tokens = instead("return tokens / (total_tokens / n_processes) if tokens else 0")
    """the tokens over those of a process on average; nothing of no tokens, an int"""


class RightMergeStatistics(Right, of="merge_statistics"):
    with_numpy = instead("""
        import numpy

        weights = numpy.array(tokens)
        real = [part for part, count in zip(parts, tokens) if count]
        columns = {name: numpy.array([part[name] for part in real]) for name in real[0]}
        merged = {name: numpy.average(column, weights=weights[weights > 0]) for name, column in columns.items()}
        return merged | {"ratio_max": columns["ratio_max"].max()}
    """)
    """numpy's weighted average; a numpy.float64 is a float"""
    in_float32 = instead("""
        count = torch.tensor(tokens, dtype=torch.float32)
        used = count > 0
        share = count[used] / count[used].sum()
        answer = {}
        for name in parts[0]:
            numbers = torch.tensor([part[name] for part in parts], dtype=torch.float32)[used]
            answer[name] = numbers.max().item() if name == "ratio_max" else (share * numbers).sum().item()
        return answer
    """)
    """weighted sums of torch's default dtype"""


class RightMergeMoments(Right, of="merge_moments"):
    around_the_first_mean = instead("""
        counts, means, squares = moments[moments[:, 0] > 0].T
        total, shifted = counts.sum(), means - means[0]
        mean = (counts * shifted).sum() / total
        total_squares = squares.sum() + (counts * shifted.square()).sum() - total * mean.square()
        return torch.stack([total, means[0] + mean, total_squares])
    """)
    """sums of squares around one of the means, so that no large numbers are subtracted"""


class RightGlobalMaskedWhiten(Right, of="global_masked_whiten"):
    selected_with_where = instead("""
        count, mean, squares = merge_moments(gather(masked_moments(values, mask)))
        scale = torch.sqrt(squares / torch.clamp(count - 1, min=1) + 1e-8)
        whitened = (values - mean) / scale
        if not shift_mean:
            whitened = whitened + mean
        return torch.where(mask, whitened, torch.zeros_like(values))
    """)
    """the whole tensor is whitened, then the padding is set to 0"""
    written_into_zeros = instead("""
        moments = merge_moments(gather(masked_moments(values, mask)))
        variance = moments[2] / max(moments[0].item() - 1, 1)
        answer = torch.zeros_like(values)
        answer[mask] = (values[mask] - moments[1]) * (variance + 1e-8) ** -0.5 + (0.0 if shift_mean else moments[1])
        return answer
    """)
    """real tokens are written into a tensor of zeros"""


class RightKeepReferenceAdapter(Right, of="keep_reference_adapter"):
    weight_by_weight = instead("""
        from copy import deepcopy

        trained = policy.active_adapter
        policy.add_adapter(REFERENCE, deepcopy(policy.peft_config[trained]))
        policy.set_adapter(trained)
        weights = dict(policy.named_parameters())
        for name, weight in weights.items():
            if f".{trained}." in name:
                copy = weights[name.replace(f".{trained}.", f".{REFERENCE}.")]
                copy.data.copy_(weight.data)
                copy.requires_grad = False
        return policy.train(policy.training)
    """)
    """the weights are found by their names and copied one by one"""
    by_a_state_dict = instead("""
        trained = policy.active_adapter
        policy.add_adapter(REFERENCE, policy.peft_config[trained])
        weights = policy.state_dict()
        own = {name: weight.clone() for name, weight in weights.items() if f".{trained}." in name}
        renamed = {name.replace(f".{trained}.", f".{REFERENCE}."): weight for name, weight in own.items()}
        policy.load_state_dict(renamed, strict=False)
        policy.set_adapter(trained)
        return policy.train(policy.training)
    """)
    """load_state_dict under the new name"""


class RightOptimizerStep(Right, of="DistributedPPOTrainer.optimizer_step"):
    statistics_before_the_gradients = instead("""
        lengths = minibatch.mask.sum(dim=1)
        count, total = self.processes.count, int(lengths.sum())
        own = plan_microbatches(lengths.cpu(), count, self.config.micro_batch_size)[self.processes.index]
        rows = [minibatch.rows(index if len(index) else torch.tensor([0])) for index in own]
        parts = [(part, int(lengths[index].sum())) for part, index in zip(rows, own, strict=True)]
        with torch.no_grad(), self.accelerator.no_sync(self.model):
            found = [(self.compute_loss(part)[1], tokens) for part, tokens in parts]
        merged = merge_statistics(*zip(*self.processes.collect(found)))
        merged |= {"grad_norm": 0.0, "skipped_share": 1.0}
        if merged["ratio_mean"] <= self.config.ratio_threshold:
            for number, (part, tokens) in enumerate(parts, start=1):
                with nullcontext() if number == len(parts) else self.accelerator.no_sync(self.model):
                    loss = self.compute_loss(part)[0]
                    self.accelerator.backward(loss * gradient_weight(tokens, total, count))
            norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
            self.optimizer.step()
            merged |= {"grad_norm": float(norm), "skipped_share": 0.0}
        self.optimizer.zero_grad()
        return merged
    """)
    """a forward pass without gradients decides first"""
    gradients_set_to_none_by_hand = edit(
        "self.optimizer.zero_grad(set_to_none=True) => for weight in self.model.parameters():\n    weight.grad = None",
        "self.optimizer.step() => self.optimizer.step(closure=None)",
    )
    """what zero_grad does"""


class PublishedMergeMoments(Published, of="merge_moments"):
    stable_baselines3 = instead("""
        count, mean, squares = moments[0]
        for batch_count, batch_mean, batch_squares in moments[1:]:
            total, apart = count + batch_count, batch_mean - mean
            squares = squares + batch_squares + apart**2 * count * batch_count / total
            mean = mean + apart * batch_count / total
            count = total
        return torch.stack([count, mean, squares])
    """)
    """Stable-Baselines3, RunningMeanStd.update_from_moments: one part after the other"""
