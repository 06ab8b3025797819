"""Live objects for lesson 9: trainers over tables, not neural networks, so that each number is worked out by hand.

A table policy looks at the token before, and (with `places`) at its position: logits = actor[token] + places[position].
Token 0 is padding, token 1 stops a response.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
import torch
import torch._dynamo  # The first optimiser loads it, which takes seconds: not in a student's time.
from torch import Tensor, nn

from solutions.lesson07_actor_critic import PolicyAndValue
from solutions.lesson08_rollout import Experience, ExperienceBuffer, Generation
from solutions.lesson09_ppo_trainer import PPOConfig as ReferenceConfig
from solutions.lesson09_ppo_trainer import PPOTrainer as ReferenceTrainer
from solutions.lesson09_ppo_trainer.checkpoints import CHECKPOINT_FILE, global_generators

# The tables are on the CPU, and have to stay there on a machine with a GPU.
os.environ.setdefault("ACCELERATE_USE_CPU", "true")

PAD, STOP = 0, 1
NAN = float("nan")
LOSSES = ("policy_loss", "value_loss", "entropy", "ratio_mean", "ratio_max", "approx_kl", "clip_fraction")
STEP = (*LOSSES, "grad_norm", "skipped_share")
EPOCHS = (*STEP, "first_ratio_max", "optimiser_steps")
ROLLOUT = ("score", "kl", "kl_coef", "response_length", "stopped_share", "explained_variance")


class TablePolicy(nn.Module):
    """Speaks like a causal language model of Hugging Face. Its cache is the number of columns that it has seen."""

    def __init__(self, table: Tensor, places: Tensor | None) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.places = None if places is None else nn.Parameter(places.clone())
        self.config = SimpleNamespace(max_position_embeddings=64 if places is None else len(places))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor | None = None,
        past_key_values: int | None = None,
        use_cache: bool = True,
        logits_to_keep: int = 0,
    ) -> SimpleNamespace:
        seen = past_key_values or 0
        logits = self.table[input_ids]
        if self.places is not None:
            columns = torch.arange(seen, seen + input_ids.shape[1]).expand_as(input_ids)
            logits = logits + self.places[columns if position_ids is None else position_ids]
        return SimpleNamespace(logits=logits[:, -logits_to_keep:], past_key_values=seen + input_ids.shape[1])


class TableCritic(nn.Module):
    """Speaks like `ValueModel`: values = critic[token] + the position, in hundredths where there are places."""

    def __init__(self, table: Tensor, has_places: bool) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.has_places = has_places

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        values = self.table[input_ids]
        if not self.has_places:
            return values
        is_real = attention_mask.to(values.dtype)
        return values + 0.01 * (is_real.cumsum(dim=1) - 1) * is_real


class TableReward(nn.Module):
    """Speaks like `RewardModel`: the score of a text is the sum over its real tokens."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.table[input_ids].masked_fill(~attention_mask, 0.0).sum(dim=1)


class Words:
    """A tokenizer: token 2 is "a", token 3 is "b", and so on."""

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(word) - ord("a") + 2 for word in text.split()]}

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        letters = {PAD: "<pad>", STOP: "<stop>"}
        kept = [one for one in ids if not (skip_special_tokens and one in letters)]
        return " ".join(letters.get(one, chr(one - 2 + ord("a"))) for one in kept)


def _trainer(
    make: Callable[..., Any],
    config: Callable[..., Any],
    actor: Tensor,
    critic: Tensor,
    reference: Tensor | None = None,
    reward: Tensor | Callable[..., Any] | None = None,
    places: Tensor | None = None,
    **settings: Any,
) -> Any:
    """A trainer of the student (or of the reference) over these tables."""
    model = PolicyAndValue(TablePolicy(actor, places), TableCritic(critic, places is not None))
    judge = TableReward(torch.zeros_like(critic) if reward is None else reward) if not callable(reward) else reward
    frozen = TablePolicy(actor if reference is None else reference, places)
    settings = {"stop_token_ids": (STOP,), "pad_token_id": PAD, **settings}
    return make(model, judge, frozen, config(**settings), Words())


