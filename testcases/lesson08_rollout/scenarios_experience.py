"""Scenarios of `Experience` and its buffer."""

from collections import Counter
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from .scenarios_draws import agreement_of, generator


def plain(experience: Any) -> dict[str, Tensor]:
    return {field.name: getattr(experience, field.name) for field in fields(experience)}


def picked(lesson: Any, tensors: dict[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    """Some rows of an experience, after one of them alone; one row, after that of an experience without padding."""
    whole = lesson.Experience(**tensors)
    full = {name: torch.ones_like(own) if own.dtype == torch.bool else own for name, own in tensors.items()}
    (whole if len(index) > 1 else lesson.Experience(**full)).rows(index[-1:])
    return plain(whole.rows(index))


def yielded(
    lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int, epochs: int = 1
) -> dict[str, Any]:
    """The last of some epochs over `batches`, in an order that does not depend on how the rows were shuffled. "columns
    to spare" are those that are padding in all rows of a minibatch.

    Gives the sizes of the minibatches, how many columns are padding in all rows of a minibatch, and every row cut to
    its own length, those of small scores first.
    """
    source = generator(seed)
    buffer = _filled(lesson, *batches)
    for _ in range(epochs):
        minibatches = [plain(one) for one in buffer.minibatches(size, generator=source)]
    rows = [_row(one, number) for one in minibatches for number in range(len(one["scores"]))]
    return {
        "sizes": torch.tensor([len(one["scores"]) for one in minibatches]),
        "columns to spare": sum(_columns_to_spare(one) for one in minibatches),
        "rows in the buffer": len(buffer),
        "rows": tuple(sorted(rows, key=lambda row: float(row["scores"]))),
    }


def order_agreement(lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int) -> dict[str, bool]:
    """Which epochs deal their rows in the same order."""
    buffer = _filled(lesson, *batches)
    yielded = _scores(buffer.minibatches(size, generator(seed)))
    return {
        **agreement_of(lambda source: _scores(buffer.minibatches(size, source)), seed, "same generator, next epoch"),
        "each row once": torch.equal(yielded.sort().values, torch.cat([batch["scores"] for batch in batches])),
        "as they were stored": torch.equal(yielded, torch.cat([batch["scores"] for batch in batches])),
        "each minibatch as it was stored": all(torch.equal(part, part.sort().values) for part in yielded.split(size)),
        "each minibatch of neighbors": all(len(part) == part.max() - part.min() + 1 for part in yielded.split(size)),
        # Within 8 standard deviations. Rows with equal keys would keep their order, which is up.
        "up as often as down": abs(int((yielded.diff() > 0).sum()) - len(yielded) / 2) < 8 * (len(yielded) / 12) ** 0.5,
        "most rows beside their neighbor": bool((yielded.diff().abs() == 1).sum() > len(yielded) // 2),
    }


def orders(lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int, epochs: int) -> dict[str, int]:
    """How often the rows, whose scores are 0, 1, 2, ..., come in each order."""
    buffer, source = _filled(lesson, *batches), generator(seed)
    dealt = (_scores(buffer.minibatches(size, source)).int().tolist() for _ in range(epochs))
    return dict(Counter(" ".join(map(str, order)) for order in dealt))


def yielded_after_more(
    lesson: Any, first: dict[str, Tensor], second: dict[str, Tensor], forget: bool, seed: int
) -> dict[str, Any]:
    """Scores yielded after an epoch, then (`forget`) a clear, then another append; small ones first."""
    buffer, source = _filled(lesson, first), generator(seed)
    list(buffer.minibatches(2, source))
    if forget:
        buffer.clear()
    held = _numbers_in(buffer) > 0
    buffer.append(lesson.Experience(**second))
    return {"scores": _scores(buffer.minibatches(2, source)).sort().values, "empty before": not held}


def _numbers_in(thing: Any) -> int:
    """How many tensors of an experience are within reach."""
    if isinstance(thing, Tensor):
        return thing.is_floating_point()
    if not isinstance(thing, (dict, list, tuple)):
        thing = getattr(thing, "__dict__", {})
    return sum(map(_numbers_in, thing.values() if isinstance(thing, dict) else thing))


def _filled(lesson: Any, *batches: dict[str, Tensor]) -> Any:
    buffer = lesson.ExperienceBuffer()
    for tensors in batches:
        buffer.append(lesson.Experience(**tensors))
    return buffer


def _scores(minibatches: Any) -> Tensor:
    return torch.cat([one.scores for one in minibatches])


def _row(batch: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """One row, without its padding columns at both ends."""
    row = {name: tensor[number] for name, tensor in batch.items()}
    prompt_length = len(row["input_ids"]) - len(row["mask"])
    first = int(row["attention_mask"].long().argmax())
    length = int(row["mask"].nonzero().max()) + 1
    return {
        name: tensor
        if tensor.dim() == 0
        else (tensor[first : prompt_length + length] if name in ("input_ids", "attention_mask") else tensor[:length])
        for name, tensor in row.items()
    }


def _columns_to_spare(batch: dict[str, Tensor]) -> int:
    used = batch["attention_mask"].any(dim=0).nonzero()
    return int(used.min()) + batch["attention_mask"].shape[1] - 1 - int(used.max())
