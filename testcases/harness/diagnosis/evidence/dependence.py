"""What an answer depends on, and what it must depend on: true of the code whatever else is wrong with it.

An argument is changed, and both answers are asked again. Where only one of the two changes, that is a fact about the
code: an option that changes nothing, padding that enters, a row that runs into another, a step that reaches the wrong
steps. So a first draft with three mistakes still hears of one.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...catalog import lesson as read_lesson
from ...catalog import region_text
from ...execution import Outcome, Request, copy_plain, fields_of, leaves
from ...oracle import shared_reference
from ...report import Rules, alike, close
from ..hypotheses import CHEAP, function_in, is_flags, is_float, words_of
from .sentences import Evidence, Kind, Part, Several, Sign, Steps
from .signs import Ask, Parts, rounded

MOST_STEPS, MOST_QUESTIONS = 6, 3
ROUGH = Rules(1e-6, 1e-6, equal_nan=True)
MUST = 2
"""How often a right answer must have changed where the student's did not, before that is said."""
OTHER, TINY = 7.3, 1e-6
"""A number that no example holds, and what is 0 but for rounding."""
FURTHER = -1.7
"""How many times one more: to the other side, and not a whole number, since softmax(1, 0) mirrors softmax(1, 2)."""
TIME = "TLP"
"""The letters of docstrings for dimensions that are steps."""


def facts(
    failing: Request, part: Part | None, wrong: Sequence[Request], good: Sequence[Request], ask: Ask
) -> Iterator[Evidence]:
    """What is so of the code, the surest first, and may be why this `part` of the answer is wrong. `wrong`, `good`:
    ordinary examples that are so.
    """
    # What is due to raise, and what is no part of an answer, has other reasons.
    if ask(failing)[0].error or (part and part.kind is Kind.EFFECT):
        return
    seen = _asked(failing, wrong, ask)
    first = seen[0] if seen and seen[0].is_shown else None
    # What is NaN has a reason of its own, whatever else is wrong.
    if _is_nan(failing, part, ask):
        of_nan = itertools.chain(_nan_of_padding(failing, ask), _zeros(seen))
        yield from itertools.islice((one for one in of_nan if _is_of(one, part)), 1)
        return
    if first and part and part.kind is Kind.SLOPE and alike(first.right.value, first.mine.value):
        seen = [one for one in seen if one.is_shown]
    found = (one for one in _of_parts(seen, part, good, ask) if _is_of(one, part))
    if told := next(found, None):
        yield told
        yield from found
    else:
        yield from _of_all(seen)


def _is_nan(failing: Request, part: Part | None, ask: Ask) -> bool:
    """Whether there is NaN where none is due, in this part of the answer."""
    due, got = map(parts_of, ask(failing))
    pairs: list[tuple[Any, Any]] = [(due[one], got.get(one)) for one in due if part is None or part.holds(one)]
    return any(
        is_float(one) and is_float(other) and bool(other.isnan().any()) and not bool(one.isnan().any())
        for one, other in pairs
    )


def _nan_of_padding(failing: Request, ask: Ask) -> Iterator[Evidence]:
    """What stands where a mask is False enters, or does so only if it is NaN: then it is multiplied by 0."""
    whole = _Seen(replace(failing, grad_of=(), grad_weights=None), ask)
    for (name, under), (_, other) in zip(*(_under_masks(failing, number) for number in (OTHER, 1.0)), strict=True):
        first, second = whole.changed(**under), whole.changed(**other)
        if first and second and alike(first[0].value, second[0].value):
            yield Sign.TIMES_INFINITY() if alike(first[1].value, second[1].value) else Sign.PADDING_ENTERS(name)


def _is_of(fact: Evidence, part: Part | None) -> bool:
    """Whether it speaks of this part of the answer, or of none."""
    named = [one for one in fact.of if isinstance(one, Part)]
    return part is None or not named or any(part.holds(one) for one in named)


def _of_parts(seen: list["_Seen"], part: Part | None, good: Sequence[Request], ask: Ask) -> Iterator[Evidence]:
    if not seen:
        return
    direct = [one for one in seen if not one.asked.scenario]
    if padding := next((fact for one in direct for fact in _padding(one)), None):
        yield padding
    right = [_Seen(_tame(one), ask) for one in _telling(good)[:MOST_QUESTIONS]]
    yield from _unused(seen, part, right, bool(padding))
    # Where padding enters, rows and steps of padding do as well.
    factors = functools.partial(_factors, others=direct[1:])
    for tell in () if padding else (_rows, _beside_others, factors, _steps):
        if fact := next((fact for one in _no_larger(direct) for fact in tell(one)), None):
            yield fact
            break
    yield from itertools.islice(_zeros(seen), 1)


