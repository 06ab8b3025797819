"""Where answers differ from the right ones: on which questions, in which part, at which places, and by how much."""

import enum
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...execution import Outcome, Request, leaves
from ...oracle import shared_reference
from ...report import Rules, close, same_outcome, same_slope
from ..hypotheses import is_flags, is_float, last_true, shifted, up_to_the_last
from .sentences import Evidence, Kind, Part, Place, Several, Trait
from .signs import Ask, Pair, Parts, Seen, beside_the_answer, is_level, of_another_kind, rounded, row_alone

ROUGH = Rules(1e-6, 1e-6, equal_nan=True)
ARBITRARY = ("seed",)
"""Arguments whose numbers mean nothing."""
DATA = 2
"""An argument that is no option at all: a tensor that every question gives."""
LAST_DIGITS = 1e-5
CHANCE = 0.15
"""What so many wrong answers have in common says nothing where chance would have it so more often than this."""


class Strength(enum.Enum):
    """How much it tells that a question has a feature."""

    STRONG = enum.auto()
    SMALL = enum.auto()
    """As what is worked by hand is."""
    WEAK = enum.auto()
    """As most questions have it: each other one tells more."""
    GIVEN = enum.auto()
    """The argument is there, and no more."""
    CALL = enum.auto()
    """It goes through this scenario."""


class Feature(NamedTuple):
    """What an argument is like; or the call, of no argument or a scenario."""

    argument: str
    trait: Evidence

    @property
    def strength(self) -> Strength:
        is_usual = self.trait == Trait.IN_DTYPE(torch.float64)
        return Strength.WEAK if is_usual else STRENGTHS.get(self.trait.kind, Strength.STRONG)


STRENGTHS: dict[Any, Strength] = {
    **dict.fromkeys((Trait.ROW_1, Trait.ENTRY_1, Trait.DIMENSION_1), Strength.SMALL),
    **dict.fromkeys((Trait.SQUARE, Trait.CONSTANT, Trait.TRUE), Strength.WEAK),
    Trait.GIVEN: Strength.GIVEN,
    Trait.IN_CALLS: Strength.CALL,
}
NOT_FINITE = Trait.NAN, Trait.INFINITE
WITH_FALSE = Trait.FALSE, Trait.FALSE_ROW, Trait.FALSE_START, Trait.FALSE_END, Trait.FALSE_BETWEEN


def where(seen: list[Seen], failing: Seen, ask: Ask) -> list[Evidence]:
    """What all wrong answers have in common, and no right one; empty if there is nothing.

    `ask` gives the right answer to another question, and the student's.
    """
    if beside := beside_the_answer(failing):
        return [beside]
    wrong = [one for one in seen if not same_outcome(one[1], one[2])]
    right = [one[0] for one in seen if same_outcome(one[1], one[2])]
    wrong, of_type = [*wrong, failing], bool(failing[2].error)
    told: list[Evidence | None] = []
    if not any(right.error or mine.error for _, right, mine in wrong):
        pairs = [(asked, _flat(right), _flat(mine)) for asked, right, mine in wrong]
        (parts, is_all), kind = _parts_of(pairs), of_another_kind(pairs)
        # The numbers of what is of another kind say nothing more.
        # A type or shape stands beside the expected one already.
        differs = _numbers_of(parts, pairs) if not kind else [kind if kind.kind is Place.DTYPE else None]
        told = [None if is_all else _part(parts, pairs), *differs]
        of_type = bool(kind) or Place.DIGITS() in told
    if len(wrong) > 1:
        told.insert(0, _questions([one[0] for one in wrong], right, of_type, ask))
    elif right and (new := _unlike(right, failing[0], of_type)):
        told.insert(0, Place.ORDINARY_RIGHT(len(right)) + new)
    return [*filter(None, told)] or [*filter(None, [row_alone(failing, ask)])]


def _by_chance(share: float, count: int) -> bool:
    """Whether what this share of all has, so many may all have without any reason."""
    return share**count > CHANCE


# ---- on which questions


