"""What crosses the wall between the trusted side and student code: frames of plain values, decoded strictly.

A frame is a magic word, two lengths, a JSON header and the bytes of its tensors. Nothing in it names code to run.
Both sides use this file; only the trusted side has to distrust what it reads.
"""

import contextlib
import json
import socket
import struct
from collections.abc import Callable
from typing import Any

from .messages import ERROR_KINDS, MESSAGES, BadFrame, Call, Outcome, leaves, pack, unpack

MAGIC = b"PBH1"
PREFIX = struct.Struct("<4sII")
MAX_HEADER = 3_000_000
MAX_BODY = 96_000_000


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
        text = json.dumps(header, separators=(",", ":")).encode()
        channel.sendall(PREFIX.pack(MAGIC, len(text), len(body)) + text + body)
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
                send(self._channel, *pack(answer(unpack(*receive(self._channel)))))


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