def _of_all(seen: list["_Seen"]) -> Iterator[Evidence]:
    """Of a draft that is wrong in everything: what the whole answer depends on, and which way."""
    yield from _opposite(seen)
    direct = [one for one in seen if not one.asked.scenario]
    yield from itertools.islice((fact for one in _no_larger(direct) for fact in _columns(one)), 1)
    yield from _directions(seen)


def _no_larger(seen: list["_Seen"]) -> list["_Seen"]:
    """The question shown and those that have no row or step that it lacks: of such a one a place would tell nothing."""

    def size(one: _Seen) -> tuple[int, int]:
        tensors = [value for value in one.asked.arguments.values() if isinstance(value, Tensor) and value.dim()]
        return max(map(len, tensors), default=0), max((value.shape[-1] for value in tensors), default=0)

    if not (seen and seen[0].is_shown):
        return []
    rows, steps = size(seen[0])
    return [one for one in seen if size(one)[0] <= rows and size(one)[1] <= steps]


def _asked(failing: Request, wrong: Sequence[Request], ask: Ask) -> list["_Seen"]:
    questions = [one for one in (failing, *_telling(wrong)) if one.seconds <= CHEAP]
    seen = (_Seen(_tame(one), ask, one is failing) for one in questions[:MOST_QUESTIONS])
    return [one for one in seen if one.tells]


def _telling(wrong: Sequence[Request]) -> list[Request]:
    """The examples that have most to change: a mask that is False somewhere, several rows, many arguments."""

    def weight(asked: Request) -> tuple[bool, bool, int]:
        tensors = [one for one in asked.arguments.values() if isinstance(one, Tensor)]
        ragged = any(is_flags(one) and not bool(one.all()) for one in tensors)
        return ragged, any(one.dim() > 1 and len(one) > 1 for one in tensors), len(asked.arguments)

    return sorted(wrong, key=weight, reverse=True)


def _tame(asked: Request) -> Request:
    """The question without NaN: what is NaN cannot be seen to change."""

    def filled(tensor: Tensor) -> Tensor:
        return torch.where(tensor.isfinite(), tensor, torch.full_like(tensor, 0.5)) if is_float(tensor) else tensor

    arguments = asked.arguments if asked.scenario else copy_plain(asked.arguments, filled)
    return replace(asked, arguments=arguments)


class _Seen:
    """A question and both answers; `changed` asks it with other arguments."""

    def __init__(self, asked: Request, ask: Ask, is_shown: bool = False) -> None:
        self.asked, self._ask, self.is_shown = asked, ask, is_shown
        self.right, self.mine = ask(asked)

    def elsewhere(self) -> "_Seen":
        """The question with each number another one."""

        def moved(tensor: Tensor) -> Tensor:
            shift = torch.linspace(0.1, 0.4, tensor.numel(), dtype=tensor.dtype) if is_float(tensor) else None
            return tensor if shift is None else tensor + shift.view(tensor.shape)

        return _Seen(replace(self.asked, arguments=copy_plain(self.asked.arguments, moved)), self._ask)

    @property
    def parts(self) -> Parts:
        """Of the right answer."""
        return parts_of(self.right)

    @property
    def tells(self) -> bool:
        return not (self.right.error or self.mine.error)

    def must_move(self, part: Part | None, right: Outcome) -> bool:
        """Whether another right answer has another number in this part."""
        due, other = self.parts, parts_of(right)
        return any(not alike(due[one], other.get(one)) for one in due if part is None or part.holds(one))

    def changed(self, **arguments: Any) -> tuple[Outcome, Outcome] | None:
        """Both answers; None where one of the two is an error."""
        right, mine = self._ask(replace(self.asked, arguments={**self.asked.arguments, **arguments}))
        return None if right.error or mine.error else (right, mine)


# What stands where a mask is False


def _under_masks(asked: Request, number: float) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """A mask, and the arguments of its shape with this number wherever it is False."""
    for name, mask in asked.arguments.items():
        if "mask" not in name or not isinstance(mask, Tensor) or not is_flags(mask) or bool(mask.bool().all()):
            continue
        floats = (
            (key, value) for key, value in asked.arguments.items() if is_float(value) and value.shape == mask.shape
        )
        if under := {key: value.masked_fill(~mask.bool(), number) for key, value in floats}:
            yield name, under


