"""What an exception says of the code: a beginner reads torch's sentence, and not which line of thought led there."""

import ast
import difflib
import importlib.util
import re

from torch import Tensor

from ...execution import Request, StudentError
from .sentences import Evidence, Sign

CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"Subtraction, the `-` operator, with a bool tensor",
        "`1 - x` of a bool tensor: flags may be bool as well as 0 and 1. Select with `masked_fill` or `where`, which "
        "also keeps NaN out; or invert with `~`",
    ),
    (
        r"(bitwise_not|'~'|~ operator|logical_not).*(Float|Double|not implemented|only)|\"bitwise_.*not implemented",
        "`~`, `&` or `|` of numbers: flags may be 0. and 1. as well as bool: `.bool()` first",
    ),
    (
        r"only supports boolean masks|expected condition to be a boolean|dtype of mask must be bool|"
        r"expects.*bool.*mask|tensors used as indices must be",
        "flags may come as numbers, 0 and 1, as well as bool: `.bool()` first",
    ),
    (
        r"Index tensor must have the same number of dimensions|gather\(\).*[Ii]ndex.*dimensions",
        "`gather` needs an index with as many dimensions as the tensor: `index.unsqueeze(-1)`, then `.squeeze(-1)`",
    ),
    (r"argmax\(\).*(bool|Bool)", "`argmax` of flags: make them numbers first, `.int()`; where none is True it says 0"),
    (
        r"'bool' object has no attribute|'bool' object is not (subscriptable|iterable)",
        "`tensor == several values` is one False in Python: compare with each value, or use torch.isin",
    ),
    (
        r"cannot assign to field|FrozenInstanceError|can't set attribute",
        "a frozen dataclass cannot be changed: make a new one, `dataclasses.replace(x, field=value)`; a NamedTuple "
        "has `x._replace(field=value)`",
    ),
    (
        r"Boolean value of Tensor with more than one value",
        "`if`, `and`, `or`, `min` and `max` of Python ask a whole tensor for one yes or no: use torch.where, `&`, `|`, "
        "torch.minimum",
    ),
    (
        r"only (one element|a single element) tensors? can be converted|"
        r"a Tensor with \d+ elements cannot be converted to Scalar|only integer tensors of a single element",
        "`.item()`, `int()` or `float()` of a tensor with several numbers: keep it a tensor, or reduce it first",
    ),
    (
        r"modified by an inplace operation|leaf Variable that requires grad is being used in an in-place|"
        r"view of a leaf Variable",
        "a tensor is changed in place that the gradient still needs: collect in a list and `torch.stack`, or use "
        "`where` and `masked_fill`",
    ),
    (
        r"does not require grad and does not have a grad_fn",
        "`backward` of a number without a graph: detach, no_grad, `.item()` or torch.tensor(...) has cut it off",
    ),
    (
        r"backward through the graph a second time",
        "`backward` twice through one graph: a new forward pass for each loss, or one loss of all parts",
    ),
    (r"view size is not compatible", "`view` of a tensor that is not contiguous: use `reshape`"),
    (
        r"Expected dtype int64 for index|expected scalar type Long|indices must be (integers|long)|"
        r"index_select\(\).*(int|long)|Expected .* scalar types: Long",
        "an index must be int64: `.long()`",
    ),
    (
        r"too many values to unpack|not enough values to unpack",
        "a shape, or an answer, is taken apart into another number of parts than it has: `...` and negative "
        "dimensions work for any number of them",
    ),
    (r"Can't call numpy\(\) on Tensor that requires grad", "`.numpy()` of a tensor with a gradient: stay with torch"),
    (
        r"'\w*Output\w*' object has no attribute 'logits'",
        "this is the answer of a backbone, `base_model`, which has no head: logits come from the whole language model",
    ),
    (r"UnboundLocalError|referenced before assignment|not associated with a value", "a name is read on a way on which "
     "it was never set: set it before the loop or the `if`"),
    (r"FileExistsError", "it may be there already, from the last time: allow it (`exist_ok=True`), or replace it"),
    (
        r"FileNotFoundError: \[Errno|Parent directory .* does not exist",
        "the folder, or one above it, is not there yet: make it first, `mkdir(parents=True, exist_ok=True)`",
    ),
    (
        r"takes (from )?\d+ (to \d+ )?positional arguments? but \d+ (was|were) given",
        "a call passes more arguments by position than the function takes, so pass the last ones by name",
    ),
    (
        r"received an invalid combination of arguments",
        "torch has no form of this call that takes these arguments, so pass the options by name, such as `dim=1`",
    ),
    (r"loading it failed: '\w+'$", "the file has no part of that name: save all of `_state()`, each part whole"),
    (r"too many indices for tensor", "`x[:, i]` counts from the first dimension, and `x[..., i]` from the last"),
    (r"selected index k out of range", "`topk` for more entries than there are: at most the size of that dimension"),
    (r"division by zero|float division", "something is divided by a count that may be 0 here"),
    (r"maximum recursion depth", "the function calls itself without end: was a helper meant?"),
    (r"missing \d+ required (positional|keyword-only) argument", "a call leaves out an argument that has no default"),
    (r"unexpected keyword argument", "a call names an argument that the function does not have"),
    (
        r"[Ii]nference tensors? ",
        "tensors made under torch.inference_mode cannot be trained on: torch.no_grad, or detach",
    ),
    (
        r"same dtype|but (found|got) (Double|Float)|expected m1 and m2 to have the same dtype|"
        r"self and.*dtype|must match.*dtype",
        "two tensors of different dtypes meet: make new ones with `dtype=x.dtype`, or x.new_zeros(...)",
    ),
)  # fmt: skip
"""A pattern of the exception's name and message, and what it means for the code."""
SIZES = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)|"
    r"shape mismatch: value tensor of shape \[(\d+)\].*\[(\d+)\]|mat1 and mat2 shapes"
)
BOUNDS = re.compile(
    r"index (-?\d+) is out of bounds for dimension (-?\d+) with size (\d+)|(?:list|tuple) index out of range"
)
UNKNOWN = re.compile(r"name '(\w+)' is not defined")
NO_ATTRIBUTE = re.compile(r"'(?!NoneType)(\w+)' object has no attribute '(\w+)'")
NOTHING = re.compile(r"NoneType")
NOT_FOUND = re.compile(r"KeyError: |not found")
WRITTEN_OUT = re.compile(r"""["'](\w+)["']""")


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


