"""A call as Python that can be pasted into a file or a notebook cell."""

import math
from typing import Any

import torch
from torch import Tensor

from ..execution import Request


def snippet(request: Request) -> str:
    """The imports, the call with every argument in full, and a print of the answer."""
    module, name = request.place
    lines = ["import torch", "from torch import inf, nan", ""]
    lines += [f"import tutorial.{request.lesson} as lesson"] * bool(request.scenario)
    lines.append(f"from {module} import {name.partition('.')[0]}")
    lines += ["", f"answer = {name}("] + ["    lesson,"] * bool(request.scenario)
    for place, (key, value) in enumerate(request.arguments.items()):
        slope = ".requires_grad_()" if key in request.grad_of else ""
        lines.append(f"    {'' if place < request.positional else key + '='}{as_python(value)}{slope},")
    return "\n".join([*lines, ")", "print(answer)"])


def as_python(value: Any) -> str:
    """Plain data as an expression with the names `torch`, `inf` and `nan`."""
    if isinstance(value, Tensor):
        if not value.numel():
            return f"torch.empty({tuple(value.shape)}, dtype={value.dtype})"
        return f"torch.tensor({as_python(value.detach().tolist())}, dtype={value.dtype})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {as_python(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_python, value)) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(f"{as_python(part)}, " for part in value).rstrip() + ")"
    if isinstance(value, (torch.dtype, torch.device)):
        return f"torch.device({str(value)!r})" if isinstance(value, torch.device) else str(value)
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else str(value)
