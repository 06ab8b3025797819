"""Where answers differ from the right ones: on which questions, in which part, at which places, and by how much."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .alterations import is_flags, last_true, shifted, up_to_the_last
from .compare import Rules, close, same_outcome, same_slope
from .failures import show
from .plain import Outcome, Request, fields_of
from .signs import Pair, Parts, Seen, beside_the_answer, is_level, of_another_kind, row_alone
from .trusted import shared_reference

ROUGH = Rules(1e-6, 1e-6, equal_nan=True)
WEAK = ("given", "float64", "the same everywhere")
"""Ends of features that most questions have: each other one tells more."""


def where(seen: list[Seen], failing: Seen, ask: Callable[[Request], tuple[Outcome, Outcome]]) -> str:
    """What all wrong answers have in common, and no right one; empty if there is nothing.

    `ask` gives the right answer to another question, and the student's.
    """
    if text := beside_the_answer(failing):
        return text
    wrong = [one for one in seen if not same_outcome(one[1], one[2])]
    right = [one for one in seen if same_outcome(one[1], one[2])]
    told = []
    if wrong:
        told.append(_questions([*wrong, failing], right))
    elif text := _unlike([one[0] for one in seen], failing[0]):
        told.append(f"the {len(seen)} ordinary examples are all right; here {text}")
    wrong = [*wrong, failing]
    if not any(right.error or mine.error for _, right, mine in wrong):
        pairs = [(asked, _flat(right), _flat(mine)) for asked, right, mine in wrong]
        names = _parts_of(pairs)
        told += [_part(names, pairs), _places(names, pairs), of_another_kind(pairs) or _amount(names, pairs)]
    return "; ".join(text for text in told if text) or row_alone(failing, ask)


# ---- on which questions


def _questions(wrong: list[Seen], right: list[Seen]) -> str:
    """The narrowest feature that all wrong ones have, and not all right ones."""
    if not right:
        return ""
    features = [list(_features(asked)) for asked, _, _ in wrong]
    others = [set(_features(asked)) for asked, _, _ in right]
    shared = [text for text in features[0] if all(text in one for one in features)]
    count = {text: sum(text in one for one in others) for text in shared}
    # What raises does so for a type more often than for what stands in it.
    raised = all(mine.error for _, _, mine in wrong)
    best = min(shared, key=lambda text: (count[text], text.endswith(WEAK), raised and "` in " not in text), default="")
    # That a weak one is missing from one or two right answers says nothing.
    enough = 3 if best.endswith(WEAK) else 1
    return f"only {best}" if best and len(right) - count[best] >= enough else ""


def _unlike(ordinary: list[Request], asked: Request) -> str:
    """What is special about a question that none of the ordinary ones has."""
    known = {text for request in ordinary for text in _features(request)}
    special = [text for text in _features(asked) if text not in known]
    return " and ".join(sorted(special, key=lambda text: text.endswith(WEAK))[:2])


def _features(asked: Request) -> Iterator[str]:
    """What may make a question special, as it is said after "only"."""
    if asked.scenario:
        yield f"in {asked.scenario}"
    for name, value in asked.arguments.items():
        yield from _of_value(name, value)
    tensors = {name: value for name, value in asked.arguments.items() if isinstance(value, Tensor)}
    for name, value in asked.arguments.items():
        if type(value) is int and any(one.dim() and value >= one.shape[-1] for one in tensors.values()):
            yield f"with `{name}` beyond the last column"
    floats = [(name, value) for name, value in tensors.items() if value.is_floating_point() and value.numel()]
    for (name, one), (other, two) in itertools.combinations(floats, 2):
        gap = (one.double() - two.double()).abs() if one.shape == two.shape else torch.ones(1)
        if bool((gap == 0).any()):
            yield f"with `{name}` equal to `{other}` somewhere"
        if bool(((gap > 0) & (gap < 1e-5)).any()):
            yield f"with `{name}` nearly equal to `{other}` somewhere"
    if asked.grad_through is not None:
        yield f"for the gradient through `{asked.grad_through}`"
    if not asked.scenario:
        for name in shared_reference().parameters(asked.lesson, asked.exercise):
            if name not in asked.arguments:
                yield f"with `{name}` left at its default"


def _of_value(name: str, value: Any) -> Iterator[str]:
    if value is None or isinstance(value, (bool, str)):
        yield f"with `{name}` = {value!r}"
    elif isinstance(value, (int, float)):
        tests = {"= 0": value == 0, "= 1": value == 1, "below 0": value < 0, "above 1": value > 1, "large": value > 100}
        yield from (f"with `{name}` {text}" for text, holds in tests.items() if holds)
    elif isinstance(value, Tensor):
        yield from _of_tensor(name, value)
    elif isinstance(value, (list, tuple)):
        count = "empty" if not value else "of one entry" if len(value) == 1 else "of several entries"
        yield f"with `{name}` {count}"
    if value is not None:
        yield f"with `{name}` given"


def _of_tensor(name: str, value: Tensor) -> Iterator[str]:
    tests = {
        "of one row": value.dim() > 1 and len(value) == 1,
        "of one column": value.dim() > 0 and value.shape[-1] == 1,
        "of as many rows as columns": value.dim() > 1 and value.shape[-1] == value.shape[-2],
        "of more than 100 columns": value.dim() > 0 and value.shape[-1] > 100,
        "of more than two dimensions": value.dim() > 2,
        "of one dimension": value.dim() == 1,
        "without entries": value.numel() == 0,
        "laid out as a view (not contiguous: `reshape`, not `view`)": not value.is_contiguous(),
    }
    if is_flags(value):
        flags = value.bool()
        first, last = flags[..., 0], flags[..., -1]
        tests |= {
            "False somewhere": not bool(flags.all()),
            "True everywhere": bool(flags.all()),
            "False in a whole row": not bool(flags.any(-1).all()),
            "False at the start of a row": not bool(first.all()),
            "False at the end of a row": not bool(last.all()),
            "False between two True": bool((flags.long().diff(dim=-1) == 1).any() & first.any()),
            "with a single True": int(flags.sum()) == 1,
        }
    elif value.numel():
        number = value.double()
        finite = number[number.isfinite()].abs()
        tests |= {
            "NaN somewhere": bool(number.isnan().any()),
            "infinite somewhere": bool(number.isinf().any()),
            "0 somewhere": bool((number == 0).any()),
            "above 100 somewhere": bool((finite > 100).any()),
            "the same everywhere": value.numel() > 1 and bool((number == number.flatten()[0]).all()),
        }
    yield from (f"with `{name}` {text}" for text, holds in tests.items() if holds)
    yield f"with `{name}` in {str(value.dtype).removeprefix('torch.')}"


# ---- in which part


def _flat(outcome: Outcome) -> dict[str, Any]:
    """Value and gradients by name; a tree that is whole has the name ""."""
    found = dict(_tree("", outcome.value))
    found |= {f"gradient by `{name}`": slope for name, slope in outcome.gradients.items()}
    return found | {"the tensors that carry a gradient": bool(outcome.tracked), "the arguments": outcome.changed}


def _tree(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    value, names = fields_of(value)
    if isinstance(value, dict):
        names, value = tuple(value), tuple(value.values())
    if isinstance(value, (tuple, list)) and 0 < len(value) <= 40:
        for name, part in zip(names or map(str, range(len(value))), value, strict=True):
            yield from _tree(f"{path}.{name}" if path else str(name), part)
    else:
        yield path, value


def _parts_of(pairs: list[Pair]) -> set[str]:
    """The names of the parts that differ anywhere; with "*", a part that is always right, where there is one."""
    every = {name for _, left, _ in pairs for name in left if not name.startswith("the ")}
    differ = {
        name for _, left, got in pairs for name in left if name not in got or not same_slope(left[name], got[name])
    }
    return differ | ({"*"} if every - differ else set())


def _part(names: set[str], pairs: list[Pair]) -> str:
    names = names - {"*"} if "*" in names else set()
    slopes = sorted(name for name in names if name.startswith("gradient"))
    values = sorted(name for name in names if name not in slopes and not name.startswith("the "))
    if not names or len(values) > 3 or len(slopes) > 2:
        return ""
    if not values and slopes:
        lost = all(got.get(name) is None for _, _, got in pairs for name in slopes)
        return f"only in the {' and the '.join(slopes)}" + (": none arrives" if lost else "") + ", the value is right"
    every = {name for name in pairs[0][1] if not name.startswith(("gradient", "the "))}
    if values and values != [""]:
        return "" if set(values) == every else "only in " + ", ".join(f"`{name}`" for name in values)
    return "only in the value, the gradient is right" if values and not slopes else ""


# ---- at which places


def _places(names: set[str], pairs: list[Pair]) -> str:
    """The narrowest set of places, said by an argument, that holds all differences and not all entries."""
    names = {name for name in names if not name.startswith("gradient")} - {"*"} or names
    found: dict[str, list[int]] | None = None
    for asked, left, got in pairs:
        for name in names & left.keys():
            if not isinstance(left[name], Tensor) or same_slope(left[name], got.get(name)):
                continue
            if not isinstance(got.get(name), Tensor) or got[name].shape != left[name].shape or not left[name].dim():
                return ""
            differ = ~close(left[name].double(), got[name].double(), ROUGH)
            here = {text: int(places.sum()) for text, places in _regions(asked, differ) if _holds(places, differ)}
            found = here if found is None else {text: found[text] + here[text] for text in found if text in here}
    return f"only {min(found, key=lambda text: found[text])}" if found else ""


def _holds(places: Tensor, differ: Tensor) -> bool:
    return bool(differ.any()) and not bool((differ & ~places).any()) and not bool(places.all())


def _regions(asked: Request, like: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Sets of places in a tensor of this shape."""
    column = torch.arange(like.shape[-1]).expand(like.shape)
    yield "in the last column", column == like.shape[-1] - 1
    yield "in the first column", column == 0
    yield "after the first column", column > 0
    yield "before the last column", column < like.shape[-1] - 1
    if like.dim() > 1:
        row = torch.arange(len(like)).reshape(-1, *[1] * (like.dim() - 1)).expand(like.shape)
        yield "in the first row", row == 0
        yield "in the last row", row == len(like) - 1
        yield "after the first row", row > 0
    for name, value in asked.arguments.items():
        if not isinstance(value, Tensor):
            continue
        if value.shape == like.shape and is_flags(value):
            yield from _by_flags(name, value.bool())
        elif value.shape == like.shape and value.is_floating_point():
            yield f"where `{name}` is above 0", value > 0
            yield f"where `{name}` is below 0", value < 0
            yield f"where `{name}` is 0", value == 0
        elif is_flags(value) and value.dim() == 2 and len(value) == len(like):
            for text, rows in _of_rows(name, value.bool()):
                yield text, rows.reshape(-1, *[1] * (like.dim() - 1)).expand(like.shape)


