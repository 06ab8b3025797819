"""A setting that there is none of is refused with the closest name that there is."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable
from typing import Any, TypeVar

Settings = TypeVar("Settings", bound=type)


def closest(name: str, known: Iterable[str]) -> str:
    """The one of the known names that is most like this one."""
    return difflib.get_close_matches(name, [*known], n=1, cutoff=0.0)[0]


def with_closest_name(kind: Settings) -> Settings:
    """Let a dataclass of settings refuse a name that it does not have with the closest one that it has."""
    made: Any = kind.__init__  # type: ignore[misc]
    known = [field.name for field in dataclasses.fields(kind)]
    required = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]

    @functools.wraps(made)
    def checked(self: Any, *values: Any, **named: Any) -> None:
        if values:
            raise TypeError(f"expected settings by name, as in {kind.__name__}(batch_size=64), got {values[0]!r}")
        if unknown := [name for name in named if name not in known]:
            raise TypeError(
                f"expected settings of {kind.__name__}, got {unknown[0]!r}; the closest one is "
                f"{closest(unknown[0], known)}, and help({kind.__name__}) describes them all"
            )
        if not {*required} <= named.keys():
            raise TypeError(f"expected {' and '.join(required)}, which have no default: the tokenizer has them")
        made(self, **named)

    kind.__init__ = checked  # type: ignore[misc]
    return kind
