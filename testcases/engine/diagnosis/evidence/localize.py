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
from ...report import Rules, close, same_outcome, same_slope, show
from ..hypotheses import is_flags, is_float, last_true, shifted, up_to_the_last
from .signs import Ask, Kind, Pair, Part, Parts, Seen, beside_the_answer, is_level, of_another_kind, row_alone

ROUGH = Rules(1e-6, 1e-6, equal_nan=True)
SEVERAL = "of several entries"
ARBITRARY = ("seed",)
"""Arguments whose numbers mean nothing."""
DATA = 2
"""An argument that is no option at all: a tensor that every question gives."""
DIGITS, LAST_DIGITS = "in the last digits only", 1e-5
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
    text: str
    """As it is said after "only with x"."""
    strength: Strength = Strength.STRONG
    dtype: torch.dtype | None = None
    """Where it is one."""


STRENGTHS = {
    "of one row": Strength.SMALL,
    "of one entry": Strength.SMALL,
    "of one dimension": Strength.SMALL,
    "of as many rows as columns": Strength.WEAK,
    "the same everywhere": Strength.WEAK,
    "True everywhere": Strength.WEAK,
}
"""Of what a tensor is like."""


def where(seen: list[Seen], failing: Seen, ask: Ask) -> str:
    """What all wrong answers have in common, and no right one; empty if there is nothing.

    `ask` gives the right answer to another question, and the student's.
    """
    if text := beside_the_answer(failing):
        return text
    wrong = [one for one in seen if not same_outcome(one[1], one[2])]
    right = [one[0] for one in seen if same_outcome(one[1], one[2])]
    wrong, told, of_type = [*wrong, failing], [], bool(failing[2].error)
    if not any(right.error or mine.error for _, right, mine in wrong):
        pairs = [(asked, _flat(right), _flat(mine)) for asked, right, mine in wrong]
        (parts, is_all), kind = _parts_of(pairs), of_another_kind(pairs)
        # The numbers of what is of another kind say nothing more.
        # A type or shape stands beside the expected one already.
        differs = _numbers_of(parts, pairs) if not kind else [kind] * ("dtype" in kind)
        told = ["" if is_all else _part(parts, pairs), *differs]
        of_type = bool(kind) or DIGITS in told
    if len(wrong) > 1:
        told.insert(0, _questions([one[0] for one in wrong], right, of_type, ask))
    elif right and (new := _unlike(right, failing[0], of_type)):
        told.insert(0, f"the {len(right)} ordinary examples are all right{new}")
    return "; ".join(text for text in told if text) or row_alone(failing, ask)


def _by_chance(share: float, count: int) -> bool:
    """Whether what this share of all has, so many may all have without any reason."""
    return share**count > CHANCE


# ---- on which questions


def _questions(wrong: list[Request], right: list[Request], of_type: bool, ask: Ask) -> str:
    """The narrowest feature that all wrong ones have, and few of the right ones that could have it."""
    features = [list(_features(asked)) for asked in wrong]
    shared = [one for one in features[0] if all(one in others for others in features)]
    # Each is of one of these two, whatever it says.
    shared = [one for one in shared if of_type or one.dtype not in (torch.float32, torch.float64, torch.int64)]
    scenarios = {asked.scenario for asked in wrong}
    share = _shares(shared, scenarios, right)
    # What no right one lacks, of the same kind of call, tells nothing: each legal call may have it.
    others = [set(_features(asked)) for asked in right if asked.scenario in scenarios]
    shared = [one for one in shared if one.strength is not Strength.CALL and any(one not in other for other in others)]
    shared = [one for one in shared if not _by_chance(share[one], len(wrong)) and _may_be_known(one, wrong[-1])]

    def rank(one: Feature) -> tuple[Any, ...]:
        # What raises, or is of another type, is so for a type more often than for what stands in it.
        weak = of_type and one.dtype is None, one.strength is Strength.WEAK, one.strength is Strength.SMALL
        return weak, share[one], one.strength is Strength.GIVEN, _of_data(one.argument, wrong[-1], right)

    shared = [one for one in sorted(shared, key=rank) if not _is_ordinary(one, wrong, right)]
    best = next((one for one in shared if _holds(one, wrong[-1], ask)), None)
    if best is None:
        return ""
    # Which of several options it is, nothing tells.
    alike = [one.argument for one in shared if one.text == best.text and rank(one) == rank(best)]
    if best.strength is Strength.GIVEN and len(alike) > 1:
        return ""
    return f"only {_said(alike if rank(best)[-1] < DATA else alike[:1], best.text)}"


