"""What crosses the wall between the trusted side and student code: frames of plain values, decoded strictly.

A frame is a magic word, two lengths, a JSON header and the bytes of its tensors. Nothing in it names code to run.
Both sides use this file; only the trusted side has to distrust what it reads.
"""

import contextlib
import functools
import json
import math
import mmap
import socket
import struct
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from .messages import (
    DTYPES,
    ERROR_KINDS,
    MAX_DIM,
    MAX_ELEMENTS,
    MAX_INT,
    MAX_TEXT,
    NAMES,
    Call,
    Elsewhere,
    Foreign,
    Frame,
    Outcome,
    Record,
    StudentError,
    leaves,
)

MAGIC = b"PBH1"
PREFIX = struct.Struct("<4sII")
MAX_HEADER = 8_000_000
MAX_BODY = 96_000_000
MAX_NODES = 100_000
MAX_DEPTH = 24
ALIGN = 64
"""Of the tensors of a frame, in bytes: torch's own."""
MESSAGES = Call, Outcome, StudentError, Frame
KINDS = {kind.__name__: kind for kind in (*MESSAGES, Record, Foreign, Elsewhere)}
"""What crosses by its fields."""


class BadFrame(Exception):
    """Something arrived that no worker sends."""


class Closed(Exception):
    """The other side is gone."""


class Late(Exception):
    """Nothing arrived in time."""


Deadline = Callable[[], float] | None
"""Says how many seconds are left, and may say more when it is asked again; None for ever."""


def send(channel: socket.socket, header: Any, body: bytes = b"", deadline: Deadline = None) -> None:
    """Send one frame.

    Raises:
        Closed: nobody reads any more.
        Late: the reader does not take it in time.
    """
    try:
        channel.settimeout(_left(deadline))
        channel.sendall(framed(header, body))
    except TimeoutError:
        raise Late from None
    except OSError:
        raise Closed from None


def receive(channel: socket.socket, deadline: Deadline = None) -> tuple[Any, bytearray]:
    """Read one frame: its header, still to be distrusted, and its body.

    Raises:
        Closed, Late: no whole frame arrived.
        BadFrame: it is not a frame, or too large to be one.
    """
    magic, header_size, body_size = PREFIX.unpack(_exactly(channel, PREFIX.size, deadline))
    if magic != MAGIC or header_size > MAX_HEADER or body_size > MAX_BODY:
        raise BadFrame("not a frame")
    text, body = _exactly(channel, header_size, deadline), _exactly(channel, body_size, deadline)
    try:
        return json.loads(text.decode("utf-8")), body
    except (ValueError, RecursionError):
        raise BadFrame("the header is not JSON") from None