def _student(lesson: Any, *tables: Any, **settings: Any) -> Any:
    return _trainer(lesson.PPOTrainer, lesson.PPOConfig, *tables, **settings)


def _prompts(prompts: tuple[Any, ...]) -> list[Any]:
    return [list(prompt) if isinstance(prompt, tuple) else prompt for prompt in prompts]


def _tables(trainer: Any) -> dict[str, Tensor]:
    """The weights of actor and critic now."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    return {"actor": model.policy.table.detach().clone(), "critic": model.value_model.table.detach().clone()}


def _experience(prompts: Tensor, responses: Tensor, mask: Tensor, **tensors: Tensor) -> Experience:
    """Rows numbered by `scores`. What no loss may look at is filled with numbers that would show."""
    like = tensors["advantages"]
    return Experience(
        input_ids=torch.cat([prompts, responses], dim=1),
        attention_mask=torch.cat([prompts != PAD, mask], dim=1),
        mask=mask,
        scores=torch.arange(len(mask), dtype=like.dtype),
        **{"ref_log_probs": tensors["log_probs"] - 0.5, "rewards": torch.full_like(like, 7.0), **tensors},
    )


def responses_of(
    lesson: Any, actor: Tensor, prompts: tuple[Any, ...], places: Tensor | None = None, calls: int = 1, **settings: Any
) -> Any:
    """`generate_responses`, the last of so many calls in a row. The reference model would write something else."""
    critic = torch.zeros_like(actor[0])
    trainer = _student(lesson, actor, critic, reference=actor.flip(1), places=places, **settings)
    torch.rand(5, generator=trainer.shuffling)  # else both generators would draw the same
    for _ in range(calls):
        answer = trainer.generate_responses(_prompts(prompts))
    return answer


def wrapped_responses_of(lesson: Any, actor: Tensor, prompts: tuple[Any, ...], **settings: Any) -> dict[str, Any]:
    """`generate_responses` of a trainer whose model is wrapped, and in evaluation mode before the call."""
    trainer = _student(lesson, actor, torch.zeros_like(actor[0]), **settings)
    trainer.model = Wrapped(trainer.model).eval()
    answer = trainer.generate_responses(_prompts(prompts))
    return {"answer": answer, "parts_in_training_mode": _parts_in_training_mode(trainer)}


def _parts_in_training_mode(trainer: Any) -> int:
    return sum(part.training for part in trainer.accelerator.unwrap_model(trainer.model).modules())


def rewards_of(
    lesson: Any,
    actor: Tensor,
    reference: Tensor,
    reward: Tensor | None,
    prompts: tuple[Any, ...],
    responses: Tensor,
    log_probs: Tensor,
    mask: Tensor,
    price: float | None = None,
    places: Tensor | None = None,
    function: str | None = None,
    wrapped: bool = False,
    **settings: Any,
) -> Any:
    """`compute_rewards`; `price` is where the controller stands now; `function` names a Python reward of this file.

    `wrapped`: the model is, as on several processes.
    """
    judge = FUNCTIONS[function] if function else reward
    trainer = _student(lesson, actor, torch.ones_like(actor[0]), reference, judge, places, **settings)
    if price is not None:
        trainer.kl_controller.value = price
    if wrapped:
        trainer.model = Wrapped(trainer.model)
    return trainer.compute_rewards(Generation(responses, log_probs, mask), _prompts(prompts))


def _likes_b(prompts: list[str], responses: list[str]) -> list[float]:
    return [len(p.split()) + 0.25 * r.split().count("b") for p, r in zip(prompts, responses, strict=True)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "words of the prompt + 1/4 for each b": _likes_b,
    "one number too few": lambda prompts, responses: [0.0] * (len(responses) - 1),
    "nan": lambda prompts, responses: [float("nan")] * len(responses),
    "text": lambda prompts, responses: ["good"] * len(responses),
}


def loss_of(
    lesson: Any,
    actor: Tensor,
    critic: Tensor,
    prompts: Tensor,
    responses: Tensor,
    mask: Tensor,
    log_probs: Tensor,
    advantages: Tensor,
    values: Tensor,
    returns: Tensor,
    places: Tensor | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """`compute_loss` of one batch, and its gradient by both tables. `log_probs` and `values` are the old ones."""
    trainer = _student(lesson, actor, critic, places=places, **settings)
    old = {"log_probs": log_probs, "advantages": advantages, "values": values, "returns": returns}
    loss, statistics = _pair(trainer.compute_loss(_experience(prompts, responses, mask, **old)))
    weights = (trainer.model.policy.table, trainer.model.value_model.table)
    slopes = [torch.zeros_like(weight) for weight in weights]
    if isinstance(loss, Tensor) and loss.requires_grad and loss.dim() == 0:
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        slopes = [zero if slope is None else slope for zero, slope in zip(slopes, found, strict=True)]
    return {"loss": loss, "actor_gradient": slopes[0], "critic_gradient": slopes[1], **_documented(statistics, LOSSES)}


class Wrapped(nn.DataParallel):
    """What Accelerate makes of a model on several processes, as far as it matters: passes have to go through it."""

    def __init__(self, model: nn.Module) -> None:
        nn.Module.__init__(self)
        self.module = model
        self.passes = 0

    def forward(self, *given: Any, **named: Any) -> Any:
        self.passes += 1
        return self.module(*given, **named)


def wrapped_loss_of(
    lesson: Any, actor: Tensor, critic: Tensor, prompts: Tensor, responses: Tensor, mask: Tensor, **old: Tensor
) -> dict[str, Any]:
    """`compute_loss` of a trainer whose model is wrapped, and how many passes went through the wrapper."""
    trainer = _student(lesson, actor, critic)
    trainer.model = Wrapped(trainer.model)
    loss, _ = _pair(trainer.compute_loss(_experience(prompts, responses, mask, **old)))
    return {
        "loss": loss.detach(),
        "passes_through_the_wrapper": trainer.model.passes,
        "parts_in_training_mode": _parts_in_training_mode(trainer),
    }


def _pair(answer: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], dict):
        raise ValueError(f"expected compute_loss to return (loss, dict of statistics), got {_names(answer)}")
    return answer


def _names(answer: Any) -> str:
    if isinstance(answer, tuple):
        return f"({', '.join(type(part).__name__ for part in answer)})"
    return type(answer).__name__


def _numbers(answer: Any, name: str, documented: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise ValueError(f"expected {name} to return a dict of numbers, got {_names(answer)}")
    return _documented(answer, documented)


def _documented(numbers: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """What the docstrings name: more of it is nobody's business. A whole number may be an int."""
    found = {name: numbers[name] for name in names if name in numbers}
    return {name: float(number) if isinstance(number, int) else number for name, number in found.items()}


