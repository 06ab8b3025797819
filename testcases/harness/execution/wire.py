"""What crosses the wall between the trusted side and student code: frames of plain values, decoded strictly.

A frame is a magic word, two lengths, a JSON header and the bytes of its tensors. Nothing in it names code to run.
Both sides use this file; only the trusted side has to distrust what it reads.
"""

import contextlib
import json
import math
import mmap
import socket
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .messages import MAX_ELEMENTS, MAX_INT, MAX_TEXT, Call, Elsewhere, Foreign, Frame, Outcome, Record, StudentError

MAGIC = b"PBH1"
PREFIX = struct.Struct("<4sII")
MAX_HEADER = 8_000_000
MAX_BODY = 96_000_000
MAX_NODES = 100_000
MAX_DEPTH = 12
MAX_EXTENT = 2**58
ALIGN = 64
"""Of the tensors of a call, in bytes: torch's own."""

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
    )
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_JSON = json.JSONEncoder(separators=(",", ":")).encode
ERROR_KINDS = ("load", "missing", "signature", "raised", "timeout", "backward", "answer", "too large")


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
    text = json.dumps(header, separators=(",", ":")).encode()
    try:
        channel.settimeout(_left(deadline))
        channel.sendall(PREFIX.pack(MAGIC, len(text), len(body)) + text)
        if body:
            channel.sendall(body)
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
    if deadline is None:
        return None
    left = deadline()
    if left <= 0:
        raise TimeoutError
    return left


class Line:
    """The way to another worker, for messages with a list of "tensors": a question, and its answer. The other end is
    trusted, and trusts nobody."""

    def __init__(self, channel: socket.socket) -> None:
        channel.settimeout(None)
        self._channel = channel

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer, with "heard" for question and answer: the same if both are.

        Raises:
            Closed: the other side is gone.
        """
        question = _framed(message)
        self._send(question)
        header, body = self._received()
        return {**_message(header, body), "heard": hash((question, bytes(header), bytes(body)))}

    def answer_all(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Answer one message after the other, until nobody asks any more or something else arrives."""
        with contextlib.suppress(Closed, BadFrame, LookupError):
            while True:
                found = answer(_message(*self._received()))
                try:
                    told = _framed(found)
                except (TypeError, ValueError) as error:
                    told = _framed({"error": ["TypeError", str(error)]})
                self._send(told)

    def _send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except OSError:
            raise Closed from None

    def _received(self) -> tuple[bytearray, bytearray]:
        magic, header_size, body_size = PREFIX.unpack(_exactly(self._channel, PREFIX.size, None))
        if magic != MAGIC or header_size > MAX_HEADER or body_size > MAX_BODY:
            raise BadFrame("not a frame")
        return _exactly(self._channel, header_size, None), _exactly(self._channel, body_size, None)


def _framed(message: dict[str, Any]) -> bytes:
    packer = Packer(ALIGN)
    tensors = [packer.tree(tensor.contiguous()) for tensor in message.get("tensors", ())]
    text = _JSON([{**message, "tensors": tensors}]).encode()
    return PREFIX.pack(MAGIC, len(text), len(packer.body)) + text + packer.body


def _message(text: bytearray, body: bytearray) -> dict[str, Any]:
    """
    Raises:
        BadFrame: it is none.
    """
    try:
        (message,) = json.loads(text)
        tensors = message["tensors"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadFrame("no message") from None
    reader = Unpacker(body, gaps=True)
    return {**message, "tensors": [reader.tree(node) for node in _list(tensors)]}


class Packer:
    """Writes plain trees as JSON, and collects the bytes of their tensors."""

    def __init__(self, align: int = 1) -> None:
        self._align = align
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)

    def tree(self, value: Any) -> Any:
        """Tagged lists; a number, a text or None as it is.

        Raises:
            TypeError: it is not plain data.
        """
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, Record):
            return ["record", value.type_name, list(value.fields), [self.tree(part) for part in value.values]]
        if isinstance(value, Foreign):
            return ["foreign", value.type_name, value.text]
        if isinstance(value, Elsewhere):
            return ["elsewhere", list(value.shape), str(value.dtype).removeprefix("torch."), value.device]
        if isinstance(value, dict):
            return ["dict", [[key, self.tree(part)] for key, part in value.items()]]
        if type(value) in (list, tuple):
            return [type(value).__name__, [self.tree(part) for part in value]]
        raise TypeError(f"expected plain data, got {type(value).__name__}")

    def _tensor(self, value: Tensor) -> Any:
        dtype = NAMES.get(value.dtype) or str(value.dtype).removeprefix("torch.")
        if value.dim() > MAX_DEPTH:
            return ["foreign", "Tensor", f"a tensor with {value.dim()} dimensions"]
        if dtype not in DTYPES or value.device.type != "cpu":
            return ["elsewhere", list(value.shape), dtype, str(value.device)]
        value = value.detach().resolve_conj().resolve_neg()
        shape, strides = list(value.shape), list[int]()
        if not value.is_contiguous():
            # Another layout is part of the question: code that reads memory in order must not pass by luck.
            reach = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
            strides, value = list(value.stride()), value.as_strided((reach,), (1,))
        data = (value.view(torch.int16) if value.dtype == torch.bfloat16 else value).numpy().tobytes()
        offset = self._size + -self._size % self._align
        self._parts += [bytes(offset - self._size), data]
        self._size = offset + len(data)
        return ["tensor", dtype, shape, strides, offset, len(data)]


