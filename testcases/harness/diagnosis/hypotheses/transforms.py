"""What may be wrong with one value: as an argument it is another one, as an answer it is an image of the right one.

Each row is a text and a function of the value. In the text `{}` is the value's name; a row that raises, or leaves the
value as it is, explains nothing. The most likely come first.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Row(NamedTuple):
    text: str
    change: Callable[[Any], Any]
    leaves_unused: bool = False
    """Whether the value then says nothing: whoever gives this answer may not use it at all."""
    names: tuple[str, ...] = ()
    """The names in the text beside the value's."""


def _rows(*rows: tuple[Any, ...]) -> tuple[Row, ...]:
    return tuple(Row(*one) for one in rows)


UNUSED = True
ROLL, CUMSUM = (not UNUSED, ("roll",)), (not UNUSED, ("cumsum",))


def shifted(values: Tensor, by: int) -> Tensor:
    """Along the last dimension, `by` places later; what comes in is 0."""
    empty = torch.zeros_like(values[..., : abs(by)])
    parts = [empty, values[..., :-by]] if by > 0 else [values[..., -by:], empty]
    return torch.cat(parts, dim=-1)


def spread(values: Tensor) -> Tensor:
    return (values - values.mean()) / (values.std() + 1e-8)


NUMBERS = _rows(
    ("with `{}` = 0", lambda x: type(x)(0), UNUSED),
    ("with `{}` = 1", lambda x: type(x)(1), UNUSED),
    ("with `{}` negated", lambda x: -x),
    ("with one more than `{}`", lambda x: x + 1),
    ("with one less than `{}`", lambda x: x - 1),
    ("with 1 - `{0}` in place of `{0}`", lambda x: 1 - x),
    ("with 1 / `{}`: multiplied where it divides, or the reverse?", lambda x: 1 / x),
    ("with `{}` squared: is it applied twice?", lambda x: x**2),
    ("with the square root of `{}`", lambda x: x**0.5),
    ("with twice `{}`", lambda x: 2 * x),
    ("with half of `{}`", lambda x: x / 2),
    ("with exp(`{}`)", math.exp),
)
SWITCHES = _rows(
    ("with `{}` always True", lambda x: True, UNUSED),
    ("with `{}` always False", lambda x: False, UNUSED),
    ("with `{}` inverted", lambda x: not x),
)
FLAGS = _rows(
    ("with `{}` True everywhere", torch.ones_like, UNUSED),
    ("with `{}` False everywhere", torch.zeros_like, UNUSED),
    ("with `{}` inverted", lambda x: ~x if x.dtype == torch.bool else 1 - x),
    ("with `{}` shifted by one: entry t - 1 stands at t", lambda x: shifted(x, 1)),
    ("with `{}` shifted by one: entry t + 1 stands at t", lambda x: shifted(x, -1)),
    ("with `{}` True up to its last True: is a False before it counted?", lambda x: up_to_the_last(x)),
    ("with `{}` cut at its first False", lambda x: x.long().cumprod(-1).to(x.dtype)),
    ("with only the first True of each row of `{}`", lambda x: (x.bool() & (x.long().cumsum(-1) == 1)).to(x.dtype)),
    ("with only the last True of each row of `{}`", lambda x: last_true(x)),
    ("without the last True of each row of `{}`", lambda x: (x.bool() & ~last_true(x).bool()).to(x.dtype)),
    ("without the first True of each row of `{}`", lambda x: (x.bool() & (x.long().cumsum(-1) > 1)).to(x.dtype)),
    ("with the last entry of each row of `{}` set to True", lambda x: _with_last(x, True)),
    ("with the last entry of each row of `{}` set to False", lambda x: _with_last(x, False)),
    ("with the first row of `{}` for all rows", lambda x: x[:1].expand_as(x)),
    ("with `{}` reversed in time", lambda x: x.flip(-1)),
)
FLOATS = _rows(
    ("with `{}` = 0", torch.zeros_like, UNUSED),
    ("with `{}` = 1", torch.ones_like, UNUSED),
    ("with `{}` detached: no gradient may be cut there", lambda x: x.detach()),
    ("with `{}` negated", lambda x: -x),
    ("with `{}` shifted by one: entry t - 1 stands at t, 0 at the start", lambda x: shifted(x, 1)),
    ("with `{}` shifted by one: entry t + 1 stands at t, 0 at the end", lambda x: shifted(x, -1)),
    ("with `{}` rolled by one (`roll`): the first entry comes round to the end", lambda x: x.roll(-1, -1), *ROLL),
    ("with `{}` rolled by one (`roll`): the last entry comes round to the start", lambda x: x.roll(1, -1), *ROLL),
    ("with `{}` reversed in time", lambda x: x.flip(-1)),
    ("with exp(`{}`)", torch.exp),
    ("with log(`{}`)", torch.log),
    ("with log_softmax(`{}`): is it applied once too often, or forgotten?", lambda x: x.log_softmax(-1)),
    ("with softmax(`{}`)", lambda x: x.softmax(-1)),
    ("with the absolute value of `{}`", torch.abs),
    ("with `{}` squared", torch.square),
    ("with the sign of `{}` alone", torch.sign),
    ("with only the positive entries of `{}`", lambda x: x.clamp(min=0)),
    ("with the mean of each row of `{}` subtracted first", lambda x: x - x.mean(-1, keepdim=True)),
    ("with the mean of each row of `{}` in place of each entry", lambda x: x.mean(-1, keepdim=True).expand_as(x)),
    ("with `{}` summed up from the start (`cumsum`)", lambda x: x.cumsum(-1), *CUMSUM),
    ("with the last entry of `{}` set to 0", lambda x: torch.cat([x[..., :-1], 0 * x[..., -1:]], -1)),
    ("with the first entry of `{}` set to 0", lambda x: torch.cat([0 * x[..., :1], x[..., 1:]], -1)),
    ("with the first row of `{}` for all rows", lambda x: x[:1].expand_as(x)),
    ("with half of `{}`", lambda x: x / 2),
    ("with twice `{}`", lambda x: 2 * x),
    ("with `{}` clipped to [-1, 1]", lambda x: x.clamp(-1, 1)),
    ("with `{}` clipped to [0, 1]", lambda x: x.clamp(0, 1)),
    ("with NaN in `{}` replaced by 0", lambda x: x.nan_to_num(0.0)),
)
COUNTS = _rows(
    ("with `{}` = 0", torch.zeros_like, UNUSED),
    ("with one more than `{}`", lambda x: x + 1),
    ("with one less than `{}`", lambda x: x - 1),
    ("with `{}` shifted by one: entry t - 1 stands at t", lambda x: shifted(x, 1)),
    ("with `{}` shifted by one: entry t + 1 stands at t", lambda x: shifted(x, -1)),
    ("with `{}` rolled by one (`roll`)", lambda x: x.roll(-1, -1), *ROLL),
    ("with `{}` rolled by one (`roll`), the other way", lambda x: x.roll(1, -1), *ROLL),
    ("with `{}` reversed in time", lambda x: x.flip(-1)),
    ("with the first row of `{}` for all rows", lambda x: x[:1].expand_as(x)),
)
SEQUENCES = _rows(
    ("with only the first of `{}`", lambda x: x[:1]),
    ("with only the last of `{}`", lambda x: x[-1:]),
    ("with `{}` empty: is it used?", lambda x: x[:0]),
    ("with `{}` reversed", lambda x: x[::-1]),
    ("without the last of `{}`", lambda x: x[:-1]),
    ("without the first of `{}`", lambda x: x[1:]),
    ("with `{}` sorted", lambda x: type(x)(sorted(x))),
)


