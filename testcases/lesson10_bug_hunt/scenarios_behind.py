"""The implementations, in another process than the tests of them: all that leaves it is what a function returned."""

import importlib
import marshal
from typing import Any

import torch
from torch import Tensor

from .scenarios import FUNCTIONS


class Behind:
    """Implementations of one function, one after the other. It believes nothing of what it is asked.

    Args:
        function: its name.
        bank: their files, as `grading.packed` makes them.

    Attributes:
        said: of each, in order, whether the tests refuse it.
    """

    def __init__(self, function: str, bank: Tensor, **_: bool) -> None:
        self.function, self.bank = function, marshal.loads(bank.numpy().tobytes())
        self.said: list[bool] = []
        self.present: Any = None
        self.graphs: list[tuple[list[Tensor], list[Tensor]]] = []

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            if "next" in message:
                self.said.append(message["next"] is True)
                self.present, self.graphs = None, []
                return {"more": len(self.said) < len(self.bank)}
            with torch.enable_grad():
                return self._back(**message) if "back" in message else self._call(**message)
        except Exception as error:
            return {"error": [type(error).__name__, str(error)]}

    def _function(self, lesson: str) -> Any:
        name = FUNCTIONS[lesson]
        if name != self.function:
            return getattr(importlib.import_module(f"solutions.{lesson}"), name)
        if self.present is None:
            # Its file stands where the lesson's own does.
            space = {"__name__": f"solutions.{lesson}.subject", "__package__": f"solutions.{lesson}"}
            exec(self.bank[len(self.said)], space)
            self.present = space[name]
        return self.present

    def _call(self, call: str, given: list[Any], tracked: list[bool], names: list[str]) -> dict[str, Any]:
        given = [
            value.clone().requires_grad_(is_tracked) if isinstance(value, Tensor) else value
            for value, is_tracked in zip(given, tracked, strict=True)
        ]
        split = len(given) - len(names)
        value = self._function(call)(*given[:split], **dict(zip(names, given[split:], strict=True)))
        parts = list(value) if isinstance(value, tuple) else [value]
        leaves = [value for value, is_tracked in zip(given, tracked, strict=True) if is_tracked]
        self.graphs.append((leaves, parts))
        return {
            "parts": [part.detach() for part in parts],
            "tracked": [part.requires_grad for part in parts],
            "fields": list(getattr(value, "_fields", ())),
            "number": len(self.graphs) - 1,
        }

    def _back(self, back: int, slopes: list[Tensor]) -> dict[str, Any]:
        leaves, parts = self.graphs[back]
        total = sum((part * slope).sum() for part, slope in zip(parts, slopes, strict=True) if part.requires_grad)
        return {"slopes": list(torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True))}
