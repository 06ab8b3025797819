"""What models of Hugging Face answer, without transformers, which takes seconds to import."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Output(dict[str, Any]):
    """By name, by attribute and by place, as `ModelOutput`; what is None is an attribute only."""

    def __init__(self, **parts: Any) -> None:
        super().__init__({name: part for name, part in parts.items() if part is not None})
        self.__dict__.update(parts)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self.values())


class HuggingFaceModel(nn.Module):
    """Speaks like a model of Hugging Face; its `forward` gives an Output, with all hidden states where it has them."""

    def __init_subclass__(cls) -> None:
        if "forward" in vars(cls):
            cls.forward = _as_asked(cls.forward)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype


def _as_asked(forward: Callable[..., Output]) -> Callable[..., Any]:
    """A tuple with `return_dict=False`, and no hidden states without `output_hidden_states`."""

    @functools.wraps(forward)
    def answer(
        self: Any, *given: Any, return_dict: bool | None = None, output_hidden_states: bool | None = None, **named: Any
    ) -> Any:
        output = forward(self, *given, **named)
        if not output_hidden_states:
            output = Output(**{**vars(output), "hidden_states": None})
        return output.to_tuple() if return_dict is False else output

    return answer


def last_places(tensor: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The columns of (B, L, ...) that a language model computes logits for: so many at the end, all for 0, or these."""
    return tensor[:, slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep]