def cause_of_error(error: StudentError, request: Request, known: set[str]) -> Evidence | None:
    """`known`: the names that the file has."""
    if error.kind not in ("raised", "backward"):
        return None
    said = f"{error.type_name}: {error.message}"
    for pattern, text in CAUSES:
        if re.search(pattern, said, re.DOTALL):
            return Sign.RAISED(text)
    if NOT_FOUND.search(said) and error.frames:
        words = set(re.findall(r"\w+", error.message))
        if (literal := WRITTEN_OUT.search(error.frames[-1].text)) and literal[1] in words:
            return Sign.WRITTEN_OUT(literal[1])
    if found := UNKNOWN.search(said):
        if line := IMPORTS.get(found[1]) or (importlib.util.find_spec(found[1]) and f"import {found[1]}"):
            return Sign.NOT_IMPORTED(found[1], line)
        close = difflib.get_close_matches(found[1], known - {found[1]}, n=1)
        return Sign.UNKNOWN_NAME(found[1]) + (Sign.HAS_NAME(close[0]) if close else Sign.IMPORT_MISSING())
    if (found := NO_ATTRIBUTE.search(said)) and error.frames:
        close = difflib.get_close_matches(
            found[2], {*(dir(Tensor) if found[1] == "Tensor" else known)} - {found[2]}, n=1, cutoff=0.75
        )
        near = Sign.THERE_IS(close[0]) if close else None
        return Sign.NO_ATTRIBUTE(found[1], found[2]) + near + Sign.MISSPELT()
    if NOTHING.search(said) and (names := [name for name, value in request.arguments.items() if value is None]):
        return Sign.MAY_BE_NONE(names[0])
    if NOTHING.search(said) and request.scenario is None:
        return Sign.LEFT_OUT()
    return _of_sizes(said)


def _of_sizes(said: str) -> Evidence | None:
    if found := SIZES.search(said):
        one, other = (int(size) for size in found.groups()[:2] if size) if found[1] else (0, 0)
        if found[1] and abs(one - other) == 1:
            return Sign.ONE_ENTRY()
        return Sign.DO_NOT_FIT()
    if found := BOUNDS.search(said):
        if found[1] and int(found[1]) == int(found[3]):
            return Sign.ONE_PAST()
        return Sign.PAST_END()
    return None
