"""`generate_responses`, `compute_rewards`, `compute_loss`, `optimizer_step` and `training_step`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from solutions.lesson08_rollout import Experience, Generation, merge_experiences
from testcases.harness.doubles.models import Wrapped

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


def loss_of(lesson: Any, actor: Tensor, critic: Tensor, wrapped: bool = False, **given: Any) -> dict[str, Any]:
    """`compute_loss` of the batch in `given`, and its gradient by both tables.

    `wrapped`: the model is, as on several processes. "parts_in_training_mode" are those of the model in its pass.
    """
    batch = experience_in(given)
    trainer = student(lesson, actor, critic, **given)
    own, modes = trainer.model, []
    own.register_forward_pre_hook(lambda *_: modes.append(parts_in_training_mode(trainer)))
    if wrapped:
        trainer.model = Wrapped(own)
    loss, statistics = _pair(trainer.compute_loss(batch))
    weights = (own.policy.table, own.value_model.table)
    slopes = [torch.zeros_like(weight) for weight in weights]
    if isinstance(loss, Tensor) and loss.requires_grad and loss.dim() == 0:
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        slopes = [zero if slope is None else slope for zero, slope in zip(slopes, found, strict=True)]
    return {
        "loss": loss,
        "actor_gradient": slopes[0],
        "critic_gradient": slopes[1],
        **only(statistics, (*LOSSES, "value_clip_fraction")),
        "passes_through_the_wrapper": getattr(trainer.model, "passes", 0),
        "parts_in_training_mode": modes,
    }


def _pair(answer: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], dict):
        raise ValueError(f"expected compute_loss to return (loss, dict of statistics), got {kind_of(answer)}")
    return answer


def steps_of(
    lesson: Any, actor_slopes: Tensor, critic_slopes: Tensor, mask: Tensor, ratios: list[Tensor], **settings: Any
) -> dict[str, Any]:
    """`optimizer_step`, once for each entry of `ratios`, with a loss made up here in place of `compute_loss`.

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


