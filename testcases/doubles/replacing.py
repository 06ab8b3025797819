"""A lesson's file with some of its functions taken away, to see whether another one stands on them."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn
from unittest import mock


def without(function: Callable[..., Any], *names: str) -> AbstractContextManager[Any]:
    """In the block the functions of these names, in the file of `function`, are not written yet."""

    def missing(name: str) -> Callable[..., NoReturn]:
        def not_there(*args: Any, **options: Any) -> NoReturn:
            raise RuntimeError(
                f"{inspect.unwrap(function).__name__} calls {name}, which comes later and generalizes it"
            )

        return not_there

    return mock.patch.dict(inspect.unwrap(function).__globals__, {name: missing(name) for name in names})
