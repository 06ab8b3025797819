"""Whatever a worker sends, the trusted side has an outcome for it: it neither raises nor waits; values are plain."""

import json
import os
import random
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from testcases.grader.sandbox import staging
from testcases.grader.sandbox.sandbox import Limits
from testcases.grader.sandbox.worker_client import InSandbox
from testcases.harness.execution import wire
from testcases.harness.execution.messages import Call, Foreign, Outcome, Record, StudentError, leaves
from testcases.harness.suite.asserts import example

ROUNDS = 400
ASKED = example(Call("lesson04_gae", "td_errors"), rewards=torch.ones(2, 3), gamma=0.5)
ANSWER = Outcome(
    value={"a": [torch.arange(6.0).reshape(2, 3), 1, 2.5, None, "text"], "b": Record("R", ("x",), (torch.ones(1),))},
    error=None,
    tracked=("a.0",),
)
FAILURE = Outcome(error=StudentError("raised", "ValueError", "no", ()))
ODD = [None, True, -1, 0, 2**63, 10**30, 1e308, float("nan"), float("inf"), "", "\ud800", "tensor", "x" * 5000, [], {}]
ODD += [[[]] * 50, {"a": {}}, {"tuple": []}, {"tuple": 1}, {"dict": [[1, 2]]}, {"dict": [["a", 1, 2]]}]
ODD += [{"Tensor": 0}, {"Tensor": 1}, {"Tensor": 9}, {"Tensor": "0"}, {"Tensor": 0, "tuple": []}]
ODD += [{"Record": ["R", {"tuple": ["x"]}, {"tuple": []}]}]
ODD += [{"Foreign": ["R", 1]}, {"StudentError": ["raised", "E", "m", {"tuple": []}]}, {"Frame": ["f", 1, "g", "h"]}]
KINDS = {None, *"tamper crash timeout raised load missing signature backward answer".split(), "too large"}
PLAIN = (torch.Tensor, bool, int, float, str, type(None), list, tuple, dict, Foreign)


class Box:
    """In the place of a sandbox: its workers send what `said` makes of the number of a question, and hang up."""

    kind, spent, failures = "bwrap", 0.0, 0
    limits = Limits(ends=10**9, exercise_seconds=1e9, lesson_seconds=1e9, grace_seconds=5)

    def __init__(self, said: Callable[[int], bytes]) -> None:
        self.said = said

    def open(self, lesson: str, link: Any = None) -> tuple[socket.socket, socket.socket]:
        (data, theirs), (status, their_status) = socket.socketpair(), socket.socketpair()
        threading.Thread(target=self._work, args=(theirs, their_status), daemon=True).start()
        return data, status

    def _work(self, channel: socket.socket, status: socket.socket) -> None:
        with channel, status:
            _, (questions,), _, _ = socket.recv_fds(channel, 1, 1)
            channel.send(b"w")
            (size,) = struct.unpack("<I", channel.recv(4))
            channel.recv(size, socket.MSG_WAITALL)
            wire.send(channel, {"ready": True})
            header, _ = wire.receive(channel)
            wire.send(channel, {"id": header["id"], "loaded": True})
            header, _ = wire.receive(channel)
            channel.sendall(self.said(header["id"]))
            os.close(questions)

    def close(self) -> None:
        pass


def framed(header: Any, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return wire.PREFIX.pack(wire.MAGIC, len(text), len(body)) + text + body


def changed(node: Any, draw: random.Random) -> Any:
    """A tree with something odd in one place."""
    if draw.random() < 0.2 or not isinstance(node, (dict, list)) or not node:
        return draw.choice(ODD)
    copy: Any = dict(node) if isinstance(node, dict) else list(node)
    place = draw.choice(list(copy)) if isinstance(copy, dict) else draw.randrange(len(copy))
    if draw.random() < 0.1:
        del copy[place]
    else:
        copy[place] = changed(copy[place], draw)
    return copy


def noise(data: bytes, draw: random.Random) -> bytes:
    """Bytes with some changed, left out, or said twice."""
    for _ in range(draw.randint(1, 4)):
        start, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
        piece = draw.choice([b"", draw.randbytes(8), data[start:end] * 2, data[start:end]])
        data = data[:start] + piece + data[end:]
    return data


@pytest.mark.parametrize("part", range(4))
def test_whatever_is_sent_has_an_outcome(monkeypatch: pytest.MonkeyPatch, part: int):
    monkeypatch.setattr(staging, "tree", lambda *of, **more: {})
    seen = set()
    for number in range(ROUNDS // 4):
        draw = random.Random(f"{part} {number}")

        def said(question: int, draw: random.Random = draw) -> bytes:
            outcome, body = wire.pack(draw.choice([ANSWER, FAILURE]))
            header = {"id": question, "outcome": outcome}
            if draw.random() < 0.7:
                header["outcome"] = changed(outcome, draw)
                return framed(header, body)
            return noise(framed(header, body), draw)

        subject = InSandbox(Box(said), {})  # type: ignore[arg-type]
        found = subject.run(ASKED)
        subject.finish()
        kind = found.error and found.error.kind
        assert kind in KINDS, found
        assert all(type(leaf) in PLAIN for leaf in leaves(found.value))
        repr(found).encode("utf-8")
        seen.add(kind)
    assert {"tamper", None} <= seen
