"""What an exception says of the code: a beginner reads torch's sentence, and not which line of thought led there."""

import ast
import difflib
import importlib.util
import re

from ..execution.messages import Call, StudentError
from .values import Shows, Sign

CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"Subtraction, the `-` operator, with a bool tensor",
        "`1 - x` doesn't work on a bool tensor, and flags may be bool as well as 0 and 1",
        "select with `masked_fill` or `where`, which also keeps NaN out, or invert with `~`",
    ),
    (
        r"(bitwise_not|'~'|~ operator|logical_not).*(Float|Double|not implemented|only)|\"bitwise_.*not implemented",
        "`~`, `&` and `|` don't work on float numbers, and flags may come as 0. and 1. as well as bool",
        "write `.bool()` first",
    ),
    (
        r"only supports boolean masks|expected condition to be a boolean|dtype of mask must be bool|"
        r"expects.*bool.*mask|tensors used as indices must be",
        "a mask has to be bool here, and flags may come as the numbers 0 and 1",
        "write `.bool()` first",
    ),
    (
        r"Index tensor must have the same number of dimensions|gather\(\).*[Ii]ndex.*dimensions",
        "`gather` needs an index with as many dimensions as the tensor",
        "`index.unsqueeze(-1)` adds one, and `.squeeze(-1)` takes it away afterwards",
    ),
    (
        r"'bool' object has no attribute|'bool' object is not (subscriptable|iterable)",
        "a tensor that is compared with several values at once by `==` gives a single True or False",
        "compare with each value, or use `torch.isin`",
    ),
    (
        r"Boolean value of Tensor with more than one value",
        "`if`, `and`, `or`, `min` and `max` of Python ask a whole tensor for one yes or no",
        "use `torch.where`, `&`, `|` or `torch.minimum`",
    ),
    (
        r"only (one element|a single element) tensors? can be converted|"
        r"a Tensor with \d+ elements cannot be converted to Scalar|only integer tensors of a single element",
        "`.item()`, `int()` and `float()` need a tensor with one number, and this one has several",
        "keep it a tensor, or reduce it first",
    ),
    (
        r"modified by an inplace operation|leaf Variable that requires grad is being used in an in-place|"
        r"view of a leaf Variable",
        "a tensor is changed in place, but the gradient still needs what it was",
        "collect the steps in a list and `torch.stack` them, or use `where` and `masked_fill`",
    ),
    (
        r"does not require grad and does not have a grad_fn",
        "`backward` was called on a number without a graph, so something has cut it off from the parameters",
        "look for detach, no_grad, `.item()` and `torch.tensor(...)`",
    ),
    (
        r"received an invalid combination of arguments",
        "torch has no form of this call that takes these arguments, so pass the options by name",
        "for example `dim=1`",
    ),
    (
        r"too many indices for tensor",
        "`x[:, i]` counts from the first dimension, so it fails where there is only one",
        "`x[..., i]` counts from the last",
    ),
    (
        r"selected index k out of range",
        "`topk` is asked for more entries than there are",
        "take the smaller of the two numbers, or leave it out there",
    ),
    (
        r"int too large to convert to float",
        "a whole number this large doesn't fit into a float",
        "divide the whole numbers by each other, since Python rounds only the result",
    ),
    (
        r"same dtype|but (found|got) (Double|Float)|expected m1 and m2 to have the same dtype|"
        r"self and.*dtype|must match.*dtype",
        "two tensors of different dtypes meet",
        "make new ones with `dtype=x.dtype` or `x.new_zeros(...)`",
    ),
)
"""A pattern of the exception's name and message, what it means for the code, and what to do."""
SIZES = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
BOUNDS = re.compile(r"index (-?\d+) is out of bounds for dimension -?\d+ with size (\d+)")
UNKNOWN = re.compile(r"name '(\w+)' is not defined")
IMPORTS = {
    "F": "import torch.nn.functional as F",
    "np": "import numpy as np",
    "nn": "from torch import nn",
    "Tensor": "from torch import Tensor",
}


def names_in(source: str) -> set[str]:
    """The names that a file's code has: not the words of its texts."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except SyntaxError:
        return set()
    fields = ("id", "arg", "attr", "name", "asname")
    return {name for node in nodes for field in fields if isinstance(name := getattr(node, field, None), str)}


def cause_of_error(error: StudentError, call: Call, known: set[str]) -> Sign | None:
    """`known`: the names that the file has."""
    if error.kind not in ("raised", "backward"):
        return None
    said = f"{error.type_name}: {error.message}"
    for pattern, idea, remedy in CAUSES:
        if re.search(pattern, said, re.DOTALL):
            return Sign(Shows.RAISED, (idea, remedy))
    if found := UNKNOWN.search(said):
        return _of_name(found[1], known)
    if "NoneType" in said and (names := [name for name, value in call.arguments.items() if value is None]):
        return Sign(Shows.MAY_BE_NONE, (names[0],))
    if "NoneType" in said and call.scenario is None:
        return Sign(Shows.LEFT_OUT)
    return _of_sizes(said)


def _of_name(name: str, known: set[str]) -> Sign:
    if line := IMPORTS.get(name) or (importlib.util.find_spec(name) and f"import {name}"):
        return Sign(Shows.NOT_IMPORTED, (name, line))
    close = difflib.get_close_matches(name, known - {name}, n=1)
    return Sign(Shows.UNKNOWN_NAME, (name, close[0] if close else ""))


def _of_sizes(said: str) -> Sign | None:
    if (found := SIZES.search(said)) and abs(int(found[1]) - int(found[2])) == 1:
        return Sign(Shows.ONE_ENTRY)
    if (found := BOUNDS.search(said)) and found[1] == found[2]:
        return Sign(Shows.ONE_PAST)
    return None
