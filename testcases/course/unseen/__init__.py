"""Answers with mistakes that people made who had seen the stubs and the texts, but neither solution nor bank.

`right` holds an answer of our own to many exercises, written in the same way. A row of singles.toml and drafts.toml is
that answer, or the solution where there is none, with changes in it that no bank lists: the exercise, what a right
cause says (a regular expression; in a draft one for each mistake), and the changes, each `old => new`. Most hear a
right cause. What a person found of the others stands above them: vague, false or silent.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from testcases.harness.catalog import lesson_names, read_lesson, region_text
from testcases.harness.execution.executor import Executor, InProcess
from testcases.harness.oracle.mutations import NamedChange, instead
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

from .right import RIGHT


class Row(NamedTuple):
    name: str
    exercise: str
    words: Sequence[str]
    """For each mistake what a right cause says."""
    body: str
    judged: str
    """heard, vague, false or silent."""

    @property
    def subject(self) -> InProcess:
        return subject_of(self.exercise, self.body)

    def verdict(self, said: str) -> str:
        """What a sentence is worth: right, partly (some of several mistakes), or to be looked at."""
        found = sum(bool(re.search(one, said)) for one in self.words)
        return "right" if found == len(self.words) else "partly" if found else "look" if said else "silent"


def rows(kind: str) -> list[Row]:
    """Of `singles` or `drafts`."""
    groups = tomllib.loads((Path(__file__).parent / f"{kind}.toml").read_text("utf-8"))
    found: list[Row] = []
    for judged, group in groups.items():
        for exercise, words, *changes in group:
            every = [words] if isinstance(words, str) else words
            name = f"{kind[:-1]} {len(found)} {exercise}"
            found.append(Row(name, exercise, every, changed(exercise, changes), judged))
    return found


def changed(exercise: str, changes: Sequence[str]) -> str:
    """Our answer with these changes in it.

    Raises:
        LookupError: what one of them replaces doesn't stand there.
    """
    body = RIGHT.get(exercise) or region_text(lesson_of(exercise), exercise)
    for change in changes:
        old, _, new = change.partition(" => ")
        if old not in body:
            raise LookupError(f"{exercise}: {old!r}")
        body = body.replace(old, new)
    return body


@cache
def lesson_of(exercise: str) -> str:
    return next(name for name in lesson_names() if exercise in read_lesson(name).exercises)


def subject_of(exercise: str, body: str) -> InProcess:
    """The solution, with this answer to one exercise."""
    return with_change(lesson_of(exercise), NamedChange(exercise, "unseen", "", "", instead(body)))


def failures(subject: Executor, exercise: str, lesson: str = "", **options: Any) -> Iterator[CheckFailed]:
    """Of its own tests, one after the other; the options are the engine's. Two lessons have a `merge_moments`."""
    with Engine(subject, **options).active():
        for case in cases_of(lesson or lesson_of(exercise), exercise):
            if isinstance(verdict := case.run(), CheckFailed):
                yield verdict
