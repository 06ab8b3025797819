"""The reference answers each question once, however many students are asked it."""

import json
from collections import OrderedDict
from typing import Any

from ..execution import wire
from ..execution.executor import InProcess
from ..execution.messages import Call, Outcome, leaves

MAX_ANSWERS = 20_000
MAX_BYTES = 200_000_000


class Remembering(InProcess):
    """A trusted executor with a bounded memory: calls that depend on what a student answered are never the same."""

    def __init__(self, inner: InProcess) -> None:
        super().__init__(inner._modules_of)
        self._answers: OrderedDict[bytes, tuple[Outcome, int]] = OrderedDict()
        self._size = 0

    def run(self, call: Call) -> Outcome:
        key = packed(call)[1]
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key][0]
        outcome = super().run(call)
        size = len(key) + _size_of(outcome.value) + _size_of(outcome.gradients)
        self._answers[key] = outcome, size
        self._size += size
        while len(self._answers) > MAX_ANSWERS or self._size > MAX_BYTES:
            self._size -= self._answers.popitem(last=False)[1][1]
        return outcome


def packed(call: Call) -> tuple[tuple[Any, bytes], bytes]:
    """Header and body of a call, and the two as one key; kept with it, since two are asked."""
    kept = vars(call)
    if "packed" not in kept:
        header, body = wire.pack(call)
        kept["packed"] = (header, body), json.dumps(header).encode() + b"\0" + body
    return kept["packed"]


def _size_of(value: Any) -> int:
    return sum(100 + getattr(leaf, "nbytes", 0) for _, leaf in leaves(value))
