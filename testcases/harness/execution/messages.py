"""What goes to student code and what comes back: plain data only, so that both can cross a process boundary."""

import functools
import math
import mmap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

MAX_ELEMENTS = 2_000_000
MAX_PARTS = 50_000
"""Lists, names and numbers outside of tensors; four letters of a text count as one."""
MAX_TEXT = 2_000
MAX_INT = 2**63
MAX_NAME = 200
MAX_DIM = 12
MAX_DEPTH = 24
NO_FILE = "there is no file "
ALIGN = 64
"""Of the tensors of a frame, in bytes: torch's own."""
NUMBERS = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128"
DTYPES = {name: getattr(torch, name) for name in NUMBERS.split()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
ERROR_KINDS = ("load", "missing", "signature", "raised", "timeout", "backward", "answer", "too large")


@dataclass(frozen=True)
class Call:
    """One call of one exercise."""

    lesson: str
    """Folder name, such as "lesson04_gae"."""
    exercise: str
    """Name in the lesson, dotted for a method: "compute_gae", "PPOTrainer.training_step"."""
    arguments: dict[str, Any]
    """Name -> value, in order: tensors, numbers, strings, None, and lists, tuples and dicts of them."""
    positional: int = 0
    """How many of the first arguments are passed by position."""
    scenario: str | None = None
    """A function to call instead, whose first argument is the student's lesson: one of the lesson's scenarios.py, or
    "module.function" of testcases/harness/doubles."""
    grad_of: tuple[str, ...] = ()
    """Arguments for which the gradient of the summed answer is wanted."""
    grad_through: str | None = None
    """The part of the answer that is summed, where it has several."""
    grad_weights: Tensor | None = None
    """Weights of that sum; where all ones would hide a mistake (the sum of whitened values is always 0)."""
    seconds: float = 5.0
    """Python code that runs longer is stopped."""
    behind: tuple[str, ...] = ()
    """Arguments that a scenario asks questions about, and never gets: they go to another process, where a `Behind` of
    the lesson's scenarios_behind.py answers."""

    @property
    def shown(self) -> dict[str, Any]:
        """The arguments that are handed over."""
        return {name: value for name, value in self.arguments.items() if name not in self.behind}


@dataclass(frozen=True)
class Record:
    """A NamedTuple of the answer."""

    type_name: str
    fields: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Foreign:
    """Something in the answer that is not plain data, such as a tensor that is not dense or not on the CPU."""

    type_name: str
    text: str


@dataclass(frozen=True)
class Frame:
    """One line of the student's own code in a traceback."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class StudentError:
    """An exception that came out of the student's code, or the reason why the code could not be called."""

    kind: str
    """load | missing | signature | raised | timeout | backward | too large"""
    type_name: str
    message: str
    frames: tuple[Frame, ...] = ()

    @property
    def is_of_file(self) -> bool:
        """No exercise of the file can be called: it is not there, does not load, or never ends to load."""
        never_loads = self.kind == "timeout" and self.frames[-1:] and self.frames[-1].function == "<module>"
        return self.kind == "load" or bool(never_loads) or self.message.startswith(NO_FILE)


@dataclass(frozen=True)
class Outcome:
    """What one call gave."""

    value: Any = None
    """Tree of tensors (detached), bool, int, float, str, None, list, tuple, dict, Record, Foreign."""
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    """Argument -> its gradient; None where no gradient arrived."""
    tracked: tuple[str, ...] = ()
    """Paths of the tensors in the answer that carry a gradient."""
    error: StudentError | None = None
    changed: tuple[str, ...] = ()
    """Arguments that were changed in place."""
    left_behind: tuple[str, ...] = ()
    """Global settings that were not put back."""
    used_global_random: bool = False
    lent: tuple[str, ...] = ()
    """Stubs of the lesson that this call has called, and that the solution answered for."""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    """What a test's own call raised, in the test's own process: it crosses no wall, and is for whoever looks at it."""


MESSAGES = Call, Outcome, StudentError, Frame
KINDS = {kind.__name__: kind for kind in (*MESSAGES, Record, Foreign)}
"""What is encoded by its fields."""


def to_plain(value: Any) -> tuple[Any, tuple[str, ...]]:
    """The plain tree of an answer, and the paths of its tensors that carry a gradient.

    Raises:
        OverflowError: the answer has more than MAX_ELEMENTS numbers or MAX_PARTS parts.
    """
    encoder = Encoder()
    tree = encoder.tree(value)
    numbers = [torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach()) for tensor in encoder.tensors]
    return decode(tree, numbers), tuple(encoder.tracked)


