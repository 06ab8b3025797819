"""The words of what a diagnosis finds, and nowhere else: for each the idea, which a failing test says, and the remedy,
which a hint adds.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from os.path import commonprefix

from ..catalog import read_lesson, section_for
from ..execution.messages import Call
from .code import words_of
from .values import Cause, Diagnosis, Invariant, Mistake, Named, Repair, Shows, Sign, Step, Twice

SENTENCES: dict[Shows, tuple[str, str]] = {
    Shows.IGNORED: ("`{0}` seems to have no effect on your answer", "look for the place where `{0}` should enter"),
    Shows.NEGATED: ("`{0}` goes into your answer with the wrong sign", "look for a minus at `{0}`"),
    Shows.INVERTED: ("`{0}` is the wrong way round", "what you do where it is False belongs where it is True"),
    Shows.SWAPPED: ("`{0}` and `{1}` have changed places", "swap the two"),
    Shows.EARLY: ("`{0}` is read one step too far ahead", "entry t belongs to step t, so look at the slices"),
    Shows.LATE: ("`{0}` is read one step too far back", "entry t belongs to step t, so look at the slices"),
    Shows.DETACHED: ("the gradient must flow through `{0}`, and it is cut off there", "look for a detach or no_grad"),
    Shows.INVERSE: (
        "`{0}` divides where it should multiply, or multiplies where it should divide",
        "look for a `/` at `{0}`",
    ),
    Shows.SQUARED: ("`{0}` is applied twice", "perhaps a function that you call applies it as well"),
    Shows.MORE: ("your answer is the right one for `{0} + 1`, not for `{0}`", "look for a `+ 1` or a `<=`"),
    Shows.LESS: ("your answer is the right one for `{0} - 1`, not for `{0}`", "look for a `- 1` or a `<`"),
    Shows.ANSWER_NEGATED: ("the sign of your answer is wrong", "look for a minus that is missing, or one too many"),
    Shows.ANSWER_HALVED: ("your answer is half of what it should be", "look for a factor 0.5 or 2"),
    Shows.ANSWER_DOUBLED: ("your answer is twice what it should be", "look for a factor 0.5 or 2"),
    Shows.ANSWER_DETACHED: (
        "your numbers are right, but no gradient flows back from them",
        "look for detach, no_grad, `.item()` and `torch.tensor(...)`",
    ),
    Shows.CHANGED: (
        "your code changes {names} in place, and the caller still needs it",
        "an operation that ends in `_`, a `+=`, or an assignment to a part does it; `.float()`, `.long()` and `.to()` "
        "give the same tensor where there's nothing to convert",
    ),
    Shows.UNDUE: ("a gradient flows into {names}, which should be plain data here", "detach it"),
    Shows.CUT_OFF: (
        "the gradient into {names} is cut off on its way",
        "look for detach, no_grad, `.item()` and `torch.tensor(...)`",
    ),
    Shows.FLAT: (
        "no gradient arrives at {names}, because on its way it's multiplied by 0, clamped or rounded",
        "follow the numbers from {names} to the answer",
    ),
    Shows.NAN_IN_GRADIENT: (
        "NaN is left out of the value only after it was computed, so it's still in the gradient",
        "select first with `where` or a mask, then compute",
    ),
    Shows.NAN_HIDDEN: (
        "the NaN of a real token has vanished, and it should show in the answer",
        "nan_to_num, nansum, a comparison (False for NaN) and Python's min and max hide it",
    ),
    Shows.OTHER_DTYPE: ("the answer has the dtype {0}, and it should be {1}", "convert where the numbers are made"),
    Shows.DIGITS_LOST: (
        "it's right in float64 but not in {0}, because digits are lost on the way",
        "convert 16 bits to float32 before you compute; use expm1, log1p or logsumexp where equal numbers cancel",
    ),
    Shows.OVERFLOWS: (
        "exp of a large number is infinite (above 88 in float32)",
        "subtract the largest first, or use logsumexp, log_softmax or logsigmoid",
    ),
    Shows.NAN_MADE: (
        "your answer is NaN although no argument is, so something in it is 0 / 0 or infinity minus infinity",
        "look at each division, and at what it divides by where there's only one token",
    ),
    Shows.A_NUMBER: (
        "this is a Python number, and no gradient passes through one",
        "`.item()`, `float()` and Python's arithmetic make one of a tensor",
    ),
    Shows.A_TENSOR: ("this is a tensor, and it should be a Python number", "`.item()` makes one"),
    Shows.SQUEEZED: (
        "a dimension of size 1 is gone, and your answer should keep the shape {0}",
        "`squeeze()` takes away every dimension of size 1, so name the one you mean, as in `squeeze(-1)`",
    ),
    Shows.PADDING_ENTERS: (
        "padding enters, because one more column where `{0}` is False changes your answer",
        "select the real tokens first, then compute",
    ),
    Shows.ROWS_MIXED: (
        "the rows of the batch get mixed up, because their order changes their answers",
        "look at each reshape, view, repeat and index: every row needs its own numbers",
    ),
    Shows.RAISED: ("{0}", "{1}"),
    Shows.NOT_IMPORTED: ("your file doesn't import `{0}`", "write `{1}` at its top"),
    Shows.UNKNOWN_NAME: ("your file has no `{0}`", "look for a typo or a missing import"),
    Shows.MAY_BE_NONE: ("`{0}` may be None, which stands for something of its own", "the docstring says for what"),
    Shows.LEFT_OUT: (
        "something is None here, such as an optional argument or the answer of a function without `return`",
        "print what you use in this line",
    ),
    Shows.ONE_ENTRY: (
        "the sizes of two tensors differ by one",
        "one of them needs a slice, `[..., :-1]` or `[..., 1:]`",
    ),
    Shows.ONE_PAST: ("an index runs one past the end", "indices end at size - 1; perhaps `t + 1` is read at the end"),
}


def causes_of(diagnosis: Diagnosis, exercise: str) -> list[tuple[str, str]]:
    """What a failing test says, the idea, in two sentences at most: each with the words that stand before it in a
    report."""
    found = [("", _of_twice(diagnosis.twice))] if diagnosis.twice else []
    ideas = [one for one in diagnosis.causes if not isinstance(one, Repair)]
    step = next((one.step for one in diagnosis.causes if isinstance(one, Repair)), None)
    if diagnosis.inside:
        last = "." if diagnosis.causes else ". Fix it first."
        found.append((HEAD, f"`{diagnosis.inside}`, which `{exercise}` calls, isn't right yet{last}"))
    there, head = "There, " if diagnosis.inside else "", ""
    for cause in ideas or diagnosis.causes:
        first = "Must hold:" if isinstance(cause, Invariant) else HEAD
        if isinstance(cause, Named | Repair) and not cause.is_all:
            several = isinstance(cause, Named) and len(cause.mistakes) > 1
            first = f"{'Two' if several else 'One'} of several causes:"
        for idea in _ideas(cause):
            found.append((head or ("" if there else first), f"{there}{idea.rstrip('.')}."))
            head, there = "And:", ""
    if ideas and step:
        head, said = found[-1]
        found[-1] = head, f"{said} See line {step.line}."
    return found


HEAD = "Likely cause:"
LETTERS = f"{string.ascii_letters}{string.digits}_ "
SHOWN = 60
"""Characters of a student's code that a sentence shows."""