def steps_of(
    lesson: Any, actor_slopes: Tensor, critic_slopes: Tensor, mask: Tensor, ratios: list[Tensor], **settings: Any
) -> dict[str, Any]:
    """`optimiser_step`, once for each entry of `ratios`, with a loss made up here in place of `compute_loss`.

    The answer has one entry a call: the weights after it, and its statistics; NaN is shown as -1.

    Actor and critic have one weight each, both start at 0, and
    loss = mean over real tokens of (actor_slopes * actor) + mean over real tokens of (critic_slopes * critic).
    Statistics: ratio_mean and ratio_max of `ratios`, and "policy_loss", the mean of actor_slopes.
    """
    trainer = _student(lesson, torch.zeros_like(mask[:1, :1], dtype=torch.float64), torch.zeros(1).double(), **settings)
    seen: list[list[int]] = []

    def compute_loss(batch: Experience) -> tuple[Tensor, dict[str, float]]:
        seen.append(batch.scores.int().tolist())
        slope, other, ratio = (each[batch.mask] for each in (batch.advantages, batch.returns, batch.values))
        actor, critic = trainer.model.policy.table[0, 0], trainer.model.value_model.table[0]
        numbers = {"policy_loss": slope.mean(), "ratio_mean": ratio.mean(), "ratio_max": ratio.max()}
        return slope.mean() * actor + other.mean() * critic, {name: one.item() for name, one in numbers.items()}

    trainer.compute_loss = compute_loss
    prompts, zeros = torch.zeros(len(mask), 1, dtype=torch.int64), torch.zeros_like(actor_slopes)
    steps: list[dict[str, Any]] = []
    for ratio in ratios:
        data = {"log_probs": zeros, "advantages": actor_slopes, "values": ratio, "returns": critic_slopes}
        statistics = trainer.optimiser_step(_experience(prompts, torch.zeros_like(mask).long(), mask, **data))
        weights = _tables(trainer)
        numbers = _numbers(statistics, "optimiser_step", STEP)
        steps.append({"actor": weights["actor"].item(), "critic": weights["critic"].item(), **numbers})
    table = {name: torch.tensor([step.get(name, NAN) for step in steps], dtype=torch.float64) for name in steps[0]}
    return {**{name: numbers.nan_to_num(nan=-1.0) for name, numbers in table.items()}, "microbatches": seen}


