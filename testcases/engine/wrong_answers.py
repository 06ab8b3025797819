"""Named wrong implementations, and which of them explains a wrong answer."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from .compare import same_outcome
from .contract import SOLUTIONS, regions
from .contract import lesson as read_lesson
from .evaluate import Evaluator, solutions, solutions_changed, solutions_with
from .plain import Outcome, Request
from .reading import section_for

PROBE_SEED = 20240


@dataclass(frozen=True)
class Misconception:
    """One wrong idea, as a change of the reference."""

    exercise: str
    name: str
    why: str
    """One line: what is wrong with it."""
    read: str
    """Heading in the lesson's README that sets it right."""
    change: Change | Callable[..., Any]
    """What is changed inside the exercise's region, or a function in its place."""


@dataclass(frozen=True)
class Change:
    """A change of the text between `# region solution` and `# endregion`, its indentation taken away."""

    why: str
    read: str | None
    replaced: tuple[tuple[str, str], ...] = ()
    """(old, new) pairs; each `old` must stand in the region exactly once when its turn comes."""
    first: str = ""
    """Lines put before the region."""
    whole: str | None = None
    """Text in place of the region."""

    def apply(self, region: str) -> str:
        """The changed region.

        Raises:
            LookupError: an `old` does not stand there exactly once, or nothing changes.
        """
        text = region if self.whole is None else self.whole
        for old, new in self.replaced:
            if text.count(old) != 1:
                raise LookupError(f"expected once in the region, found {text.count(old)} times: {old!r}")
            text = text.replace(old, new)
        text = f"{self.first}\n{text}" if self.first else text
        if text == region:
            raise LookupError("the change changes nothing")
        return text


def edit(*texts: str, why: str, read: str | None = None) -> Any:
    """Old text, new text; again old, new; and so on. `read` only where the exercise's own heading does not say it."""
    return Change(why, read, replaced=tuple(zip(texts[::2], texts[1::2], strict=True)))


def first(text: str, *, why: str, read: str | None = None) -> Any:
    """Put lines before the region: `first("gamma = 0.99", ...)` ignores an argument."""
    return Change(why, read, first=textwrap.dedent(text).strip())


def instead(text: str, *, why: str, read: str | None = None) -> Any:
    """Put other lines in place of the region."""
    return Change(why, read, whole=textwrap.dedent(text).strip())


class Wrong:
    """The wrong answers to one exercise: changes, and functions (with the reason as docstring) where none can say it.

    class TdErrors(Wrong, of="td_errors"):
        dones_ignored = edit(".masked_fill(dones.bool(), 0.0)", "", why="nothing is cut at a done: ...")
    """

    def __init_subclass__(cls, of: str) -> None:
        _collect(cls, of)


class Right:
    """Other right answers to one exercise, said in the same way: all that its docstring allows must pass.

    class TdErrors(Right, of="td_errors"):
        by_a_loop = instead("...", why="step by step, without slices")
    """

    def __init_subclass__(cls, of: str) -> None:
        _collect(cls, of)


def _collect(bank: type, exercise: str) -> None:
    lesson = bank.__module__.split(".")[1]
    for name, change in list(vars(bank).items()):
        if isinstance(change, Change):
            why, read = change.why, change.read
        elif inspect.isfunction(change) and not name.startswith("_"):
            why, read = " ".join((change.__doc__ or "").split()), None
        else:
            continue
        found = Misconception(exercise, name, why, read or section_for(lesson, exercise), change)
        _COLLECTED.setdefault(bank.__module__, []).append(found)


_COLLECTED: dict[str, list[Misconception]] = {}
"""By module: that of the wrong answers, or of the right ones, of a lesson."""