class Encoder:
    """Makes JSON of a value, with the tensors of it beside that, and counts what it holds. What is not plain crosses by
    its name."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.tracked: list[str] = []
        self._elements, self._parts = MAX_ELEMENTS, MAX_PARTS

    def tree(self, value: Any, path: str = "", depth: int = 0) -> Any:
        """A list, number, text or None as it is; all else by a name and what is in it."""
        self._spend()
        if type(value) is int and abs(value) >= MAX_INT:
            value = Foreign("int", "an int of more than 64 bits")
        if value is None or type(value) in (bool, int, float):
            return value
        if isinstance(value, float):
            return float.__float__(value)  # numpy's
        if type(value) is str:
            return self._text(value, MAX_TEXT)
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if type(value) in KINDS.values():
            return {type(value).__name__: [self.tree(getattr(value, name)) for name in hints_of(type(value))]}  # type: ignore
        if depth > 8:
            return self._foreign(value, "nested too deeply")
        if isinstance(value, (list, tuple, dict)):
            return self._container(value, path, depth + 1)
        return self._foreign(value)

    def _tensor(self, value: Tensor, path: str) -> Any:
        if value.requires_grad:
            self.tracked.append(path)
        # One without numbers may still have a billion rows.
        self._elements -= math.prod(size or 1 for size in value.shape)
        if self._elements < 0:
            raise OverflowError(f"the answer holds more than {MAX_ELEMENTS:,} numbers")
        is_dense = value.device.type == "cpu" and value.layout == torch.strided and value.dim() <= MAX_DIM
        if not is_dense or value.dtype not in NAMES:
            kind = f"a tensor of {value.dtype}, {value.layout}, on the device {value.device}"
            return self._foreign(value, f"{kind}, where a dense one on the CPU is due")
        self.tensors.append(value)
        return {"Tensor": len(self.tensors) - 1}

    def _container(self, value: Any, path: str, depth: int) -> Any:
        is_record = isinstance(value, tuple) and hasattr(value, "_fields")
        if not is_record and not isinstance(value, dict):
            parts = [self.tree(part, _join(path, str(i)), depth) for i, part in enumerate(value)]
            return parts if isinstance(value, list) else {"tuple": parts}
        names = [self._text(str(key)) for key in (value._fields if is_record else value)]
        named = zip(names, value if is_record else value.values(), strict=True)
        parts = [self.tree(part, _join(path, name), depth) for name, part in named]
        if is_record:
            return {"Record": [self._text(type(value).__name__), {"tuple": names}, {"tuple": parts}]}
        return {"dict": [*map(list, zip(names, parts, strict=True))]}

    def _foreign(self, value: Any, text: str = "") -> Any:
        module, name = type(value).__module__, type(value).__name__
        try:
            text = text or repr(value)[:MAX_NAME]
        except Exception as error:
            text = f"<its repr raised {type(error).__name__}>"
        return {"Foreign": [self._text(name if module == "builtins" else f"{module}.{name}"), text]}

    def _text(self, text: str, most: int = MAX_NAME) -> str:
        self._spend(text[:most])
        return text[:most]

    def _spend(self, text: str = "") -> None:
        self._parts -= 1 + len(text) // 4
        if self._parts < 0:
            raise OverflowError(f"the answer has more than {MAX_PARTS:,} parts")


def decode(tree: Any, tensors: Sequence[Tensor], depth: int = 0) -> Any:
    """The value that a tree and its tensors are of.

    Raises:
        ValueError: of none.
    """
    if tree is None or type(tree) in (bool, float) or (type(tree) is int and abs(tree) < MAX_INT):
        return tree
    if type(tree) is str:
        return tree[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if type(tree) is list:
        return [decode(part, tensors, depth + 1) for part in tree]
    if type(tree) is not dict or len(tree) != 1:
        raise ValueError("no value")
    ((kind, inside),) = tree.items()
    if kind == "Tensor" and type(inside) is int and 0 <= inside < len(tensors):
        return tensors[inside]
    if type(inside) is not list or kind not in ("tuple", "dict", *KINDS):
        raise ValueError("no such kind of value")
    parts = tuple(decode(part, tensors, depth + 1) for part in inside)
    if kind == "dict":
        if not all(type(pair) is list and len(pair) == 2 and type(pair[0]) is str for pair in parts):
            raise ValueError("no pairs")
        return dict(parts)
    return parts if kind == "tuple" else _made(KINDS[kind], parts)


def _made(kind: type, parts: tuple[Any, ...]) -> Any:
    hints = hints_of(kind)
    if len(parts) != len(hints) or not all(map(_fits, parts, hints.values())):
        raise ValueError(f"no {kind.__name__}")
    made = kind(**dict(zip(hints, parts, strict=True)))
    if kind is Record and len(made.fields) != len(made.values):
        raise ValueError("fields and values differ in number")
    return made


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    """The fields that cross, with their types."""
    hints = typing.get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind) if one.name not in ("lent", "exception")}


def _fits(value: Any, hint: Any) -> bool:
    kind, of = typing.get_origin(hint), typing.get_args(hint)
    if kind is types.UnionType:
        return any(_fits(value, one) for one in of)
    if kind is tuple:
        return type(value) is tuple and all(_fits(part, of[0]) for part in value)
    if kind is dict:
        return type(value) is dict and all(_fits(part, of[1]) for part in value.values())
    return hint is Any or isinstance(value, (int, float) if hint is float else hint)


# The same in bytes: JSON, and behind it the numbers of its tensors


class BadFrame(Exception):
    """Something arrived that no worker sends."""


def pack(value: Any) -> tuple[Any, bytes]:
    """A plain value as JSON, with the layouts of its tensors, and the bytes of these."""
    encoder = Encoder()
    tree = encoder.tree(value)
    layouts, body = _packed(encoder.tensors)
    return [tree, layouts], body


def _packed(tensors: Sequence[Tensor]) -> tuple[list[Any], bytes]:
    """The layout of each, [dtype, shape, strides], and their bytes one behind the other."""
    layouts, body = [], bytearray()
    for tensor in tensors:
        tensor = tensor.detach().resolve_conj().resolve_neg()
        shape, strides = list(tensor.shape), list[int]()
        if not tensor.is_contiguous():
            # Another layout is part of the question: code that reads memory in order must not pass by luck.
            strides = list(tensor.stride())
            tensor = tensor.as_strided((_reach(shape, strides),), (1,))
        layouts.append([NAMES[tensor.dtype], shape, strides])
        body += bytes(-len(body) % ALIGN)
        body += (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()
    return layouts, bytes(body)


def _reach(shape: list[int], strides: list[int]) -> int:
    """How many numbers of memory a tensor spans."""
    return math.prod(shape) and 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def unpack(node: Any, body: bytearray | mmap.mmap) -> Any:
    """What `pack` packed; its tensors are where the bytes are.

    Raises:
        BadFrame: it is nothing of the kind.
    """
    try:
        tree, layouts = node
        return decode(tree, _unpacked(layouts, body))
    except BadFrame:
        raise
    except Exception as error:
        raise BadFrame(f"no value ({type(error).__name__})") from None


def _unpacked(layouts: Any, body: bytearray | mmap.mmap) -> list[Tensor]:
    """
    Raises:
        BadFrame: they are no layouts, or not those of these bytes.
    """
    tensors, end, numbers = [], 0, 0
    for name, shape, strides in layouts:
        dtype, sizes = DTYPES[name], [*shape, *strides]
        # A tensor without numbers may still have a billion rows, and as a list it has them all.
        numbers += math.prod(size or 1 for size in shape)
        if not all(type(size) is int and size >= 0 for size in sizes) or len(shape) > MAX_DIM:
            raise BadFrame("no shape")
        start = end + -end % ALIGN
        reach = _reach(shape, strides) if strides else math.prod(shape)
        end = start + reach * dtype.itemsize
        if numbers > 2 * MAX_ELEMENTS or end > len(body):
            raise BadFrame("a tensor outside the frame")
        flat = torch.empty(0, dtype=dtype)
        if reach:
            raw = torch.frombuffer(body, dtype=torch.uint8, count=end - start, offset=start)
            if dtype == torch.bool and bool((raw > 1).any()):
                raise BadFrame("a bool that is neither")
            flat = raw.view(dtype)
        tensors.append(flat.as_strided(shape, strides) if strides else flat.reshape(shape))
    if end != len(body):
        raise BadFrame("bytes that belong to nothing")
    return tensors


# What is done with plain values


def fields_of(value: Any) -> tuple[Any, tuple[str, ...]]:
    """A Record or NamedTuple as a plain tuple, and its field names; all else as it is."""
    if isinstance(value, Record):
        return value.values, value.fields
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(value), value._fields
    return value, ()


def leaves(value: Any, path: str = "", most: float = math.inf) -> Iterator[tuple[str, Any]]:
    """Each part of a tree of lists, tuples, records and dicts that has no parts, with its path, such as "returns.0".

    One that is empty is a part itself, and so is one of more than `most`.
    """
    value, names = fields_of(value)
    if isinstance(value, dict):
        names, value = tuple(value), tuple(value.values())
    if isinstance(value, (list, tuple)) and 0 < len(value) <= most:
        for name, part in zip(names or range(len(value)), value, strict=True):
            yield from leaves(part, _join(path, str(name)), most)
    else:
        yield path, value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of a tree."""
    return (leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor))


def copy_plain(value: Any, tensor: Callable[[Tensor], Tensor] = Tensor.clone) -> Any:
    """A deep copy of plain data, each tensor copied by `tensor`."""
    if isinstance(value, Tensor):
        return tensor(value)
    if isinstance(value, Mapping):
        return {key: copy_plain(part, tensor) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copy_plain(part, tensor) for part in value)
    if isinstance(value, Record):
        return replace(value, values=copy_plain(value.values, tensor))
    return value


def in_float32(call: Call) -> Call:
    """The same question as a training run asks it: published code takes this precision for granted."""

    def narrow(tensor: Tensor) -> Tensor:
        return tensor.float() if tensor.dtype == torch.float64 else tensor

    weights = call.grad_weights
    return replace(
        call, arguments=copy_plain(call.arguments, narrow), grad_weights=weights if weights is None else narrow(weights)
    )


def identical(a: Any, b: Any) -> bool:
    """Whether two pieces of plain data are equal to the last bit, NaN equal to NaN."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.shape != b.shape or a.dtype != b.dtype:
            return False
        a, b = a.detach(), b.detach()
        return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(identical(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and (a == b or a != a)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
