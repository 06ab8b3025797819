"""Plain questions, which the formula alone answers, and hard ones, for which it has to be made safe."""

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from ..execution.messages import Call, in_float32, tensors_in
from ..report.compare import BY_ROUNDING
from ..report.failures import CheckFailed

SINGLE, LARGE, TINY = (torch.float32, torch.float64), 30.0, 1e-6
PRECISION = "the precision of the numbers"
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


def hard(call: Call) -> str:
    """What is hard in a question; empty where it is plain: moderate numbers of one dtype, padding on the right."""
    floats = [tensor for tensor in tensors_in(call.arguments) if tensor.is_floating_point()]
    if not all(bool(tensor.isfinite().all()) for tensor in floats):
        return "NaN or infinity among the numbers"
    tiny = any(isinstance(value, float) and 0 < abs(value) < TINY for value in call.arguments.values())
    if tiny or any(bool((tensor.abs() > LARGE).any()) for tensor in floats):
        return EXTREME
    mask = call.arguments.get("mask")
    if isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.dim() and not _is_right_padded(mask):
        return "masks with gaps, with empty rows or with padding on the left"
    dtypes = {tensor.dtype for tensor in floats}
    return PRECISION if len(dtypes) > 1 or dtypes.difference(SINGLE) else ""


def _is_right_padded(mask: Tensor) -> bool:
    return bool(mask[..., 0].all()) and not bool((mask[..., 1:] & ~mask[..., :-1]).any())


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
    words = f"{error.kind} {test.partition('::')[2]}" if is_slope or not hard(asked) else ""
    about = next((text for pattern, text in BY_NAME.items() if re.search(pattern, words)), "") or hard(asked)
    return f"Your formula is right; this is about {about}." if about else ""
