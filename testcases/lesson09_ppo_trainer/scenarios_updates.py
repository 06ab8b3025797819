"""`compute_loss`, `optimizer_step`, `optimize` and `training_step`."""

import weakref
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from solutions.lesson08_rollout import Experience, ExperienceBuffer, merge_experiences
from solutions.lesson09_ppo_trainer import PPOTrainer as ReferenceTrainer
from testcases.harness.doubles.policies import Wrapped

from .scenarios_trainer import (
    EPOCHS,
    LOSSES,
    ROLLOUT,
    STEP,
    experience,
    experience_in,
    kind_of,
    learning_rate,
    numbers_of,
    only,
    parts_in_training_mode,
    prompts_of,
    student,
    tables_of,
)

NAN = float("nan")


def loss_of(lesson: Any, actor: Tensor, critic: Tensor, **given: Any) -> dict[str, Any]:
    """`compute_loss` of the batch in `given`, after another one, and its gradient by both tables."""
    batch = experience_in(given)
    trainer = student(lesson, actor, critic, **given)
    trainer.compute_loss(_another(batch))
    loss, statistics = _pair(trainer.compute_loss(batch))
    weights = (trainer.model.policy.table, trainer.model.value_model.table)
    slopes = [torch.zeros_like(weight) for weight in weights]
    if isinstance(loss, Tensor) and loss.requires_grad and loss.dim() == 0:
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        slopes = [zero if slope is None else slope for zero, slope in zip(slopes, found, strict=True)]
    return {
        "loss": loss,
        "actor_gradient": slopes[0],
        "critic_gradient": slopes[1],
        **only(statistics, (*LOSSES, "value_clip_fraction")),
    }


def _another(batch: Experience) -> Experience:
    """Of the same shape: the rows in reverse order, of each the first token."""
    rows = batch.rows(torch.arange(len(batch)).flip(0))
    return replace(rows, mask=rows.mask & (torch.arange(rows.mask.shape[1]) == 0))


def wrapped_loss_of(lesson: Any, actor: Tensor, critic: Tensor, **batch: Tensor) -> dict[str, Any]:
    """`compute_loss` of a trainer whose model is wrapped, and how many passes went through the wrapper."""
    trainer = student(lesson, actor, critic)
    trainer.model = Wrapped(trainer.model)
    modes: list[int] = []
    trainer.model.module.register_forward_pre_hook(lambda *_: modes.append(parts_in_training_mode(trainer)))
    loss, _ = _pair(trainer.compute_loss(experience_in(batch)))
    return {
        "loss": loss.detach(),
        "passes_through_the_wrapper": trainer.model.passes,
        "parts_in_training_mode_in_the_pass": modes,
        "parts_in_training_mode": parts_in_training_mode(trainer),
    }


def _pair(answer: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], dict):
        raise ValueError(f"expected compute_loss to return (loss, dict of statistics), got {kind_of(answer)}")
    return answer


