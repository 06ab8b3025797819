"""`generate_responses` and `compute_rewards`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from solutions.lesson08_rollout import Generation
from testcases.doubles.policies import Wrapped

from .scenarios_trainer import parts_in_training_mode, prompts_of, student


def responses_of(lesson: Any, actor: Tensor, prompts: tuple[Any, ...], calls: int = 1, **settings: Any) -> Any:
    """`generate_responses`, the last of so many calls in a row. The reference model would write something else."""
    trainer = student(lesson, actor, torch.zeros_like(actor[0]), actor.flip(1), **settings)
    torch.rand(5, generator=trainer.shuffling)  # else both generators would draw the same
    for _ in range(calls):
        answer = trainer.generate_responses(prompts_of(prompts))
    return answer


def wrapped_responses_of(lesson: Any, actor: Tensor, prompts: tuple[Any, ...], **settings: Any) -> dict[str, Any]:
    """`generate_responses` of a trainer whose model is wrapped, and in evaluation mode before the call."""
    trainer = student(lesson, actor, torch.zeros_like(actor[0]), **settings)
    trainer.model = Wrapped(trainer.model).eval()
    answer = trainer.generate_responses(prompts_of(prompts))
    return {"answer": answer, "parts_in_training_mode": parts_in_training_mode(trainer)}


def rewards_of(
    lesson: Any,
    actor: Tensor,
    reference: Tensor,
    reward: Tensor | str,
    prompts: tuple[Any, ...],
    coefficient: float | None = None,
    wrapped: bool = False,
    **given: Any,
) -> Any:
    """`compute_rewards` of the `responses`, `log_probs` and `mask` in `given`, after that of the rows in reverse order
    at the initial coefficient; `coefficient`: the present one.

    `reward`: a table, or the name of a Python function below. `wrapped`: the model is, as on several processes.
    """
    responses = Generation(*(given.pop(name) for name in Generation._fields))
    score = FUNCTIONS[reward] if isinstance(reward, str) else reward
    trainer = student(lesson, actor, torch.ones_like(actor[0]), reference, score, **given)
    trainer.compute_rewards(Generation(*(tensor.flip(0) for tensor in responses)), prompts_of(prompts)[::-1])
    if coefficient is not None:
        trainer.kl_controller.value = coefficient
    if wrapped:
        trainer.model = Wrapped(trainer.model)
    return trainer.compute_rewards(responses, prompts_of(prompts))


def _likes_b(prompts: list[str], responses: list[str]) -> list[float]:
    return [len(p.split()) + 0.25 * r.split().count("b") for p, r in zip(prompts, responses, strict=True)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "words of the prompt + 1/4 for each b": _likes_b,
    "one number too few": lambda prompts, responses: [0.0] * (len(responses) - 1),
    "nan": lambda prompts, responses: [float("nan")] * len(responses),
    "text": lambda prompts, responses: ["good"] * len(responses),
}