def _padding(seen: _Seen) -> Iterator[Evidence]:
    for name, under in _under_masks(seen.asked, OTHER):
        answers = seen.changed(**under)
        if answers and alike(seen.right.value, answers[0].value) and not alike(seen.mine.value, answers[1].value):
            yield Sign.PADDING_ENTERS(name)


def _zeros(seen: Sequence[_Seen]) -> Iterator[Evidence]:
    """A part of the answer that must be 0 where a mask is False, as it is in all questions."""
    for name, part in dict.fromkeys((name, part) for one in seen for name in one.asked.arguments for part in one.parts):
        pairs = [pair for one in seen if (pair := _under(one, name, part))]
        if len(pairs) >= min(MUST, len(seen)) and not any(bool(due.any()) for due, _ in pairs):
            if any(bool((got != 0).any()) for _, got in pairs):
                yield Sign.MUST_BE_0(part, name)


def _under(seen: _Seen, name: str, part: Part) -> tuple[Tensor, Tensor] | None:
    """What both answers say where a mask of their shape is False."""
    mask: Any = seen.asked.arguments.get(name)
    due, got = seen.parts.get(part), parts_of(seen.mine).get(part)
    if "mask" not in name or not is_flags(mask) or part.kind is not Kind.VALUE or bool(mask.bool().all()):
        return None
    if not (isinstance(due, Tensor) and isinstance(got, Tensor) and due.shape == got.shape == mask.shape):
        return None
    return due[~mask.bool()], got[~mask.bool()]


# Rows


def _rows(seen: _Seen) -> Iterator[Evidence]:
    """A row that another one changes, where it must not; and the reverse."""
    tensors = {name: one for name, one in seen.asked.arguments.items() if is_float(one) and one.dim() > 1}
    sizes = {len(one) for one in tensors.values()}
    if len(sizes) != 1 or not 1 < max(sizes) <= 16:
        return
    name_of = next(iter(tensors))
    for row in (0, max(sizes) - 1):
        answers = seen.changed(**{name: _with_row(one, row) for name, one in tensors.items()})
        for part, due, got in _affected(seen, answers, 0, tensors[name_of]) if answers else ():
            undue = sorted(got - due - {row})
            if undue and due <= {row}:
                yield Sign.ROWS_MEET(row, undue[0], part)


def _with_row(tensor: Tensor, row: int) -> Tensor:
    other = tensor.clone()
    other[row] = other[row] * 1.3 + 0.4
    return other


def _beside_others(seen: _Seen) -> Iterator[Evidence]:
    """A row that is right by itself, and wrong beside the others."""
    tensors = {name: one for name, one in seen.asked.arguments.items() if isinstance(one, Tensor) and one.dim()}
    right, mine = seen.right.value, seen.mine.value
    if not (isinstance(right, Tensor) and isinstance(mine, Tensor) and right.shape == mine.shape and right.dim()):
        return
    if {len(one) for one in tensors.values()} != {len(right)} or not any(one.dim() > 1 for one in tensors.values()):
        return
    good = close(right.double(), mine.double(), ROUGH).flatten(1).all(1) if right.dim() > 1 else right == mine
    wrong = [row for row in range(len(right)) if not bool(good[row])]
    for row in wrong if len(wrong) < len(right) else ():
        alone = seen.changed(**{name: one[row : row + 1] for name, one in tensors.items()})
        if alone is None or not alike(alone[0].value, alone[1].value):
            return
    if wrong and len(wrong) < len(right):
        yield Sign.RIGHT_ALONE(wrong[0])


# Steps


def _factors(seen: _Seen, others: Sequence[_Seen]) -> Iterator[Evidence]:
    """Where the answer is linear in an argument: a step of the question shown that counts by another factor."""
    for fact, quotient in _other_factors(seen) if seen.is_shown else ():
        # In numbers worked by hand, gamma may be a half by chance.
        known = {hint for other in others for _, ratio in _other_factors(other) for hint in _ratios(other.asked, ratio)}
        yield fact + next((hint for hint in _ratios(seen.asked, quotient) if hint in known), None)