OF_REAL_TOKENS = _rows(
    ("with `{}` whitened first", spread),
    ("with the mean of `{}` subtracted first", lambda x: x - x.mean()),
    ("with `{}` divided by its standard deviation first", lambda x: x / (x.std() + 1e-8)),
    ("with the mean of `{}` in place of each entry", lambda x: x.mean().expand_as(x)),
)


def last_true(flags: Tensor) -> Tensor:
    reverse = flags.bool().flip(-1)
    return (reverse & (reverse.long().cumsum(-1) == 1)).flip(-1).to(flags.dtype)


def up_to_the_last(flags: Tensor) -> Tensor:
    return (flags.bool().flip(-1).long().cumsum(-1) > 0).flip(-1).to(flags.dtype)


def _with_last(flags: Tensor, value: bool) -> Tensor:
    return torch.cat([flags[..., :-1], torch.full_like(flags[..., -1:], value)], -1)


def is_float(value: Any) -> bool:
    """A tensor of floating-point numbers."""
    return isinstance(value, Tensor) and value.is_floating_point()


def is_flags(value: Any) -> bool:
    """A mask, as bool or as 0 and 1 in whole numbers."""
    if not isinstance(value, Tensor) or value.dim() == 0 or value.numel() == 0:
        return False
    return value.dtype == torch.bool or (not value.is_floating_point() and bool(((value == 0) | (value == 1)).all()))


