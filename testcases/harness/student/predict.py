"""Numbers that a reader predicts before writing code: asked for one by one, compared at the end.

python -m testcases.harness.student.predict 5
"""

import argparse
import importlib
import tomllib
from dataclasses import dataclass
from typing import Any

import torch

from ..catalog import SOLUTIONS, TESTCASES, Lesson, lesson_names
from ..catalog import lesson as read_lesson
from . import progress

FILE = "predictions.toml"
KEPT = progress.FOLDER / "predictions.json"


@dataclass(frozen=True)
class Prediction:
    """A question whose answer is one number.

    Attributes:
        ask: the question.
        answer: Python for the number, with `torch`, `tensor` (of doubles) and the lesson's public names.
        within: how far from it still counts as right.
        why: what the number says, shown with it.
    """

    ask: str
    answer: str
    within: float
    why: str

    def number(self, lesson: Lesson) -> float:
        """The answer, as the solutions compute it."""
        module = importlib.import_module(f"{SOLUTIONS.name}.{lesson.name}")
        given: dict[str, Any] = {"torch": torch, "tensor": lambda data: torch.tensor(data, dtype=torch.float64)}
        return float(eval(self.answer, given | {name: getattr(module, name) for name in lesson.names}))


def predictions(lesson: Lesson) -> list[Prediction]:
    """Those of a lesson; none where it has no file of them."""
    path = TESTCASES / lesson.name / FILE
    if not path.is_file():
        return []
    return [Prediction(**one) for one in tomllib.loads(path.read_text("utf-8"))["prediction"]]


def asked_for(question: str) -> float | None:
    """The number that is typed; None at the end of the input."""
    while True:
        try:
            text = input(f"{question}\n  your number: ").strip()
        except EOFError:
            return None
        try:
            return float(text.replace(",", "."))
        except ValueError:
            print(f"  expected a number such as -0.5, got {text!r}; a guess is better than nothing")


def compared(lesson: Lesson, given: dict[str, float]) -> str:
    """Each question with the number given and the one computed."""
    lines, right = [], 0
    for place, one in enumerate(predictions(lesson), start=1):
        number = one.number(lesson)
        hit = abs(given[one.ask] - number) <= one.within
        right += hit
        lines += [f"{place}. {one.ask}"]
        lines += [f"   you: {given[one.ask]:g}   computed: {number:.3g}   {'right' if hit else 'not this time'}"]
        lines += [f"   {one.why}"]
    return "\n".join([*lines, f"{right} of {len(given)} right. Which of the others would you have bet on?"])


def ask(lesson: Lesson) -> str:
    """Ask what has no answer yet; compare when all have one."""
    every = predictions(lesson)
    if not every:
        having = [str(read_lesson(name).number) for name in lesson_names() if predictions(read_lesson(name))]
        return f"Lesson {lesson.number} has no predictions; there are some for the lessons {', '.join(having)}."
    kept = progress.read(KEPT)
    given = {one.ask: kept[lesson.name][one.ask] for one in every if one.ask in kept.get(lesson.name, {})}
    for place, one in enumerate(every, start=1):
        if one.ask in given:
            continue
        number = asked_for(f"{place} of {len(every)}. {one.ask}")
        if number is None:
            break
        given[one.ask] = number
        progress.write(KEPT, progress.read(KEPT) | {lesson.name: given})
    if len(given) < len(every):
        return (
            f"\n{len(given)} of {len(every)} are kept; the same command asks for the rest, and then shows all answers."
        )
    return f"\n{compared(lesson, given)}"


@progress.said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make predict LESSON=5", description="Predict numbers, then see them.")
    parser.add_argument("lesson", help='number or folder name, such as "5"')
    print(ask(read_lesson(parser.parse_args().lesson)))


if __name__ == "__main__":
    main()