def _other_factors(seen: _Seen) -> Iterator[tuple[Evidence, float]]:
    """What is said of it, and how many times too large it is."""
    for name, tensor in seen.asked.arguments.items():
        if not is_float(tensor) or not tensor.dim() or not 1 < tensor.shape[-1] <= MOST_STEPS + 1:
            continue
        found: list[tuple[tuple[int, int], Evidence, float]] = []
        for step in range(tensor.shape[-1]):
            once, further = (seen.changed(**{name: _grown(tensor, step, size)}) for size in (1.0, FURTHER))
            if once is None or further is None:
                continue
            for part in (one for one in parts_of(seen.right) if one.kind is Kind.VALUE):
                due, got = (_slope(part, *three) for three in zip((seen.right, seen.mine), once, further, strict=True))
                if due is None or got is None or due.shape != got.shape:
                    continue
                differ = ~close(due, got, ROUGH) & (due.abs() > TINY) & (got.abs() > TINY) & got.isfinite()
                for place in differ.nonzero().tolist():
                    one, other = float(due[tuple(place)]), float(got[tuple(place)])
                    # Where the fewest steps lie between, other mistakes have the least to say.
                    order, factors = (abs(place[-1] - step), -step), (rounded(other, 4), rounded(one, 4))
                    if factors[0] != factors[1]:
                        # Where the answer is of another form, the last dimension may be no time.
                        is_step = due.dim() == tensor.dim() and _is_time(seen.asked, name)
                        counts = Sign.COUNTS(name, step, factors[0], place[-1], part, factors[1])
                        adds = Sign.ADDS(name, step, factors[0], part, Several(place), factors[1])
                        found.append((order, counts if is_step else adds, other / one))
        yield from ((fact, ratio) for _, fact, ratio in sorted(found, key=lambda one: one[0]))


def _grown(tensor: Tensor, step: int, size: float) -> Tensor:
    other = tensor.clone()
    other[..., step] = other[..., step] + size
    return other


def _slope(part: Part, *outcomes: Outcome) -> Tensor | None:
    """What one more adds to a part of the answer; None where FURTHER does not add as many times as much."""
    tensors: list[Any] = [parts_of(one).get(part) for one in outcomes]
    if not all(is_float(one) and one.dim() and one.shape == tensors[0].shape for one in tensors):
        return None
    before, once, further = (one.double() for one in tensors)
    return once - before if bool(close(FURTHER * (once - before), further - before, ROUGH).all()) else None


def _ratios(asked: Request, factor: float) -> Iterator[Evidence]:
    """What the quotient of two factors may be, in numbers of the question."""
    if abs(factor + 1) < 1e-6:
        yield Sign.SIGN()
    numbers = {name: value for name, value in asked.arguments.items() if type(value) is float and value not in (0, 1)}
    products = {Sign.NUMBER(name): value for name, value in numbers.items()}
    products |= {Sign.PRODUCT(a, b): numbers[a] * numbers[b] for a, b in itertools.combinations(numbers, 2)}
    products |= {Sign.REST(name): 1 - value for name, value in numbers.items()}
    for product, value in products.items():
        if abs(factor * value - 1) < 1e-6:
            yield Sign.FACTOR_MISSING(product)
        if abs(factor / value - 1) < 1e-6:
            yield Sign.FACTOR_TWICE(product)


def _steps(seen: _Seen) -> Iterator[Evidence]:
    """Steps of the answer that no argument at a step must change, and one does; or that one must, and none does."""
    tensors = [
        (name, one)
        for name, one in seen.asked.arguments.items()
        if is_float(one) and one.dim() and 1 < one.shape[-1] <= MOST_STEPS + 1
    ]
    for step in range(max((one.shape[-1] for _, one in tensors), default=0)):
        found: dict[Part, list[tuple[str, set[int], set[int]]]] = {}
        for name, tensor in tensors:
            answers = seen.changed(**{name: _with_step(tensor, step)}) if step < tensor.shape[-1] else None
            for part, due, got in _affected(seen, answers, -1, tensor) if answers else ():
                found.setdefault(part, []).append((name, due, got))
        for part, rows in found.items():
            all_due, all_got = (set().union(*(row[place] for row in rows)) for place in (1, 2))
            # What must cancel in one argument is reached by another. A gradient may be at a kink of the student's.
            undue, missing = all_got - all_due, all_due - all_got if part.kind is not Kind.SLOPE else set()
            for name, due, got in rows:
                if got & undue or (missing and due & missing):
                    unit = "step" if _is_time(seen.asked, name) else "place"
                    places = [Steps(frozenset(numbers), unit) for numbers in (got, due)]
                    yield Sign.STEPS(name, unit, step, places[0], part, places[1], _why(due, got, unit))


