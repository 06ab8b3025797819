"""Files that `make dispute` wrote: does the disputed test fail here as well, with the code that was graded?"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.student import MAX_BYTES, Dispute, read_dispute

from ..intake import Submission, Unreadable, find, printable, read_file, read_submission
from ..status import ABSENT, PASSED
from .assignment import asked_for
from .batch import Batch, grade_one


def decisions(folder: Path, batch: Batch, submissions: Path | None = None) -> Iterator[str]:
    """A line for each file of the folder.

    Args:
        submissions: where the code that was graded is; without it any code may be in a dispute.

    Raises:
        NotADirectoryError: it is no folder.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"DISPUTES: expected a folder, got {str(folder)!r}")
    graded = _handed_in(submissions) if submissions else None
    for path in sorted(folder.glob("*.md")):
        try:
            dispute = read_dispute(path.name, read_file(path, MAX_BYTES))
        except (Unreadable, ValueError) as error:
            yield printable(f"{path.name}: {error}")
        else:
            whose = graded.get((dispute.path, _plain(dispute.code)), []) if graded is not None else []
            said = f"{path.name}: {dispute.exercise}: "
            if graded is not None and not whose:
                yield printable(f"{said}not the code that was graded: nobody handed in this {dispute.path}")
                continue
            said += f"{', '.join(whose)}: " if whose else "whoever sent it may have changed the code since: "
            yield printable(f"{said}{_verdict(dispute, batch)}; it was written with {dispute.made_with}")


def _handed_in(submissions: Path) -> dict[tuple[str, str], list[str]]:
    """Path and text -> whose it is."""
    found: dict[tuple[str, str], list[str]] = {}
    for hand_in in find(submissions):
        for path, data in read_submission(hand_in).files.items():
            found.setdefault((path, _plain(data.decode("utf-8", "replace"))), []).append(hand_in.student)
    return found


def _plain(code: str) -> str:
    return "\n".join(code.removeprefix("\ufeff").splitlines()).rstrip()


def _verdict(dispute: Dispute, batch: Batch) -> str:
    submission = Submission(dispute.exercise, files={dispute.path: dispute.code.encode()})
    lesson = asked_for(lessons=str(read_lesson(dispute.lesson).number))
    result = grade_one(submission, replace(batch, assignment=lesson))
    exercise = result["lessons"][dispute.lesson]["exercises"][dispute.exercise]
    test = next((test for test in exercise["tests"] if dispute.test.endswith(f"/{test['id']}")), None)
    if test is None:
        return f"there is no test {dispute.test} any more"
    name, earned = test["id"].partition("::")[2], f"{exercise['score']} of {exercise['max_score']} points"
    if test["status"] == PASSED:
        return f"does not reproduce: {name} passes here ({earned})"
    if test["status"] in ABSENT:
        return f"{name}: {test['status']}"
    return f"reproduces: {name}: {test['status']} ({earned})"
