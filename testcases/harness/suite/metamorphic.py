"""Questions that the engine makes of a lesson's examples, where mistakes of a kind hide in every exercise alike.

Something kept between two calls, or a call without gradients; tensors laid out as a transposed view's; an option left
out, at 0, at 1, empty, or another than usual, alone and with all others; flags that are all alike; numbers that are
exactly 0, equal, nearly so, all negative, or add up to 0, very small, large, or of one argument below or above those of
the others; log-probabilities whose exponential is 0; a gradient for one argument alone, or with a factor; a dimension
more or less; one row, one step, many rows, and rows so long that bfloat16 (256) and float16 (2,048) cannot count their
tokens, or float32 holds no power of a factor.
"""

import ast
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from dis import opmap
from inspect import Parameter
from typing import Any

import torch
from torch import Tensor

from ..catalog.handles import Exercise
from ..catalog.lessons import SOLUTIONS
from ..catalog.lessons import lesson as read_lesson
from ..diagnosis.sentences import KEPT
from ..diagnosis.values import CHEAP
from ..execution.messages import Call, Outcome, copy_plain, leaves, tensors_in
from ..oracle.reference import examples
from ..report.compare import alike, same_outcome
from ..report.failures import show
from .asserts import Asked, put
from .questions import hard
from .session import current

LONG, MANY, TINY = 300, 2_100, 1e-10
FACTORS, SHIFT = (1e-18, 1e3), 2.0
TAILS = (torch.float32, -110.0), (torch.float32, -1000.0), (torch.float64, -1000.0)
"""Log-probabilities whose exponential is 0 in that float."""
BETWEEN = "calls.first_of_two"


def check_families(exercise: Exercise) -> None:
    """The exercise answers all of these questions as the reference does, and the first one again."""
    asked = current().examples(exercise.lesson, exercise.name)
    others = examples(exercise.lesson, exercise.name, current().seed + 1)
    pairs = [*_for_memory(asked, others)]
    for question, other in pairs:
        _remembers_nothing(question, other)
    for question, other in [pair for pair in pairs if not pair[0].scenario][:1]:
        _shares_nothing(question, other)
    direct = [question for question in asked if not question.scenario and question.seconds <= CHEAP]
    for question in (made for make in FAMILIES for made in make(direct)):
        # What the reference refuses, or is not defined for, says nothing of the exercise.
        if _is_defined(current().reference.run(question)):
            put(question).matches_reference()
    if _promises_to_show_nan(exercise.lesson, exercise.name):
        _hides_no_nan(direct)


def _is_defined(outcome: Outcome) -> bool:
    """There is one right answer, and no NaN in it."""
    if outcome.error or outcome.used_global_random:
        return False
    return not any(bool(tensor.isnan().any()) for tensor in tensors_in(outcome.value))


# A NaN of a real token

SHOWN = re.compile(r"NaN[^.]*\b(?:shows|stays)\b")


@functools.cache
def _promises_to_show_nan(lesson: str, exercise: str) -> bool:
    """Whether its docstring says so, or that of its file, which holds for all exercises in it."""
    tree = ast.parse((SOLUTIONS / lesson / read_lesson(lesson).file_of(exercise)).read_text("utf-8"))
    own = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == exercise]
    docstrings = [ast.get_docstring(tree), *map(ast.get_docstring, own)]
    return any(SHOWN.search(docstring or "") for docstring in docstrings)


def _hides_no_nan(direct: Sequence[Call]) -> None:
    """A plain example with NaN in the second row of each tensor: a part of the answer that shows it has to show some.

    How far it spreads depends on the way: who multiplies by a matrix of weights meets 0 * NaN.
    """
    for question in ([one for one in direct if not hard(one)] or direct)[:1]:
        for name, value in question.arguments.items():
            if not (isinstance(value, Tensor) and value.is_floating_point() and value.numel()):
                continue
            broken = {**question.arguments, name: _with_a_nan(value)}
            asked = replace(question, arguments=broken, grad_of=())
            right = current().reference.run(asked)
            answer = put(asked)
            if right.error or answer.outcome.error:
                continue
            pairs = zip(leaves(right.value), leaves(answer.outcome.value), strict=False)
            if any(_is_hidden(wanted, got) for (_, wanted), (_, got) in pairs):
                said = f"`{name}` has a NaN at a real token, and it has to show in the answer"
                answer.fail("hides a NaN", [f"got      {show(answer.outcome.value)}", said])


