"""How a test calls a function that is in another process: plain values cross, and gradients when they are asked for."""

import builtins
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

Message = dict[str, Any]
Ask = Callable[[Message], Message]
"""Sends a message to the implementations, and waits for the answer."""
KINDS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class Caller:
    """The near end: what a test calls.

    Args:
        ask: the way to the far end, whose `scenarios_behind.Behind.answer` answers.

    Attributes:
        heard: of each answer in turn, what two share that answer the same question and are the same
            to the bit; None where it is not known.
    """

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.heard: list[Any] = []

    def next(self, refused: bool) -> bool:
        """Say what is found of this implementation; whether there is another one, which all later calls reach."""
        return bool(self.ask({"next": refused})["more"])

    def call(self, lesson: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Call the function of a lesson.

        Raises:
            Exception: what it raised, of the same type if that is one of Python's.
        """
        tensors: list[Tensor] = []
        message = {"call": lesson, "args": apart(list(args), tensors), "options": apart(options, tensors)}
        answer = self.about(message, tensors)
        for place, now in answer["changed"]:
            with torch.no_grad():
                tensors[place].copy_(answer["tensors"][now])
        return together(answer["value"], self.tracked(answer, tensors))

    def about(self, message: Message, tensors: Sequence[Tensor]) -> Message:
        answer = self.ask(
            {
                **message,
                "tensors": [tensor.detach() for tensor in tensors],
                "tracked": [tensor.requires_grad for tensor in tensors],
                "leaves": [tensor.is_leaf for tensor in tensors],
                "grad": torch.is_grad_enabled(),
                "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            }
        )
        self.heard.append(answer.get("heard"))
        if "error" in answer:
            raise _error(*answer["error"])
        return answer

    def tracked(self, answer: Message, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of an answer; a gradient finds its way through them to the inputs."""
        tensors = [in_order(tensor) for tensor in answer["tensors"]]
        places = [place for place, is_tracked in enumerate(answer["tracked"]) if is_tracked]
        if places:
            found = _Across.apply(self, answer["number"], [tensors[place] for place in places], *inputs)
            for place, tensor in zip(places, found, strict=True):
                tensors[place] = tensor
        return tensors


class _Across(torch.autograd.Function):
    """The step from the inputs to the answer, of which the far end keeps the graph: so does the step back."""

    @staticmethod
    def forward(ctx: Any, caller: Caller, number: int, tensors: list[Tensor], *inputs: Tensor) -> Any:
        ctx.caller, ctx.number, ctx.inputs = caller, number, inputs
        return tuple(tensors)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        answer = ctx.caller.about({"slopes": ctx.number}, slopes)
        tensors = ctx.caller.tracked(answer, [*ctx.inputs, *slopes])
        found = dict(zip(answer["places"], tensors, strict=True))
        return None, None, None, *(found.get(place) for place in range(len(ctx.inputs)))


def in_order(tensor: Tensor) -> Tensor:
    """Its numbers alone."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def apart(value: Any, tensors: list[Tensor]) -> Any:
    """Plain data as JSON, with the number of each tensor in its place; the tensors are added to a list."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, dict):
        return {"dict": {name: apart(part, tensors) for name, part in value.items()}}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if not isinstance(value, (list, tuple, set, frozenset)):
        return value
    parts = [apart(part, tensors) for part in value]
    if hasattr(value, "_fields"):
        return {"record": [type(value).__name__, list(value._fields), parts]}
    return {type(value).__name__: parts}


def together(node: Any, tensors: Sequence[Tensor]) -> Any:
    """What `apart` took apart."""
    if not isinstance(node, dict):
        return node
    ((kind, inside),) = node.items()
    if kind == "tensor":
        return tensors[inside]
    if kind == "dict":
        return {name: together(part, tensors) for name, part in inside.items()}
    if kind == "range":
        return range(*inside)
    if kind == "record":
        name, fields, parts = inside
        return _record(name, tuple(fields))(*(together(part, tensors) for part in parts))
    return KINDS[kind](together(part, tensors) for part in inside)


@cache
def _record(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def _error(name: str, text: str) -> Exception:
    kind = getattr(builtins, name, None)
    is_error = isinstance(kind, type) and issubclass(kind, Exception)
    try:
        return kind(text) if is_error else RuntimeError(text)
    except TypeError:  # UnicodeError wants more.
        return RuntimeError(text)