class Unpacker:
    """Reads what `Packer` wrote, and nothing else.

    Args:
        trusted: whether other layouts and gaps are allowed, and the tensors are where the bytes are; those of an answer
            are always in order, and copies.
        gaps: whether gaps alone are.
    """

    def __init__(self, body: bytearray | mmap.mmap, trusted: bool = False, gaps: bool = False) -> None:
        self._body, self._trusted, self._gaps = body, trusted, trusted or gaps
        self._next = 0
        self._nodes = 0
        self._elements = 0

    def done(self) -> None:
        """
        Raises:
            BadFrame: there are bytes that belong to no tensor.
        """
        if self._next != len(self._body):
            raise BadFrame("bytes that belong to nothing")

    def tree(self, node: Any, depth: int = 0) -> Any:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise BadFrame("too deep or too many parts")
        if node is None or type(node) in (bool, float):
            return node
        if type(node) is int:
            return _whole(node, -MAX_INT, MAX_INT)
        if type(node) is str:
            return text(node)
        if type(node) is not list or not node:
            raise BadFrame("not a node")
        tag, *rest = node
        reader = _READERS.get(tag) if type(tag) is str else None
        if reader is None:
            raise BadFrame("no such tag")
        return reader(self, rest, depth)

    def _sequence(self, rest: list[Any], depth: int, kind: type) -> Any:
        (parts,) = _of_length(rest, 1)
        return kind(self.tree(part, depth + 1) for part in _list(parts))

    def _dict(self, rest: list[Any], depth: int) -> dict[str, Any]:
        (pairs,) = _of_length(rest, 1)
        found = {}
        for pair in _list(pairs):
            key, part = _of_length(_list(pair), 2)
            found[text(key)] = self.tree(part, depth + 1)
        return found

    def _record(self, rest: list[Any], depth: int) -> Record:
        name, fields, parts = _of_length(rest, 3)
        fields = tuple(text(field, 200) for field in _list(fields))
        values = tuple(self.tree(part, depth + 1) for part in _list(parts))
        if len(fields) != len(values):
            raise BadFrame("fields and values differ in number")
        return Record(text(name, 200), fields, values)

    def _foreign(self, rest: list[Any], depth: int) -> Foreign:
        name, shown = _of_length(rest, 2)
        return Foreign(text(name, 400), text(shown, 400))

    def _elsewhere(self, rest: list[Any], depth: int) -> Elsewhere:
        shape, dtype, device = _of_length(rest, 3)
        found = getattr(torch, text(dtype, 40), None)
        if not isinstance(found, torch.dtype):
            raise BadFrame("no such dtype")
        return Elsewhere(_shape(shape), found, text(device, 40))

    def _tensor(self, rest: list[Any], depth: int) -> Tensor:
        name, shape, strides, offset, size = _of_length(rest, 5)
        dtype = DTYPES.get(text(name, 20))
        if dtype is None:
            raise BadFrame("no such dtype")
        shape, strides = _shape(shape), _shape(strides)
        offset, size = _whole(offset, 0, MAX_BODY), _whole(size, 0, MAX_BODY)
        count = math.prod(shape)
        # A tensor without numbers may still have a billion rows, and as a list it has them all.
        self._elements += math.prod(size or 1 for size in shape)
        if self._elements > MAX_ELEMENTS + MAX_NODES or offset + size > len(self._body):
            raise BadFrame("a tensor outside the frame")
        if offset < self._next or (offset != self._next and not self._gaps):
            raise BadFrame("bytes that belong to two or none")
        self._next = offset + size
        if strides and not self._trusted:
            raise BadFrame("an answer is always in order")
        if not strides and size != count * dtype.itemsize:
            raise BadFrame("a tensor of another size")
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        raw = torch.frombuffer(self._body, dtype=torch.uint8, count=size, offset=offset)
        if dtype == torch.bool and bool((raw > 1).any()):
            raise BadFrame("a bool that is neither")
        flat = (raw if self._trusted else raw.clone()).view(dtype)
        return flat.as_strided(shape, strides) if strides else flat.reshape(shape)


_READERS = {
    "list": lambda reader, rest, depth: reader._sequence(rest, depth, list),
    "tuple": lambda reader, rest, depth: reader._sequence(rest, depth, tuple),
    "dict": Unpacker._dict,
    "record": Unpacker._record,
    "foreign": Unpacker._foreign,
    "elsewhere": Unpacker._elsewhere,
    "tensor": Unpacker._tensor,
}