def _with_a_nan(tensor: Tensor) -> Tensor:
    """In the second row, or number of a row, if there is one: Python's max and min hide what comes after the first."""
    broken = tensor.clone()
    broken[min(1, len(broken) - 1) if broken.dim() else ...] = torch.nan
    return broken


def _is_hidden(wanted: Any, got: Any) -> bool:
    """Whether there is a NaN in the first, and none in the second."""
    if not isinstance(wanted, (Tensor, float)) or not isinstance(got, (Tensor, float)):
        return False
    nan, also = torch.as_tensor(wanted).isnan(), torch.as_tensor(got).isnan()
    return bool(nan.any()) and not bool(also.any())


# Kept between calls


def _for_memory(asked: Sequence[Call], others: Sequence[Call]) -> Iterator[tuple[Call, Call]]:
    """The first two examples with others of the same shapes; one is enough where a call makes live objects."""
    pairs = [(one, other) for one, other in zip(asked, others, strict=False) if one.scenario == other.scenario]
    changed = [(one, other) for one, other in pairs if one.arguments.keys() == other.arguments.keys()]
    yield from changed[: 1 if asked and asked[0].scenario else 2]


def _remembers_nothing(question: Call, other: Call) -> None:
    """Ask a question, others of the same shape, and the first one again."""
    before = put(question)
    before.matches_reference()
    for changed in (_with(question, other, torch.is_tensor), _with(question, other, _is_no_float)):
        if not _is_defined(current().reference.run(changed)):
            continue
        answer = put(changed)
        if same_outcome(answer.outcome, before.outcome, values_only=True):
            right = current().reference.run(changed)
            if not same_outcome(answer.outcome, right, values_only=True):
                _fail_of_memory(answer, "this is its answer to the question before, which had other numbers")
        answer.matches_reference()
    again = put(question)
    if not same_outcome(again.outcome, before.outcome, values_only=True):
        _fail_of_memory(again, "it was asked this before, and answered otherwise")
    again.matches_reference()


def _fail_of_memory(asked: Asked, sign: str) -> None:
    """Something of an earlier call is in this answer."""
    asked.fail("remembers an earlier call", [f"got      {show(asked.outcome.value)}: {sign}", KEPT])


def _shares_nothing(question: Call, other: Call) -> None:
    """Without gradients, and with a second call before the first one's answer is read."""
    two = {"exercise": question.exercise, "first": question.arguments, "second": other.arguments}
    asked = Call(question.lesson, question.exercise, two, scenario=BETWEEN, seconds=2 * question.seconds)
    right = current().reference.run(asked)
    if not _is_defined(right):
        return
    answer = put(asked)
    mine = answer.outcome.value
    if isinstance(mine, tuple) and alike(right.value[0], mine[0]) and not alike(*mine):
        _fail_of_memory(answer, "the first call's answer, before and after the second call, which has written into it")
    answer.matches_reference()


def _with(question: Call, other: Call, chosen: Callable[[Any], bool]) -> Call:
    """The question with these arguments of another; what is NaN under a mask may stand under no mask now."""

    def is_chosen(name: str) -> bool:
        theirs, own = other.arguments[name], question.arguments[name]
        return chosen(theirs) and torch.is_tensor(own) and theirs.shape == own.shape

    arguments = {name: other.arguments[name] if is_chosen(name) else own for name, own in question.arguments.items()}
    laid_out = copy_plain(arguments, lambda tensor: tensor.nan_to_num(1.0))
    return replace(question, arguments=laid_out if question.scenario else copy_plain(laid_out, _as_a_view))


