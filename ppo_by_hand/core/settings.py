"""Settings described once, beside their fields: for `help`, for the command, and for whoever writes a name wrongly."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from .counterparts import OLDER, TRL, done_in

Settings = TypeVar("Settings", bound=type)

RENAMED = {"rollout_batch_size": "micro_rollout_batch_size"}
"""Older names of settings: they are taken with a warning for one release, and without one from files."""
WHY = "in OpenRLHF that name counts the prompts of a whole rollout, here batch_size / samples_per_prompt"
LESSONS = {
    4: "gamma lam",
    5: "clip_epsilon value_clip_epsilon value_coef entropy_coef",
    6: "clip_score kl_coef",
    8: "stop_token_ids pad_token_id max_new_tokens temperature kl_estimator missing_stop_penalty whiten_rewards "
    "micro_rollout_batch_size",
    9: "num_updates batch_size num_epochs num_minibatches micro_batch_size learning_rate warmup_updates adam_epsilon "
    "max_grad_norm whiten_advantages kl_target kl_horizon max_update_kl ratio_threshold stop_on seed log_dir",
    13: "advantages kl_in samples_per_prompt",
}
"""Lesson -> the settings that its texts name and explain."""


class Setting(NamedTuple):
    """One field of a dataclass."""

    name: str
    kind: str
    default: str
    says: str
    """The text below the field."""

    def __str__(self) -> str:
        notes = [f"lesson {number}" for number, names in LESSONS.items() if self.name in names.split()]
        notes += [f"TRL: {TRL[self.name]}"] if self.name in TRL else []
        says = textwrap.wrap(self.says + (f" ({'; '.join(notes)})" if notes else ""), 96)
        return "\n    ".join([f"{self.name}: {self.kind}{self.default}", *says])


def settings_of(kind: type) -> list[Setting]:
    """The fields of a dataclass, in their order, with the texts that stand below them in its file."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(found, ast.ClassDef)
        for field, below in zip(found.body, found.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = " ".join(text.split())
    return [Setting(f.name, str(f.type), _default(f), texts.get(f.name, "")) for f in dataclasses.fields(kind)]


def _default(field: dataclasses.Field[Any]) -> str:
    return " (required)" if field.default is dataclasses.MISSING else f" = {field.default!r}"


def nearest(name: str, known: Iterable[str], elsewhere: Callable[[str], str | None] = lambda name: None) -> str:
    """What somebody who wrote this name may have meant, as the end of a sentence; "" where nothing is near.

    Args:
        elsewhere: where something of another trainer is done that is no setting here.
    """
    known = list(known)
    tables = {theirs: ours for ours, theirs in TRL.items()}, OLDER
    meant = next((table[name] for table in tables if table.get(name) in known), None)
    if meant is not None:
        return f"; its counterpart here is {meant}"
    if place := elsewhere(name):
        return f"; no setting here: {place}"
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def with_new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings by their names of today.

    Raises:
        ValueError: one is given by both of its names, with two values.
    """
    found = {name: value for name, value in settings.items() if name not in RENAMED}
    for older, name in RENAMED.items():
        if older in settings and found.setdefault(name, settings[older]) != settings[older]:
            if found[name] is not None:
                raise ValueError(f"expected one value for {name}, got another for {older}, its older name; drop that")
            found[name] = settings[older]
    return found


def of_older_names(settings: Iterable[str]) -> list[str]:
    """A sentence for each that was renamed."""
    rest = f"the older name goes with the next release ({WHY})"
    return [f"{older} is now {RENAMED[older]}; {rest}" for older in settings if older in RENAMED]


class _Doc:
    """A class's docstring with its settings, read from the source only when somebody asks: that takes 0.1 s."""

    def __init__(self, says: str | None) -> None:
        self.says = says

    def __get__(self, instance: Any, owner: type) -> str:
        return f"{self.says}\n\n" + "\n".join(map(str, settings_of(owner)))


def described(see: str) -> Callable[[Settings], Settings]:
    """Let `help` show each field of a dataclass, and an unknown name say the nearest.

    Args:
        see: where all names are listed, for the message.
    """

    def decorate(kind: Settings) -> Settings:
        kind.__doc__ = _Doc(kind.__doc__)  # type: ignore[assignment]
        made: Any = kind.__init__  # type: ignore[misc]
        known = [field.name for field in dataclasses.fields(kind)]
        required = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]

        @functools.wraps(made)
        def checked(self: Any, *values: Any, **named: Any) -> None:
            if values:
                raise TypeError(f"expected settings by name, as in {kind.__name__}(batch_size=64), got {values[0]!r}")
            for name in named:
                if name not in known and name not in RENAMED:
                    raise TypeError(
                        f"expected settings of {kind.__name__}, got {name!r}{nearest(name, known, done_in)}; {see}"
                    )
            if not {*required} <= named.keys():
                raise TypeError(f"expected {' and '.join(required)}, which have no default: the tokenizer has them")
            for sentence in of_older_names(named):
                warnings.warn(sentence, FutureWarning, stacklevel=2)
            made(self, **with_new_names(named))

        kind.__init__ = checked  # type: ignore[misc]
        return kind

    return decorate