def real_step_of(
    lesson: Any,
    actor: Tensor,
    critic: Tensor,
    prompts: Tensor,
    responses: Tensor,
    mask: Tensor,
    log_probs: Tensor,
    advantages: Tensor,
    values: Tensor,
    returns: Tensor,
    **settings: Any,
) -> dict[str, Any]:
    """`optimiser_step` with the lesson's own `compute_loss`, on a table policy: weights and statistics after it."""
    trainer = _student(lesson, actor, critic, **settings)
    old = {"log_probs": log_probs, "advantages": advantages, "values": values, "returns": returns}
    statistics = trainer.optimiser_step(_experience(prompts, responses, mask, **old))
    return {**_tables(trainer), **_numbers(statistics, "optimiser_step", STEP)}


def epochs_of(
    lesson: Any, sizes: tuple[int, ...], approx_kl: Tensor, ratio_max: Tensor, policy_loss: Tensor, **settings: Any
) -> dict[str, Any]:
    """`optimise` over a buffer filled by batches of these sizes, with scripted statistics in place of real steps.

    Step i reports approx_kl[i], ratio_max[i], policy_loss[i], the last entry for all steps beyond the end.
    """
    trainer = _student(lesson, torch.zeros(2, 2).double(), torch.zeros(2).double(), **settings)
    torch.rand(5, generator=trainer.sampling)  # else both generators would draw the same
    buffer, first, steps = ExperienceBuffer(), 0, []
    for size in sizes:
        buffer.append(_numbered(first, size))
        first += size

    def optimiser_step(minibatch: Experience) -> dict[str, float]:
        steps.append(minibatch.scores.int().tolist())
        script = {"approx_kl": approx_kl, "ratio_max": ratio_max, "policy_loss": policy_loss}
        return {name: each[min(len(steps), len(each)) - 1].item() for name, each in script.items()}

    trainer.optimiser_step = optimiser_step
    statistics = _numbers(trainer.optimise(buffer), "optimise", EPOCHS)
    return {**statistics, "rows_of_each_step": steps, "left_in_buffer": len(buffer)}


def _numbered(first: int, size: int) -> Experience:
    """Experience in which only the row's number matters; batches have other lengths."""
    mask = torch.ones(size, 1 + first % 3, dtype=torch.bool)
    zeros = torch.zeros(mask.shape, dtype=torch.float64)
    batch = _experience(
        torch.ones(size, 1 + first % 2, dtype=torch.int64),
        zeros.long(),
        mask,
        **dict.fromkeys(("log_probs", "advantages", "values", "returns"), zeros),
    )
    object.__setattr__(batch, "scores", torch.arange(first, first + size, dtype=torch.float64))
    return batch


