"""What a call with a scenario calls."""

import importlib
from collections.abc import Callable
from typing import Any

from .messages import Call


def scenario_of(call: Call) -> Callable[..., Any]:
    """The function that a call with a scenario calls."""
    module, _, name = (call.scenario or "").rpartition(".")
    home = f"testcases.harness.doubles.{module}" if module else f"testcases.{call.lesson}.scenarios"
    return getattr(importlib.import_module(home), name)


def behind_of(call: Call) -> Any:
    """What answers a scenario's questions about the arguments that it does not get."""
    return importlib.import_module(f"testcases.{call.lesson}.scenarios_behind").Behind(**call.arguments)