def _may_be_known(one: Feature, asked: Request) -> bool:
    """Whether the code may see it: what a scenario is told may be for itself, and that it is given says nothing."""
    parameters = shared_reference().parameters(asked.lesson, asked.exercise)
    return one.strength is not Strength.GIVEN or not asked.scenario or one.argument in parameters


def _is_ordinary(one: Feature, wrong: list[Request], right: list[Request]) -> bool:
    """Whether most questions give so many: that tells apart from the smallest ones only."""
    having = sum(one in _features(asked) for asked in (*wrong, *right))
    return one.text == SEVERAL and 2 * having > len(wrong) + len(right)


def _holds(one: Feature, asked: Request, ask: Ask) -> bool:
    """Whether this question is right without what is said of its argument, as far as it can be asked so."""
    value, arguments = asked.arguments.get(one.argument), dict(asked.arguments)
    if isinstance(value, Tensor) and one.text.startswith(("NaN", "infinite", "False")):
        # What stands under a False may be anything, and counts where none is False.
        floats = {name: tensor for name, tensor in arguments.items() if is_float(tensor)}
        arguments |= {name: tensor.nan_to_num(0.5, 0.5, -0.5) for name, tensor in floats.items()}
        if one.text.startswith("False"):
            arguments[one.argument] = torch.ones_like(value)
    elif value is not None and not isinstance(value, Tensor) and one.text != SEVERAL:
        del arguments[one.argument]
    else:
        return True
    right, mine = ask(replace(asked, arguments=arguments))
    return right.error is not None or same_outcome(right, mine)


def _of_data(name: str, asked: Request, others: list[Request]) -> int:
    """How far an argument is from an option: a tensor is data, and so is what each question gives."""
    return isinstance(asked.arguments.get(name), Tensor) + all(name in one.arguments for one in others)


def _said(names: list[str], text: str) -> str:
    arguments = ", ".join(f"`{name}`" for name in names if name)
    return f"with {arguments} {text}" if arguments else text


def _shares(features: list[Feature], scenarios: set[str | None], right: list[Request]) -> dict[Feature, float]:
    """Of the right ones that could have each feature, the share that has it, one more of each kind counted."""
    every = [(one.scenario in scenarios, set(_features(one))) for one in right]
    shares = {}
    for one in features:
        could = [one in others for is_alike, others in every if is_alike or one.strength is Strength.CALL]
        shares[one] = (sum(could) + 1) / (len(could) + 2) if could else 1.0
    return shares


def _unlike(ordinary: list[Request], asked: Request, of_type: bool) -> str:
    """What is new about a question, beside ordinary ones; what is worked by hand is small, which is no reason."""
    if all(one.scenario != asked.scenario for one in ordinary):
        return ""
    known = {feature for one in ordinary for feature in _features(one)}
    telling = (Strength.STRONG, Strength.CALL, *((Strength.SMALL,) if of_type else ()))
    new: dict[str, list[str]] = {}
    for one in _features(asked):
        is_option = not isinstance(asked.arguments.get(one.argument), Tensor)
        is_new = one not in known and (is_option or any(one.argument in other.arguments for other in ordinary))
        if is_new and one.strength in telling:
            new.setdefault(one.text, []).append(one.argument)
    strong = sorted(new, key=lambda text: min(_of_data(name, asked, ordinary) for name in new[text]))
    told: dict[str, list[str]] = {}
    for text in strong:  # Of two that one argument has, the second often follows from the first.
        names = [name for name in new[text] if not any(name in others for others in told.values())]
        told |= {text: names} if names else {}
    return "; here " + " and ".join(_said(names, text) for text, names in [*told.items()][:2]) if told else ""


