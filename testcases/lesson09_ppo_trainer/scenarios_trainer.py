"""Trainers over tables, what they hold, and what their docstrings promise.

A table policy looks at the token before, and (with `places`) at its position: logits = actor[token] + places[position].
Token 0 is padding, token 1 stops a response.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch._dynamo  # The first optimizer loads it, which takes seconds: not in a student's time.
from torch import Tensor

from solutions.lesson07_actor_critic import PolicyAndValue
from solutions.lesson08_rollout import Experience
from testcases.harness.doubles.models import Letters, TableCritic, TablePolicy, TableReward

# The tables are on the CPU, and have to stay there on a machine with a GPU.
os.environ.setdefault("ACCELERATE_USE_CPU", "true")

PAD, STOP = 0, 1
LOSSES = ("policy_loss", "value_loss", "entropy", "ratio_mean", "ratio_max", "approx_kl", "clip_fraction")
STEP = (*LOSSES, "grad_norm", "skipped_share")
EPOCHS = (*STEP, "first_ratio_max", "optimizer_steps")
ROLLOUT = ("score", "kl", "kl_coef", "response_length", "stop_rate", "explained_variance")
BATCH = ("prompts", "responses", "mask", "log_probs", "advantages", "values", "returns")


def trainer_over(
    make: Callable[..., Any],
    config: Callable[..., Any],
    actor: Tensor,
    critic: Tensor,
    reference: Tensor | None = None,
    reward: Tensor | Callable[..., Any] | None = None,
    places: Tensor | None = None,
    **settings: Any,
) -> Any:
    """A trainer of the student (or of the reference) over these tables; `adam_epsilon` is its optimizer's."""
    epsilon = settings.pop("adam_epsilon", 1e-5)
    model = PolicyAndValue(TablePolicy(actor, places), TableCritic(critic, places is not None))
    score = TableReward(torch.zeros_like(critic) if reward is None else reward) if not callable(reward) else reward
    frozen = TablePolicy(actor if reference is None else reference, places)
    settings = {"stop_token_ids": (STOP,), "pad_token_id": PAD, **settings}
    return make(model, score, frozen, config(**settings), Letters(), optimizer=partial(adam, epsilon))


def adam(epsilon: float, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, eps=epsilon, weight_decay=0.0, fused=True)


def student(lesson: Any, *tables: Any, **settings: Any) -> Any:
    return trainer_over(lesson.PPOTrainer, lesson.PPOConfig, *tables, **settings)


def prompts_of(prompts: tuple[Any, ...]) -> list[Any]:
    return [list(prompt) if isinstance(prompt, tuple) else prompt for prompt in prompts]


def tables_of(trainer: Any) -> dict[str, Tensor]:
    """The weights of actor and critic now."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    return {"actor": model.policy.table.detach().clone(), "critic": model.value_model.table.detach().clone()}


def learning_rate(trainer: Any) -> float:
    (rate,) = {float(group["lr"]) for group in trainer.optimizer.param_groups}
    return rate


def parts_in_training_mode(trainer: Any) -> int:
    return sum(part.training for part in trainer.accelerator.unwrap_model(trainer.model).modules())


def experience(prompts: Tensor, responses: Tensor, mask: Tensor, **tensors: Tensor) -> Experience:
    """Rows numbered by `scores`. What no loss may look at is filled with numbers that would show."""
    like = tensors["advantages"]
    return Experience(
        input_ids=torch.cat([prompts, responses], dim=1),
        attention_mask=torch.cat([prompts != PAD, mask], dim=1),
        mask=mask,
        scores=torch.arange(len(mask), dtype=like.dtype),
        **{"ref_log_probs": tensors["log_probs"] - 0.5, "rewards": torch.full_like(like, 7.0), **tensors},
    )


def experience_in(given: dict[str, Any]) -> Experience:
    """Take the parts of a batch out of what a scenario was given; `log_probs` and `values` are the old ones."""
    made = experience(**{name: given.pop(name) for name in BATCH})
    return replace(made, sampler_log_probs=given.pop("sampler_log_probs", made.log_probs))


def numbers_of(answer: Any, name: str, documented: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise ValueError(f"expected {name} to return a dict of numbers, got {kind_of(answer)}")
    return only(answer, documented)


def only(numbers: dict[str, Any], documented: tuple[str, ...]) -> dict[str, Any]:
    """What the docstrings name: more of it is nobody's business."""
    return {name: numbers[name] for name in documented if name in numbers}


def kind_of(answer: Any) -> str:
    if isinstance(answer, tuple):
        return f"({', '.join(type(part).__name__ for part in answer)})"
    return type(answer).__name__