def rows_for(value: Any) -> tuple[Row, ...]:
    """The table for a value of this kind."""
    if isinstance(value, bool):
        return SWITCHES
    if isinstance(value, (int, float)):
        return NUMBERS
    if is_flags(value):
        return FLAGS
    if isinstance(value, Tensor):
        return FLOATS if value.is_floating_point() else COUNTS
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return SEQUENCES
    return ()


# ---- images of the answer

SCALARS = _rows(
    ("negated: the sign is inverted", lambda x: -x),
    ("times 2", lambda x: 2 * x),
    ("divided by 2: is a factor 1/2 missing, or there twice?", lambda x: x / 2),
    ("times 1.4427: in bits, not in nats", lambda x: x / math.log(2)),
    ("times 0.6931: a logarithm to another base", lambda x: x * math.log(2)),
    ("squared", lambda x: x**2),
    ("plus 1", lambda x: x + 1),
    ("minus 1", lambda x: x - 1),
    ("subtracted from 1", lambda x: 1 - x),
    ("inverted (1 / x)", lambda x: 1 / x),
    ("set to 0", lambda x: 0 * x),
    ("set to 1", lambda x: 0 * x + 1),
)
FUNCTIONS = _rows(
    ("passed through exp", torch.exp),
    ("passed through log", torch.log),
    ("passed through sqrt", torch.sqrt),
    ("passed through tanh", torch.tanh),
    ("passed through sigmoid", torch.sigmoid),
    ("without its sign (abs)", torch.abs),
    ("cut off below 0", lambda x: x.clamp(min=0)),
    ("cut off above 0", lambda x: x.clamp(max=0)),
    ("clipped to [-1, 1]", lambda x: x.clamp(-1, 1)),
    ("clipped to [0, 1]", lambda x: x.clamp(0, 1)),
    ("detached: the numbers are right, but no gradient flows", lambda x: x.detach()),
    ("rounded to whole numbers", torch.round),
    ("in float32", lambda x: x.float()),
    ("in float64", lambda x: x.double()),
    ("as a Python number", lambda x: x.item()),
    ("with NaN replaced by 0", lambda x: x.nan_to_num(0.0)),
)
OVER_TIME = _rows(
    ("one step late: entry t - 1 stands at t, 0 at the start", lambda x: shifted(x, 1)),
    ("one step early: entry t + 1 stands at t, 0 at the end", lambda x: shifted(x, -1)),
    ("rolled by one (`roll`): the first entry comes round to the end", lambda x: x.roll(-1, -1), *ROLL),
    ("rolled by one (`roll`): the last entry comes round to the start", lambda x: x.roll(1, -1), *ROLL),
    ("reversed in time", lambda x: x.flip(-1)),
    ("summed up from the start (`cumsum`)", lambda x: x.cumsum(-1), *CUMSUM),
    ("summed up from the end", lambda x: x.flip(-1).cumsum(-1).flip(-1)),
    ("as differences of neighbors", lambda x: torch.cat([x[..., :1], x.diff(dim=-1)], -1)),
    ("with the first entry of each row for all of its entries", lambda x: x[..., :1].expand_as(x).clone()),
    ("with the last entry of each row for all of its entries", lambda x: x[..., -1:].expand_as(x).clone()),
    ("with the mean of each row for all of its entries", lambda x: x.mean(-1, keepdim=True).expand_as(x).clone()),
    ("with the first row for all rows", lambda x: x[:1].expand_as(x).clone()),
    ("summed over the last dimension", lambda x: x.sum(-1)),
    ("averaged over the last dimension", lambda x: x.mean(-1)),
    ("summed over everything", lambda x: x.sum()),
    ("averaged over everything", lambda x: x.mean()),
    ("whitened", spread),
    ("whitened row by row", lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-8)),
    ("with its mean subtracted", lambda x: x - x.mean()),
    ("with the mean of each row subtracted", lambda x: x - x.mean(-1, keepdim=True)),
    ("divided by its largest entry", lambda x: x / x.abs().max()),
    ("without its last entry", lambda x: x[..., :-1]),
    ("without its first entry", lambda x: x[..., 1:]),
    ("with the last entry set to 0", lambda x: torch.cat([x[..., :-1], torch.zeros_like(x[..., -1:])], -1)),
    ("with the first entry set to 0", lambda x: torch.cat([torch.zeros_like(x[..., :1]), x[..., 1:]], -1)),
    ("with rows and columns exchanged", lambda x: x.transpose(-1, -2)),
    ("with one dimension too many at the end", lambda x: x.unsqueeze(-1)),
    ("with one dimension too few", lambda x: x.squeeze()),
)
BOOLS = _rows(
    ("inverted: True and False have changed places", lambda x: ~x),
    *OVER_TIME[:2],
    ("inverted, and one step late", lambda x: ~torch.cat([x[..., :1], x[..., :-1]], -1)),
    ("inverted, and one step early", lambda x: ~torch.cat([x[..., 1:], torch.zeros_like(x[..., :1])], -1)),
    ("True everywhere but at the last True of each row", lambda x: ~last_true(x)),
    ("True at the last True of each row only", lambda x: last_true(x)),
    ("without the last True of each row", lambda x: x & ~last_true(x)),
    ("reversed in time", lambda x: x.flip(-1)),
    ("True everywhere", torch.ones_like),
    ("False everywhere", torch.zeros_like),
    ("in whole numbers", lambda x: x.long()),
    ("in floating point", lambda x: x.float()),
)