def update_of(
    lesson: Any,
    actor: Tensor,
    critic: Tensor,
    reference: Tensor,
    reward: Tensor,
    prompts: tuple[Any, ...],
    updates_done: int = 0,
    calls: int = 1,
    **settings: Any,
) -> dict[str, Any]:
    """`training_step` with a stand-in for `optimise`: what it was given, and what was done before and after it.

    `calls`: so many updates in a row; what is said of one is said of the last.
    """
    trainer = _student(lesson, actor, critic, reference, reward, **settings)
    trainer.updates_done = updates_done
    given: dict[str, Any] = {}
    buffers: list[Any] = []  # who is gone needs no clearing

    def optimise(buffer: Any) -> dict[str, float]:
        buffers.append(weakref.ref(buffer))
        (rows,) = list(buffer.minibatches(len(buffer), torch.Generator().manual_seed(0)))
        order = rows.input_ids[:, : rows.prompt_length].sum(dim=1).argsort()
        for name in ("mask", "log_probs", "values", "rewards", "advantages", "returns"):
            given[f"given_{name}"] = getattr(rows, name)[order]
        given["learning_rate"] = _rate(trainer)
        given["price_in_the_epochs"] = float(trainer.kl_controller.value)
        return {"policy_loss": 0.5, "approx_kl": 0.01, "optimiser_steps": 8.0}

    trainer.optimise = optimise
    for _ in range(calls):
        metrics = _numbers(trainer.training_step(_prompts(prompts)), "training_step", ROLLOUT + EPOCHS)
    left = [buffer() for buffer in buffers]
    return {
        **given,
        **metrics,
        "price_after": float(trainer.kl_controller.value),
        "updates_done": trainer.updates_done,
        "calls_of_optimise": len(buffers),
        "left_in_buffer": sum(len(buffer) for buffer in left if buffer is not None),
    }


def real_updates_of(
    lesson: Any,
    actor: Tensor,
    critic: Tensor,
    reference: Tensor,
    reward: Tensor,
    prompts: tuple[Any, ...],
    places: Tensor | None = None,
    updates: int = 1,
    **settings: Any,
) -> dict[str, Any]:
    """`training_step`, so many times on the same prompts, nothing replaced; the metrics have one entry an update."""
    trainer = _student(lesson, actor, critic, reference, reward, places, **settings)
    metrics = [
        _numbers(trainer.training_step(_prompts(prompts)), "training_step", ROLLOUT + EPOCHS) for _ in range(updates)
    ]
    table = {name: torch.tensor([one.get(name, NAN) for one in metrics], dtype=torch.float64) for name in metrics[0]}
    return {**table, **_tables(trainer), "price_after": float(trainer.kl_controller.value)}


def _rate(trainer: Any) -> float:
    (rate,) = {float(group["lr"]) for group in trainer.optimizer.param_groups}
    return rate


class Interrupted(Exception):
    """What on_update raises."""


def run_of(
    lesson: Any,
    available: int,
    updates_done: int = 0,
    stop_after: int | None = None,
    log: bool = False,
    diverges_in: int | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """`train` on the prompts [2], [3], ... with a stand-in for `training_step`.

    The metrics of update i are {"score": i, "kl": i / 10}. `stop_after`: on_update raises then. `log`: with a log_dir.
    `diverges_in`: the KL of this update, 1 is the first, is infinite.
    """
    if log:
        with tempfile.TemporaryDirectory() as top:
            settings["log_dir"] = str(Path(top, "log"))
            answer = run_of(lesson, available, updates_done, stop_after, diverges_in=diverges_in, **settings)
            return {**answer, "metrics_file": _lines(Path(top, "log", "metrics.jsonl"))}
    trainer = _student(lesson, torch.zeros(2, 2).double(), torch.zeros(2).double(), **settings)
    trainer.updates_done = updates_done
    trainer.history = [{"score": float(i), "kl": i / 10} for i in range(updates_done)]
    batches: list[list[int]] = []
    calls: list[list[int]] = []

    def training_step(batch: list[list[int]]) -> dict[str, float]:
        batches.append([prompt[0] for prompt in batch])
        trainer.updates_done += 1
        kl = math.inf if trainer.updates_done == diverges_in else (trainer.updates_done - 1) / 10
        return {"score": float(trainer.updates_done - 1), "kl": kl}

    def on_update(given: Any) -> None:
        calls.append([given.updates_done, len(given.history), len(batches)])
        if len(calls) == stop_after:
            raise Interrupted("stopped by the user")

    trainer.training_step = training_step
    answer, error = None, None
    with _recorded_writers() as written:
        try:
            answer = trainer.train([[2 + number] for number in range(available)], on_update)
        except (Interrupted, lesson.DivergedError) as stopped:
            error = str(stopped)
    return {
        "batches": batches,
        "on_update": calls,
        "returned": answer,
        "history": trainer.history,
        "error": error,
        "tensorboard": written,
    }


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.is_file() else []


@contextmanager
def _recorded_writers() -> Iterator[list[Any]]:
    """TensorBoard takes seconds to import; this stands in for it and keeps what is written."""
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, log_dir: str, purge_step: int | None = None) -> None:
            written.append("opened")

        def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> None:
            written.append([tag, float(scalar_value), global_step])

        def close(self) -> None:
            written.append("closed")

        def __enter__(self) -> SummaryWriter:
            return self

        def __exit__(self, *error: object) -> None:
            self.close()

    name = "torch.utils.tensorboard"
    before, module = sys.modules.get(name), ModuleType(name)
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        yield written
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before


