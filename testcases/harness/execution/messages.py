"""What goes to student code and what comes back: plain data only, so that both can cross a process boundary."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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
MAX_DEPTH = 8
NO_FILE = "there is no file "
DTYPES = {
    name: getattr(torch, name)
    for name in "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()
}


@dataclass(frozen=True)
class Call:
    """One call of one exercise."""

    lesson: str
    """Folder name, such as "lesson04_gae"."""
    exercise: str
    """Name in the lesson, dotted for a method: "compute_gae", "PPOTrainer.training_step"."""
    arguments: dict[str, Any] = field(default_factory=dict)
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


def to_plain(value: Any) -> tuple[Any, tuple[str, ...]]:
    """The plain tree of an answer, and the paths of its tensors that carry a gradient.

    Raises:
        OverflowError: the answer has more than MAX_ELEMENTS numbers or MAX_PARTS parts.
    """
    plain = _Plain()
    return plain.of(value), tuple(plain.tracked)


class _Plain:
    """Makes values plain, and counts what they hold. What is neither data nor a container of it stays as its name."""

    def __init__(self) -> None:
        self.tracked: list[str] = []
        self._elements, self._parts = MAX_ELEMENTS, MAX_PARTS

    def of(self, value: Any, path: str = "", depth: int = 0) -> Any:
        self._spend()
        if value is None or type(value) in (bool, Foreign):
            return value
        if type(value) is int:
            return value if abs(value) < MAX_INT else Foreign("int", "an int of more than 64 bits")
        if isinstance(value, float):
            return float.__float__(value)  # numpy's
        if type(value) is str:
            return self._text(value, MAX_TEXT)
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if not isinstance(value, (list, tuple, dict, Record)):
            return self._foreign(value)
        if depth > MAX_DEPTH:
            return self._foreign(value, "nested too deeply")
        return self._container(value, path, depth + 1)

    def _tensor(self, value: Tensor, path: str) -> Any:
        if value.requires_grad:
            self.tracked.append(path)
        # One without numbers may still have a billion rows.
        self._elements -= math.prod(size or 1 for size in value.shape)
        if self._elements < 0:
            raise OverflowError(f"the answer holds more than {MAX_ELEMENTS:,} numbers")
        is_dense = value.device.type == "cpu" and value.layout == torch.strided and value.dim() <= MAX_DIM
        if not is_dense or value.dtype not in DTYPES.values():
            kind = f"a tensor of {value.dtype}, {value.layout}, on the device {value.device}"
            return self._foreign(value, f"{kind}, where a dense one on the CPU is due")
        return torch.empty(value.shape, dtype=value.dtype).copy_(value.detach())

    def _container(self, value: Any, path: str, depth: int) -> Any:
        parts, fields = fields_of(value)
        if isinstance(parts, dict):
            fields, parts = tuple(parts), parts.values()
        names = tuple(self._text(str(name)) for name in fields)
        paths = (f"{path}.{name}" if path else name for name in names or map(str, range(len(parts))))
        found = [self.of(part, where, depth) for where, part in zip(paths, parts, strict=True)]
        if isinstance(value, dict):
            return dict(zip(names, found, strict=True))
        if names:
            return Record(names, tuple(found))
        return found if isinstance(value, list) else tuple(found)

    def _foreign(self, value: Any, text: str = "") -> Foreign:
        module, name = type(value).__module__, type(value).__name__
        try:
            text = text or repr(value)[:MAX_NAME]
        except Exception as error:
            text = f"<its repr raised {type(error).__name__}>"
        return Foreign(self._text(name if module == "builtins" else f"{module}.{name}"), text)

    def _text(self, text: str, most: int = MAX_NAME) -> str:
        self._spend(text[:most])
        return text[:most]

    def _spend(self, text: str = "") -> None:
        self._parts -= 1 + len(text) // 4
        if self._parts < 0:
            raise OverflowError(f"the answer has more than {MAX_PARTS:,} parts")


# What is done with plain values


def fields_of(value: Any) -> tuple[Any, tuple[str, ...]]:
    """A Record or NamedTuple as a plain tuple, and its field names; all else as it is."""
    if isinstance(value, Record):
        return value.values, value.fields
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(value), value._fields
    return value, ()


def leaves(value: Any) -> Iterator[Any]:
    """Each part of a tree of lists, tuples, records and dicts that has no parts; an empty one is a part itself."""
    value, _ = fields_of(value)
    parts = [*value.values()] if isinstance(value, dict) else value
    if isinstance(parts, (list, tuple)) and parts:
        for part in parts:
            yield from leaves(part)
    else:
        yield value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of a tree."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, Tensor))


def copy_plain(value: Any, tensor: Callable[[Tensor], Tensor] = Tensor.clone) -> Any:
    """A deep copy of plain data, each tensor copied by `tensor`."""
    if isinstance(value, Tensor):
        return tensor(value)
    if isinstance(value, Mapping):
        return {key: copy_plain(part, tensor) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copy_plain(part, tensor) for part in value)
    return value


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