def images_of(answer: Any) -> tuple[Row, ...]:
    """The images of an answer, or a part, of this kind."""
    if isinstance(answer, bool):
        return _rows(("inverted", lambda x: not x))
    if isinstance(answer, (int, float)):
        return (*SCALARS, Row("without its sign (abs)", abs))
    if not isinstance(answer, Tensor):
        return ()
    if answer.dtype == torch.bool:
        return BOOLS
    tables = SCALARS + (FUNCTIONS if answer.is_floating_point() else ())
    return tables + (OVER_TIME if answer.dim() else ())


# ---- sizes by which an answer may be off

SIZES: tuple[tuple[str, Callable[[Tensor, Tensor], Any]], ...] = (
    ("the number of real tokens", lambda tensor, mask: _count(mask)),
    ("the number of entries", lambda tensor, mask: tensor.numel()),
    ("the number of rows", lambda tensor, mask: len(tensor)),
    ("the number of columns", lambda tensor, mask: tensor.shape[-1]),
    ("the share of real tokens", lambda tensor, mask: _count(mask) / mask.numel()),
    ("the share of rows with a real token", lambda tensor, mask: _count(mask.any(-1)) / len(mask)),
    ("n / (n - 1), n the number of real tokens", lambda tensor, mask: _count(mask) / (_count(mask) - 1)),
    ("n / (n - 1), n the number of rows", lambda tensor, mask: len(tensor) / (len(tensor) - 1)),
    ("n / (n - 1), n the number of columns", lambda tensor, mask: tensor.shape[-1] / (tensor.shape[-1] - 1)),
    ("the number of real tokens per column", lambda tensor, mask: _count(mask) / tensor.shape[-1]),
    ("the number of real tokens per row", lambda tensor, mask: _count(mask) / len(tensor)),
    ("the number of real tokens of its row", lambda tensor, mask: mask.sum(-1, keepdim=True).to(tensor.dtype)),
)


def _count(flags: Tensor) -> int:
    return int(flags.sum())


def scaled() -> Iterator[tuple[str, Callable[[Any, Tensor, Tensor], Any]]]:
    """An answer times, or divided by, each of the SIZES, given it, a tensor and a mask of the arguments."""
    for text, size in SIZES:
        yield f"times {text}", functools.partial(_by, operator.mul, size)
        yield f"divided by {text}", functools.partial(_by, operator.truediv, size)


def _by(combine: Callable[[Any, Any], Any], size: Callable[..., Any], answer: Any, tensor: Tensor, mask: Tensor) -> Any:
    return combine(answer, size(tensor, mask))