def _questions(wrong: list[Request], right: list[Request], of_type: bool, ask: Ask) -> Evidence | None:
    """The narrowest feature that all wrong ones have, and few of the right ones that could have it."""
    features = [list(_features(asked)) for asked in wrong]
    shared = [one for one in features[0] if all(one in others for others in features)]
    # Each is of one of these two, whatever it says.
    usual = [Trait.IN_DTYPE(dtype) for dtype in (torch.float32, torch.float64, torch.int64)]
    shared = [one for one in shared if of_type or one.trait not in usual]
    scenarios = {asked.scenario for asked in wrong}
    share = _shares(shared, scenarios, right)
    # What no right one lacks, of the same kind of call, tells nothing: each legal call may have it.
    others = [set(_features(asked)) for asked in right if asked.scenario in scenarios]
    shared = [one for one in shared if one.strength is not Strength.CALL and any(one not in other for other in others)]
    shared = [one for one in shared if not _by_chance(share[one], len(wrong)) and _may_be_known(one, wrong[-1])]

    def rank(one: Feature) -> tuple[Any, ...]:
        # What raises, or is of another type, is so for a type more often than for what stands in it.
        weak = (
            of_type and one.trait.kind is not Trait.IN_DTYPE,
            one.strength is Strength.WEAK,
            one.strength is Strength.SMALL,
        )
        return weak, share[one], one.strength is Strength.GIVEN, _of_data(one.argument, wrong[-1], right)

    shared = [one for one in sorted(shared, key=rank) if not _is_ordinary(one, wrong, right)]
    best = next((one for one in shared if _holds(one, wrong[-1], ask)), None)
    if best is None:
        return None
    # Which of several options it is, nothing tells.
    alike = [one.argument for one in shared if one.trait == best.trait and rank(one) == rank(best)]
    if best.strength is Strength.GIVEN and len(alike) > 1:
        return None
    return Place.ONLY(_said(alike if rank(best)[-1] < DATA else alike[:1], best.trait))


def _may_be_known(one: Feature, asked: Request) -> bool:
    """Whether the code may see it: what a scenario is told may be for itself, and that it is given says nothing."""
    parameters = shared_reference().parameters(asked.lesson, asked.exercise)
    return one.strength is not Strength.GIVEN or not asked.scenario or one.argument in parameters


def _is_ordinary(one: Feature, wrong: list[Request], right: list[Request]) -> bool:
    """Whether most questions give so many: that tells apart from the smallest ones only."""
    having = sum(one in _features(asked) for asked in (*wrong, *right))
    return one.trait.kind is Trait.SEVERAL and 2 * having > len(wrong) + len(right)


def _holds(one: Feature, asked: Request, ask: Ask) -> bool:
    """Whether this question is right without what is said of its argument, as far as it can be asked so."""
    value, arguments = asked.arguments.get(one.argument), dict(asked.arguments)
    if isinstance(value, Tensor) and one.trait.kind in (*NOT_FINITE, *WITH_FALSE):
        # What stands under a False may be anything, and counts where none is False.
        floats = {name: tensor for name, tensor in arguments.items() if is_float(tensor)}
        arguments |= {name: tensor.nan_to_num(0.5, 0.5, -0.5) for name, tensor in floats.items()}
        if one.trait.kind in WITH_FALSE:
            arguments[one.argument] = torch.ones_like(value)
    elif value is not None and not isinstance(value, Tensor) and one.trait.kind is not Trait.SEVERAL:
        del arguments[one.argument]
    else:
        return True
    right, mine = ask(replace(asked, arguments=arguments))
    return right.error is not None or same_outcome(right, mine)


def _of_data(name: str, asked: Request, others: list[Request]) -> int:
    """How far an argument is from an option: a tensor is data, and so is what each question gives."""
    return isinstance(asked.arguments.get(name), Tensor) + all(name in one.arguments for one in others)


def _said(names: list[str], trait: Evidence) -> Evidence:
    arguments = Several(filter(None, names))
    return Place.WITH(arguments, trait) if arguments else trait


