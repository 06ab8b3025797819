"""What is printed beside a run: what transformers would say of it, and to whom."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