def steps_of(
    lesson: Any, actor_slopes: Tensor, critic_slopes: Tensor, mask: Tensor, ratios: list[Tensor], **settings: Any
) -> dict[str, Any]:
    """`optimizer_step`, once for each entry of `ratios`, with a loss made up here in place of `compute_loss`; before
    that, unreported, of as many rows with nothing to learn. "actor.0" is the actor's weight after the first.

    The answer has one entry a call: the weights after it, and its statistics; NaN is shown as -1. "microbatches" are
    those of each call, once each and in the order of their rows: a sum has no order. "one_at_a_time": each loss had its
    backward pass before the next one was computed, so that the memory of one microbatch is enough.

    Actor and critic have one weight each, both start at 0, and
    loss = mean over real tokens of (actor_slopes * actor) + mean over real tokens of (critic_slopes * critic).
    Statistics: ratio_mean and ratio_max of `ratios`, and "policy_loss", the mean of actor_slopes.
    """
    trainer = student(lesson, torch.zeros_like(mask[:1, :1], dtype=torch.float64), torch.zeros(1).double(), **settings)
    seen: set[tuple[int, ...]] = set()
    waiting, held = set[int](), []

    def compute_loss(batch: Experience) -> tuple[Tensor, dict[str, float]]:
        seen.add(tuple(batch.scores.int().tolist()))
        slope, other, ratio = (each[batch.mask] for each in (batch.advantages, batch.returns, batch.values))
        actor, critic = trainer.model.policy.table[0, 0], trainer.model.value_model.table[0]
        numbers = {"policy_loss": slope.mean(), "ratio_mean": ratio.mean(), "ratio_max": ratio.max()}
        loss = slope.mean() * actor + other.mean() * critic
        if loss.requires_grad:
            number = len(held)
            waiting.add(number)
            held.append(len(waiting))
            loss.register_hook(lambda _: waiting.discard(number))
        return loss, {name: one.item() for name, one in numbers.items()}

    trainer.compute_loss = compute_loss
    trainer.model.policy.frozen = nn.Parameter(torch.ones(2), requires_grad=False)  # as under an adapter
    prompts, zeros = torch.zeros(len(mask), 1, dtype=torch.int64), torch.zeros_like(actor_slopes)
    steps: list[dict[str, Any]] = []
    microbatches: list[list[int]] = []
    nothing = dict.fromkeys(("log_probs", "advantages", "returns"), zeros) | {"values": zeros + 1}
    trainer.optimizer_step(_another(experience(prompts, mask.long(), mask, **nothing)))
    trainer.optimizer.state.clear()
    for ratio in ratios:
        seen.clear()
        data = {"log_probs": zeros, "advantages": actor_slopes, "values": ratio, "returns": critic_slopes}
        statistics = trainer.optimizer_step(experience(prompts, mask.long(), mask, **data))
        weights = {name: table.item() for name, table in tables_of(trainer).items()}
        steps.append({**weights, **numbers_of(statistics, "optimizer_step", STEP)})
        microbatches += map(list, sorted(seen))
    columns = {name: [-1.0 if x != x else x for x in numbers] for name, numbers in _columns(steps).items()}
    return {**columns, "microbatches": microbatches, "one_at_a_time": max(held, default=0) < 2}


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The numbers of each name, one for each row."""
    return {name: [row.get(name, NAN) for row in rows] for name in rows[0]}


def real_step_of(lesson: Any, actor: Tensor, critic: Tensor, **given: Any) -> dict[str, Any]:
    """`optimizer_step` with the lesson's own `compute_loss`, on a table policy: weights and statistics after it."""
    batch = experience_in(given)
    trainer = student(lesson, actor, critic, **given)
    statistics = trainer.optimizer_step(batch)
    return {**tables_of(trainer), **numbers_of(statistics, "optimizer_step", STEP)}


def epochs_of(
    lesson: Any,
    sizes: tuple[int, ...],
    approx_kl: Tensor,
    ratio_max: Tensor,
    policy_loss: Tensor,
    updates: int = 1,
    **settings: Any,
) -> dict[str, Any]:
    """`optimize` over a buffer filled by batches of these sizes, with scripted statistics in place of real steps.

    `updates`: so many calls in a row, with the steps of all and the statistics of the last.

    Step i reports approx_kl[i], ratio_max[i], policy_loss[i], the last entry for all steps beyond the end.
    """
    trainer = student(lesson, torch.zeros(2, 2).double(), torch.zeros(2).double(), **settings)
    torch.rand(5, generator=trainer.sampling)  # else both generators would draw the same
    buffer, first, steps = ExperienceBuffer(), 0, []
    for size in sizes:
        buffer.append(_numbered(first, size))
        first += size

    def optimizer_step(minibatch: Experience) -> dict[str, float]:
        steps.append(minibatch.scores.int().tolist())
        script = {"approx_kl": approx_kl, "ratio_max": ratio_max, "policy_loss": policy_loss}
        return {name: each[min(len(steps), len(each)) - 1].item() for name, each in script.items()}

    trainer.optimizer_step = optimizer_step
    for _ in range(updates):
        statistics = numbers_of(trainer.optimize(buffer), "optimize", EPOCHS)
    return {**statistics, "rows_of_each_step": steps, "left_in_buffer": len(buffer)}