def _shares(features: list[Feature], scenarios: set[str | None], right: list[Request]) -> dict[Feature, float]:
    """Of the right ones that could have each feature, the share that has it, one more of each kind counted."""
    every = [(one.scenario in scenarios, set(_features(one))) for one in right]
    shares = {}
    for one in features:
        could = [one in others for is_alike, others in every if is_alike or one.strength is Strength.CALL]
        shares[one] = (sum(could) + 1) / (len(could) + 2) if could else 1.0
    return shares


def _unlike(ordinary: list[Request], asked: Request, of_type: bool) -> Evidence | None:
    """What is new about a question, beside ordinary ones; what is worked by hand is small, which is no reason."""
    if all(one.scenario != asked.scenario for one in ordinary):
        return None
    known = {feature for one in ordinary for feature in _features(one)}
    telling = (Strength.STRONG, Strength.CALL, *((Strength.SMALL,) if of_type else ()))
    new: dict[Evidence, list[str]] = {}
    for one in _features(asked):
        is_option = not isinstance(asked.arguments.get(one.argument), Tensor)
        is_new = one not in known and (is_option or any(one.argument in other.arguments for other in ordinary))
        if is_new and one.strength in telling:
            new.setdefault(one.trait, []).append(one.argument)
    strong = sorted(new, key=lambda trait: min(_of_data(name, asked, ordinary) for name in new[trait]))
    told: dict[Evidence, list[str]] = {}
    for trait in strong:  # Of two that one argument has, the second often follows from the first.
        names = [name for name in new[trait] if not any(name in others for others in told.values())]
        told |= {trait: names} if names else {}
    return Place.HERE(Several(_said(names, trait) for trait, names in [*told.items()][:2])) if told else None


def _features(asked: Request) -> Iterator[Feature]:
    """What may make a question special."""
    if asked.scenario:
        yield Feature(asked.scenario, Trait.IN_CALLS())
    arguments = {name: value for name, value in asked.arguments.items() if name not in ARBITRARY}
    for name, value in arguments.items():
        yield from _of_value(name, value)
    tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
    columns = [one.shape[-1] for one in tensors.values() if 0 < one.dim() < 3]
    for name, value in arguments.items():
        if type(value) is int and not asked.scenario and columns and value >= min(columns):
            yield Feature(name, Trait.BEYOND())
    floats = [(name, value) for name, value in tensors.items() if value.is_floating_point() and value.numel()]
    for (name, one), (other, two) in itertools.combinations(floats, 2):
        gap = (one.double() - two.double()).abs() if one.shape == two.shape else torch.ones(1)
        if bool((gap == 0).any()):
            yield Feature(name, Trait.EQUAL(other))
        if bool(((gap > 0) & (gap < 1e-5)).any()):
            yield Feature(name, Trait.NEARLY_EQUAL(other))
    if asked.grad_through is not None:
        yield Feature("", Trait.SLOPE_THROUGH(asked.grad_through))
    if not asked.scenario:
        for name, parameter in shared_reference().parameters(asked.lesson, asked.exercise).items():
            if name not in arguments:
                yield Feature(name, Trait.AT_DEFAULT())
                of_default = _of_value(name, parameter.default)
                yield from (one for one in of_default if one.strength is not Strength.GIVEN)


def _of_value(name: str, value: Any) -> Iterator[Feature]:
    if value is None or isinstance(value, (bool, str)):
        yield Feature(name, Trait.IS(value))
    elif isinstance(value, (int, float)):
        tests = {Trait.IS_0: value == 0, Trait.IS_1: value == 1, Trait.BELOW_0: value < 0, Trait.LARGE: value > 100}
        tests[Trait.NEARLY_0] = 0 < abs(value) < 1e-3
        tests[Trait.ABOVE_1] = isinstance(value, float) and value > 1
        yield from (Feature(name, trait()) for trait, holds in tests.items() if holds)
    elif isinstance(value, Tensor):
        yield from _of_tensor(name, value)
    elif isinstance(value, (list, tuple)):
        yield Feature(name, (Trait.SEVERAL if len(value) > 1 else Trait.SINGLE if value else Trait.EMPTY)())
    if value is not None:
        yield Feature(name, Trait.GIVEN())