def misconception(exercise: str, *, why: str, read: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a wrong implementation of an exercise (dotted for a method)."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        found = Misconception(exercise, function.__name__, why, read, function)
        _COLLECTED.setdefault(function.__module__, []).append(found)
        return function

    return register


def changed_source(lesson: str, one: Misconception) -> tuple[str, str]:
    """Path below `solutions/` and text of the file with a change in it.

    Raises:
        LookupError: the change does not apply.
    """
    assert isinstance(one.change, Change)
    path = f"{lesson}/{read_lesson(lesson).file_of(one.exercise)}"
    lines = (SOLUTIONS / path).read_text("utf-8").splitlines()
    found = {region.exercise: region for region in regions(SOLUTIONS / path)}[one.exercise]
    region = "\n".join(lines[found.first + 1 : found.last])
    indent = lines[found.first][: -len(lines[found.first].lstrip())]
    try:
        changed = one.change.apply(textwrap.dedent(region))
    except LookupError as error:
        raise LookupError(f"{one.name}: {error}") from None
    lines[found.first + 1 : found.last] = textwrap.indent(changed, indent).splitlines()
    return path, "\n".join(lines) + "\n"


def misconceptions(lesson: str) -> tuple[Misconception, ...]:
    """The wrong answers of a lesson, in the order of the file."""
    return _bank(f"testcases.{lesson}.wrong_answers")


def right_answers(lesson: str) -> tuple[Misconception, ...]:
    """The other right answers of a lesson, in the order of the file."""
    return _bank(f"testcases.{lesson}.right_answers")


@cache
def _bank(module: str) -> tuple[Misconception, ...]:
    if not _exists(module):
        return ()
    importlib.import_module(module)
    return tuple(_COLLECTED.get(module, ()))


@cache
def probes(lesson: str, exercise: str, seed: int = PROBE_SEED) -> tuple[Request, ...]:
    """The examples of one exercise."""
    return tuple(request for request in _examples(lesson, seed) if request.exercise == exercise)


@cache
def _examples(lesson: str, seed: int) -> tuple[Request, ...]:
    name = f"testcases.{lesson}.examples"
    return tuple(importlib.import_module(name).examples(seed)) if _exists(name) else ()


def explain(request: Request, outcome: Outcome, subject: Evaluator) -> Misconception | None:
    """The misconception that gives the same answer as the student's code.

    It must reproduce the failing request. First comes one that agrees with the student on every probe as well: one of
    the exercise, else one of a neighbour that the exercise calls. Failing that, the one that agrees best.
    """
    if outcome.error and outcome.error.kind in ("load", "missing", "signature", "timeout", "too large"):
        return None
    right = _reference().evaluate(request)
    for one in _agreeing(subject, request.lesson, request.exercise):
        theirs = evaluator_of(request.lesson, one).evaluate(request)
        # A neighbour's misconception that leaves this answer right explains nothing, however close it is.
        if same_outcome(outcome, theirs) and not same_outcome(right, theirs):
            return one
    return _closest(request, outcome, subject)


def _closest(request: Request, outcome: Outcome, subject: Evaluator) -> Misconception | None:
    """The nearest to the student of those that reproduce the failing request."""
    best, most = None, 0.0
    for one, share in _partly_agreeing(subject, request.lesson, request.exercise).items():
        if share > most and same_outcome(outcome, evaluator_of(request.lesson, one).evaluate(request)):
            best, most = one, share
    return best


def _partly_agreeing(subject: Evaluator, lesson: str, exercise: str) -> dict[Misconception, float]:
    """Of the probes that the student or the misconception gets wrong, the share with one value; at least half."""
    known = _PARTLY.setdefault(subject, {})
    if (lesson, exercise) not in known:
        mine, right = _probed(subject, lesson, exercise), _probed(_reference(), lesson, exercise)
        shares = {}
        for one in misconceptions(lesson):
            if one.exercise == exercise:
                rows = list(zip(mine, answers_of(lesson, one, exercise), right, strict=True))
                wrong = [
                    row[:2] for row in rows if not all(same_outcome(got, row[2], values_only=True) for got in row[:2])
                ]
                agreed = sum(same_outcome(*pair, values_only=True) for pair in wrong)
                shares[one] = agreed / max(1, len(wrong))
        known[lesson, exercise] = {one: share for one, share in shares.items() if share >= 0.5}
    return known[lesson, exercise]


def _agreeing(subject: Evaluator, lesson: str, exercise: str) -> tuple[Misconception, ...]:
    """Misconceptions that agree with the subject on every probe.

    First those of a neighbour in which the subject has made just this mistake, then those of the exercise itself.
    """
    known = _AGREEING.setdefault(subject, {})
    if (lesson, exercise) not in known:
        # Who is right on every example cannot have gone wrong in a neighbour that the examples go through.
        may_be_neighbour = not _is_right(subject, lesson, exercise)
        agreeing = [
            one
            for one in misconceptions(lesson)
            if (one.exercise == exercise or (may_be_neighbour and not _is_right(subject, lesson, one.exercise)))
            and _agrees(subject, lesson, one, exercise)
        ]

        def place(one: Misconception) -> int:
            return 1 if one.exercise == exercise else 0 if _agrees(subject, lesson, one, one.exercise) else 2

        known[lesson, exercise] = tuple(sorted(agreeing, key=place))
    return known[lesson, exercise]


def _is_right(subject: Evaluator, lesson: str, exercise: str) -> bool:
    """Whether the subject answers every probe of an exercise as the reference does."""
    return all(map(same_outcome, _probed(subject, lesson, exercise), _probed(_reference(), lesson, exercise)))


def _agrees(subject: Evaluator, lesson: str, one: Misconception, exercise: str) -> bool:
    """Whether subject and misconception answer every probe of an exercise alike; most are told by the first."""
    answers = _probed(subject, lesson, exercise)
    return bool(answers) and all(
        same_outcome(mine, _answer_of(lesson, one, exercise, i)) for i, mine in enumerate(answers)
    )


@cache
def _reference() -> Evaluator:
    return solutions()


@cache
def evaluator_of(lesson: str, one: Misconception) -> Evaluator:
    """The reference with a misconception in it."""
    if isinstance(one.change, Change):
        path, source = changed_source(lesson, one)
        return solutions_changed(lesson, {path: source})
    return solutions_with(lesson, one.exercise, one.change)


def answers_of(lesson: str, one: Misconception, exercise: str) -> tuple[Outcome, ...]:
    """What a misconception answers to the probes of an exercise."""
    return tuple(_answer_of(lesson, one, exercise, i) for i in range(len(probes(lesson, exercise))))


@cache
def _answer_of(lesson: str, one: Misconception, exercise: str, index: int) -> Outcome:
    return evaluator_of(lesson, one).evaluate(probes(lesson, exercise)[index])


_AGREEING: WeakKeyDictionary[Evaluator, dict[tuple[str, str], tuple[Misconception, ...]]] = WeakKeyDictionary()
_PARTLY: WeakKeyDictionary[Evaluator, dict[tuple[str, str], dict[Misconception, float]]] = WeakKeyDictionary()
_PROBED: WeakKeyDictionary[Evaluator, dict[tuple[str, str], tuple[Outcome, ...]]] = WeakKeyDictionary()


def _probed(subject: Evaluator, lesson: str, exercise: str) -> tuple[Outcome, ...]:
    """What the subject answers to the probes of an exercise, asked once."""
    known = _PROBED.setdefault(subject, {})
    if (lesson, exercise) not in known:
        known[lesson, exercise] = tuple(subject.evaluate(probe) for probe in probes(lesson, exercise))
    return known[lesson, exercise]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