def _by_flags(name: str, flags: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield f"where `{name}` is False", ~flags
    yield f"where `{name}` is True", flags
    yield f"one step after a True of `{name}`", shifted(flags, 1)
    yield f"one step before a True of `{name}`", shifted(flags, -1)
    yield f"up to the last True of `{name}`", up_to_the_last(flags)
    yield f"at the first True of `{name}`", flags & (flags.long().cumsum(-1) == 1)
    yield f"at the last True of `{name}`", last_true(flags)
    if flags.dim() == 2:
        for text, rows in _of_rows(name, flags):
            yield text, rows.unsqueeze(-1).expand_as(flags)


def _of_rows(name: str, flags: Tensor) -> Iterator[tuple[str, Tensor]]:
    gap = (flags.long().diff(dim=-1) != 0).sum(-1) > 1
    yield f"in rows whose `{name}` is True throughout", flags.all(-1)
    yield f"in rows whose `{name}` is False somewhere", ~flags.all(-1)
    yield f"in rows whose `{name}` is False throughout", ~flags.any(-1)
    yield f"in rows whose `{name}` has a gap", gap
    yield f"in rows whose `{name}` begins with False", ~flags[..., 0]
    yield f"in rows whose `{name}` has a single True", flags.sum(-1) == 1


# ---- by how much


def _amount(names: set[str], compared: list[Pair]) -> str:
    """Whether sign, factor, or the last digits only are off."""
    found = [_numbers(names, *pair) for pair in compared]
    pairs = [(one, other) for numbers in found for _, one, other in numbers]
    if not pairs:
        return ""
    if text := _broken(found[-1]) or is_level(pairs):
        return text
    factors = [_factor(*pair) for pair in pairs]
    if all(factor is not None for factor in factors):
        shown = list(dict.fromkeys(show(factor) for factor in factors))
        return f"by a factor: {', '.join(shown[:4])}" if shown != ["1"] else "in the last digits only"
    offsets = [_offset(*pair) for pair in pairs]
    if all(offset is not None for offset in offsets):
        return f"by a constant: {', '.join(dict.fromkeys(show(offset) for offset in offsets[:4]))}"
    fits = [_is_affine(*pair) for pair in pairs]
    if False not in fits and fits.count(True) > 1:
        return "by a factor and a constant"
    if text := _growth(pairs):
        return text
    above = [bool((other >= one).all()) for one, other in pairs]
    if len(pairs) > 2 and (all(above) or all(bool((other <= one).all()) for one, other in pairs)):
        return f"never too {'small' if all(above) else 'large'}" if not compared[-1][0].scenario else ""
    return ""


def _numbers(names: set[str], asked: Request, left: Parts, got: Parts) -> list[tuple[str, Tensor, Tensor]]:
    """The parts that differ and are numbers in both, values first."""
    differ = [name for name in left if name in names & got.keys() and not same_slope(left[name], got[name])]
    found = [(name, _number(left[name]), _number(got[name])) for name in differ]
    return [one for one in found if one[1] is not None and one[2] is not None and one[1].shape == one[2].shape]


def _broken(shown: list[tuple[str, Tensor, Tensor]]) -> str:
    """Whether the answer that is shown, or a gradient of it, is NaN where the right one is not."""
    for name, one, other in shown:
        if bool((other.isnan() & ~one.isnan()).any()):
            return f"NaN in the {name}" if name.startswith("gradient") else "NaN in place of a number"
    return ""


def _growth(pairs: list[tuple[Tensor, Tensor]]) -> str:
    """Whether the error is largest at one end of each row, as that of a recursion with a wrong start is."""
    wide = [(other - one).abs() for one, other in pairs if one.dim() and one.shape[-1] > 2]
    for index, text in ((-1, "last"), (0, "first")):
        if len(wide) > 1 and all(bool((error[..., index] >= error.max(-1).values).all()) for error in wide):
            return f"most in the {text} column"
    return ""


def _is_affine(one: Tensor, other: Tensor) -> bool | None:
    """Whether all wrong entries are the right ones times a number, plus a number; None if they are too few to tell."""
    wrong = ~close(one, other, ROUGH)
    one, other = one[wrong], other[wrong]
    if one.numel() < 4:
        return None
    if not bool((one.isfinite() & other.isfinite()).all()):
        return False
    one, other = one - one.mean(), other - other.mean()
    slope = (one * other).sum() / one.square().sum()
    return bool(((other - slope * one).abs() <= 1e-6 * (1 + other.abs().max())).all()) and bool(slope != 0)


def _number(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value.double() if value.numel() else None
    return torch.tensor(float(value)).double() if isinstance(value, (int, float)) and math.isfinite(value) else None


def _factor(one: Tensor, other: Tensor) -> float | None:
    """By which all entries are off; the places that are 0 must be 0 in both."""
    filled = one != 0
    if not bool(filled.any()) or bool((other[~filled] != 0).any()):
        return None
    quotient = other[filled] / one[filled]
    first = float(quotient.flatten()[0])
    return first if bool(((quotient - first).abs() <= 1e-6 * abs(first)).all()) and first != 0 else None


def _offset(one: Tensor, other: Tensor) -> float | None:
    difference = other - one
    first = float(difference.flatten()[0])
    near = (difference - first).abs() <= 1e-6 * (1 + abs(first))
    return first if one.numel() > 1 and bool(near.all()) else None