def _of_tensor(name: str, value: Tensor) -> Iterator[Feature]:
    rows, columns = value.shape[-2:] if value.dim() > 1 else (0, len(value) if value.dim() else 0)
    tests = {
        Trait.DIMENSIONS_3: value.dim() > 2,
        Trait.DIMENSION_1: value.dim() == 1,
        Trait.ENTRY_1: value.dim() < 2 and value.numel() == 1,
        Trait.ROW_1: rows == 1,
        Trait.COLUMN_1: rows > 0 and columns == 1,
        Trait.SQUARE: 1 < rows == columns,
        Trait.COLUMNS_100: columns > 100,
        Trait.NO_ENTRIES: value.numel() == 0,
        Trait.VIEW: not value.is_contiguous(),
    }
    # Numbers of tokens and of rows may all be 0 or 1, too.
    if is_flags(value) and (value.dtype == torch.bool or "mask" in name):
        flags = value.bool()
        first, last = flags[..., 0], flags[..., -1]
        tests |= {
            Trait.FALSE: not bool(flags.all()),
            Trait.TRUE: bool(flags.all()),
            Trait.FALSE_ROW: not bool(flags.any(-1).all()),
            Trait.FALSE_START: not bool(first.all()),
            Trait.FALSE_END: not bool(last.all()),
            Trait.FALSE_BETWEEN: bool((flags.long().diff(dim=-1) == 1).any() & first.any()),
            Trait.TRUE_1: int(flags.sum()) == 1,
        }
    elif value.numel():
        number = value.double()
        finite = number[number.isfinite()].abs()
        tests |= {
            Trait.NAN: bool(number.isnan().any()),
            Trait.INFINITE: bool(number.isinf().any()),
            Trait.ZERO: value.is_floating_point() and bool((number == 0).any()),
            Trait.ABOVE_100: bool((finite > 100).any()),
            Trait.CONSTANT: value.numel() > 1 and bool((number == number.flatten()[0]).all()),
        }
    yield from (Feature(name, trait()) for trait, holds in tests.items() if holds)
    yield Feature(name, Trait.IN_DTYPE(value.dtype))


# ---- in which part


def _flat(outcome: Outcome) -> Parts:
    """All parts of what a call gave."""
    found = {Part(Kind.VALUE, path): value for path, value in leaves(outcome.value, most=40)}
    found |= {Part(Kind.SLOPE, name): slope for name, slope in outcome.gradients.items()}
    return found | {Part(Kind.EFFECT, "tracked"): bool(outcome.tracked), Part(Kind.EFFECT, "changed"): outcome.changed}


def _parts_of(pairs: list[Pair]) -> tuple[set[Part], bool]:
    """The parts that differ anywhere, and whether those are all values and gradients."""
    every = {part for _, left, _ in pairs for part in left if part.kind is not Kind.EFFECT}
    differ = {
        part for _, left, got in pairs for part in left if part not in got or not same_slope(left[part], got[part])
    }
    return differ, every <= differ


def _part(parts: set[Part], pairs: list[Pair]) -> Evidence | None:
    slopes = sorted(part for part in parts if part.kind is Kind.SLOPE)
    values = sorted(part.name for part in parts if part.kind is Kind.VALUE)
    of_many_kinds = len(values) > 1 and "" in values
    if not parts or len(values) > 2 or len(slopes) > 2 or of_many_kinds:
        return None
    if not values and slopes:
        lost = all(got.get(part) is None for _, _, got in pairs for part in slopes)
        undue = all(right.get(part) is None for _, right, _ in pairs for part in slopes)
        return (Place.SLOPES_LOST if lost else Place.SLOPES_UNDUE if undue else Place.ONLY_SLOPES)(Several(slopes))
    every = {part.name for part in pairs[0][1] if part.kind is Kind.VALUE}
    if values and values != [""]:
        sizes = {part.name: _size(one) for part, one in pairs[-1][1].items() if part.kind is Kind.VALUE}
        is_half = 2 * sum(sizes.get(name, 0) for name in values) <= sum(sizes.values())
        told = set(values) != every and is_half and not any(name[0].isdigit() for name in values)
        return Place.ONLY_IN(Several(values)) if told else None
    has_slopes = any(slope is not None and bool(slope.any()) for slope in _slopes(pairs))
    return Place.ONLY_VALUE() if values and not slopes and has_slopes else None


