"""Which of a suspect's invariants a repair breaks: only what is found broken is said."""

import itertools
from collections import namedtuple
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..execution.messages import Call, Outcome, fields_of
from ..oracle.mutations import Suspect
from .values import Ask

MOST_QUESTIONS = 3
RIGHT, MINE = 0, 1


def broken(suspect: Suspect, questions: Iterable[Call], ask: Ask) -> str:
    """The first invariant that a right answer keeps in one of the questions and the student's does not; or ""."""
    for asked, invariant in itertools.product(itertools.islice(questions, MOST_QUESTIONS), suspect.invariants):
        with suppress(Exception):  # An answer of another form has other things to hear first.
            if _holds(invariant, asked, ask, RIGHT) and not _holds(invariant, asked, ask, MINE):
                return " ".join((invariant.__doc__ or "").split())
    return ""


def _holds(invariant: Any, asked: Call, ask: Ask, whose: int) -> bool:
    def changed(**arguments: Any) -> Any:
        return _plain(ask(replace(asked, arguments={**asked.arguments, **arguments}, grad_of=()))[whose])

    return bool(invariant(asked.arguments, changed))


def _plain(outcome: Outcome) -> Any:
    """A value, its parts under their names.

    Raises:
        LookupError: it is an error.
    """
    if outcome.error:
        raise LookupError(outcome.error)
    value, names = fields_of(outcome.value)
    return namedtuple("Parts", names)(*value) if names else value
