"""What is shown beside a run: functions called after each update, and what transformers would print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

OnUpdate = Callable[[Any], object]


def in_turn(on_update: OnUpdate | Sequence[OnUpdate] | None) -> OnUpdate | None:
    """One function in the place of several.

    Raises:
        ValueError: one of them is no function.
    """
    if on_update is None:
        return None
    several: Sequence[OnUpdate] = on_update if isinstance(on_update, Sequence) else [on_update]
    for one in several:
        if not callable(one):
            raise ValueError(f"expected on_update to be a function of the trainer, or a list of them, got {one!r}")
    if len(several) == 1:
        return several[0]

    def each(trainer: Any) -> None:
        for one in several:
            one(trainer)

    return each


def quiet() -> None:
    """Let transformers say nothing but errors: neither progress bars nor its report of what it has loaded."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
