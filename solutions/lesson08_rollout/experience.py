"""Lesson 8, second part: what is stored of a rollout, and the buffer that yields it in minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn.functional import pad

from ppo_by_hand.core.shapes import check_number, check_shapes


@dataclass(frozen=True)
class Experience:
    """A batch of scored responses; all tensors are data, without gradient."""

    input_ids: Tensor
    """(B, L) int64: left-padded prompt, then the right-padded response."""
    attention_mask: Tensor
    """(B, L) bool, True on the real tokens of both."""
    mask: Tensor
    """(B, T) bool, True on real response tokens."""
    log_probs: Tensor
    """(B, T) in nats, of the policy that sampled: the *old* policy of the ratio."""
    ref_log_probs: Tensor
    """(B, T) in nats, of the frozen reference."""
    values: Tensor
    """(B, T): V(the text before token t) when it was sampled."""
    scores: Tensor
    """(B,) of the reward model, before any penalty or clip."""
    rewards: Tensor
    """(B, T): the KL penalty on each token and the score on the last."""
    advantages: Tensor
    """(B, T), raw."""
    returns: Tensor
    """(B, T): advantages + values, the critic's targets."""
    sampler_log_probs: Tensor = None  # type: ignore[assignment]  # never None once it is made
    """(B, T) in nats, of the program that sampled: `log_probs`, unless the trainer has computed those again."""

    def __post_init__(self) -> None:
        if self.sampler_log_probs is None:
            object.__setattr__(self, "sampler_log_probs", self.log_probs)
        layouts = {"input_ids": "B L", "attention_mask": "B L", "scores": "B"}
        check_shapes(
            **{field.name: (getattr(self, field.name), layouts.get(field.name, "B T")) for field in fields(self)}
        )

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def prompt_length(self) -> int:
        """P, padding included."""
        return self.input_ids.shape[1] - self.mask.shape[1]

    @property
    def responses(self) -> Tensor:
        """(B, T) int64."""
        return self.input_ids[:, self.prompt_length :]

    def rows(self, index: Tensor) -> Experience:
        """Return the rows with these numbers, (M,) int64, M >= 1, in this order; each has a real prompt and response.

        Columns that are padding in all of these rows are removed: the first prompt columns, by `attention_mask`, and
        the response columns after the last True of `mask`. Prompts have no gap; in a response a masked column between
        two real tokens stays.
        """
        # region solution
        prompt_is_used = self.attention_mask[index, : self.prompt_length].any(dim=0)
        first = int(prompt_is_used.long().argmax())
        length = int(self.mask[index].any(dim=0).nonzero().max()) + 1
        sequence = slice(first, self.prompt_length + length)

        def cut(tensor: Tensor) -> Tensor:
            if tensor.dim() == 1:
                return tensor[index]
            return tensor[index, sequence if tensor.shape[1] == self.input_ids.shape[1] else slice(length)]

        return Experience(**{field.name: cut(getattr(self, field.name)) for field in fields(self)})
        # endregion


class ExperienceBuffer:
    """Collects the experience of one policy, yields it in minibatches, and forgets it."""

    def __init__(self) -> None:
        self._stored: list[Experience] = []

    def __len__(self) -> int:
        return sum(len(experience) for experience in self._stored)

    def append(self, experience: Experience) -> None:
        """Add a batch; prompts and responses may be longer or shorter than those already stored."""
        self._stored.append(experience)

    def minibatches(self, size: int, generator: torch.Generator | None = None) -> Iterator[Experience]:
        """Yield one epoch: every row exactly once, in random order, each order equally likely.

        Until it ends nothing is appended or cleared.

        Args:
            size: rows in a minibatch, >= 1; the last one may be smaller.
            generator: decides the order; None uses the global one.

        Yields:
            Experiences, each without columns that are padding in all its rows.

        Raises:
            ValueError: the buffer is empty, or size < 1. It may be raised at the call or at the first minibatch.
        """
        check_number("size", size, 1)
        if not self._stored:
            raise ValueError("expected an experience in the buffer, got none; append one before asking for minibatches")
        # region solution
        if len(self._stored) > 1:
            self._stored = [merge_experiences(self._stored)]
        for index in torch.randperm(len(self), generator=generator).split(size):
            yield self._stored[0].rows(index)
        # endregion

    def clear(self) -> None:
        """Forget everything, and release the memory: the policy that wrote it no longer exists."""
        self._stored.clear()


def merge_experiences(experiences: list[Experience]) -> Experience:
    """Make one experience of all rows: prompts padded on the left to the longest, responses on the right."""
    prompt_length = max(experience.prompt_length for experience in experiences)
    response_length = max(experience.mask.shape[1] for experience in experiences)

    def widened(experience: Experience, name: str) -> Tensor:
        tensor = getattr(experience, name)
        if tensor.dim() == 1:
            return tensor
        left = prompt_length - experience.prompt_length if name in ("input_ids", "attention_mask") else 0
        return pad(tensor, (left, response_length - experience.mask.shape[1]))

    names = [field.name for field in fields(Experience)]
    return Experience(**{name: torch.cat([widened(experience, name) for experience in experiences]) for name in names})
