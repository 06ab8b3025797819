"""What a diagnosis finds, as values: they are compared as such, and only `sentences` makes words of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..execution.messages import Call, Outcome
from ..oracle.mutations import NamedChange
from .code import words_of

Seen = tuple[Call, Outcome, Outcome]
"""A question, the right answer, and the student's."""
Ask = Callable[[Call], tuple[Outcome, Outcome]]
"""The right answer to another question, and the student's."""
CHEAP = 5.0
"""Seconds that a question is given unless it trains; only what is as cheap is asked again, or in other forms."""


class Shows(Enum):
    """What is wrong with the code, as an answer shows it: `sentences.SENTENCES` has the words of each."""

    # The mistakes that are made of every exercise.
    IGNORED, NEGATED, INVERTED, SWAPPED, EARLY, LATE, DETACHED = (auto() for _ in range(7))
    INVERSE, SQUARED, MORE, LESS = (auto() for _ in range(4))
    ANSWER_NEGATED, ANSWER_HALVED, ANSWER_DOUBLED, ANSWER_DETACHED = (auto() for _ in range(4))

    # What a call changes, where a gradient or a NaN is lost, and what the numbers are made of.
    CHANGED, UNDUE, CUT_OFF, FLAT, NAN_IN_GRADIENT, NAN_HIDDEN = (auto() for _ in range(6))
    OTHER_DTYPE, DIGITS_LOST, OVERFLOWS, NAN_MADE, A_NUMBER, A_TENSOR, SQUEEZED = (auto() for _ in range(7))

    # What an answer depends on, and must or must not.
    PADDING_ENTERS, ROWS_MIXED = auto(), auto()

    # What an exception says.
    RAISED, NOT_IMPORTED, UNKNOWN_NAME, MAY_BE_NONE, LEFT_OUT, ONE_ENTRY, ONE_PAST = (auto() for _ in range(7))


@dataclass(frozen=True)
class Sign:
    """One of these, and what it is said of."""

    shows: Shows
    about: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Mistake:
    """One thing that may be wrong with an exercise: named by the lesson, or one that is made of every exercise."""

    change: Callable[[str], str] | None
    """Of the reference's region; None where another file, or a function in place of the exercise, has it."""
    wrong: NamedChange | None = None
    sign: Sign | None = None


@dataclass(frozen=True)
class Named:
    """Mistakes that give the answer, or (not `is_all`) a part of what is wrong."""

    mistakes: tuple[Mistake, ...]
    is_all: bool = True


@dataclass(frozen=True)
class Step:
    """A place of the student's own code, and what is to stand there."""

    line: int
    old: str
    new: str
    """Empty where the place is to go."""

    @property
    def only_adds(self) -> bool:
        return bool(self.new) and not words_of(self.old) - words_of(self.new)


@dataclass(frozen=True)
class Repair:
    """A change of the student's own code, with which every test passes, or (not `is_all`) more numbers are right."""

    step: Step
    is_all: bool = True


@dataclass(frozen=True)
class Invariant:
    """What a right repair of a suspect keeps, and this one breaks: said where no cause is known."""

    text: str


@dataclass(frozen=True)
class Twice:
    """A file defines a function more than once, and the last one counts."""

    name: str
    lines: tuple[int, ...]


Cause = Named | Repair | Sign | Invariant


@dataclass(frozen=True)
class Diagnosis:
    """Why an answer is wrong, as far as that is known."""

    causes: tuple[Cause, ...] = ()
    inside: str = ""
    """The exercise that this one calls and that is at fault; empty where it is this one itself."""
    twice: Twice | None = None
    """Said first: who reads the other definition does not understand the rest."""

    @property
    def listed(self) -> NamedChange | None:
        """The named mistake that alone gives all that is wrong."""
        alone = (one.mistakes[0].wrong for one in self.causes if isinstance(one, Named) and len(one.mistakes) == 1)
        return next(alone, None)
