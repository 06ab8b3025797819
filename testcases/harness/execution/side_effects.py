"""What a call leaves behind: in its arguments, in the live objects that it was handed, and in global settings."""

import ctypes
import dataclasses
import functools
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

Marks = dict[str, Any]
"""By the path of something that belongs to the caller, such as "model.training": what is equal as long as nobody has
touched it."""


def marks_of(objects: Mapping[str, Any]) -> Marks:
    """The marks of tensors, modules, generators, and of what is inside lists, tuples, dicts and dataclasses."""
    return {path: mark for name, value in objects.items() for path, mark in _marks(name, value).items()}


def _marks(name: str, value: Any, depth: int = 0) -> Marks:
    if isinstance(value, Tensor):
        return {name: _written(value), f"{name}.requires_grad": value.requires_grad, f"{name}.grad": _gradient(value)}
    if isinstance(value, nn.Module):
        return _marks_of_module(name, value)
    if isinstance(value, torch.Generator):
        return {name: value.get_state().numpy().tobytes(), f"{name}.initial_seed()": value.initial_seed()}
    parts: dict[Any, Any]
    found: dict[str, Any] = {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, dict):
        parts, found = value, {name: tuple(value)}
    elif isinstance(value, (list, tuple)):
        parts = dict(enumerate(value))
        found = {name: [part if isinstance(part, (int, float, str)) else id(part) for part in value]}
    else:
        return {}
    for key, part in parts.items() if depth < 3 else ():
        found |= _marks(f"{name}.{key}", part, depth + 1)
    return found


def _marks_of_module(name: str, module: nn.Module) -> Marks:
    weights = [*module.parameters(), *module.buffers()]
    return {
        name: [_sums(weight) for weight in weights],
        f"{name}.training": [part.training for part in module.modules()],
        f"{name}.requires_grad": [weight.requires_grad for weight in weights],
        f"{name}.grad": [_gradient(weight) for weight in weights],
    }


def _written(tensor: Tensor | None) -> tuple[int, int] | None:
    """Another one after the tensor was written to, or its memory exchanged."""
    return None if tensor is None else (tensor._version, tensor.data_ptr())


def _sums(weight: Tensor) -> str:
    """Of its numbers: a fused optimizer writes without counting it as a write."""
    numbers = weight.detach().double()
    return repr((numbers.sum().item(), numbers.square().sum().item()))


def _gradient(tensor: Tensor) -> tuple[int, int] | None:
    """None for one of zeros as well: it is as cleared as one that is gone."""
    return _written(tensor.grad) if tensor.is_leaf and tensor.grad is not None and bool(tensor.grad.any()) else None


def changed_since(before: Marks, after: Marks) -> set[str]:
    """The paths whose mark is another one now."""
    return {path for path in before if before[path] != after.get(path)}


@contextmanager
def watched(lesson: ModuleType, exercise: str, changed: set[str]) -> Iterator[None]:
    """Until the end of the block a call of the exercise adds to `changed` what it changed of its caller's objects."""
    head, _, method = exercise.partition(".")
    holder, name = (getattr(lesson, head, None), method) if method else (lesson, head)
    original = vars(holder).get(name) if isinstance(holder, type) else getattr(holder, name, None)
    if not inspect.isfunction(original):
        yield
        return
    with mock.patch.object(holder, name, _noting(original, changed, is_method=bool(method))):
        yield


def _noting(function: Callable[..., Any], changed: set[str], is_method: bool) -> Callable[..., Any]:
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        owner = given.pop(names[0], None) if is_method and names else None

        def marks() -> Marks:
            return _marks_of_owner(owner) | marks_of(given)

        before, answer = marks(), None
        try:
            answer = function(*args, **kwargs)
            return answer
        finally:
            # An iterator may draw its numbers at the call, or when it is asked for the first item.
            drawn = {name for name, one in given.items() if isinstance(one, torch.Generator)}
            changed.update(changed_since(before, marks()) - (drawn if isinstance(answer, Iterator) else set()))

    return noting