def responses_of(
    lesson: Any, prompts: tuple[Any, ...], sampler: bool = False, calls: int = 1, **given: Any
) -> dict[str, Any]:
    """`generate_responses`; of several `calls` the last one. "asked" is what the sampler was asked for in each chunk:
    the prompts' lengths and the settings. "in_autocast": each pass of the policy was inside `accelerator.autocast()`.

    `sampler`: the trainer has one, which always says the stop token, with a log-probability of the number of its call.
    """
    asked: list[Any] = []
    trainer = student(lesson, **given)
    torch.rand(5, generator=trainer.shuffling)  # else both generators would draw the same

    def stops(policy: Any, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Generation:
        lengths = attention_mask.sum(dim=1).tolist()
        names = ("max_new_tokens", "stop_token_ids", "pad_token_id", "temperature")
        is_own = policy is trainer.policy and options["generator"] is trainer.sampling
        plain = (list(value) if isinstance(value, tuple) else value for value in map(options.get, names))
        asked.append([lengths, *plain, is_own])
        shape = len(input_ids), len(asked)
        mask = torch.arange(shape[1]).expand(shape) == 0
        return Generation(mask.long(), -float(len(asked)) * mask.double(), mask)

    trainer.sampler = stops if sampler else None
    with _watched(trainer, trainer.policy) as passes:
        for _ in range(calls):
            found = trainer.generate_responses(prompts_of(prompts))
    if not isinstance(found, tuple) or len(found) != 3:
        raise ValueError(f"expected generate_responses to return a Generation, got {kind_of(found)}")
    return {
        **dict(zip(("responses", "log_probs", "mask"), found, strict=True)),
        "asked": asked,
        "next_draw": torch.rand((), generator=trainer.sampling, dtype=torch.float64).item(),
        "rows_of_each_first_pass": passes["first"],
        "in_autocast": all(passes["in_autocast"]),
        "parts_in_training_mode": parts_in_training_mode(trainer),
    }


@contextmanager
def _watched(trainer: Any, model: nn.Module) -> Iterator[dict[str, list[Any]]]:
    """The passes of a model: how many rows those had that start from prompts, and whether each was in autocast."""
    seen: dict[str, list[Any]] = {"first": [], "in_autocast": []}
    inside = [0]
    real = trainer.accelerator.autocast

    @contextmanager
    def autocast(*given: Any, **named: Any) -> Iterator[None]:
        inside[0] += 1
        try:
            with real(*given, **named):
                yield
        finally:
            inside[0] -= 1

    def note(module: Any, args: Any, options: dict[str, Any]) -> None:
        if options.get("past_key_values") is None:
            seen["first"].append(len(options["input_ids"] if "input_ids" in options else args[0]))
        seen["in_autocast"].append(inside[0] > 0)

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    with mock.patch.object(trainer.accelerator, "autocast", autocast):
        yield seen
    hook.remove()


def rewards_of(
    lesson: Any,
    prompts: tuple[Any, ...],
    responses: Tensor,
    log_probs: Tensor,
    mask: Tensor,
    coefficient: float | None = None,
    by_columns: bool = False,
    wrapped: bool = False,
    **given: Any,
) -> dict[str, Any]:
    """`compute_rewards` of given responses. "passes" says how many rows the reference read at once, and how often the
    policy did.

    `coefficient`: the KL controller's at present. `by_columns`: the reward is a function that returns the column
    "worth" of each prompt's row, its number. `wrapped`: the model is, as on several processes.
    """
    if by_columns:
        given["reward"] = _column_worth
    trainer = student(lesson, **given)
    if coefficient is not None:
        trainer.kl_controller.value = coefficient
    if wrapped:
        trainer.model = Wrapped(trainer.model)
    rows: list[Any] = prompts_of(prompts)
    if by_columns:
        rows = [{"input_ids": row, "worth": float(number)} for number, row in enumerate(rows)]
    with _watched(trainer, trainer.policy) as passes, _watched(trainer, trainer.ref_model) as read:
        found = trainer.compute_rewards(Generation(responses, log_probs, mask), rows)
    if not isinstance(found, Experience):
        raise ValueError(f"expected compute_rewards to return an Experience, got {kind_of(found)}")
    names = ("rewards", "values", "log_probs", "sampler_log_probs", "ref_log_probs", "mask", "input_ids")
    return {
        **{name: getattr(found, name) for name in names},
        "scores": found.scores.double(),  # those of a function are float32
        "passes_of_the_reference": read["first"],
        "passes_of_the_policy": passes["first"],
        "in_autocast": all(passes["in_autocast"] + read["in_autocast"]),
        "has_gradient": found.rewards.requires_grad,
        "parts_in_training_mode": parts_in_training_mode(trainer),
    }


def _column_worth(prompts: list[str], responses: list[str], worth: list[float]) -> list[float]:
    return worth


STATISTICS = {"policy_loss": [0.5], "approx_kl": [0.01], "ratio_max": [1.0], "skipped_share": [1.0]}


def update_of(
    lesson: Any,
    prompts: tuple[Any, ...],
    updates_done: int = 0,
    calls: int = 1,
    doubled: str | None = None,
    reported: dict[str, list[float]] | None = None,
    **given: Any,
) -> dict[str, Any]:
    """`training_step` with a stand-in for `optimizer_step`: the rows that it was given, and what was done before and
    after it.

    Args:
        prompts: whose sums differ, so that they name the rows.
        calls: so many updates in a row; "rows_of_each_step" are those of all of them, all else is said of the last.
        doubled: "generate_responses", whose log-probs are doubled, or "compute_rewards", whose rewards are.
        reported: of each of these statistics what steps 0, 1, 2, ... report, the last number for all beyond the end.
    """
    trainer = student(lesson, **given)
    trainer.updates_done = updates_done
    counts = _count_and_double(trainer, doubled)
    steps: list[Experience] = []
    rows: list[list[int]] = []
    before: dict[str, Any] = {}

    def optimizer_step(minibatch: Experience) -> dict[str, float]:
        before.update(
            learning_rate=learning_rate(trainer),
            coefficient_in_the_epochs=float(trainer.kl_controller.value),
            updates_done_in_the_epochs=trainer.updates_done,
        )
        number = len(steps)
        steps.append(minibatch)
        rows.append(_names_of(minibatch))
        script = {**STATISTICS, **(reported or {})}
        return {name: float(each[min(number, len(each) - 1)]) for name, each in script.items()}

    trainer.optimizer_step = optimizer_step
    for _ in range(calls):
        steps.clear()
        metrics = _metrics(trainer, prompts)
    return {
        **_first_epoch(steps),
        **before,
        **metrics,
        **counts,
        "coefficient_after": float(trainer.kl_controller.value),
        "updates_done": trainer.updates_done,
        "rows_of_each_step": rows,
        "kept_of_each_step": [step["policy_loss"] for step in trainer.steps],
    }


def _count_and_double(trainer: Any, doubled: str | None) -> dict[str, int]:
    """The calls of both methods, counted from now on; what one of them returns is doubled."""
    counts = {"calls_of_generate_responses": 0, "calls_of_compute_rewards": 0}

    def watched(name: str, real: Any) -> Any:
        def call(*args: Any) -> Any:
            counts[f"calls_of_{name}"] += 1
            found = real(*args)
            if name != doubled:
                return found
            if isinstance(found, Generation):
                return found._replace(log_probs=2 * found.log_probs)
            return replace(found, rewards=2 * found.rewards)

        return call

    for name in ("generate_responses", "compute_rewards"):
        setattr(trainer, name, watched(name, getattr(trainer, name)))
    return counts


def _names_of(rows: Experience) -> list[int]:
    return rows.input_ids[:, : rows.prompt_length].sum(dim=1).tolist()


def _first_epoch(steps: list[Experience]) -> dict[str, Tensor]:
    """Each row as it first came, in the order of the prompts' sums."""
    rows = merge_experiences(steps)
    first = {name: number for number, name in reversed([*enumerate(_names_of(rows))])}
    order = [first[name] for name in sorted(first)]
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
