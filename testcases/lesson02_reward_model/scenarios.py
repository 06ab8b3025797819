"""Live objects for lesson 2: a backbone that is small enough to work out by hand, and a reward model to train on it.

No transformers: the backbone has what matters here, absolute positions and a mask.
"""

import math
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
import torch._dynamo  # The first optimizer loads it, which takes seconds: not in a student's time.
from torch import Tensor, nn

from testcases.harness.doubles.calls import after_another_batch
from testcases.harness.doubles.models import HuggingFaceModel, Output


class Reader(HuggingFaceModel):
    """A causal backbone: hidden[t] = e[t] + half the sum of e over the real tokens before t.

    Here e = table[id] + places[position].

    As with GPT-2, the second positional argument is not the mask. Without a mask every token is real, and without
    positions they are 0, 1, 2, ...
    """

    def __init__(self, vocabulary: int, length: int, size: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=size)
        self.table = nn.Parameter(torch.zeros(vocabulary, size))
        self.places = nn.Parameter(torch.zeros(length, size))

    def forward(
        self,
        input_ids: Tensor,
        *,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        use_cache: bool = True,
        **options: Any,
    ) -> Output:
        if use_cache:
            raise ValueError("expected use_cache=False: keys and values are kept for no later token")
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        embedded = self.table[input_ids] + self.places[position_ids]
        real = torch.where(attention_mask.bool().unsqueeze(-1), embedded, 0.0)
        hidden = embedded + (real.cumsum(dim=1) - real) / 2
        return Output(last_hidden_state=hidden, hidden_states=(embedded, hidden))


class Bag(HuggingFaceModel):
    """A backbone without order: the hidden state of a token is the sum of the features of the real tokens so far."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=table.shape[1])
        self.register_buffer("table", table)
        self.scale = nn.Parameter(torch.ones(table.shape[1], dtype=table.dtype))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **ignored: Any) -> Output:
        features = torch.where(attention_mask.unsqueeze(-1), self.table[input_ids], 0.0)
        return Output(last_hidden_state=features.cumsum(dim=1) * self.scale)


def score_rows(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    table: Tensor,
    places: Tensor,
    weight: Tensor,
    bias: Tensor,
    evaluating: bool = False,
) -> Tensor:
    """The student's RewardModel on a Reader, after another batch, with all numbers given to ask for gradients."""
    model = _quietly(lesson, Reader(len(table), len(places), table.shape[1])).to(table.dtype)
    model.train(not evaluating)
    for part in model.children():
        part.train(evaluating)  # each module has a mode of its own
    after_another_batch(model, "forward", input_ids, attention_mask)
    numbers = {"backbone.table": table, "backbone.places": places, "head.weight": weight, "head.bias": bias}
    return torch.func.functional_call(model, numbers, (input_ids, attention_mask))


def calibrate_model(
    lesson: Any, features: Tensor, sizes: tuple[int, ...], weight: Tensor, bias: Tensor, frozen: str = "none"
) -> dict[str, Any]:
    """Calibrate a model whose score is features @ weight + bias, on batches of these sizes; `frozen`: a part of it."""
    # The last row of the table is what stands on padding.
    table = torch.cat([features, torch.full_like(features[:1], 1000.0)])
    model = _known_model(lesson, table, weight, bias).eval()
    getattr(model, frozen, nn.Module()).requires_grad_(False)
    before = dict(model.named_parameters())

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        rows = torch.arange(len(features))
        for index in rows.split(list(sizes)):
            padding = torch.full((len(index), 1), len(features))
            yield torch.cat([index[:, None], padding], dim=1), torch.tensor([[True, False]]).expand(len(index), -1)

    lesson.calibrate(model, batches())
    after = dict(model.named_parameters())
    return {
        "weight": model.head.weight.detach().clone(),
        "bias": model.head.bias.detach().clone(),
        "scale": model.backbone.scale.detach().clone(),
        "same_parameters": all(after.get(name) is parameter for name, parameter in before.items()),
        "trainable": ", ".join(name for name, parameter in after.items() if parameter.requires_grad),
        "training": model.training,
    }


def train_on(
    lesson: Any,
    table: Tensor,
    weight: Tensor,
    chosen_ids: Tensor,
    chosen_mask: Tensor,
    rejected_ids: Tensor,
    rejected_mask: Tensor,
    **config: Any,
) -> dict[str, Any]:
    """Train a model whose score is (sum of the real tokens' rows of table) * scale @ weight, scale all 1 at first."""
    model = _known_model(lesson, table, weight, torch.zeros(1, dtype=table.dtype))
    model.eval()
    before = dict(model.named_parameters())
    pairs = lesson.PreferenceBatch(chosen_ids, chosen_mask, rejected_ids, rejected_mask)
    history, steps = _train(lesson, model, pairs, config)
    after = dict(model.named_parameters())
    return {
        "history": history,
        "losses": _column(history, "loss"),
        "accuracies": _column(history, "accuracy"),
        "weight": model.head.weight.detach().clone(),
        "scale": model.backbone.scale.detach().clone(),
        "learning_rates": torch.tensor([step.learning_rate for step in steps], dtype=torch.float64),
        "gradient_norms": torch.tensor([step.gradient_norm for step in steps], dtype=torch.float64),
        "batches": [sorted(step.chosen) for step in steps],
        "train_mode_while_training": all(step.training for step in steps),
        "train_mode_afterwards": any(module.training for module in model.modules()),
        "trainable_afterwards": all(parameter.requires_grad for parameter in model.parameters()),
        "same_parameters": all(after.get(name) is parameter for name, parameter in before.items()),
    }