def pack_call(call: Call) -> tuple[Any, bytes]:
    """A header and a body. Trusted data: no need for caps."""
    packer = Packer(ALIGN)
    header = {
        "lesson": call.lesson,
        "exercise": call.exercise,
        "arguments": packer.tree(call.arguments),
        "positional": call.positional,
        "scenario": call.scenario,
        "grad_of": list(call.grad_of),
        "grad_through": call.grad_through,
        "grad_weights": packer.tree(call.grad_weights),
        "seconds": call.seconds,
        "behind": list(call.behind),
    }
    return header, packer.body


def unpack_call(header: dict[str, Any], body: bytearray | mmap.mmap) -> Call:
    """The call; its tensors are where the bytes are."""
    reader = Unpacker(body, trusted=True)
    return Call(
        header["lesson"],
        header["exercise"],
        reader.tree(header["arguments"]),
        header["positional"],
        header["scenario"],
        tuple(header["grad_of"]),
        header["grad_through"],
        reader.tree(header["grad_weights"]),
        header["seconds"],
        tuple(header["behind"]),
    )


def pack_outcome(outcome: Outcome) -> tuple[Any, bytes]:
    packer, error = Packer(), outcome.error
    header = {
        "value": packer.tree(outcome.value),
        "gradients": packer.tree(outcome.gradients),
        "tracked": list(outcome.tracked)[:50],
        "error": error
        and {
            "kind": error.kind,
            "type_name": error.type_name[:200],
            "message": error.message,
            "frames": [[frame.file, frame.line, frame.function, frame.text] for frame in error.frames],
        },
        "changed": list(outcome.changed),
        "left_behind": list(outcome.left_behind),
        "used_global_random": outcome.used_global_random,
        "printed": outcome.printed[:MAX_TEXT],
        "printed_length": min(outcome.printed_length, MAX_INT - 1),
    }
    return header, packer.body


def unpack_outcome(header: Any, body: bytearray, call: Call) -> Outcome:
    """The answer to a call.

    Raises:
        BadFrame: it is not one.
    """
    keys = {"value", "gradients", "tracked", "error", "changed", "left_behind", "used_global_random", "printed"}
    fields = _fields(header, keys | {"printed_length"})
    reader = Unpacker(body)
    value, gradients = reader.tree(fields["value"]), reader.tree(fields["gradients"])
    reader.done()
    error = None if fields["error"] is None else _error(fields["error"])
    if type(gradients) is not dict or set(gradients) not in (set(), set(call.grad_of)):
        raise BadFrame("gradients that nobody asked for")
    if not all(slope is None or isinstance(slope, Tensor) for slope in gradients.values()):
        raise BadFrame("a gradient that is no tensor")
    if type(fields["used_global_random"]) is not bool:
        raise BadFrame("not a bool")
    changed = _texts(fields["changed"], 200)
    if not set(changed) <= set(call.arguments):
        raise BadFrame("changed what it was not given")
    return Outcome(
        value=value,
        gradients=gradients,
        tracked=_texts(fields["tracked"], MAX_TEXT),
        error=error,
        changed=changed,
        left_behind=_texts(fields["left_behind"], 200),
        used_global_random=fields["used_global_random"],
        printed=text(fields["printed"]),
        printed_length=_whole(fields["printed_length"], 0, MAX_INT),
    )


def _error(node: Any) -> StudentError:
    fields = _fields(node, {"kind", "type_name", "message", "frames"})
    if fields["kind"] not in ERROR_KINDS:
        raise BadFrame("no such kind of error")
    frames = []
    for frame in _list(fields["frames"])[:10]:
        file, line, function, shown = _of_length(_list(frame), 4)
        frames.append(Frame(text(file, 400), _whole(line, -1, MAX_INT), text(function, 400), text(shown, 400)))
    return StudentError(fields["kind"], text(fields["type_name"], 200), text(fields["message"]), tuple(frames))


def text(node: Any, limit: int = MAX_TEXT) -> str:
    """A text, cut to a length, that can be written as UTF-8."""
    if type(node) is not str:
        raise BadFrame("not a text")
    return node[:limit].encode("utf-8", "replace").decode("utf-8")


def _texts(node: Any, limit: int) -> tuple[str, ...]:
    return tuple(text(part, limit) for part in _list(node)[:50])


def _whole(node: Any, low: int, high: int) -> int:
    if type(node) is not int or not low <= node < high:
        raise BadFrame("not a whole number in range")
    return node


def _list(node: Any) -> list[Any]:
    if type(node) is not list:
        raise BadFrame("not a list")
    return node


def _of_length(node: list[Any], length: int) -> list[Any]:
    if len(node) != length:
        raise BadFrame("a node of another length")
    return node


def _shape(node: Any) -> tuple[int, ...]:
    shape = tuple(_whole(size, 0, MAX_INT) for size in _list(node))
    if len(shape) > MAX_DEPTH or math.prod(size or 1 for size in shape) > MAX_EXTENT:
        raise BadFrame("a shape beyond all memory")
    return shape


def _fields(node: Any, keys: set[str]) -> dict[str, Any]:
    if type(node) is not dict or set(node) != keys:
        raise BadFrame("other fields")
    return node