def _marks_of_owner(owner: Any) -> Marks:
    """Of the object whose method is called only its models and generators: the rest is its own affair."""
    if isinstance(owner, nn.Module):
        return marks_of({"self": owner})
    parts = getattr(owner, "__dict__", {}).items()
    return marks_of({f"self.{name}": part for name, part in parts if isinstance(part, (nn.Module, torch.Generator))})


UNSEEN = 2**61 - 1
"""Each call finds torch's global generator at this seed, which nobody chooses: whether it is seeded can be seen."""


WORDS = 4 * (624 + 1)
"""Bytes in memory of the Mersenne twister's key and place."""


class GlobalState:
    """What a call must not change for those that come after it."""

    def __init__(self) -> None:
        self.settings = {name: read() for name, (read, _) in SETTINGS.items()}
        self.torch_state = torch.get_rng_state()
        torch.default_generator.manual_seed(UNSEEN)
        self.seeded_state = torch.get_rng_state()
        self.python_state = random.getstate()
        self.numpy_state = _numpy_state()
        self.used_random = False

    def restore(self) -> tuple[str, ...]:
        """Put all back; what had been changed, in words."""
        changed = []
        for name, (read, write) in SETTINGS.items():
            if (now := read()) != self.settings[name]:
                changed.append(f"{name} is {now}, was {self.settings[name]}")
                write(self.settings[name])
        if torch.initial_seed() != UNSEEN:
            changed.append("torch's global generator was seeded")
        self.used_random |= not torch.equal(torch.get_rng_state(), self.seeded_state)
        torch.set_rng_state(self.torch_state)
        if random.getstate() != self.python_state:
            self.used_random = True
            random.setstate(self.python_state)
        self.used_random |= self.numpy_state is not None and _put_back(self.numpy_state)  # None: imported since
        return tuple(changed)


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch.is_grad_enabled()": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch.get_default_dtype()": (torch.get_default_dtype, torch.set_default_dtype),
    "torch.get_default_device()": (torch.get_default_device, torch.set_default_device),
    "torch.get_num_threads()": (torch.get_num_threads, torch.set_num_threads),
    "torch.is_autocast_enabled()": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda on: torch.set_autocast_enabled("cpu", on),
    ),
    "torch.are_deterministic_algorithms_enabled()": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "torch.is_anomaly_enabled()": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
}


_LAST: dict[bytes, Any] = {}
"""What `_numpy_state` gave last: the words of the generator -> its whole state."""


def _numpy_state() -> Any:
    """Numpy's old global generator, its words and its whole state, where somebody has loaded numpy.

    The whole state takes 30 microseconds, and each call would pay them twice: words that are those of the last time,
    with no second normal number waiting, have its state.
    """
    if (numpy := sys.modules.get("numpy.random")) is None:
        return None
    words = _words_of(generator := numpy.get_bit_generator())
    if not words or words not in _LAST or _LAST[words]["has_gauss"]:
        _LAST.clear()
        _LAST[words] = numpy.get_state(legacy=False)
    return generator, words, _LAST[words]


def _words_of(generator: Any) -> bytes:
    """What is in memory of a Mersenne twister: its key, and how far it has been used. Of another generator nothing."""
    return ctypes.string_at(generator.ctypes.state_address, WORDS) if type(generator).__name__ == "MT19937" else b""


def _put_back(before: Any) -> bool:
    """Whether numpy's old global generator had been used since."""
    numpy, (generator, words, state) = sys.modules["numpy.random"], before
    now = numpy.get_bit_generator()
    if now is generator and words == _words_of(now):
        # Where there are no words, and where a second normal number waits, they do not say all; this takes 2 ms.
        is_told = words and not state["has_gauss"]
        if is_told or repr(numpy.get_state(legacy=False)) == repr(state):
            return False
    if now is not generator:
        numpy.set_bit_generator(generator)
    numpy.set_state(state)
    return True