def watch_training(lesson: Any, pairs: int, **config: Any) -> dict[str, Any]:
    """Which comparisons each step of a training uses; nothing here depends on how the order was drawn.

    The model comes in train mode.
    """
    model, data = _numbered_pairs(lesson, pairs)
    history, steps = _train(lesson, model, data, config)
    epochs = config.get("epochs", 1)
    order = [row for step in steps for row in step.chosen]
    by_epoch = [order[start : start + pairs] for start in range(0, len(order), pairs)]
    return {
        "batch_sizes": torch.tensor([len(step.chosen) for step in steps]),
        "learning_rates": torch.tensor([step.learning_rate for step in steps], dtype=torch.float64),
        "each_pair_once_an_epoch": len(order) == epochs * pairs
        and all(sorted(epoch) == list(range(pairs)) for epoch in by_epoch),
        "both_sides_of_a_pair_together": all(sorted(step.chosen) == sorted(step.rejected) for step in steps),
        "in_the_order_given": any(epoch == list(range(pairs)) for epoch in by_epoch),
        "same_order_in_two_epochs": len(set(map(tuple, by_epoch))) < len(by_epoch),
        "train_mode_afterwards": any(module.training for module in model.modules()),
        "entries_in_history": len(history) if isinstance(history, list) else -1,
    }


def train_with_seeds(lesson: Any, pairs: int, batch_size: int, seeds: tuple[int, ...]) -> dict[str, bool]:
    """The first seed twice, each time from another state of the global random generators, then the others."""
    orders, untouched = [], True
    for start, seed in enumerate((seeds[0], *seeds)):
        with torch.random.fork_rng(devices=[]):
            model, data = _numbered_pairs(lesson, pairs)
            torch.manual_seed(100 + start)
            before = torch.get_rng_state(), random.getstate()
            _, steps = _train(lesson, model, data, {"batch_size": batch_size, "seed": seed})
            untouched &= torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()
            orders.append(tuple(row for step in steps for row in step.chosen))
    return {
        "same_seed_same_order": orders[0] == orders[1],
        "other_seed_other_order": len(set(orders[1:])) == len(seeds),
        "global_random_untouched": untouched,
    }


def _train(lesson: Any, model: Any, pairs: Any, config: dict[str, Any]) -> tuple[Any, list[SimpleNamespace]]:
    """Run the student's loop and note after each step of an optimizer, whose closure may do all, what was done."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    side_of = {
        text: (index, side)
        for side, ids, mask in (
            ("chosen", pairs.chosen_ids, pairs.chosen_mask),
            ("rejected", pairs.rejected_ids, pairs.rejected_mask),
        )
        for index, text in enumerate(_texts(ids, mask))
    }
    steps: list[SimpleNamespace] = []

    def note_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        seen = [side_of[text] for text in model.seen if text in side_of]
        model.seen.clear()
        slopes = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        steps.append(
            SimpleNamespace(
                chosen=[index for index, side in seen if side == "chosen"],
                rejected=[index for index, side in seen if side == "rejected"],
                learning_rate=float(optimizer.param_groups[0]["lr"]),
                gradient_norm=math.sqrt(sum(float(slope.square().sum()) for slope in slopes)),
                training=all(module.training for module in model.modules()),
            )
        )

    hook = register_optimizer_step_post_hook(note_step)
    try:
        return lesson.train_reward_model(model, pairs, lesson.RewardModelConfig(**config)), steps
    finally:
        hook.remove()


def _known_model(lesson: Any, table: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """A RewardModel with the student's constructor, but a forward of its own: a slip in theirs must not count twice."""

    class Known(lesson.RewardModel):
        def __init__(self, backbone: nn.Module) -> None:
            super().__init__(backbone)
            self.seen: list[tuple[int, ...]] = []
            """The texts scored with a gradient."""

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            if torch.is_grad_enabled():
                self.seen += _texts(input_ids, attention_mask)
            return self.head(self.backbone(input_ids, attention_mask)[0][:, -1]).squeeze(-1)

    with torch.random.fork_rng(devices=[]):
        model = Known(Bag(table)).to(table.dtype)
    with torch.no_grad():
        model.head.weight.copy_(weight)
        model.head.bias.copy_(bias)
    return model


def _numbered_pairs(lesson: Any, count: int) -> tuple[Any, Any]:
    """A model, and comparisons of one token each: pair i is token i against token count + i."""
    draw = torch.Generator().manual_seed(5)
    table = torch.randn((2 * count, 2), generator=draw, dtype=torch.float64)
    model = _known_model(lesson, table, torch.tensor([[0.5, -0.5]]), torch.zeros(1))
    ids, mask = torch.arange(2 * count)[:, None], torch.ones(count, 1, dtype=torch.bool)
    return model, lesson.PreferenceBatch(ids[:count], mask, ids[count:], mask)


def _quietly(lesson: Any, backbone: nn.Module) -> Any:
    """The student's RewardModel; its random head draws nothing from the generator of the caller."""
    with torch.random.fork_rng(devices=[]):
        return lesson.RewardModel(backbone)


def _texts(ids: Tensor, mask: Tensor) -> list[tuple[int, ...]]:
    """The real tokens of each row, however it is padded."""
    return [tuple(row[real].tolist()) for row, real in zip(ids, mask.bool(), strict=True)]


def _column(history: Any, key: str) -> Tensor:
    """One number of each entry; NaN where there is none."""
    entries = history if isinstance(history, list) else []
    column = [entry.get(key, math.nan) if isinstance(entry, dict) else math.nan for entry in entries]
    return torch.tensor([float(number) for number in column], dtype=torch.float64)
