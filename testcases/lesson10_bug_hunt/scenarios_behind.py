"""The implementations, in another process than the tests of them: all that leaves it is what a function returned."""

import importlib
import marshal
import zlib
from typing import Any

import torch
from torch import Tensor

from .scenarios import FUNCTIONS
from .scenarios_calls import Message, apart, in_order, together

DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}
"""Which a test may make the default."""


class Behind:
    """Implementations of one function, one after the other. It believes nothing of what it is asked.

    Args:
        function: its name.
        bank: their files, packed.

    Attributes:
        said: of each, in order, whether the tests refuse it.
    """

    def __init__(self, function: str, bank: Tensor) -> None:
        self.function = function
        self.files = marshal.loads(bank.numpy().tobytes())
        self.said: list[bool] = []
        self._begin()

    def _begin(self) -> None:
        self._graphs: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._functions: dict[str, Any] = {}

    def answer(self, message: Message) -> Message:
        before = torch.get_default_dtype()
        try:
            if "next" in message:
                self.said.append(message["next"] is True)
                self._begin()
                return {"more": len(self.said) < len(self.files)}
            if before != DTYPES[message["dtype"]]:
                torch.set_default_dtype(DTYPES[message["dtype"]])
            with torch.set_grad_enabled(message["grad"] is True):
                return self._slopes(message) if "slopes" in message else self._call(message)
        except Exception as error:
            return {"error": [type(error).__name__, str(error)]}
        finally:
            if torch.get_default_dtype() != before:
                torch.set_default_dtype(before)

    def _function(self, lesson: str) -> Any:
        if lesson not in self._functions:
            name = FUNCTIONS[lesson]
            if name == self.function:
                self._functions[lesson] = _made(self.files[len(self.said)], lesson)[name]
            else:
                self._functions[lesson] = getattr(importlib.import_module(f"solutions.{lesson}"), name)
        return self._functions[lesson]

    def _call(self, message: Message) -> Message:
        function, leaves = self._function(message["call"]), _leaves(message)
        # What is no leaf there may be changed in place, so it is none here.
        inputs = [leaf if is_leaf else leaf.clone() for leaf, is_leaf in zip(leaves, message["leaves"], strict=True)]
        versions = [tensor._version for tensor in inputs]
        value = function(*together(message["args"], inputs), **together(message["options"], inputs))
        found: list[Tensor] = []
        shape = apart(value, found)
        changed = [place for place, tensor in enumerate(inputs) if tensor._version != versions[place]]
        kept = self._kept(message, leaves, found)
        kept["tensors"] += [inputs[place].detach() for place in changed]
        return {"value": shape, "changed": [[place, n] for n, place in enumerate(changed, len(found))], **kept}

    def _slopes(self, message: Message) -> Message:
        inputs, outputs = self._graphs[message["slopes"]]
        slopes = _leaves(message)
        places = [place for place, tensor in enumerate(inputs) if tensor.requires_grad]
        wanted = [inputs[place] for place in places]
        # As torch.autograd.grad does; handed slopes would make that load half of torch.
        engine, further = torch.autograd.Variable._execution_engine, torch.is_grad_enabled()
        found = engine.run_backward(tuple(outputs), tuple(slopes), True, further, tuple(wanted), True, False)
        reached = [(place, slope) for place, slope in zip(places, found, strict=True) if slope is not None]
        kept = self._kept(message, [*inputs, *slopes], [slope for _, slope in reached])
        return {"places": [place for place, _ in reached], **kept}

    def _kept(self, message: Message, inputs: list[Tensor], found: list[Tensor]) -> Message:
        """What is found, and the number of its graph."""
        number = message.get("number", len(self._graphs))
        self._graphs[number] = inputs, [tensor for tensor in found if tensor.requires_grad]
        return {
            "tensors": [tensor.detach() for tensor in found],
            "tracked": [tensor.requires_grad for tensor in found],
            "number": number,
        }


def _leaves(message: Message) -> list[Tensor]:
    pairs = zip(message["tensors"], message["tracked"], strict=True)
    return [in_order(tensor).requires_grad_(is_tracked) for tensor, is_tracked in pairs]


def _made(file: bytes, lesson: str) -> dict[str, Any]:
    """The names of an implementation's file, which stands where the lesson's own does."""
    space = {"__name__": f"solutions.{lesson}.subject", "__package__": f"solutions.{lesson}"}
    exec(marshal.loads(zlib.decompress(file)), space)
    return space