def _size(value: Any) -> int:
    return value.numel() if isinstance(value, Tensor) else 1


def _slopes(pairs: list[Pair]) -> Iterator[Tensor | None]:
    return (slope for _, right, _ in pairs for part, slope in right.items() if part.kind is Kind.SLOPE)


# ---- at which places


def _places(parts: set[Part], pairs: list[Pair]) -> Evidence | None:
    """The narrowest set of places, said by an argument, that holds all differences and few others that could differ."""
    parts = {part for part in parts if part.kind is not Kind.SLOPE} or parts
    inside: dict[Evidence, int] | None = None
    most = count = 0
    for asked, left, got in pairs:
        for part, right in left.items():
            mine = got.get(part)
            if part not in parts or not isinstance(right, Tensor) or same_slope(right, mine):
                continue
            if not isinstance(mine, Tensor) or mine.shape != right.shape or not right.dim():
                return None
            differ = ~close(right.double(), mine.double(), ROUGH)
            # Where the right answer is 0 there is mostly padding, of which nobody would think.
            could = differ | (right != 0) if right.is_floating_point() else torch.ones_like(differ)
            regions = [one for one in _regions(asked, differ) if not bool((differ & ~one[1]).any())]
            here = {region: int((places & could).sum()) for region, places in regions}
            inside = here if inside is None else {one: inside[one] + here[one] for one in inside if one in here}
            most, count = most + int(could.sum()), count + int(differ.sum())
    best = min(inside or (), key=lambda region: (inside or {})[region], default=None)
    return Place.ONLY(best) if inside and best and count and not _by_chance(inside[best] / most, count) else None


def _regions(asked: Request, like: Tensor) -> Iterator[tuple[Evidence, Tensor]]:
    """Sets of places in a tensor of this shape."""
    column = torch.arange(like.shape[-1]).expand(like.shape)
    yield Place.LAST_COLUMN(), column == like.shape[-1] - 1
    yield Place.FIRST_COLUMN(), column == 0
    yield Place.AFTER_FIRST_COLUMN(), column > 0
    yield Place.BEFORE_LAST_COLUMN(), column < like.shape[-1] - 1
    if like.dim() > 1 and len(like) > 1:
        row = torch.arange(len(like)).reshape(-1, *[1] * (like.dim() - 1)).expand(like.shape)
        yield Place.FIRST_ROW(), row == 0
        yield Place.LAST_ROW(), row == len(like) - 1
        yield Place.AFTER_FIRST_ROW(), row > 0
    for name, value in asked.arguments.items():
        if not isinstance(value, Tensor):
            continue
        if value.shape == like.shape and is_flags(value):
            yield from _by_flags(name, value.bool())
        elif value.shape == like.shape and value.is_floating_point():
            yield Place.ABOVE_0(name), value > 0
            yield Place.BELOW_0(name), value < 0
            yield Place.IS_0(name), value == 0
        elif is_flags(value) and value.dim() == 2 and len(value) == len(like):
            for region, rows in _of_rows(name, value.bool()):
                yield region, rows.reshape(-1, *[1] * (like.dim() - 1)).expand(like.shape)


def _by_flags(name: str, flags: Tensor) -> Iterator[tuple[Evidence, Tensor]]:
    yield Place.FALSE(name), ~flags
    yield Place.TRUE(name), flags
    yield Place.AFTER_TRUE(name), shifted(flags, 1)
    yield Place.BEFORE_TRUE(name), shifted(flags, -1)
    yield Place.UP_TO_LAST_TRUE(name), up_to_the_last(flags)
    yield Place.FIRST_TRUE(name), flags & (flags.long().cumsum(-1) == 1)
    yield Place.LAST_TRUE(name), last_true(flags)
    if flags.dim() == 2:
        for region, rows in _of_rows(name, flags):
            yield region, rows.unsqueeze(-1).expand_as(flags)


