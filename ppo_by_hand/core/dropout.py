"""Whether a model gives the same twice in train mode. Dropout is a module, a number of a module or a setting that is
read in each pass, and it has many names, so it is measured whether it is off."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from .checkpoints import global_generators
from .config import PPOConfig
from .validate import tokens_of

ROUNDING = 16
"""Units of rounding by which a module may differ from itself: some kernels of a GPU add in no fixed order."""


def check_no_dropout(model: nn.Module, config: PPOConfig, device: torch.device) -> None:
    """Refuse a model of which two passes in train mode differ.

    Dropout that a Hugging Face model reads from its config in each pass is set to 0 there, but only if they differ. The
    random states of the process are left as they are.

    Args:
        model: actor and critic, in train mode; the dropout that their modules hold is 0 already.
        config: of the run.
        device: where the model is.

    Raises:
        ValueError: two passes differ; the message has the name of the module that makes them.
    """
    batch = _small_batch(model, config, device)
    with _random_states_kept(), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # checkpointing warns where there is no gradient
        if all(map(torch.equal, _tensors(model(*batch)), _tensors(model(*batch)))):
            return
        for module in model.modules():
            if hasattr(module, "config"):
                set_to_zero(module.config)
        name = _first_that_differs(model, batch)
    if name is not None:
        raise ValueError(
            f"expected the same numbers from two passes in train mode, got others from {name}: the policy that is "
            "trained would not be the one that sampled; set the dropout, or other noise, of that module to 0"
        )


def set_to_zero(owner: Any) -> None:
    """Set to 0 each number of a module, or of a model's config, that is dropout by its name."""
    for name, value in list(getattr(owner, "__dict__", {}).items()):
        if "drop" in name.lower() and isinstance(value, float) and value > 0.0:
            setattr(owner, name, 0.0)


def _small_batch(model: Any, config: PPOConfig, device: torch.device) -> tuple[Tensor, Tensor, int]:
    """Two rows of a prompt token and up to 7 response tokens: of a length that the run needs anyway."""
    length = 1 + min(config.max_new_tokens, 7)
    known = tokens_of(model.policy) or min(config.stop_token_ids) + 1
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


def _first_that_differs(model: nn.Module, batch: tuple[Any, ...]) -> str | None:
    """The innermost module, first in a pass, that gives other numbers for the same input; None where none does."""
    names = {module: name for name, module in model.named_modules()}
    calls: list[tuple[nn.Module, list[Tensor], list[Tensor]]] = []

    def record(module: nn.Module, args: Any, named: Any, output: Any) -> None:
        calls.append((module, _tensors((args, named)), _tensors(output)))

    hooks = [module.register_forward_hook(record, with_kwargs=True) for module in names]
    try:
        model(*batch)
        count = len(calls)
        model(*batch)
    finally:
        for hook in hooks:
            hook.remove()
    for (module, given, answer), (_, given_again, answer_again) in zip(calls[:count], calls[count:], strict=False):
        if _near(given, given_again) and not _near(answer, answer_again):
            return f"{names[module] or 'the model'} ({type(module).__name__})"
    return None


def _tensors(thing: Any) -> list[Tensor]:
    """Copies of the tensors in what a module is given or gives: tuples, lists, mappings, Hugging Face's outputs."""
    return [leaf.clone() for leaf in tree_leaves(thing) if isinstance(leaf, Tensor)]


def _near(some: list[Tensor], others: list[Tensor]) -> bool:
    """The same but for rounding; infinities of the same sign, as a mask has them, are the same."""
    if [tensor.shape for tensor in some] != [tensor.shape for tensor in others]:
        return False
    for one, other in zip(some, others, strict=True):
        if torch.equal(one, other):
            continue
        finite = one.double().nan_to_num(0.0, 0.0, 0.0)
        most = float(finite.abs().max()) * ROUNDING * torch.finfo(one.dtype).eps if one.is_floating_point() else 0.0
        if not torch.allclose(one.double(), other.double(), rtol=0.0, atol=most, equal_nan=True):
            return False
    return True