def framed(header: Any, body: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return PREFIX.pack(MAGIC, len(text), len(body)) + text + body


def _exactly(channel: socket.socket, size: int, deadline: Deadline) -> bytearray:
    data = bytearray()
    while len(data) < size:
        try:
            channel.settimeout(_left(deadline))
            part = channel.recv(min(size - len(data), 1 << 20))
        except TimeoutError:
            if deadline and deadline() > 0:
                continue
            raise Late from None
        except OSError:
            raise Closed from None
        if not part:
            raise Closed
        data += part
    return data


def _left(deadline: Deadline) -> float | None:
    left = deadline() if deadline else None
    if left is not None and left <= 0:
        raise TimeoutError
    return left


class Line:
    """The way to another worker, which answers questions. The other end is trusted, and trusts nobody."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer, with "heard" for question and answer: the same if both are.

        Raises:
            Closed: the other side is gone.
        """
        question = pack(message)
        send(self._channel, *question)
        header, body = receive(self._channel)
        return {**unpack(header, body), "heard": hash((repr(question), repr(header), bytes(body)))}

    def answer_all(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Answer one message after the other, until nobody asks any more or something else arrives."""
        with contextlib.suppress(Closed, BadFrame):
            while True:
                found = answer(unpack(*receive(self._channel)))
                try:
                    packed = pack(found)
                except TypeError as error:
                    packed = pack({"error": ["TypeError", str(error)]})
                send(self._channel, *packed)


def pack(value: Any) -> tuple[Any, bytes]:
    """A plain value as JSON, with the layouts of its tensors, and the bytes of these.

    Raises:
        TypeError: it is not plain.
    """
    tensors: list[Tensor] = []
    tree = _tree(value, tensors)
    layouts, body = _packed(tensors)
    return [tree, layouts], body


def _tree(value: Any, tensors: list[Tensor]) -> Any:
    """A list, number, text or None as it is; all else by a name and what is in it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Tensor):
        tensors.append(value)
        return {"Tensor": len(tensors) - 1}
    if type(value) in (list, tuple):
        parts = [_tree(part, tensors) for part in value]
        return parts if type(value) is list else {"tuple": parts}
    if isinstance(value, dict):
        return {"dict": [[key, _tree(part, tensors)] for key, part in value.items()]}
    if type(value) not in KINDS.values():
        raise TypeError(f"expected plain data, got {type(value).__name__}")
    return {type(value).__name__: [_tree(getattr(value, name), tensors) for name in _hints(type(value))]}


def _packed(tensors: Sequence[Tensor]) -> tuple[list[Any], bytes]:
    """The layout of each, [dtype, shape, strides], and their bytes one behind the other."""
    layouts, body = [], bytearray()
    for tensor in tensors:
        if tensor.dtype not in NAMES or tensor.device.type != "cpu":
            raise TypeError(f"expected a plain tensor, got {tensor.dtype} on {tensor.device}")
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
        return _Reader(_unpacked(layouts, body)).value(tree)
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
        if numbers > MAX_ELEMENTS + MAX_NODES or end > len(body):
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


class _Reader:
    """Reads one tree, and counts its nodes."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors, self._nodes = tensors, 0

    def value(self, node: Any, depth: int = 0) -> Any:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise BadFrame("too deep or too many parts")
        if node is None or type(node) in (bool, float):
            return node
        if type(node) is int and abs(node) < MAX_INT:
            return node
        if type(node) is str:
            return text(node)
        if type(node) is list:
            return [self.value(part, depth + 1) for part in node]
        ((kind, inside),) = node.items()
        if kind == "Tensor":
            return self._tensors[inside]
        if kind == "dict":
            return {text(key): self.value(part, depth + 1) for key, part in inside}
        parts = tuple(self.value(part, depth + 1) for part in inside)
        return parts if kind == "tuple" else _made(KINDS[kind], parts)


def _made(kind: type, parts: tuple[Any, ...]) -> Any:
    """
    Raises:
        BadFrame: these are not its fields.
    """
    hints = _hints(kind)
    if not all(_fits(part, hint) for part, hint in zip(parts, hints.values(), strict=True)):
        raise BadFrame("a field of another type")
    made = kind(**dict(zip(hints, parts, strict=True)))
    if kind is Record and len(made.fields) != len(made.values):
        raise BadFrame("fields and values differ in number")
    return made


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """The fields that cross, with their types."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.name not in ("lent", "exception")}


def _fits(value: Any, hint: Any) -> bool:
    kind, of = typing.get_origin(hint), typing.get_args(hint)
    if kind is types.UnionType:
        return any(_fits(value, one) for one in of)
    if kind is tuple:
        return type(value) is tuple and all(_fits(part, of[0]) for part in value)
    if kind is dict:
        return type(value) is dict and all(_fits(part, of[1]) for part in value.values())
    return hint is Any or isinstance(value, (int, float) if hint is float else hint)


def unpack_outcome(node: Any, body: bytearray, call: Call) -> Outcome:
    """The answer to a call.

    Raises:
        BadFrame: it is not one.
    """
    found = unpack(node, body)
    if type(found) is not Outcome or any(isinstance(leaf, MESSAGES) for _, leaf in leaves(found.value)):
        raise BadFrame("not an outcome")
    if found.error and found.error.kind not in ERROR_KINDS:
        raise BadFrame("no such kind of error")
    if set(found.gradients) not in (set(), set(call.grad_of)):
        raise BadFrame("gradients that nobody asked for")
    if not set(found.changed) <= set(call.arguments):
        raise BadFrame("changed what it was not given")
    return found


def text(node: Any) -> str:
    """A text, cut to a length, that can be written as UTF-8."""
    if type(node) is not str:
        raise BadFrame("not a text")
    return node[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")
