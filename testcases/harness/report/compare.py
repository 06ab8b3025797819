"""Exact comparison: structure, type, shape, dtype, device, NaN, and only then the numbers, as the dtype allows."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import fields_of, tensors_in
from .failures import show, show_pair, type_name

# Relative and absolute: what another sound order of operations reaches on numbers of size 1; a wrong formula is far
# off.
TOLERANCE = {
    torch.float64: (1e-9, 1e-11),
    torch.float32: (1e-5, 1e-6),
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (8e-3, 8e-3),
}
FLOAT = (1e-6, 1e-7)
"""Relative and absolute tolerance of a Python float: it may have been float32, as `mask.float().mean().item()` is. The
relative one also holds where a test states its own tolerance."""


@dataclass(frozen=True)
class Difference:
    """The first thing that is not as expected."""

    kind: str
    """Such as "wrong value", "wrong shape"."""
    lines: tuple[str, ...]
    """What to say about it."""


@dataclass(frozen=True)
class Rules:
    """How to compare; without `atol` and `rtol` as TOLERANCE says, with one of them the other is 0."""

    atol: float | None = None
    rtol: float | None = None
    equal_nan: bool = False
    what: str = "value"
    """What is compared: "value" or "gradient"."""
    single: bool = False
    """Whether float64 is compared as float32, which may also stand in its place: what is asked is the formula."""
    nan: str = "NaN in"
    """What a NaN in the answer is, such as "NaN leaked from the padding into"."""

    def tolerance(self, dtype: torch.dtype) -> tuple[float, float]:
        """Relative and absolute."""
        rtol, atol = TOLERANCE.get(dtype, TOLERANCE[torch.float64])
        if self.atol is not None or self.rtol is not None:
            rtol, atol = self.rtol or 0.0, self.atol or 0.0
        least = TOLERANCE[torch.float32] if self.single else (0.0, 0.0)
        return max(rtol, least[0]), max(atol, least[1])


EXACT = Rules()
BY_ROUNDING = ", by rounding"
SPREAD = "NaN of a real token spread in"


def first_difference(expected: Any, got: Any, rules: Rules = EXACT, path: str = "") -> Difference | None:
    """Compare plain trees; None where they agree. `path` names the part that is compared."""
    where = (f"gradient by {path}: " if rules.what == "gradient" else f"in {path}: ") if path else ""
    expected, names = fields_of(expected)
    got, _ = fields_of(got)
    if isinstance(expected, Tensor):
        return _tensors(expected, got, rules, where, path)
    if isinstance(expected, tuple):
        if not isinstance(got, tuple) or len(got) != len(expected):
            wanted = f"a tuple of {len(expected)}" + (f" ({', '.join(names)})" if names else "")
            return Difference(f"returned {type_name(got)}", (f"expected {where}{wanted}", f"got      {show(got)}"))
        keys = names or tuple(map(str, range(len(expected))))
        return _first(zip(keys, expected, got, strict=True), rules, path)
    if isinstance(expected, dict):
        wanted = f"expected {where}a dict with {', '.join(expected)}"
        if not isinstance(got, dict):
            return Difference(f"returned {type_name(got)}", (wanted, f"got      {show(got)}"))
        if expected.keys() != got.keys():
            return Difference("wrong keys", (wanted, f"got      one with {', '.join(got) or 'nothing'}"))
        return _first(((key, expected[key], got[key]) for key in expected), rules, path)
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        return _first(zip(map(str, range(len(got))), expected, got, strict=True), rules, path)
    if isinstance(expected, float) and type(got) in (float, int):  # an int is a float's number, a bool is none
        if (rules.equal_nan and expected != expected and got != got) or near_float(expected, got, rules):
            return None
        left, right = show_pair(expected, got)
        kind = "NaN in the answer" if got != got else f"wrong {rules.what}"
        return Difference(kind, (f"expected {where}{left}", f"got      {right}"))
    if type(expected) is not type(got):
        wanted = f"expected {where}{type_name(expected)}: {show(expected)}"
        return Difference(f"returned {type_name(got)}", (wanted, f"got      {type_name(got)}: {show(got)}"))
    if expected == got:
        return None
    return Difference(f"wrong {rules.what}", (f"expected {where}{show(expected)}", f"got      {show(got)}"))


def _first(parts: Iterable[tuple[str, Any, Any]], rules: Rules, path: str) -> Difference | None:
    for name, expected, got in parts:
        difference = first_difference(expected, got, rules, f"{path}.{name}" if path else name)
        if difference:
            return difference
    return None


def _tensors(expected: Tensor, got: Any, rules: Rules, where: str, path: str) -> Difference | None:
    if not isinstance(got, Tensor):
        wanted = f"expected {where}a tensor of shape {tuple(expected.shape)}, {expected.dtype}"
        shown = "None: is a return missing?" if got is None else f"{type_name(got)}: {show(got)}"
        kind = f"returned {type_name(got, sized=False)}"
        kind += " where a tensor is due" if isinstance(got, (int, float)) else ""
        return Difference(kind, (wanted, f"got      {shown}"))
    if rules.single and {got.dtype, expected.dtype} == {torch.float32, torch.float64}:
        got = got.to(expected.dtype)
    if got.shape != expected.shape:
        lines = (f"expected {where}shape {tuple(expected.shape)}", f"got      shape {tuple(got.shape)}: {show(got)}")
        return Difference("wrong shape", lines)
    if got.dtype != expected.dtype:
        return Difference("wrong dtype", (f"expected {where}{expected.dtype}", f"got      {got.dtype}: {show(got)}"))
    agrees = close(expected, got, rules)
    if bool(agrees.all()):
        return None
    return _wrong_numbers(expected, got, agrees, rules, where, path)


def _wrong_numbers(expected: Tensor, got: Tensor, agrees: Tensor, rules: Rules, where: str, path: str) -> Difference:
    index = tuple((~agrees).nonzero()[0].tolist()) if expected.dim() else ()
    left, right = show_pair(expected[index].item(), got[index].item())
    kind = _kind(expected, got, rules)
    lines = [f"expected {where}{show(expected)}", f"got      {show(got)}"]
    if expected.numel() > 1:
        spot = f"{path or 'answer'}[{', '.join(map(str, index))}]"
        count = f"({int((~agrees).sum())} of {agrees.numel()} differ)"
        lines.append(f"first difference at {spot}: expected {left}, got {right}   {count}")
    elif show(expected) == show(got):
        lines = [f"expected {where}{left}", f"got      {right}"]
    return Difference(kind, tuple(lines))


def _kind(expected: Tensor, got: Tensor, rules: Rules) -> str:
    """The title of a difference in numbers."""
    if not got.is_floating_point():
        return f"wrong {rules.what}"
    if bool((got.isnan() & ~expected.isnan()).any()):
        where = "answer" if rules.what == "value" else rules.what  # In many lessons a value is what a critic says.
        return f"{SPREAD if bool(expected.isnan().any()) else rules.nan} the {where}"
    return f"wrong {rules.what}{BY_ROUNDING if is_rounding(expected, got) else ''}"


def is_rounding(expected: Tensor, got: Tensor) -> bool:
    """Each number to six digits, so that a small one may not be wrong altogether; a zero as closely as the largest."""
    if expected.dtype != torch.float64 or not bool(expected.isfinite().all()):
        return False
    size = expected.abs()
    return bool(((expected - got).abs() <= 1e-6 * torch.where(size > 0, size, size.max())).all())


def nan_in(arguments: dict[str, Any]) -> str:
    """How to report a NaN in the answer: it leaked from the padding only if every NaN of the arguments is there."""
    masks = [value.bool() for name, value in arguments.items() if "mask" in name and isinstance(value, Tensor)]
    broken = [tensor for tensor in tensors_in(list(arguments.values())) if bool(tensor.isnan().any())]
    if not broken:
        return Rules.nan
    pairs = [(tensor.isnan(), mask) for tensor in broken for mask in masks if tensor.shape[: mask.dim()] == mask.shape]
    if not pairs:
        return "NaN from an input that must be ignored leaked into"
    return SPREAD if any(bool(nan[mask].any()) for nan, mask in pairs) else "NaN leaked from the padding into"


def near_float(expected: float, got: float, rules: Rules = EXACT) -> bool:
    """Two Python floats, up to rounding."""
    relative, absolute = FLOAT
    if rules.atol is not None or rules.rtol is not None:
        relative, absolute = max(relative, rules.rtol or 0.0), rules.atol or 0.0
    if rules.single:
        relative, absolute = rules.tolerance(torch.float32)
    return math.isclose(expected, got, rel_tol=relative, abs_tol=absolute)


def close(expected: Tensor, got: Tensor, rules: Rules) -> Tensor:
    """The places at which two tensors agree."""
    if not (expected.is_floating_point() or expected.is_complex()):
        return expected == got
    rtol, atol = rules.tolerance(expected.dtype)
    if expected.dtype in (torch.float16, torch.bfloat16):
        expected, got = expected.float(), got.float()
    near = ((expected - got).abs() <= atol + rtol * expected.abs()) & expected.isfinite()
    near |= expected == got
    return near | (expected.isnan() & got.isnan()) if rules.equal_nan else near