def _features(asked: Request) -> Iterator[Feature]:
    """What may make a question special, as it is said after "only"."""
    if asked.scenario:
        yield Feature(asked.scenario, "in calls like this one", Strength.CALL)
    arguments = {name: value for name, value in asked.arguments.items() if name not in ARBITRARY}
    for name, value in arguments.items():
        yield from _of_value(name, value)
    tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
    columns = [one.shape[-1] for one in tensors.values() if 0 < one.dim() < 3]
    for name, value in arguments.items():
        if type(value) is int and not asked.scenario and columns and value >= min(columns):
            yield Feature(name, "beyond the last column")
    floats = [(name, value) for name, value in tensors.items() if value.is_floating_point() and value.numel()]
    for (name, one), (other, two) in itertools.combinations(floats, 2):
        gap = (one.double() - two.double()).abs() if one.shape == two.shape else torch.ones(1)
        if bool((gap == 0).any()):
            yield Feature(name, f"equal to `{other}` somewhere")
        if bool(((gap > 0) & (gap < 1e-5)).any()):
            yield Feature(name, f"nearly equal to `{other}` somewhere")
    if asked.grad_through is not None:
        yield Feature("", f"for the gradient through `{asked.grad_through}`")
    if not asked.scenario:
        for name, parameter in shared_reference().parameters(asked.lesson, asked.exercise).items():
            if name not in arguments:
                yield Feature(name, "left at its default")
                of_default = _of_value(name, parameter.default)
                yield from (one for one in of_default if one.strength is not Strength.GIVEN)


def _of_value(name: str, value: Any) -> Iterator[Feature]:
    if value is None or isinstance(value, (bool, str)):
        yield Feature(name, f"= {value!r}")
    elif isinstance(value, (int, float)):
        tests = {"= 0": value == 0, "= 1": value == 1, "below 0": value < 0, "large": value > 100}
        tests["nearly 0"] = 0 < abs(value) < 1e-3
        tests["above 1"] = isinstance(value, float) and value > 1
        yield from (Feature(name, text) for text, holds in tests.items() if holds)
    elif isinstance(value, Tensor):
        yield from _of_tensor(name, value)
    elif isinstance(value, (list, tuple)):
        yield Feature(name, "empty" if not value else "of a single entry" if len(value) == 1 else SEVERAL)
    if value is not None:
        yield Feature(name, "given", Strength.GIVEN)


def _of_tensor(name: str, value: Tensor) -> Iterator[Feature]:
    rows, columns = value.shape[-2:] if value.dim() > 1 else (0, len(value) if value.dim() else 0)
    tests = {
        "of more than two dimensions": value.dim() > 2,
        "of one dimension": value.dim() == 1,
        "of one entry": value.dim() < 2 and value.numel() == 1,
        "of one row": rows == 1,
        "of one column": rows > 0 and columns == 1,
        "of as many rows as columns": 1 < rows == columns,
        "of more than 100 columns": columns > 100,
        "without entries": value.numel() == 0,
        "laid out as a view (not contiguous: `reshape`, not `view`)": not value.is_contiguous(),
    }
    # Numbers of tokens and of rows may all be 0 or 1, too.
    if is_flags(value) and (value.dtype == torch.bool or "mask" in name):
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
            "0 somewhere": value.is_floating_point() and bool((number == 0).any()),
            "above 100 somewhere": bool((finite > 100).any()),
            "the same everywhere": value.numel() > 1 and bool((number == number.flatten()[0]).all()),
        }
    yield from (Feature(name, text, STRENGTHS.get(text, Strength.STRONG)) for text, holds in tests.items() if holds)
    strength = Strength.WEAK if value.dtype == torch.float64 else Strength.STRONG
    yield Feature(name, f"in {str(value.dtype).removeprefix('torch.')}", strength, value.dtype)


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


def _part(parts: set[Part], pairs: list[Pair]) -> str:
    slopes = sorted(part for part in parts if part.kind is Kind.SLOPE)
    values = sorted(part.name for part in parts if part.kind is Kind.VALUE)
    of_many_kinds = len(values) > 1 and "" in values
    if not parts or len(values) > 2 or len(slopes) > 2 or of_many_kinds:
        return ""
    if not values and slopes:
        lost = all(got.get(part) is None for _, _, got in pairs for part in slopes)
        undue = all(right.get(part) is None for _, right, _ in pairs for part in slopes)
        end = ": none arrives" if lost else ": none is due" if undue else ""
        said = " and the ".join(f"gradient by `{part.name}`" for part in slopes)
        return f"only in the {said}{end}, the value is right"
    every = {part.name for part in pairs[0][1] if part.kind is Kind.VALUE}
    if values and values != [""]:
        sizes = {part.name: _size(one) for part, one in pairs[-1][1].items() if part.kind is Kind.VALUE}
        is_half = 2 * sum(sizes.get(name, 0) for name in values) <= sum(sizes.values())
        told = set(values) != every and is_half and not any(name[0].isdigit() for name in values)
        return "only in " + ", ".join(f"`{name}`" for name in values) if told else ""
    has_slopes = any(slope is not None and bool(slope.any()) for slope in _slopes(pairs))
    return "only in the value, the gradient is right" if values and not slopes and has_slopes else ""


