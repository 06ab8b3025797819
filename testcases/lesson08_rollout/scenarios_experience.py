"""Scenarios of `Experience` and its buffer."""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from .scenarios_generation import agreement_of, generator


def plain(experience: Any) -> dict[str, Tensor]:
    return {field.name: getattr(experience, field.name) for field in fields(experience)}


def picked(lesson: Any, tensors: dict[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    """Some rows of an experience, after one of them alone; one row, after that of an experience without padding."""
    whole = lesson.Experience(**tensors)
    full = {name: torch.ones_like(own) if own.dtype == torch.bool else own for name, own in tensors.items()}
    (whole if len(index) > 1 else lesson.Experience(**full)).rows(index[-1:])
    return plain(whole.rows(index))


def yielded(
    lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int, epochs: int = 1, forget: bool = False
) -> dict[str, Any]:
    """The last of some epochs over `batches`, in an order that does not depend on how the rows were shuffled: the sizes
    of the minibatches, and every row cut to its own length, those of small scores first.

    "columns to spare" are those that are padding in all rows of a minibatch. `forget`: before the last of the batches
    is appended, an epoch passes over the others, and the buffer is cleared.
    """
    source, buffer = generator(seed), lesson.ExperienceBuffer()
    held = 0
    for number, tensors in enumerate(batches, 1):
        if forget and number == len(batches):
            list(buffer.minibatches(size, source))
            buffer.clear()
            held = _numbers_in(buffer)
        buffer.append(lesson.Experience(**tensors))
    for _ in range(epochs):
        minibatches = [plain(one) for one in buffer.minibatches(size, generator=source)]
    rows = [_row(one, number) for one in minibatches for number in range(len(one["scores"]))]
    return {
        "sizes": torch.tensor([len(one["scores"]) for one in minibatches]),
        "columns to spare": sum(_columns_to_spare(one) for one in minibatches),
        "rows in the buffer": len(buffer),
        "tensors held after a clear": held,
        "rows": tuple(sorted(rows, key=lambda row: float(row["scores"]))),
    }


def _numbers_in(thing: Any) -> int:
    """How many tensors of an experience are within reach."""
    if isinstance(thing, Tensor):
        return thing.is_floating_point()
    if not isinstance(thing, (dict, list, tuple)):
        thing = getattr(thing, "__dict__", {})
    return sum(map(_numbers_in, thing.values() if isinstance(thing, dict) else thing))


def order_agreement(lesson: Any, tensors: dict[str, Tensor], size: int, seed: int) -> dict[str, bool]:
    """Which epochs deal their rows, whose scores are 0, 1, 2, ..., in the same order."""
    buffer = lesson.ExperienceBuffer()
    buffer.append(lesson.Experience(**tensors))

    def dealt(source: torch.Generator | None) -> Tensor:
        return torch.cat([one.scores for one in buffer.minibatches(size, source)])

    order = dealt(generator(seed))
    return {
        **agreement_of(dealt, seed),
        "each row once": torch.equal(order.sort().values, tensors["scores"]),
        "as they were stored": torch.equal(order, tensors["scores"]),
        "each minibatch as it was stored": all(torch.equal(part, part.sort().values) for part in order.split(size)),
        "each minibatch of neighbors": all(len(part) == part.max() - part.min() + 1 for part in order.split(size)),
        # Within 8 standard deviations. Rows with equal keys would keep their order, which is up.
        "up as often as down": abs(int((order.diff() > 0).sum()) - len(order) / 2) < 8 * (len(order) / 12) ** 0.5,
        "most rows beside their neighbor": bool((order.diff().abs() == 1).sum() > len(order) // 2),
    }


def _row(batch: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """One row, without its padding columns at both ends."""
    row = {name: tensor[number] for name, tensor in batch.items()}
    prompt_length = len(row["input_ids"]) - len(row["mask"])
    first = int(row["attention_mask"].long().argmax())
    length = int(row["mask"].nonzero().max()) + 1
    columns = {
        "input_ids": slice(first, prompt_length + length),
        "attention_mask": slice(first, prompt_length + length),
    }
    return {name: tensor[columns.get(name, slice(length))] if tensor.dim() else tensor for name, tensor in row.items()}


def _columns_to_spare(batch: dict[str, Tensor]) -> int:
    used = batch["attention_mask"].any(dim=0).nonzero()
    return int(used.min()) + batch["attention_mask"].shape[1] - 1 - int(used.max())