def _numbered(first: int, size: int) -> Experience:
    """Experience in which only the row's number matters; batches have other lengths."""
    mask = torch.ones(size, 1 + first % 3, dtype=torch.bool)
    zeros = torch.zeros(mask.shape, dtype=torch.float64)
    batch = experience(
        torch.ones(size, 1 + first % 2, dtype=torch.int64),
        zeros.long(),
        mask,
        **dict.fromkeys(("log_probs", "advantages", "values", "returns"), zeros),
    )
    object.__setattr__(batch, "scores", torch.arange(first, first + size, dtype=torch.float64))
    return batch


def update_of(
    lesson: Any, prompts: tuple[Any, ...], updates_done: int = 0, calls: int = 1, **given: Any
) -> dict[str, Any]:
    """`training_step` with a stand-in for `optimizer_step`: the rows that it was given, and what was done before and
    after it. `optimize` is the reference's; nothing is said of it where the epochs are written out.

    `calls`: so many updates in a row; what is said of one is said of the last.
    """
    trainer = student(lesson, **given)
    trainer.updates_done = updates_done
    steps: list[Experience] = []
    before: dict[str, Any] = {}
    buffers: list[Any] = []  # who is gone needs no clearing

    def optimize(buffer: Any) -> dict[str, float]:
        buffers.append(weakref.ref(buffer))
        return ReferenceTrainer.optimize(trainer, buffer)

    def optimizer_step(minibatch: Experience) -> dict[str, float]:
        steps.append(minibatch)
        before.update(
            learning_rate=learning_rate(trainer),
            coefficient_in_the_epochs=float(trainer.kl_controller.value),
            updates_done_in_the_epochs=trainer.updates_done,
        )
        return {"policy_loss": 0.5, "approx_kl": 0.01, "ratio_max": 1.0, "skipped_share": 1.0}

    trainer.optimize, trainer.optimizer_step = optimize, optimizer_step
    for _ in range(calls):
        steps.clear()
        metrics = _metrics(trainer, prompts)
    left = [buffer() for buffer in buffers]
    return {
        **_rows_of_an_epoch(steps, trainer.config.num_epochs),
        **before,
        **metrics,
        "coefficient_after": float(trainer.kl_controller.value),
        "updates_done": trainer.updates_done,
        "steps": len(steps),
        "left_in_buffer": sum(len(buffer) for buffer in left if buffer is not None),
    }


def _rows_of_an_epoch(steps: list[Experience], num_epochs: int) -> dict[str, Tensor]:
    """What every epoch was given, in the order of the prompts' sums; each row has come as often as there are epochs."""
    rows = merge_experiences(steps)
    order = rows.input_ids[:, : rows.prompt_length].sum(dim=1).argsort(stable=True)[::num_epochs]
    names = ("mask", "log_probs", "values", "rewards", "advantages", "returns")
    return {f"given_{name}": getattr(rows, name)[order] for name in names}


def real_updates_of(lesson: Any, prompts: tuple[Any, ...], updates: int = 1, **given: Any) -> dict[str, Any]:
    """`training_step`, so many times on the same prompts, nothing replaced; the metrics have one entry an update."""
    trainer = student(lesson, **given)
    metrics = [_metrics(trainer, prompts) for _ in range(updates)]
    return {**_columns(metrics), **tables_of(trainer), "coefficient_after": float(trainer.kl_controller.value)}


def _metrics(trainer: Any, prompts: tuple[Any, ...]) -> dict[str, Any]:
    answer = trainer.training_step(prompts_of(prompts))
    return numbers_of(answer, "training_step", (*ROLLOUT, "advantage_mean", *EPOCHS))
