"""A student may object: one file with their code, the question, both answers and the failure, for the instructor.

python -m testcases.harness.student.dispute 4 compute_gae        (make dispute LESSON=4 EXERCISE=compute_gae)
make check DISPUTES=runs/disputes                       reads such files back and says which fail here as well
"""

import argparse
import json
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from ..catalog import ROOT, TUTORIAL
from ..catalog import lesson as read_lesson
from ..execution import Outcome, student
from ..report import Blocked, NotStarted, as_python, snippet
from ..suite import Engine, cases_of
from .progress import said_plainly

FOLDER = ROOT / "runs" / "disputes"
MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Dispute:
    """The parts of such a file that are read back."""

    lesson: str
    exercise: str
    test: str
    """Node of the test that failed, such as "lesson04_gae/basic_test.py::test_compute_gae_by_hand"."""
    path: str
    """Path of the student's file, below `tutorial/`."""
    code: str
    made_with: str = ""
    """The student's Python and torch."""


def first_failure(engine: Engine, lesson: str, exercise: str) -> tuple[str, str]:
    """Node and text of the first test that fails; `engine.asked` is its question then.

    Raises:
        LookupError: nothing fails, or the exercise is not written yet.
    """
    with engine.active():
        for case in cases_of(lesson, exercise):
            verdict = case.run()
            if isinstance(verdict, (NotStarted, Blocked)):
                raise LookupError(f"{verdict}: there is nothing to dispute yet")
            if verdict is not None:
                return case.node, str(verdict)
    raise LookupError(f"{exercise} passes: there is nothing to dispute")


def written(engine: Engine, lesson: str, exercise: str, folder: Path = TUTORIAL) -> str:
    """The text of the file; of the reference it holds the answer, not the code.

    Raises:
        LookupError: as `first_failure`.
    """
    node, failure = first_failure(engine, lesson, exercise)
    path = f"{lesson}/{read_lesson(lesson).file_of(exercise)}"
    head = {"lesson": lesson, "exercise": exercise, "test": node, "path": path, "seed": engine.seed}
    head |= {"python": platform.python_version(), "torch": torch.__version__}
    code = (folder / path).read_text("utf-8", "replace") if (folder / path).is_file() else ""
    parts = [("json", json.dumps(head, indent=1)), ("The failure", failure)]
    if engine.asked is not None:
        parts.append(("The question", snippet(engine.asked)))
        for title, evaluator in (("Expected", engine.reference), ("Got", engine.subject)):
            parts.append((title, _shown(evaluator.evaluate(engine.asked))))
    parts.append(("The code", code))
    body = [_block("json", text) if title == "json" else f"## {title}\n\n{_block('', text)}" for title, text in parts]
    why = "## Why I think that this is right\n\n(Write it here.)"
    return "\n\n".join([f"# Dispute: {exercise} of {lesson}", body[0], why, *body[1:]]) + "\n"


def _shown(outcome: Outcome) -> str:
    if outcome.error:
        return f"{outcome.error.type_name}: {outcome.error.message}"
    slopes = [f"gradient by {name}: {as_python(slope)}" for name, slope in outcome.gradients.items()]
    return "\n".join([as_python(outcome.value), *slopes])


def _block(kind: str, text: str) -> str:
    """Fenced with more backticks than the text has anywhere in a row."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"


def read_dispute(name: str, data: bytes) -> Dispute:
    """Read what `written` has written; the sender is not trusted.

    Raises:
        ValueError: it is no such file.
    """
    # A regular expression from a beginning to an end tries a file of a hundred thousand beginnings for hours.
    text = "\n" + data.decode("utf-8", "replace").replace("\r\n", "\n")
    head = text.partition("\n```json\n")[2].partition("\n```\n")[0]
    start = re.search(r"\n## The code\n\n(`{3,})\n", text)
    code, end, _ = f"{text[start.end() :]}\n".partition(f"\n{start[1]}\n") if start else ("", "", "")
    try:
        found = json.loads(head)
        lesson = read_lesson(found["lesson"])
        exercise = lesson.exercise(found["exercise"])
        if not end:
            raise ValueError("there is no code")
        made_with = f"Python {found.get('python', '?')}, torch {found.get('torch', '?')}"
        path = f"{lesson.name}/{lesson.file_of(exercise)}"
        return Dispute(lesson.name, exercise, str(found["test"]), path, code, made_with)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{name} is no file that make dispute has written") from None


@said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make dispute LESSON=4 EXERCISE=name", description="Object to a failure.")
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    parser.add_argument("exercise", help='such as "compute_gae"')
    options = parser.parse_args()
    lesson = read_lesson(options.lesson)
    exercise = lesson.exercise(options.exercise)
    text = written(Engine(student(TUTORIAL)), lesson.name, exercise)
    path = FOLDER / f"{lesson.short}-{exercise}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    print(
        f"{path.relative_to(ROOT)}: say in it why you think that your answer is right, and send it to your instructor."
    )


if __name__ == "__main__":
    main()