def remedies_of(diagnosis: Diagnosis) -> list[str]:
    """What a hint adds: what to do about each cause."""
    found = [remedy for cause in diagnosis.causes for remedy in _remedies(cause) if remedy]
    # Code, such as nan_to_num, keeps its small letter.
    return [f"{one if {*'_=('} & {*one.split()[0]} else one[:1].upper() + one[1:]}." for one in found]


def section_of(diagnosis: Diagnosis, asked: Call, said: Sequence[str] = ()) -> str:
    """What to read, where the report has `said` this."""
    listed = diagnosis.listed
    heading = listed.read if listed else section_for(asked.lesson, asked.exercise, "\n".join(said))
    return f'tutorial/{asked.lesson}/README.md, "{heading}"'


def advice_of(causes: Sequence[tuple[str, str]], read: str, asked: Call) -> list[str]:
    """The end of a report: these causes, what to read, and how to ask for a hint."""
    hint = f"make hint LESSON={read_lesson(asked.lesson).number} EXERCISE={asked.exercise}"
    return [*(f"{head} {said}".lstrip() for head, said in causes), f"Read: {read}", f"Hint: {hint}"]


def _of_twice(twice: Twice) -> str:
    *first, last = map(str, twice.lines)
    many = "twice" if len(twice.lines) == 2 else f"{len(twice.lines)} times"
    return (
        f"Your file defines `{twice.name}` {many}, in lines {', '.join(first)} and {last}. "
        "Python runs the last one, so that's the one we tested."
    )