def _as_a_view(tensor: Tensor) -> Tensor:
    """The same numbers, laid out as those of a transposed tensor: `view` refuses them, `reshape` does not."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1) if tensor.dim() > 1 else tensor


def _is_no_float(value: Any) -> bool:
    return torch.is_tensor(value) and not value.is_floating_point()


# Options


def _options(direct: Sequence[Call]) -> Iterator[Call]:
    """The first example that has them all, with each option left out, with each number another one, and with all.

    The gradient is that of all parts of the answer: each may be cut off at an option of its own.
    """
    for question in _fullest(direct):
        parameters = current().reference.parameters(question.lesson, question.exercise)
        numbers = {name: _other_numbers(value) for name, value in question.arguments.items()}
        for name, value in question.arguments.items():
            if parameters[name].default is not Parameter.empty and value is not None:
                yield _asked_by_name(question, {key: own for key, own in question.arguments.items() if key != name})
            for number in numbers[name]:
                yield _with_numbers(question, {name: number})
        options = {name: others for name, others in numbers.items() if len(others) > 2}
        for together in zip(*options.values(), strict=False) if len(options) > 1 else ():
            yield _with_numbers(question, dict(zip(options, together, strict=True)))


def _fullest(direct: Sequence[Call]) -> Sequence[Call]:
    """The first of those with the most arguments."""
    return sorted(direct, key=lambda question: -len(question.arguments))[:1]


def _ends(direct: Sequence[Call]) -> Sequence[Call]:
    """That one, and the first of those with the fewest."""
    fewest = sorted(direct, key=lambda question: len(question.arguments))[:1]
    return [*fewest, *(one for one in _fullest(direct) if one is not fewest[0])]


def _with_numbers(question: Call, numbers: dict[str, Any]) -> Call:
    weighed = question.grad_weights is not None
    through = question.grad_through if weighed else None
    return replace(question, arguments={**question.arguments, **numbers}, grad_through=through)


def _asked_by_name(question: Call, arguments: dict[str, Any]) -> Call:
    return replace(
        question,
        arguments=copy_plain(arguments, lambda tensor: tensor.nan_to_num(1.0)),
        positional=0,
        grad_of=tuple(name for name in question.grad_of if name in arguments),
    )


def _other_numbers(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return 0, 1, value + 1, 3 * value
    if isinstance(value, float):
        return 0.0, 1.0, value / 2 if value <= 1 else 3 * value
    if isinstance(value, (list, tuple)) and value and all(type(part) is int for part in value):
        return type(value)(), sorted(value, reverse=True)
    return ()


# Flags


def _flags(direct: Sequence[Call]) -> Iterator[Call]:
    """The first example that has masks or dones, with all of them True, and all False."""
    for question in [one for one in direct if any(own.dtype == torch.bool for own in tensors_in(one.arguments))][:1]:
        for flag in (True, False):
            yield _all_alike(question, flag)


def _all_alike(question: Call, flag: bool) -> Call:
    """What was NaN under a mask may stand under no mask now."""

    def changed(tensor: Tensor) -> Tensor:
        return torch.full_like(tensor, flag) if tensor.dtype == torch.bool else tensor.nan_to_num(1.0)

    return replace(question, arguments=copy_plain(question.arguments, changed))


# Exact numbers


def _exact(direct: Sequence[Call]) -> Iterator[Call]:
    """An example in which some numbers are exactly 0, one in which those of each argument add up to 0, one in which all
    are negative, and one in which some are those of another argument, or nearly: float32 would not tell them apart.

    No gradient is asked for: at a kink there is more than one.
    """
    for question in _ends([one for one in direct if _floats(one)]):
        (_, first), *others = _floats(question)
        yield _without_gradient(question, {name: _zeroed(own, i) for i, (name, own) in enumerate(_floats(question))})
        yield _without_gradient(question, {name: _balanced(own) for name, own in _floats(question)})
        yield _without_gradient(question, {name: -own.abs() for name, own in _floats(question)})
        equal = {name: _mixed(own, first) for name, own in others if own.shape == first.shape}
        if equal:
            yield _without_gradient(question, equal)


def _magnitudes(direct: Sequence[Call]) -> Iterator[Call]:
    """An example with all numbers very small, with all large, and with each argument below and above what it was."""
    for question in _fullest([one for one in direct if _floats(one)]):
        for factor in FACTORS:
            scaled = _without_gradient(question, {name: factor * own for name, own in _floats(question)})
            if _is_finite(scaled):
                yield scaled
        for (name, own), shift in itertools.product(_floats(question), (-SHIFT, SHIFT)):
            yield _without_gradient(question, {name: own + shift})


def _tails(direct: Sequence[Call]) -> Iterator[Call]:
    """An example with its log-probabilities so low that no float holds the probability, in value and gradient."""
    for question in _ends([one for one in direct if any(_is_log_prob(name) for name, _ in _floats(one))]):
        for dtype, level in TAILS:
            lower = {name: own + level if _is_log_prob(name) else own for name, own in _floats(question)}
            lowered = {name: own.to(dtype) for name, own in lower.items()}
            asked = replace(question, arguments={**question.arguments, **lowered}, grad_weights=None)
            if _is_finite(asked):
                yield asked


def _is_log_prob(name: str) -> bool:
    return name.endswith("log_probs")


def _is_finite(question: Call) -> bool:
    """The right answer is: else inf - inf may stand for inf."""
    outcome = current().reference.run(question)
    numbers = [*tensors_in(outcome.value), *_numbers_in(outcome.value)]
    return bool(numbers) and all(bool(torch.as_tensor(number).isfinite().all()) for number in numbers)


def _numbers_in(value: Any) -> list[float]:
    return [number for number in value.values() if isinstance(number, float)] if isinstance(value, dict) else []


def _gradients(direct: Sequence[Call]) -> Iterator[Call]:
    """The first example with a gradient, for one argument alone, and with a factor, as in a sum of losses."""
    for question in [one for one in direct if one.grad_of][:1]:
        value = current().reference.run(question).value
        if torch.is_tensor(value) and question.grad_weights is None:
            yield replace(question, grad_weights=torch.full_like(value, 0.7))
        for name in question.grad_of if len(question.grad_of) > 1 else ():
            yield replace(question, grad_of=(name,))


def _floats(question: Call) -> list[tuple[str, Tensor]]:
    found = question.arguments.items()
    return [(name, own) for name, own in found if torch.is_tensor(own) and own.is_floating_point() and own.dim()]


def _without_gradient(question: Call, changed: dict[str, Any]) -> Call:
    return replace(question, arguments={**question.arguments, **changed}, grad_of=())


def _zeroed(tensor: Tensor, offset: int) -> Tensor:
    """Two of three numbers are 0, of the next tensor other two."""
    place = torch.arange(tensor.numel()).reshape(tensor.shape) + 2 * offset
    return tensor.masked_fill((place % 3 != 2) & ~tensor.isnan(), 0.0)


def _balanced(tensor: Tensor) -> Tensor:
    """Each second number is the one before it, negated; of an odd count the last is 0."""
    numbers = tensor.reshape(-1).clone()
    numbers[1::2] = -numbers[: len(numbers) - 1 : 2]
    numbers[len(numbers) // 2 * 2 :] = 0.0
    return torch.where(tensor.isnan(), tensor, numbers.reshape(tensor.shape))


def _mixed(tensor: Tensor, first: Tensor) -> Tensor:
    """Half of the numbers are equal to the first tensor's, and a third is a little smaller or larger."""
    place = torch.arange(tensor.numel()).reshape(tensor.shape) % 6
    near = first.to(tensor.dtype) + TINY * ((place == 3).to(tensor.dtype) - (place == 1).to(tensor.dtype))
    return torch.where((place < 5) & ~tensor.isnan(), near, tensor)