def _used(make: Callable[..., Any], config: Callable[..., Any], mark: float, width: int = 3, **settings: Any) -> Any:
    """A trainer in the middle of a run: everything that a checkpoint has to keep is moved to a place that `mark` gives.

    `mark=0` is the beginning of a run.
    """
    table = torch.arange(width * width, dtype=torch.float64).reshape(width, width) / 8 + mark
    trainer = _trainer(make, config, table, table[0] - mark / 2, **settings)
    if mark == 0:
        return trainer
    for weight in trainer.model.parameters():
        weight.grad = torch.full_like(weight, mark)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.kl_controller.value = mark / 16
    for group in trainer.optimizer.param_groups:
        group["lr"] = trainer.config.learning_rate / 4
    trainer.updates_done = 3
    trainer.history = [{"score": mark * number} for number in range(3)]
    trainer.prompt_queue.take(2, 5)
    for generator in (trainer.sampling, trainer.shuffling):
        torch.rand(int(4 * mark), generator=generator)
    return trainer


def _state_of(trainer: Any) -> dict[str, Any]:
    """Everything that the next update depends on, in numbers; generators by what they draw next."""
    generators = {
        "sampling": trainer.sampling,
        "shuffling": trainer.shuffling,
        "prompts": trainer.prompt_queue.generator,
    }
    weights = list(trainer.accelerator.unwrap_model(trainer.model).parameters())
    moments = [trainer.optimizer.state[weight].get("exp_avg", torch.tensor(0.0)) for weight in weights]
    return {
        **_tables(trainer),
        "momentum": torch.stack([moment.double().mean() for moment in moments]),
        "learning_rate": _rate(trainer),
        "price": float(trainer.kl_controller.value),
        "prompts_waiting": torch.tensor(trainer.prompt_queue.waiting, dtype=torch.int64),
        "updates_done": trainer.updates_done,
        "scores_in_history": torch.tensor([one["score"] for one in trainer.history], dtype=torch.float64),
        **{
            f"next_draw_{name}": torch.rand((), generator=generator.clone_state(), dtype=torch.float64).item()
            for name, generator in generators.items()
        },
    }


def _reference(mark: float, width: int = 3, **settings: Any) -> Any:
    return _used(ReferenceTrainer, ReferenceConfig, mark, width, **settings)


