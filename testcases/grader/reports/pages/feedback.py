"""What students get back: each one's page and comments, also in the layout that Moodle takes.

- feedback/students/<name>/: feedback.html and FEEDBACK.md, for each submission
- feedback/moodle.zip: Assignment, View all submissions, Upload multiple feedback files in a zip
- feedback/github/<repository>/FEEDBACK.md: copy it into the repository of that name, and commit it

Moodle knows whose a file is by the name that the export gave it.
"""

import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ppo_by_hand.core.files import write_text

from ...status import MISSING, NOT_STARTED, PASSED
from ..marks import ExerciseMarks, MarkSheet, clean, clean_lines, points
from .pages import WORDS, student_page

PAGE, TEXT = "feedback.html", "FEEDBACK.md"
DATE = (2020, 1, 1, 0, 0, 0)
"""The same feedback gives the same bytes."""


class Feedback:
    """All feedback of a batch; that of an earlier one goes."""

    def __init__(self, folder: Path, sheets: Sequence[MarkSheet], title: str) -> None:
        self.folder, self.title = folder, title
        shutil.rmtree(folder, ignore_errors=True)
        self._often = Counter(name for sheet in sheets for name in [_place(sheet)] if name)
        self._moodle: dict[str, str] = {}

    def add(self, sheet: MarkSheet) -> list[Path]:
        """That of one submission. Where two would have the same place in an export, neither is in it."""
        page, text = student_page(sheet, self.title), markdown(sheet, self.title)
        own = self.folder / "students" / sheet.page
        written = [write_text(own / PAGE, page), write_text(own / TEXT, text)]
        name = _place(sheet)
        if self._often[name] != 1:
            return written
        if sheet.system == "repository":
            return [*written, write_text(self.folder / "github" / name / TEXT, text)]
        self._moodle[name] = page
        return written

    def moodle(self) -> list[Path]:
        """The zip for Moodle, if anybody handed in there."""
        if not self._moodle:
            return []
        path = self.folder / "moodle.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, page in self._moodle.items():
                info = zipfile.ZipInfo(name, DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, page)
        return [path]


def _place(sheet: MarkSheet) -> str:
    """What a system knows a submission's feedback by; empty where none does."""
    if sheet.system == "Moodle":
        return f"{_safe(sheet.student)}/{PAGE}"
    return _safe(sheet.student) if sheet.system == "repository" else ""


def markdown(sheet: MarkSheet, title: str) -> str:
    """The page as a text. What came from a student is indented: nothing in it is markup."""
    lines = [f"# {_plain(title)}", ""]
    if sheet.mark is None:
        lines += ["No mark: this was not graded. It is not a mark of 0.", ""]
    elif sheet.score is not None:
        lines += [f"**{points(sheet.score)} of {points(sheet.max_score or 0)} points**", ""]
    if sheet.adjustments.given:
        lines += ["Your instructor gave this mark.", ""]
    for comment in sheet.adjustments.comments:
        lines += [_indented(comment), ""]
    lines += [f"    {note}" for note in (*sheet.flags, *sheet.notes)]
    for lesson in sheet.lessons if sheet.mark is not None else ():
        lines += ["", f"## {_plain(lesson.short)}: {points(lesson.score)} of {points(lesson.max_score)}", ""]
        for exercise in lesson.exercises:
            lines += _exercise(exercise)
    return "\n".join(lines).rstrip() + "\n"


def _exercise(exercise: ExerciseMarks) -> list[str]:
    score = f"{points(exercise.score)} of {points(exercise.max_score)}"
    by = " (points by your instructor)" if exercise.given else ""
    lines = [f"- `{exercise.name}`: {score}, {WORDS[exercise.status]}{by}"]
    more = [f"  Likely cause: {_plain(exercise.likely_cause.told)}"] if exercise.likely_cause else []
    more += ["", *(_indented(comment, 6) for comment in exercise.comments), ""] if exercise.comments else []
    if exercise.told and exercise.status not in (PASSED, NOT_STARTED, MISSING):
        more += ["", _indented(exercise.told, 6), ""]
    return lines + more


def _indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in clean_lines(text).split("\n"))


def _plain(text: str) -> str:
    """Text of ours and of the instructor's in which no letter is markup."""
    return re.sub(r"([\\`*_\[\]<>#|!~])", r"\\\1", clean(text))


def _safe(name: str) -> str:
    """The name as it was exported, but no path, and without the half characters that stand for bytes of another
    encoding: no zip takes them."""
    return re.sub(r"[/\\\x00-\x1f\ud800-\udfff]", "_", name).lstrip(".") or "_"
