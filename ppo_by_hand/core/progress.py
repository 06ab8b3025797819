"""What is printed beside a run: what transformers would say of it, and to whom."""

from __future__ import annotations

import sys


def quiet() -> None:
    """Let transformers say nothing but errors: neither progress bars nor its report of what it has loaded."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def say_check(sentence: str) -> None:
    """Print a warning on stderr, beside a progress bar; of several processes only the main one does."""
    from accelerate import PartialState
    from tqdm import tqdm

    if PartialState().is_main_process:
        tqdm.write(f"check: {sentence}", file=sys.stderr)