def saved_of(
    lesson: Any,
    marks: tuple[float, ...],
    folder: str = "checkpoint",
    as_path: bool = True,
    in_the_way: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """`save_checkpoint` of trainers in the middle of a run, one after the other into one folder.

    What the file holds is read with the reference's `load_checkpoint`. `in_the_way`: a file has the folder's name.
    """
    with tempfile.TemporaryDirectory() as top:
        directory = Path(top, folder)
        if in_the_way:
            directory.touch()
        for mark in marks:
            trainer = _used(lesson.PPOTrainer, lesson.PPOConfig, mark, **settings)
            trainer.save_checkpoint(directory if as_path else str(directory))
        files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
        return {"files": files, **_restored(directory, **settings)}


def _restored(directory: Path, **settings: Any) -> dict[str, Any]:
    other = _reference(0.0, **settings)
    try:
        other.load_checkpoint(directory)
    except (KeyError, OSError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        said = f"expected {CHECKPOINT_FILE} to be whole after save_checkpoint; loading it failed: {error}"
        kind = LookupError if isinstance(error, KeyError) else type(error)  # a KeyError puts its text into quotes
        raise kind(said.replace(str(directory), "FOLDER")) from None
    return _state_of(other)


def interrupted_save_of(lesson: Any, first: float, second: float, while_renaming: bool = False) -> dict[str, Any]:
    """`save_checkpoint` twice into one folder; while the second one writes (or renames), the disk fails.

    `written_elsewhere`: the unfinished file lay outside the folder; what is written to memory lies nowhere.
    """
    with tempfile.TemporaryDirectory() as top, tempfile.TemporaryDirectory() as working_directory:
        _used(lesson.PPOTrainer, lesson.PPOConfig, first).save_checkpoint(top)
        trainer = _used(lesson.PPOTrainer, lesson.PPOConfig, second)
        error = None
        with chdir(working_directory), _no_renaming() if while_renaming else _full_disk() as written:
            try:
                trainer.save_checkpoint(top)
            except OSError as stopped:
                error = str(stopped)
        elsewhere = [path for path in written if not path.is_relative_to(Path(top).resolve())]
        return {"error": error, "written_elsewhere": bool(elsewhere), **_restored(Path(top))}


@contextmanager
def _full_disk() -> Iterator[list[Path]]:
    """`torch.save` writes a few bytes and fails; yields the files that it was given."""
    written: list[Path] = []

    def save(thing: Any, file: Any, *rest: Any, **more: Any) -> None:
        path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
        if isinstance(path, (str, os.PathLike)):
            written.append(Path(path).resolve())
        if path is file:
            Path(file).write_bytes(b"half of a checkpoint")
        else:
            file.write(b"half of a checkpoint")
        raise OSError("no space left on device")

    before, torch.save = torch.save, save
    try:
        yield written
    finally:
        torch.save = before


@contextmanager
def _no_renaming() -> Iterator[list[Path]]:
    """Each way to rename a file fails."""

    def rename(*given: Any, **named: Any) -> None:
        raise OSError("the disk is gone")

    before = os.replace, os.rename, shutil.move
    os.replace = os.rename = shutil.move = rename
    try:
        yield []
    finally:
        os.replace, os.rename, shutil.move = before


def refused_load_of(lesson: Any, mark: float, mark_before: float, width: int) -> dict[str, Any]:
    """The state of a trainer in the middle of a run after `load_checkpoint` of another one, of tables so wide."""
    with tempfile.TemporaryDirectory() as directory:
        _reference(mark, width).save_checkpoint(directory)
        trainer = _used(lesson.PPOTrainer, lesson.PPOConfig, mark_before)
        error = None
        try:
            trainer.load_checkpoint(directory)
        except ValueError as refused:
            error = type(refused).__name__
    return {"error": error, **_state_of(trainer)}


def loaded_of(
    lesson: Any,
    mark: float,
    mark_before: float = 0.0,
    width: int = 3,
    with_places: bool = False,
    content: str = "whole",
    as_path: bool = True,
    wrapped: bool = False,
    with_global_draws: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """`load_checkpoint` of a file that the reference wrote in the middle of a run; then the optimiser takes one step.

    `mark_before`: the trainer that loads is itself in the middle of another run; 0 is a new one. Its tables are 3 wide;
    `width` and `with_places` are those of the file. `content`: "whole", "nothing", "unfinished" (only the leftover of
    an interrupted write), "cut off", "empty", "of other settings", or "of other names" (those of the weights).
    `wrapped`: the model of the trainer that loads is, as on several processes. `with_global_draws`: the answer also
    has what torch's, Python's and numpy's global generators draw next.
    """
    places = torch.zeros(8, width, dtype=torch.float64) if with_places else None
    with tempfile.TemporaryDirectory() as top, _global_generators_as_before():
        directory = Path(top, "checkpoint")
        directory.mkdir()
        _seed_global_generators(1)
        if content != "nothing":
            other = {"kl_coef": 0.9} if content == "of other settings" else {}
            _reference(mark, width, places=places, **settings, **other).save_checkpoint(directory)
        file = directory / "trainer.pt"
        if content == "unfinished":
            file.rename(file.with_name("trainer.pt.unfinished"))
        if content in ("cut off", "empty"):
            file.write_bytes(file.read_bytes()[: -200 if content == "cut off" else 0])
        if content == "of other names":
            state = torch.load(file, weights_only=True)
            state["model"] = {f"other.{name}": weight for name, weight in state["model"].items()}
            torch.save(state, file)
        _seed_global_generators(2)
        trainer = _used(lesson.PPOTrainer, lesson.PPOConfig, mark_before, **settings)
        if wrapped:
            trainer.model = Wrapped(trainer.model)
        trainer.load_checkpoint(directory if as_path else str(directory))
        state = {**_state_of(trainer), **(_global_draws() if with_global_draws else {})}
    if any(
        moment.dim() and moment.shape != weight.shape
        for weight, moments in trainer.optimizer.state.items()
        for moment in moments.values()
    ):
        return state  # the fused step would write past the end of the moments, and end the whole process
    for weight in trainer.accelerator.unwrap_model(trainer.model).parameters():
        weight.grad = torch.ones_like(weight)
    trainer.optimizer.step()
    return {**state, **{f"{name}_one_step_later": table for name, table in _tables(trainer).items()}}


def _seed_global_generators(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def _global_draws() -> dict[str, float]:
    return {
        "next_draw_torch": torch.rand((), dtype=torch.float64).item(),
        "next_draw_python": random.random(),
        "next_draw_numpy": float(numpy.random.random()),
    }


@contextmanager
def _global_generators_as_before() -> Iterator[None]:
    before = {name: generator.get_state() for name, generator in global_generators().items()}
    try:
        yield
    finally:
        for name, generator in global_generators().items():
            generator.set_state(before[name])


def parts_in_training_mode_after(lesson: Any, method: str) -> int:
    """Parts of the model in training mode after `save_checkpoint` or `load_checkpoint`; before the call all were."""
    with tempfile.TemporaryDirectory() as directory, _global_generators_as_before():
        if method == "load_checkpoint":  # where saving is graded, the reference's is not at hand
            _reference(1.0).save_checkpoint(directory)
        trainer = _used(lesson.PPOTrainer, lesson.PPOConfig, 2.0)
        getattr(trainer, method)(directory)
        return _parts_in_training_mode(trainer)


def resumed_of(
    lesson: Any,
    actor: Tensor,
    critic: Tensor,
    reference: Tensor,
    reward: Tensor,
    prompts: tuple[Any, ...],
    save_after: int,
    **settings: Any,
) -> dict[str, Any]:
    """A run of `train` that is saved on its way, and a new trainer that loads it and goes on; nothing is replaced."""
    with tempfile.TemporaryDirectory() as directory:

        def on_update(trainer: Any) -> None:
            if trainer.updates_done == save_after:
                trainer.save_checkpoint(directory)

        first = _student(lesson, actor, critic, reference, reward, **settings)
        first.train(_prompts(prompts), on_update)
        second = _student(lesson, actor.flip(0), critic.flip(0), reference, reward, **settings)
        second.load_checkpoint(directory)
        second.train(_prompts(prompts))
    runs = {"undisturbed": first, "resumed": second}
    return {
        f"{which}_{name}": value
        for which, trainer in runs.items()
        for name, value in {
            **_state_of(trainer),
            "history": [_documented(metrics, ROLLOUT + EPOCHS) for metrics in trainer.history],
        }.items()
    }