def _size(value: Any) -> int:
    return value.numel() if isinstance(value, Tensor) else 1


def _slopes(pairs: list[Pair]) -> Iterator[Tensor | None]:
    return (slope for _, right, _ in pairs for part, slope in right.items() if part.kind is Kind.SLOPE)


# ---- at which places


def _places(parts: set[Part], pairs: list[Pair]) -> str:
    """The narrowest set of places, said by an argument, that holds all differences and few others that could differ."""
    parts = {part for part in parts if part.kind is not Kind.SLOPE} or parts
    inside: dict[str, int] | None = None
    most = count = 0
    for asked, left, got in pairs:
        for part, right in left.items():
            mine = got.get(part)
            if part not in parts or not isinstance(right, Tensor) or same_slope(right, mine):
                continue
            if not isinstance(mine, Tensor) or mine.shape != right.shape or not right.dim():
                return ""
            differ = ~close(right.double(), mine.double(), ROUGH)
            # Where the right answer is 0 there is mostly padding, of which nobody would think.
            could = differ | (right != 0) if right.is_floating_point() else torch.ones_like(differ)
            regions = [(text, places) for text, places in _regions(asked, differ) if not bool((differ & ~places).any())]
            here = {text: int((places & could).sum()) for text, places in regions}
            inside = here if inside is None else {text: inside[text] + here[text] for text in inside if text in here}
            most, count = most + int(could.sum()), count + int(differ.sum())
    best = min(inside or (), key=lambda text: (inside or {})[text], default="")
    return f"only {best}" if inside and best and count and not _by_chance(inside[best] / most, count) else ""


def _regions(asked: Request, like: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Sets of places in a tensor of this shape."""
    column = torch.arange(like.shape[-1]).expand(like.shape)
    yield "in the last column", column == like.shape[-1] - 1
    yield "in the first column", column == 0
    yield "after the first column", column > 0
    yield "before the last column", column < like.shape[-1] - 1
    if like.dim() > 1 and len(like) > 1:
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


def _numbers_of(parts: set[Part], compared: list[Pair]) -> list[str]:
    """Where and by how much the numbers are off."""
    places, found = _places(parts, compared), [_numbers(parts, *pair) for pair in compared]
    pairs = [(one, other) for numbers in found for _, one, other in numbers]
    if not pairs:
        return [places]
    if _broken(found[-1]):
        return [places]
    amount = is_level(pairs) or _amount(pairs)
    return [places, amount or ("" if places or compared[0][0].scenario else _growth(pairs))]


def _amount(pairs: list[tuple[Tensor, Tensor]]) -> str:
    """Whether sign, factor, or the last digits only are off."""
    # What is infinite in one only is off by more than that.
    errors = [(other - one) / (1 + one.abs()) for one, other in pairs]
    if all(bool((error.abs() <= LAST_DIGITS).all()) for error in errors):
        return DIGITS
    for text, of in (("factor", _factor), ("constant", _offset)):
        found = [of(*pair) for pair in pairs]
        shown = {show(number) for number in found if number is not None}
        if None not in found and len(shown) == 1 and sum(one.numel() for one, _ in pairs) > 1:
            return f"by a {text}: {shown.pop()}"
        if None not in found and all(int((one != 0).sum()) > 1 for one, _ in pairs):
            return f"by a {text} of its own in each answer"
    return ""


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


def _growth(pairs: list[tuple[Tensor, Tensor]]) -> str:
    """Whether the error is largest at one end of each row, as that of a recursion with a wrong start is."""
    wide = [(other - one).abs().reshape(-1, one.shape[-1]) for one, other in pairs if one.dim() and one.shape[-1] > 2]
    wrong = [row for rows in wide for row in rows if bool(row.max() > 0)]
    for index, text in ((-1, "last"), (0, "first")):
        if len(wrong) > 2 and all(bool(row[index] == row.max()) for row in wrong):
            return f"most in the {text} column"
    return ""


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
