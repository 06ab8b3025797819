"""What models of Hugging Face answer, without transformers, which takes seconds to import."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Output(dict[str, Any]):
    """By name, by attribute and by place, as `ModelOutput`; what is None is an attribute only."""

    def __init__(self, **parts: Any) -> None:
        super().__init__({name: part for name, part in parts.items() if part is not None})
        self.__dict__.update(parts)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self.values())


def hugging_face(forward: Callable[..., Output]) -> Callable[..., Any]:
    """A `forward` that may be asked for a tuple, and tells `hidden_states` only where it is asked for them."""

    @functools.wraps(forward)
    def answer(
        self: Any, *given: Any, return_dict: bool | None = None, output_hidden_states: bool | None = None, **named: Any
    ) -> Any:
        output = forward(self, *given, **named)
        if not output_hidden_states:
            output = Output(**{**vars(output), "hidden_states": None})
        return output.to_tuple() if return_dict is False else output

    return answer


def last_places(tensor: Any, logits_to_keep: Any) -> Any:
    """The columns of (B, L, ...) that a language model computes logits for: so many at the end, all for 0, or these."""
    return tensor[:, slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep]
