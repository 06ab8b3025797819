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
    MAX_DIM,
    MAX_ELEMENTS,
    MAX_INT,
    MAX_TEXT,
    Call,
    Foreign,
    Frame,
    Outcome,
    Record,
    StudentError,
    leaves,
    to_plain,
)

MAGIC = b"PBH1"
PREFIX = struct.Struct("<4sII")
MAX_HEADER = 3_000_000
MAX_BODY = 96_000_000
MAX_DEPTH = 24
ALIGN = 64
"""Of the tensors of a frame, in bytes: torch's own."""
NAMES = {dtype: name for name, dtype in DTYPES.items()}
ERROR_KINDS = ("load", "missing", "signature", "raised", "timeout", "backward", "answer", "too large")
MESSAGES = Call, Outcome, StudentError, Frame
KINDS = {kind.__name__: kind for kind in (*MESSAGES, Record, Foreign)}
"""What is sent by its fields."""


class BadFrame(Exception):
    """Something arrived that no worker sends."""


Deadline = Callable[[], float] | None
"""Says how many seconds are left, and may say more when it is asked again; None for ever."""


def send(channel: socket.socket, header: Any, body: bytes = b"", deadline: Deadline = None) -> None:
    """Send one frame.

    Raises:
        TimeoutError: the reader does not take it in time.
        OSError: nobody reads any more.
    """
    text = json.dumps(header, separators=(",", ":")).encode()
    channel.settimeout(_left(deadline))
    channel.sendall(PREFIX.pack(MAGIC, len(text), len(body)) + text + body)


def receive(channel: socket.socket, deadline: Deadline = None) -> tuple[Any, bytearray]:
    """Read one frame: its header, still to be distrusted, and its body.

    Raises:
        TimeoutError: no whole frame arrived in time.
        OSError: the other side is gone.
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


def _exactly(channel: socket.socket, size: int, deadline: Deadline) -> bytearray:
    data = bytearray()
    while len(data) < size:
        channel.settimeout(_left(deadline))
        with contextlib.suppress(TimeoutError):  # then it is asked again what is left
            part = channel.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("the other side is gone")
            data += part
    return data


def _left(deadline: Deadline) -> float | None:
    left = deadline() if deadline else None
    if left is not None and left <= 0:
        raise TimeoutError
    return left


def ask(channel: socket.socket, message: dict[str, Any]) -> dict[str, Any]:
    """Send a message to another worker, and wait for its answer.

    Raises:
        OSError: the other side is gone.
    """
    send(channel, *pack(to_plain(message)[0]))
    return unpack(*receive(channel))


def answer_all(channel: socket.socket, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer one message after the other, until nobody asks any more or something else arrives."""
    with contextlib.suppress(OSError, BadFrame):
        while True:
            send(channel, *pack(to_plain(answer(unpack(*receive(channel))))[0]))


def unpack_outcome(node: Any, body: bytearray, call: Call) -> Outcome:
    """The answer to a call.

    Raises:
        BadFrame: it is not one.
    """
    found = unpack(node, body)
    if type(found) is not Outcome or any(isinstance(leaf, MESSAGES) for leaf in leaves(found.value)):
        raise BadFrame("not an outcome")
    if found.error and found.error.kind not in ERROR_KINDS:
        raise BadFrame("no such kind of error")
    if set(found.gradients) not in (set(), set(call.grad_of)):
        raise BadFrame("gradients that nobody asked for")
    if not set(found.changed) <= set(call.arguments):
        raise BadFrame("changed what it was not given")
    return found


# A value as JSON, and behind it the numbers of its tensors


def pack(value: Any) -> tuple[Any, bytes]:
    """A plain value as JSON, with the layouts of its tensors, and the bytes of these."""
    tensors: list[Tensor] = []
    tree = _tree(value, tensors)
    layouts, body = _packed(tensors)
    return [tree, layouts], body


def _tree(value: Any, tensors: list[Tensor]) -> Any:
    """A list, number, text or None as it is; all else by a name and what is in it."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return {"Tensor": len(tensors) - 1}
    if isinstance(value, dict):
        return {"dict": [[name, _tree(part, tensors)] for name, part in value.items()]}
    if isinstance(value, (list, tuple)):
        parts = [_tree(part, tensors) for part in value]
        return parts if isinstance(value, list) else {"tuple": parts}
    kind: Any = type(value)
    if kind in KINDS.values():
        return {kind.__name__: [_tree(getattr(value, name), tensors) for name in _hints_of(kind)]}
    return value


def _packed(tensors: Sequence[Tensor]) -> tuple[list[Any], bytes]:
    """The layout of each, [dtype, shape, strides], and their bytes one behind the other."""
    layouts, body = [], bytearray()
    for tensor in tensors:
        # Another layout is part of the question: code that reads memory in order must not pass by luck.
        tensor = tensor.detach().resolve_conj().resolve_neg()
        shape, strides = list(tensor.shape), list(tensor.stride())
        layouts.append([NAMES[tensor.dtype], shape, strides])
        body += bytes(-len(body) % ALIGN)
        body += tensor.as_strided((_reach(shape, strides),), (1,)).view(torch.uint8).numpy().tobytes()
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
        return _value(tree, _unpacked(layouts, body))
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
        end = start + (reach := _reach(shape, strides)) * dtype.itemsize
        if numbers > 2 * MAX_ELEMENTS or end > len(body):
            raise BadFrame("a tensor outside the frame")
        raw = torch.empty(0, dtype=torch.uint8)
        if reach:
            raw = torch.frombuffer(body, dtype=torch.uint8, count=end - start, offset=start)
        if dtype == torch.bool and bool((raw > 1).any()):
            raise BadFrame("a bool that is neither")
        tensors.append(raw.view(dtype).as_strided(shape, strides))
    if end != len(body):
        raise BadFrame("bytes that belong to nothing")
    return tensors


def _value(tree: Any, tensors: Sequence[Tensor], depth: int = 0) -> Any:
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
        return [_value(part, tensors, depth + 1) for part in tree]
    if type(tree) is not dict or len(tree) != 1:
        raise ValueError("no value")
    ((kind, inside),) = tree.items()
    if kind == "Tensor" and type(inside) is int and 0 <= inside < len(tensors):
        return tensors[inside]
    if type(inside) is not list or kind not in ("tuple", "dict", *KINDS):
        raise ValueError("no such kind of value")
    parts = tuple(_value(part, tensors, depth + 1) for part in inside)
    if kind == "dict":
        if not all(type(pair) is list and len(pair) == 2 and type(pair[0]) is str for pair in parts):
            raise ValueError("no pairs")
        return dict(parts)
    return parts if kind == "tuple" else _made(KINDS[kind], parts)


def _made(kind: type, parts: tuple[Any, ...]) -> Any:
    hints = _hints_of(kind)
    if len(parts) != len(hints) or not all(map(_fits, parts, hints.values())):
        raise ValueError(f"no {kind.__name__}")
    made = kind(**dict(zip(hints, parts, strict=True)))
    if kind is Record and len(made.fields) != len(made.values):
        raise ValueError("fields and values differ in number")
    return made


@functools.cache
def _hints_of(kind: Any) -> dict[str, Any]:
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
