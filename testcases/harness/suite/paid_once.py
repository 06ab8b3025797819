"""A mistake is paid once: an exercise that is right with the solution's version of what it calls keeps its points.

The student's files are loaded again, with the solution's text in place of each function of the lesson that is wrong and
that the exercise goes through: one that stands before it, or that the solution calls there, so that no process that is
asked for an exercise holds its answer. Then the exercise has to pass all of its tests. And it has to call them: where a
call gives shifted numbers, its answer has to move, or the mistake was copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..catalog import SOLUTIONS, read_lesson
from ..diagnosis.code import Function, definition, exercises_named_in
from ..diagnosis.parts import same_outcome
from ..execution.executor import Executor
from ..oracle.reference import examples

if TYPE_CHECKING:
    from .session import Engine

SHIFTED = """
def _shifted(function):
    def shift(value):
        if isinstance(value, bool):
            return not value
        if str(getattr(value, "dtype", "")) == "torch.bool":
            return ~value
        if isinstance(value, dict):
            return {name: shift(part) for name, part in value.items()}
        if isinstance(value, tuple):
            parts = [shift(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value + 1 if hasattr(value, "__add__") and not isinstance(value, (list, str)) else value

    return lambda *args, **options: shift(function(*args, **options))


"""


def right_with(engine: Engine, lesson: str, exercise: str, called: Sequence[str]) -> tuple[str, ...]:
    """The exercises whose mistakes are all that is wrong with this one, of those of its lesson that it names; none if
    it has one of its own."""
    # A later one may do the same as a part of its own: whoever calls that would be given the answer.
    exercises = [*read_lesson(lesson).exercises]
    below = {*exercises[: exercises.index(exercise)], *exercises_named_in(engine.reference, lesson, exercise)}
    wrong = [name for name in called if name in below and engine.first_verdict(engine.subject, lesson, name)]
    repaired = _with_solutions(engine.subject, lesson, wrong) if wrong else None
    if repaired is None:
        return ()
    is_right = engine.first_verdict(repaired, lesson, exercise) is None
    moved = _really_called(engine, repaired, lesson, exercise, wrong) if is_right else ()
    repaired.finish()
    at_fault = tuple(name for name in moved if len(moved) == 1 or _is_wrong_itself(engine, lesson, name, wrong))
    return at_fault or moved


def _is_wrong_itself(engine: Engine, lesson: str, name: str, wrong: Sequence[str]) -> bool:
    """Whether one of them stays wrong with the solution's version of the others."""
    repaired = _with_solutions(engine.subject, lesson, [one for one in wrong if one != name])
    if repaired is None:
        return True
    verdict = engine.first_verdict(repaired, lesson, name)
    repaired.finish()
    return verdict is not None


def _really_called(
    engine: Engine, repaired: Executor, lesson: str, exercise: str, wrong: Sequence[str]
) -> tuple[str, ...]:
    """Those whose answers move that of the exercise."""
    asked, found = examples(lesson, exercise), []
    before = [repaired.run(one) for one in asked]
    for name in wrong:
        repaired.finish()
        shifted = _with_solutions(engine.subject, lesson, wrong, shifted=name)
        if shifted is None:
            continue
        pairs = zip(asked, before, strict=True)
        if any(not same_outcome(shifted.run(one), answer, values_only=True) for one, answer in pairs):
            found.append(name)
        shifted.finish()
    return tuple(found)


def _with_solutions(subject: Executor, lesson: str, names: Sequence[str], shifted: str = "") -> Executor | None:
    """The same files, with the solution's text for some exercises; None where they cannot be put in."""
    texts: dict[str, str] = {}
    for name in names:
        file = read_lesson(lesson).file_of(name)
        own = texts.get(file) or subject.text(lesson, file)
        text = _replaced(own, (SOLUTIONS / lesson / file).read_text("utf-8"), name, name == shifted)
        if text is None:
            return None
        texts[file] = text
    subject.finish()
    return subject.with_texts({f"{lesson}/{file}": text for file, text in texts.items()})


def _replaced(own: str, solution: str, name: str, shifted: bool = False) -> str | None:
    """A file with one function from another text; None where either has none, or has it elsewhere."""
    mine, theirs = definition(own, name), definition(solution, name)
    if mine is None or theirs is None or mine.col_offset != theirs.col_offset:
        return None
    top = definition(own, name.partition(".")[0]) or mine
    lines, right = own.splitlines(), solution.splitlines()
    after = ["", "", *SHIFTED.strip().splitlines(), "", "", f"{name} = _shifted({name})"] if shifted else []
    kept = [
        *lines[: _first(mine)],
        *right[_first(theirs) : theirs.end_lineno],
        *lines[mine.end_lineno : top.end_lineno],
    ]
    return "\n".join([*kept, *after, *lines[top.end_lineno :], ""])


def _first(node: Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
