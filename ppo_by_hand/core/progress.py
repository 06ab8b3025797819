"""What is shown beside a run: functions called after each update, what transformers would print, and to whom."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .rows import takes

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
        if not callable(one) or not takes(one, 1):
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


@contextmanager
def while_read() -> Iterator[None]:
    """What is printed inside ends without a word when nobody reads on, as in `ppo-by-hand train ... | head`."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python flushes at the end