def _is_time(asked: Request, name: str) -> bool:
    """Whether the docstring has an argument's last dimension for steps, or does not tell."""
    text = shared_reference().evaluator.text(asked.lesson, read_lesson(asked.lesson).file_of(asked.exercise))
    last = rf"^ +(?:\w+, )*{name}(?:, \w+)*: \([^()]*?([A-Z])(?: [+-] 1)?,?\)"
    found = re.search(last, function_in(text, asked.exercise), re.MULTILINE)
    return not found or found[1] in TIME


def _with_step(tensor: Tensor, step: int) -> Tensor:
    other = tensor.clone()
    other[..., step] = other[..., step] * 1.3 + 0.4
    return other


def _why(due: set[int], got: set[int], unit: str) -> Evidence:
    if due < got:
        return Sign.TOO_MANY_STEPS(unit)
    if not got:
        return Sign.NO_STEP()
    return Sign.TOO_FEW_STEPS(unit) if got < due else Sign.OTHER_STEPS()


def _affected(
    seen: _Seen, answers: tuple[Outcome, Outcome], dim: int, like: Tensor
) -> Iterator[tuple[Part, set[int], set[int]]]:
    """By part of the answer: the places along a dimension that change in the right answer, and in the student's."""
    before, after = (map(parts_of, pair) for pair in ((seen.right, seen.mine), answers))
    (right, mine), (right_then, mine_then) = before, after
    for part in right:
        four: list[Any] = [one.get(part) for one in (right, right_then, mine, mine_then)]
        if not all(is_float(one) and one.shape == four[0].shape and one.dim() for one in four):
            continue
        if dim == -1 and (four[0].dim() != like.dim() or abs(four[0].shape[-1] - like.shape[-1]) > 1):
            continue
        if four[0].shape[dim] < 2 or (dim == 0 and four[0].dim() < 2):
            continue
        yield part, _places(four[0], four[1], dim), _places(four[2], four[3], dim)


def _places(before: Tensor, after: Tensor, dim: int) -> set[int]:
    moved = ~close(before.double(), after.double(), ROUGH)
    return set(moved.movedim(dim, 0).flatten(1 if moved.dim() > 1 else 0).reshape(moved.shape[dim], -1).any(1).nonzero()
               .flatten().tolist())  # fmt: skip


def parts_of(outcome: Outcome) -> Parts:
    """Its values by name, then its gradients."""
    value, names = fields_of(outcome.value)
    if isinstance(value, tuple):
        value = dict(zip(names or map(str, range(len(value))), value, strict=True))
    parts = value if isinstance(value, dict) else {"": value}
    slopes = {Part(Kind.SLOPE, name): slope for name, slope in outcome.gradients.items()}
    return {Part(Kind.VALUE, name): part for name, part in parts.items()} | slopes


# What changes nothing


def _unused(seen: list[_Seen], part: Part | None, good: list[_Seen], without_masks: bool) -> Iterator[Evidence]:
    """Arguments without effect, in all questions in which they must have one on this part of the answer, and in those
    that are right.
    """
    used = seen[0].asked.lesson, seen[0].asked.exercise
    # What a scenario is told may be for itself.
    known = {*shared_reference().parameters(*used), *words_of(region_text(*used))}
    names = dict.fromkeys(name for one in seen for name in one.asked.arguments if name in known)
    for name in (one for one in names if not (without_masks and "mask" in one)):
        tried: list[tuple[Any, Any]] = []
        for one in seen:
            value = one.asked.arguments.get(name)
            for other in _others(value, one.asked.scenario is not None):
                answers = one.changed(**{name: other})
                if answers is None:
                    continue
                if not alike(one.mine.value, answers[1].value):
                    tried = []
                    break
                if one.must_move(part, answers[0]):
                    tried += [(value, other)]
            else:
                continue
            break
        # What cancels in numbers worked by hand does not in others.
        others = [*good, *(one.elsewhere() for one in seen[:1])]
        if len(tried) >= min(MUST, len(seen)) and not any(_acts(one, name) for one in others):
            numbers = [one for one in itertools.chain(*tried) if isinstance(one, (int, float))]
            shown = Several([*dict.fromkeys(numbers)][:3])
            yield Sign.UNUSED_AT(name, shown) if len(shown) > 1 else Sign.UNUSED(name)


