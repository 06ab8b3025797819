"""Which questions are plain, so that the formula alone answers them, and which are hard; and what more is made of a
lesson's examples.

That is for mistakes that hide in every exercise alike: one that shows only in rows of many steps, of one, or in a row
alone, or where tensors are laid out otherwise; and a NaN that the answer hides.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..execution.messages import Call, copy_plain, tensors_in
from ..report.compare import BY_ROUNDING
from ..report.failures import MAX_LINES, CheckFailed
from .asked import in_float32

LONG = 150
SINGLE, LARGE, TINY = (torch.float32, torch.float64), 30.0, 1e-6
PRECISION = "the precision of the numbers"
NOT_FINITE = "NaN or infinity among the numbers"
GAPS = "masks with gaps, with empty rows or with padding on the left"
EXTREME = "very large, very small or very many numbers"
BY_NAME = {
    "gradient|detach|of_data|are_data": "where a gradient may flow",
    "float|precision|dtype|digits": PRECISION,
    "tail|unlikely|far_from|overflow|long|any_size": EXTREME,
    "no_words_for_the_prompt": "memory, which logits that nobody reads would take",
    "fewest": "shares that reach the bound exactly",
    "refuses": "what has no right answer",
}
"""What a test is about whose question is plain, by words in its name."""


def hard(call: Call) -> tuple[str, ...]:
    """What is hard in a question; nothing where it is plain: moderate numbers of one dtype, padding on the right."""
    floats = [tensor for tensor in tensors_in(call.arguments) if tensor.is_floating_point()]
    tiny = any(isinstance(value, float) and 0 < abs(value) < TINY for value in call.arguments.values())
    large = any(bool((tensor[tensor.isfinite()].abs() > LARGE).any()) for tensor in floats)
    mask = call.arguments.get("mask")
    dtypes = {tensor.dtype for tensor in floats}
    found = {
        NOT_FINITE: not all(bool(tensor.isfinite().all()) for tensor in floats),
        GAPS: isinstance(mask, Tensor) and mask.dtype == torch.bool and not _is_right_padded(mask),
        EXTREME: tiny or large,
        PRECISION: len(dtypes) > 1 or dtypes.difference(SINGLE),
    }
    return tuple(what for what, is_there in found.items() if is_there)


def _is_right_padded(mask: Tensor) -> bool:
    return mask.dim() == 0 or bool(mask[..., 0].all()) and not bool((mask[..., 1:] & ~mask[..., :-1]).any())


def plain(calls: Sequence[Call]) -> tuple[Call, ...]:
    """The plain ones in float32; all, where an exercise has none."""
    return tuple(map(in_float32, [one for one in calls if not hard(one)] or calls))


def if_right(test: str, error: BaseException | None) -> str:
    """What a failure of the advanced suite begins with if the basic suite has passed.

    Empty where the question is as plain as those of the basic suite, so that the formula itself may be wrong.
    """
    asked = error.call if isinstance(error, CheckFailed) else None
    if asked is None:
        return ""
    assert isinstance(error, CheckFailed)
    if error.kind == "wrong dtype" or error.kind.endswith(BY_ROUNDING):
        return f"Your formula is right; this is about {PRECISION}."
    is_slope = error.kind in ("wrong gradient", "no gradient", "carries a gradient")
    found = hard(asked)
    words = f"{error.kind} {test.partition('::')[2]}" if is_slope or not found else ""
    # A NaN that did not enter is not at fault where something else is hard, too.
    found = tuple(what for what in found if what != NOT_FINITE or "NaN" in error.kind) or found
    about = next((text for pattern, text in BY_NAME.items() if re.search(pattern, words)), "".join(found[:1]))
    return f"Your formula is right; this is about {about}." if about else ""


def with_first_line(line: str, text: str) -> str:
    """A report with a line before it, which costs the last line of the call where there are MAX_LINES already."""
    lines = text.splitlines()
    if len(lines) >= MAX_LINES and lines[-1].startswith(" "):
        del lines[-1]
    return "\n".join([line, *lines])


# What is made of the examples


def views(direct: Sequence[Call]) -> Iterator[Call]:
    """The first example, laid out as transposed tensors are: `view` refuses them, `reshape` does not."""

    def transposed(tensor: Tensor) -> Tensor:
        return tensor.transpose(0, 1).contiguous().transpose(0, 1) if tensor.dim() > 1 else tensor

    for question in direct[:1]:
        arguments = copy_plain(question.arguments, transposed)
        yield replace(question, arguments=arguments, grad_of=(), grad_weights=None)


def sizes(direct: Sequence[Call]) -> Iterator[Call]:
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


def with_a_nan(tensor: Tensor) -> Tensor:
    """In the second row, or number of a row, if there is one: Python's max and min hide what comes after the first."""
    broken = tensor.clone()
    broken[min(1, len(broken) - 1) if broken.dim() else ...] = torch.nan
    return broken
