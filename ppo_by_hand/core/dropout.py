"""Whether a model gives the same twice in train mode. Dropout is a module, a number of a module or a setting that is
read in each pass, and it has many names, so it is measured whether it is off."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from .checkpoints import global_generators
from .config import PPOConfig
from .shapes import tokens_of

ROUNDING = 1e-3
"""Of the largest number; dropout changes more."""


def check_no_dropout(wrapped: nn.Module, config: PPOConfig, accelerator: Accelerator) -> None:
    """Refuse a model of which two passes in train mode differ.

    Dropout that a Hugging Face model reads from its config in each pass is set to 0 there, but only if they differ. The
    random states of the process are left as they are.

    Args:
        wrapped: actor and critic, in train mode; the dropout that their modules hold is 0 already.
        config: of the run.
        accelerator: has wrapped and placed them.

    Raises:
        ValueError: two passes differ.
    """
    model = accelerator.unwrap_model(wrapped)
    batch = _small_batch(model, config, accelerator.device)
    with _random_states_kept(), warnings.catch_warnings(), torch.no_grad(), accelerator.autocast():
        warnings.simplefilter("ignore")  # checkpointing warns where there is no gradient
        if all(map(torch.equal, model(*batch), model(*batch))):
            return
        for module in model.modules():
            if hasattr(module, "config"):
                set_to_zero(module.config)
        if _agree(model(*batch), model(*batch)):
            return
    raise ValueError(
        "expected the same numbers from two passes of the models in train mode, got others: the policy that is trained "
        "would not be the one that sampled; set their dropout, or other noise, to 0"
    )


def set_to_zero(owner: Any) -> None:
    """Set to 0 each number of a module, or of a model's config, that is dropout by its name."""
    for name, value in list(getattr(owner, "__dict__", {}).items()):
        if "drop" in name.lower() and isinstance(value, float) and value > 0.0:
            setattr(owner, name, 0.0)


def _small_batch(model: Any, config: PPOConfig, device: torch.device) -> tuple[Tensor, Tensor, int]:
    """Two rows of a prompt token and up to 7 response tokens: of a length that the run needs anyway."""
    length = 1 + min(config.max_new_tokens, 7)
    known = tokens_of(model.policy) or 1
    ids = torch.arange(2 * length, device=device).reshape(2, length) % known
    return ids, torch.ones_like(ids, dtype=torch.bool), 1


@contextmanager
def _random_states_kept() -> Iterator[None]:
    generators = global_generators()
    states = {name: generator.get_state() for name, generator in generators.items()}
    try:
        yield
    finally:
        for name, generator in generators.items():
            generator.set_state(states[name])


def _agree(some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """The same but for rounding: some kernels of a GPU add in no fixed order."""
    return all(
        torch.equal(one, other) or bool((one - other).abs().max() <= ROUNDING * one.abs().max())
        for one, other in zip(some, others, strict=True)
    )