def _ideas(cause: Cause) -> list[str]:
    if isinstance(cause, Named):
        return [_of_mistake(one)[0] for one in cause.mistakes]
    if isinstance(cause, Sign):
        return [_of_sign(cause)[0]]
    if isinstance(cause, Invariant):
        return [cause.text]
    return [_of_repair(cause)]


def _remedies(cause: Cause) -> list[str]:
    if isinstance(cause, Named):
        return [_of_mistake(one)[1] for one in cause.mistakes]
    if isinstance(cause, Sign):
        return [_of_sign(cause)[1]]
    if isinstance(cause, Repair):
        one = cause.step
        old, new = _around(one.old, one.new), _around(one.new, one.old)
        written = f"in line {one.line}, write `{new}` instead of `{old}`"
        return [written if new else f"leave out `{old}` in line {one.line}"]
    return []


def _of_mistake(mistake: Mistake) -> tuple[str, str]:
    """A named one has its remedy behind its last semicolon."""
    if mistake.sign:
        return _of_sign(mistake.sign)
    idea, _, remedy = (mistake.wrong.why if mistake.wrong else "").partition("; ")
    return idea.rstrip("."), remedy.rstrip(".")


def _of_sign(sign: Sign) -> tuple[str, str]:
    names = [f"`{one}`" for one in sign.about]
    words = {"names": " and ".join(names), "bare": ", ".join(map(str, sign.about))}
    idea, remedy = (one.format(*sign.about, **words) for one in SENTENCES[sign.shows])
    if sign.shows is Shows.UNKNOWN_NAME and sign.about[1]:
        return f"{idea}, but it has `{sign.about[1]}`", remedy
    return idea, remedy


def _of_repair(repair: Repair) -> str:
    step, then = repair.step, "every test passes" if repair.is_all else "more numbers are right"
    place = f"line {step.line}, `{_around(step.old, step.new)}`, isn't right yet{_wrong_words(step)}"
    return f"{place}. With one change there, {then}"


def _around(text: str, other: str) -> str:
    """So much of a piece of code as is shown: the part where the other begins to differ."""
    if len(text) <= SHOWN:
        return text
    differs = len(commonprefix([text, other]))
    if differs < SHOWN // 2:
        return f"{text[: SHOWN - 4]} ..."
    first = min(differs - SHOWN // 2, len(text) - SHOWN + 4)
    first = differs - len(text[first:differs].lstrip(LETTERS))  # between two words
    last = first + SHOWN - 8
    return f"... {text[first:last]} ..." if last + 4 < len(text) else f"... {text[first:]}"


def _wrong_words(step: Step) -> str:
    """What is too much there, if that is a word or two."""
    gone = words_of(step.old) - words_of(step.new)
    come = words_of(step.new) - words_of(step.old)
    words = [*gone]
    if not words and come:
        return ", because something is missing there"
    if not 0 < len(words) <= 2 or not step.new or words_of(step.old).total() <= len(words):
        return ""
    if come or words[0].isidentifier():
        said = " and ".join(f"`{word}`" for word in words)
        return f": look at {said}" if come else f": {said} {'is' if len(words) == 1 else 'are'} too much"
    return f": `{' '.join(words)}` is too much"
