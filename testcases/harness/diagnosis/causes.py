"""What a diagnosis finds, as values, and the lines that say it: nothing else makes a sentence of a cause."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..catalog import lesson as read_lesson
from ..catalog import section_for
from ..execution import Request
from ..oracle import WrongAnswer
from .evidence import Evidence, Part, Place
from .hypotheses import Hypothesis, Repair


@dataclass(frozen=True)
class Listed:
    """A wrong answer of the bank gives this one, and so many of the wrong examples."""

    wrong: WrongAnswer
    count: int = 0
    most: int = 0
    is_whole: bool = True
    """Whether it gives the student's values on every example."""


@dataclass(frozen=True)
class Partial:
    """What gives this answer and those to questions like it, or one of two that do; or so many of the wrong ones."""

    of: tuple[Hypothesis, ...]
    count: int = 0
    most: int = 0
    is_here: bool = True
    """Whether it gives the part of the answer that is shown."""

    @property
    def text(self) -> str:
        share = f"in {self.count} of {self.most} wrong answers, " if self.count < self.most else ""
        lead = share if self.most else "in questions like this one, "
        return lead + " Or ".join(one.change for one in self.of)


@dataclass(frozen=True)
class Location:
    """On which questions, in which part, at which places, by how much; or in which other exercise."""

    told: tuple[Evidence, ...]

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is in another exercise."""
        return any(one.kind in (Place.OTHER_RIGHT, Place.OTHER_RAISES) for one in self.told)

    @property
    def text(self) -> str:
        return "; ".join(one.text for one in self.told)


@dataclass(frozen=True)
class Repaired:
    """One edit of a student's code, or two, with which so many of the wrong examples are right."""

    repairs: tuple[Repair, ...]
    count: int
    most: int
    is_whole: bool
    """Whether these are all, and the exercise then passes each of its tests."""

    @property
    def text(self) -> str:
        kinds = "; ".join(f"line {one.line}, `{one.shown}`: {one.kind}" for one in self.repairs)
        many = "two mistakes: " if len(self.repairs) > 1 else ""
        if self.is_whole:
            return f"{many}{kinds} (changed there, this answer is right)"
        if self.repairs[0].is_idiom:
            return f"{many}{kinds}"
        place, share = f"line {self.repairs[0].line}, `{self.repairs[0].shown}`", f"{self.count} of {self.most}"
        return f"something in {place}: changed there, {share} wrong answers are right"


@dataclass(frozen=True)
class InParts:
    """A listed wrong answer that gives these parts of the answer, in so many of the wrong ones."""

    wrong: WrongAnswer
    is_here: bool
    """Whether it gives a part of the answer that is shown."""
    parts: tuple[Part, ...]
    count: int
    most: int

    @property
    def text(self) -> str:
        told = [f"{part:plain}" for part in self.parts if part.name]
        told = told if len(told) <= MOST_PARTS else [*told[:MOST_PARTS], "others"]
        said = f"{' and '.join([', '.join(told[:-1]), told[-1]] if len(told) > 1 else told)} in " if told else ""
        return f"{self.wrong.name}: {self.wrong.why} (explains {said}{self.count} of {self.most} wrong answers)"


@dataclass(frozen=True)
class Invariant:
    """What a right repair of a suspect keeps, and this one breaks: said where no cause is known."""

    text: str


@dataclass(frozen=True)
class Twice:
    """A file defines a function more than once, and the last one counts."""

    name: str
    lines: tuple[int, ...]

    @property
    def text(self) -> str:
        *first, last = map(str, self.lines)
        many = "twice" if len(self.lines) == 2 else f"{len(self.lines)} times"
        return (
            f"Your file defines `{self.name}` {many}, in lines {', '.join(first)} and {last}. "
            "Python runs the last one, so that's the one we tested."
        )


def _line(sentences: Sequence[str]) -> str:
    """With a full stop after each that is no question, but the last."""
    *first, last = sentences
    return " ".join([*(one if one.endswith("?") else f"{one}." for one in first), last])


Cause = Listed | Hypothesis | InParts | Evidence | Partial | Repaired | Location | Invariant
MOST_PARTS = 3
"""So many are named."""


@dataclass(frozen=True)
class Diagnosis:
    """What is said about a wrong answer: a listed cause, else general ones, else what it shows or where it differs."""

    causes: tuple[Cause, ...] = ()
    twice: Twice | None = None
    """Said first: who reads the other one does not understand the rest."""

    @property
    def listed(self) -> WrongAnswer | None:
        return next((one.wrong for one in self.causes if isinstance(one, Listed)), None)

    @property
    def _share(self) -> str:
        shares = ((one.count, one.most) for one in self.causes if isinstance(one, Listed) and one.count < one.most)
        return next((f"in {count} of {most} wrong answers, " for count, most in shares), "")

    @property
    def is_found(self) -> bool:
        """Whether it is known what gives this answer."""
        return any(isinstance(one, Listed | Hypothesis | InParts | Repaired) for one in self.causes)

    def lines(self, exercise: str) -> list[str]:
        """The cause, below what has to be known before it."""
        return [*([self.twice.text] if self.twice else []), *self._lines_of_causes(exercise)]

    def _lines_of_causes(self, exercise: str) -> list[str]:
        """A listed cause stands alone; hypotheses are alternatives; beside evidence, a repair only tells the line."""
        if self.listed:
            place = "" if self.listed.exercise == exercise else f"in {self.listed.exercise}, which {exercise} uses: "
            return [f"Likely cause: {self._share}{place}{self.listed.name}: {self.listed.why}"]
        gives, lines = f"Likely cause: this is what `{exercise}` gives", list[list[str]]()  # A line is sentences.
        for cause in self.causes:
            match cause:
                case Hypothesis(text=text):
                    lines[-1:] = [[*lines[-1], f"Or {text}"] if lines else [f"{gives} {text}"]]
                case Partial(text=text, is_here=False):
                    lines.append([f"Elsewhere: {text}"])
                case Evidence(text=text) | Partial(text=text) if lines:
                    lines[-1].append(f"{text[:1].upper()}{text[1:]}")
                case Repaired(repairs=(first, *_)) if lines:
                    lines[-1].append(f"See line {first.line}")
                case InParts(text=text, is_here=is_here):
                    head = "And" if is_here and lines else "Likely cause" if is_here else "Elsewhere"
                    lines.append([f"{head}: {text}"])
                case Location(text=text):
                    lines.append([f"Where it differs: {text}"])
                case Invariant(text=text):
                    lines.append([f"Must hold: {text}"])
                case Evidence() | Partial() | Repaired():
                    lines.append([f"Likely cause: {cause.text}"])
        return [_line(one) for one in lines]

    def advice(self, asked: Request, said: Sequence[str] = ()) -> list[str]:
        """What to read, where the report has `said` this, and how to ask for a hint."""
        heading = self.listed.read if self.listed else section_for(asked.lesson, asked.exercise, "\n".join(said))
        return [
            f'Read: tutorial/{asked.lesson}/README.md, "{heading}"',
            f"Hint: make hint LESSON={read_lesson(asked.lesson).number} EXERCISE={asked.exercise}",
        ]