def _acts(seen: _Seen, name: str) -> bool:
    """Whether another value of an argument changes the student's answer."""
    tried = _others(seen.asked.arguments.get(name), seen.asked.scenario is not None)
    changed = [answers for other in tried if (answers := seen.changed(**{name: other}))]
    return any(not alike(seen.mine.value, mine.value) for _, mine in changed)


def _others(value: Any, in_scenario: bool) -> list[Any]:
    if isinstance(value, bool):  # Of a scenario, it may be no option that the code knows.
        return [] if in_scenario else [not value]
    if isinstance(value, float):
        return [value / 2, 1.7 * value + 0.05, *(() if in_scenario else (10 * value + 0.3, value / 10))]
    if isinstance(value, int) and not in_scenario:
        return [value + 1]
    if is_float(value) and value.dim() and not in_scenario:
        return [value * 1.3 + 0.37, value * 0.6 - 0.81, -value, value.flip(-1), value * 8.0]
    if isinstance(value, Tensor) and is_flags(value) and not in_scenario:
        return [torch.ones_like(value)]
    return []


# Where all is wrong


def _opposite(seen: Sequence[_Seen]) -> Iterator[Evidence]:
    """The negative of the right answer to the question shown, where all others have the other sign as well."""
    told = 0
    for one in seen:
        due, got = (_numbers(outcome) for outcome in (one.right, one.mine))
        if due.shape != got.shape or (one.is_shown and not bool(close(due, -got, ROUGH).all())):
            return
        products = (due * got)[due.isfinite() & got.isfinite()]
        if bool((products > 0).any()):
            return
        told += bool((products < 0).any())
    if told >= MUST and seen[0].is_shown:
        yield Sign.OPPOSITE()


def _columns(seen: _Seen) -> Iterator[Evidence]:
    """Columns of an argument on which the answer must depend, and others on which it does."""
    for name, tensor in seen.asked.arguments.items():
        if not is_float(tensor) or tensor.dim() < 2 or not 1 < tensor.shape[1] <= MOST_STEPS:
            continue
        answers = [seen.changed(**{name: _with_column(tensor, i)}) for i in range(tensor.shape[1])]
        due, got = (
            [i for i, both in enumerate(answers) if both and not alike(before.value, both[which].value)]
            for which, before in enumerate((seen.right, seen.mine))
        )
        if due and got and due != got:
            mine, right = (Several(Sign.COLUMN(name, i) for i in columns) for columns in (got, due))
            is_shifted = due in ([i + 1 for i in got], [i - 1 for i in got])
            yield Sign.COLUMNS(mine, right) + (Sign.SHIFTED() if is_shifted else None)


def _with_column(tensor: Tensor, column: int) -> Tensor:
    """Not by the same number everywhere, of which a softmax sees nothing."""
    other = tensor.clone()
    shift = torch.linspace(0.4, 0.9, other[:, column].numel(), dtype=tensor.dtype)
    other[:, column] = other[:, column] * 1.3 + shift.view_as(other[:, column])
    return other


def _directions(seen: Sequence[_Seen]) -> Iterator[Evidence]:
    """Options that move every number the other way than they must."""
    for name in dict.fromkeys(name for one in seen for name in one.asked.arguments):
        signs = [pair for one in seen for pair in _signs(one, name)]
        if len(signs) >= MUST and len({*signs}) == 1 and sum(signs[0]) == 0:
            yield (Sign.MUST_RISE if signs[0][0] > 0 else Sign.MUST_FALL)(name)


def _signs(seen: _Seen, name: str) -> list[tuple[int, int]]:
    """Which way the numbers of both answers go with a larger option, where both go."""
    value = seen.asked.arguments.get(name)
    answers = seen.changed(**{name: 1.1 * value + 1e-3}) if type(value) is float else None
    if not answers:
        return []
    due, got = (_way(*pair) for pair in zip((seen.right, seen.mine), answers, strict=True))
    return [(a, b) for a, b in zip(due, got, strict=True) if a and b] if len(due) == len(got) else []


def _way(before: Outcome, after: Outcome) -> list[int]:
    old, new = map(_numbers, (before, after))
    return [] if old.shape != new.shape else torch.where(close(old, new, ROUGH), 0, (new - old).sign()).int().tolist()


def _numbers(outcome: Outcome) -> Tensor:
    return torch.cat([torch.zeros(0), *map(torch.flatten, _floats(outcome))])


def _floats(outcome: Outcome) -> Iterator[Tensor]:
    numbers = (torch.as_tensor(one) for _, one in leaves(outcome.value) if is_float(one) or type(one) is float)
    return (one.double() for one in numbers)
