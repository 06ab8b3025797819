"""One call of somebody's function: numbers in, numbers out, whatever it takes and returns."""

import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from .cases import Case, Operation

FRAMEWORKS = ("torch", "numpy", "list")
LISTS = ("stop_token_ids",)
"""Arguments that stay lists, whatever the framework."""


@dataclass(frozen=True)
class Way:
    """How a function is called."""

    framework: str = ""
    dtype: str = "float64"
    given: Mapping[str, str] = field(default_factory=dict)
    """Arguments in another layout than the file's."""

    def __post_init__(self) -> None:
        if self.framework not in ("", *FRAMEWORKS):
            raise ValueError(f"expected framework to be one of {', '.join(FRAMEWORKS)}, got {self.framework!r}")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"expected dtype to be float32 or float64, got {self.dtype!r}")

    @property
    def kind(self) -> str:
        return self.framework or ("torch" if importlib.util.find_spec("torch") else "numpy")


@dataclass
class Answer:
    """What a call gave: numbers by the name of the result, or the sentence that says why there are none."""

    results: dict[str, Any] = field(default_factory=dict)
    gradient: dict[str, Any] | None = None
    failed: str = ""
    changed: tuple[str, ...] = ()


def must_fit(function: Callable[..., Any], names: Sequence[str]) -> None:
    """That `function` can be called with arguments of these names, where its signature can be had."""
    if not callable(function):
        raise ValueError(f"expected a function, got {type(function).__name__}")
    label, given = label_of(function), ", ".join(names)
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise ValueError(
            f"{label}{inspect.signature(function)} is called with {given} by name ({error}); check a wrapper, "
            f"def mine({given}): return {label}(...)"
        ) from None
    except ValueError:  # a builtin without a signature
        pass


def label_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def ask(
    function: Callable[..., Any], operation: Operation, case: Case, arguments: Mapping[str, Any], way: Way
) -> Answer:
    """Call `function` with a case's arguments. An exception is an answer, too."""
    handed = {name: _made(name, value, way) for name, value in arguments.items()}
    before = {name: _numbers(value) for name, value in handed.items() if isinstance(arguments[name], list)}
    by = tuple(case.gradient.get("by", ())) if way.kind == "torch" else ()
    leaves = {name: handed[name].requires_grad_(True) for name in by}
    handed |= {name: leaf.clone() for name, leaf in leaves.items()}  # torch refuses to write into a leaf
    try:
        with numpy.errstate(all="ignore"):  # NaN and large numbers are part of the question
            results = _results(function(**handed), operation)
        gradient = _gradient(results, leaves, case) if by else None
        numbers = {name: _numbers(value) for name, value in results.items()}
    except (Exception, SystemExit) as error:
        return Answer(failed=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")
    after = {name: _numbers(handed[name]) for name in before}
    changed = [name for name, old in before.items() if not numpy.array_equal(old, after[name], equal_nan=True)]
    return Answer(numbers, gradient, changed=tuple(changed))


def _made(name: str, value: Any, way: Way) -> Any:
    if way.given.get(name) == "before":  # what holds after step t holds before step t + 1
        value = [[False, *row] for row in value]
    if not isinstance(value, list) or name in LISTS:
        return list(value) if isinstance(value, list) else value
    if way.kind == "list":
        return [list(one) if isinstance(one, list) else one for one in value]
    array = numpy.array(value)
    array = array.astype(way.dtype) if array.dtype.kind == "f" else array
    if way.kind == "numpy":
        return array
    import torch

    return torch.tensor(array)


def _results(returned: Any, operation: Operation) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        if missing := [name for name in operation.returns if name not in returned]:
            raise TypeError(f"expected {' and '.join(missing)} in the dict, got {', '.join(returned)}")
        return {name: returned[name] for name in operation.returns}
    if len(operation.returns) == 1:
        return {operation.returns[0]: returned}
    if not isinstance(returned, Sequence) or len(returned) != len(operation.returns):
        raise TypeError(f"expected {' and '.join(operation.returns)}, got {type(returned).__name__}")
    return dict(zip(operation.returns, returned, strict=True))


def _gradient(results: dict[str, Any], leaves: dict[str, Any], case: Case) -> dict[str, Any] | None:
    """None where the answer is cut off from the arguments."""
    import torch

    of = results[case.gradient["of"]]
    if not isinstance(of, torch.Tensor) or not of.requires_grad:
        return None
    weights = torch.tensor(case.gradient.get("weights", 1.0), dtype=of.dtype, device=of.device)
    found = torch.autograd.grad((of * weights).sum(), list(leaves.values()), allow_unused=True)
    return {name: None if one is None else _numbers(one) for name, one in zip(leaves, found, strict=True)}


def _numbers(value: Any) -> Any:
    """An array of float64 on the CPU."""
    if value is None:
        raise TypeError("it returned None")
    if hasattr(value, "detach"):
        value = value.detach().cpu().double() if value.dtype.is_floating_point else value.detach().cpu()
        return value.numpy().astype(float)
    if isinstance(value, (list, tuple)):
        return numpy.array([_numbers(one) for one in value])
    try:
        return numpy.array(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"expected numbers, got {type(value).__name__}: write a wrapper") from None