def _of_rows(name: str, flags: Tensor) -> Iterator[tuple[Evidence, Tensor]]:
    gap = (flags.long().diff(dim=-1) != 0).sum(-1) > 1
    yield Place.ROWS_TRUE(name), flags.all(-1)
    yield Place.ROWS_WITH_FALSE(name), ~flags.all(-1)
    yield Place.ROWS_FALSE(name), ~flags.any(-1)
    yield Place.ROWS_WITH_GAP(name), gap
    yield Place.ROWS_FALSE_FIRST(name), ~flags[..., 0]
    yield Place.ROWS_WITH_ONE(name), flags.sum(-1) == 1


# ---- by how much


def _numbers_of(parts: set[Part], compared: list[Pair]) -> list[Evidence | None]:
    """Where and by how much the numbers are off."""
    places, found = _places(parts, compared), [_numbers(parts, *pair) for pair in compared]
    pairs = [(one, other) for numbers in found for _, one, other in numbers]
    values = [(one, other) for numbers in found for part, one, other in numbers if part.kind is Kind.VALUE]
    if not pairs:
        return [places]
    if _broken(found[-1]):
        return [places]
    amount = is_level(pairs) or _amount(pairs)
    return [places, amount or (None if places or compared[0][0].scenario else _growth(values))]


def _amount(pairs: list[tuple[Tensor, Tensor]]) -> Evidence | None:
    """Whether sign, factor, or the last digits only are off."""
    # What is infinite in one only is off by more than that.
    errors = [(other - one) / (1 + one.abs()) for one, other in pairs]
    if all(bool((error.abs() <= LAST_DIGITS).all()) for error in errors):
        return Place.DIGITS()
    for one_number, others, of in ((Place.FACTOR, Place.FACTORS, _factor), (Place.OFFSET, Place.OFFSETS, _offset)):
        found = [of(*pair) for pair in pairs]
        shown = {rounded(number, 6) for number in found if number is not None}
        if None not in found and len(shown) == 1 and sum(one.numel() for one, _ in pairs) > 1:
            return one_number(shown.pop())
        if None not in found and all(int((one != 0).sum()) > 1 for one, _ in pairs):
            return others()
    return None


def _numbers(parts: set[Part], asked: Request, left: Parts, got: Parts) -> list[tuple[Part, Tensor, Tensor]]:
    """The parts that differ and are numbers in both, values first."""
    differ = [part for part in left if part in parts & got.keys() and not same_slope(left[part], got[part])]
    pairs = ((part, _number(left[part]), _number(got[part])) for part in differ)
    return [
        (part, one, other)
        for part, one, other in pairs
        if one is not None and other is not None and one.shape == other.shape
    ]


def _broken(shown: list[tuple[Part, Tensor, Tensor]]) -> bool:
    """Whether the answer that is shown, or a gradient of it, is NaN and must not be: the first line says it."""
    return any(bool((other.isnan() & ~one.isnan()).any()) for _, one, other in shown)


def _growth(pairs: list[tuple[Tensor, Tensor]]) -> Evidence | None:
    """Whether the error is largest at one end of each row, as that of a recursion with a wrong start is."""
    wide = [(other - one).abs().reshape(-1, one.shape[-1]) for one, other in pairs if one.dim() and one.shape[-1] > 2]
    wrong = [row for rows in wide for row in rows if bool(row.max() > 0)]
    for index, place in ((-1, Place.MOST_LAST), (0, Place.MOST_FIRST)):
        if len(wrong) > 2 and all(bool(row[index] == row.max()) for row in wrong):
            return place()
    return None


def _number(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value.double() if value.numel() and value.dtype != torch.bool else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return torch.tensor(float(value)).double() if is_number else None


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
    return first if bool((one != one.flatten()[0]).any()) and bool(near.all()) else None