# Dimensions and sizes


def _stacked(direct: Sequence[Call]) -> Iterator[Call]:
    """The first example with rows, and the same in another order: a dimension more; its first row: one less.

    Where the docstring gives a tensor's shape as `(...)` or `(..., T)`; `(B, K)` says that there are two.
    """
    stacks = (one for one in direct if (lead := _lead(one)) is not None and lead.dim() == 2 and _has_dots(one, lead))
    for question in [*stacks][:1]:
        yield _without_gradient(question, copy_plain(question.arguments, _twice))
        yield _without_gradient(question, copy_plain(question.arguments, lambda tensor: tensor[0]))


def _has_dots(question: Call, lead: Tensor) -> bool:
    function = current().reference.executor.function(question.lesson, question.exercise)
    name = next(name for name, own in question.arguments.items() if own is lead)
    return bool(re.search(rf"^ *{name}: \(\.\.\.", inspect.getdoc(function) or "", re.MULTILINE))


def _twice(tensor: Tensor) -> Tensor:
    return torch.stack([tensor, tensor.flip(0)]) if tensor.dim() > 1 else tensor


def _sizes(direct: Sequence[Call]) -> Iterator[Call]:
    """An example with many steps, with one, with each row many times over, and with one row."""
    for question, lead in [(one, lead) for one in direct if (lead := _lead(one)) is not None][:1]:
        dim = min(1, lead.dim() - 1)
        if _counts(question):
            times = _times_of_steps(question, lead.shape[dim])
            yield _stretched(question, dim, times)
            if _loops(question):
                yield from (_stretched(_fading(flat), dim, times // 5) for flat in _flags([question]))
            for place in (0, 1):
                yield _stretched(question, dim, torch.arange(lead.shape[dim]) == place)
        if lead.dim() > 1:
            yield _stretched(question, 0, torch.full(lead.shape[:1], _uncountable(question, lead)))
            first = _stretched(question, 0, torch.arange(lead.shape[0]) == 0)
            yield first
            if _counts(question):
                yield _stretched(first, 1, torch.arange(lead.shape[1]) == 0)


def _fading(question: Call) -> Call:
    """In float32, and with factors of which even the 50th power is 0 there."""

    def narrow(tensor: Tensor) -> Tensor:
        return tensor.float() if tensor.is_floating_point() else tensor

    small = {name: own / 8 for name, own in question.arguments.items() if isinstance(own, float) and own <= 1}
    return replace(question, arguments={**copy_plain(question.arguments, narrow), **small})


def _lead(question: Call) -> Tensor | None:
    """The first tensor with batch and time; where there is none, with one of them.

    None if batch, time and vocabulary do not differ: a size has to say which dimension it is.
    """
    tensors = [own for own in question.arguments.values() if torch.is_tensor(own)]
    lead = next((own for dims in (2, 1) for own in tensors if own.dim() >= dims), None)
    if lead is None or any(own.dtype != torch.float64 for _, own in _floats(question)):
        return None
    sizes = [1, *lead.shape, lead.shape[min(1, lead.dim() - 1)] + 1]  # that of values in lesson 4
    return lead if len(set(sizes)) == len(sizes) else None


def _counts(question: Call) -> bool:
    """There are masks, dones or tokens: else the second dimension may be the responses to a prompt, paired off."""
    return any(torch.is_tensor(own) and not own.is_floating_point() for own in question.arguments.values())


def _times_of_steps(question: Call, steps: int) -> Tensor:
    """How often to repeat each step: only the first one, so that those after it have even and odd places beyond 2,048;
    each of them, and not as often, where the reference goes from step to step, which takes its time.
    """
    if _loops(question):
        return torch.full((steps,), _odd(-(-LONG // steps)))
    return torch.ones(steps, dtype=torch.int64).index_fill(0, torch.tensor(0), MANY)


def _loops(question: Call) -> bool:
    """Whether the reference does, itself or in an exercise that it calls: there a sum over all later steps is right
    too, and takes the square of the time.
    """
    reference, lesson = current().reference, question.lesson
    functions = (reference.executor.function(lesson, one) for one in reference.used_by(lesson, question.exercise))
    return any(opmap["FOR_ITER"] in inspect.unwrap(one).__code__.co_code[::2] for one in functions)


def _stretched(question: Call, dim: int, times: Tensor) -> Call:
    """Each index of this dimension so many times; a dimension that is longer by one keeps its last index once."""
    size, times = len(times), times.long()

    def stretch(tensor: Tensor) -> Tensor:
        for place in range(min(tensor.dim(), 2)):
            if tensor.shape[place] == size:
                tensor = tensor.repeat_interleave(times, dim=place)
            elif dim == tensor.dim() - 1 and place == dim and tensor.shape[place] == size + 1:
                body, last = tensor.split([size, 1], dim=place)
                tensor = torch.cat([body.repeat_interleave(times, dim=place), last], dim=place)
        return tensor

    arguments = copy_plain(question.arguments, stretch)
    if dim == 1 and torch.is_tensor(lengths := arguments.get("lengths")):
        arguments["lengths"] = lengths.clamp(max=int(times.sum()))  # No row has more than all columns.
    return replace(question, arguments=arguments, grad_of=(), grad_weights=None)


def _odd(number: int) -> int:
    return number + 1 - number % 2


def _uncountable(question: Call, lead: Tensor) -> int:
    """How often to repeat the rows so that neither float16 nor bfloat16 holds the number of tokens."""
    masks = [own for own in question.arguments.values() if torch.is_tensor(own) and own.dtype == torch.bool]
    tokens = int(masks[0].sum()) if masks else lead.shape[0] * lead.shape[1]
    for times in itertools.count(_odd(-(-MANY // max(tokens, 1))), step=2):
        count = times * tokens
        if times > MANY or count % 2 ** max(count.bit_length() - 11, 0):
            return times
    raise AssertionError


FAMILIES: tuple[Callable[[Sequence[Call]], Iterator[Call]], ...] = (
    _options,
    _flags,
    _exact,
    _magnitudes,
    _tails,
    _gradients,
    _stacked,
    _sizes,
)
