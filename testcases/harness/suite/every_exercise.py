"""Questions made of a lesson's examples, for mistakes that hide in every exercise alike: one that shows only in rows of
many steps, of one, or in a row alone, or where tensors are laid out otherwise; and a NaN that the answer hides."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..catalog.handles import Exercise
from ..catalog.lessons import SOLUTIONS
from ..catalog.lessons import lesson as read_lesson
from ..diagnosis.values import CHEAP
from ..execution.messages import Call, copy_plain, in_float32, leaves, tensors_in
from ..report.failures import show
from .asserts import put
from .questions import hard
from .session import current

LONG = 150
SHOWN = re.compile(r"NaN[^.]*\b(?:shows|stays)\b")
"""In a docstring: the exercise promises to show the NaN of a real token."""


def check_common_questions(exercise: Exercise) -> None:
    """The exercise answers all of these questions as the reference does."""
    examples = current().examples(exercise.lesson, exercise.name)
    direct = [question for question in examples if not question.scenario and question.seconds <= CHEAP]
    for question in (*_views(direct), *_sizes(direct)):
        right = current().reference.run(question)
        # What the reference refuses, or is not defined for, says nothing of the exercise.
        if not right.error and not any(bool(tensor.isnan().any()) for tensor in tensors_in(right.value)):
            put(question).matches_reference()
    if _promises_to_show_nan(exercise.lesson, exercise.name):
        _hides_no_nan(direct)


def _views(direct: Sequence[Call]) -> Iterator[Call]:
    """The first example, laid out as transposed tensors are: `view` refuses them, `reshape` does not."""

    def transposed(tensor: Tensor) -> Tensor:
        return tensor.transpose(0, 1).contiguous().transpose(0, 1) if tensor.dim() > 1 else tensor

    for question in direct[:1]:
        arguments = copy_plain(question.arguments, transposed)
        yield replace(question, arguments=arguments, grad_of=(), grad_weights=None)


def _sizes(direct: Sequence[Call]) -> Iterator[Call]:
    """An example with many steps, also in float32 with factors whose 50th power is 0 there; with one step; one row."""
    for question, lead in [(one, lead) for one in direct if (lead := _lead(one)) is not None][:1]:
        dim = min(1, lead.dim() - 1)
        if _counts(question):
            many = torch.full((lead.shape[dim],), LONG // lead.shape[dim] + 1)
            many[0] = LONG  # Who looks at the first steps alone finds no end of a row there.
            yield _stretched(question, dim, many)
            small = {name: own / 8 for name, own in question.arguments.items() if isinstance(own, float) and own <= 1}
            fading = in_float32(replace(question, arguments={**question.arguments, **small}))
            yield _stretched(fading, dim, many)
            yield _stretched(question, dim, torch.arange(lead.shape[dim]) == 0)
        if lead.dim() > 1:
            yield _stretched(question, 0, torch.arange(lead.shape[0]) == 0)


def _lead(question: Call) -> Tensor | None:
    """The first tensor with batch and time; where there is none, with one of them.

    None if batch, time and vocabulary do not differ: a size has to say which dimension it is.
    """
    tensors = [own for own in question.arguments.values() if torch.is_tensor(own)]
    lead = next((own for dims in (2, 1) for own in tensors if own.dim() >= dims), None)
    if lead is None or any(own.is_floating_point() and own.dtype != torch.float64 for own in tensors):
        return None
    sizes = [1, *lead.shape, lead.shape[min(1, lead.dim() - 1)] + 1]  # that of values in lesson 4
    return lead if len(set(sizes)) == len(sizes) else None


def _counts(question: Call) -> bool:
    """There are masks, dones or tokens: else the second dimension may be the responses to a prompt, paired off."""
    return any(torch.is_tensor(own) and not own.is_floating_point() for own in question.arguments.values())


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
    return bool(torch.as_tensor(wanted).isnan().any()) and not bool(torch.as_tensor(got).isnan().any())
