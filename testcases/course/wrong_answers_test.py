"""Wrong answers: a suite rejects every one that is listed, and its message names it. Of two kinds that any exercise may
have, some are made here: a NaN that the end of an answer hides, and a look at the first steps alone."""

from functools import cache

import pytest

from testcases.course.students import LESSONS, answer_row
from testcases.course.unseen import failures
from testcases.harness.catalog import SOLUTIONS, headings, read_lesson
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.executor import Executor, solutions_changed
from testcases.harness.oracle.mutations import NamedChange, edit, wrong_answers
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.failures import MAX_LINES

SAMPLE = 40
"""One in so many of the wrong answers is asked what it hears; each is rejected."""
OF_MODELS = ("lesson07", "lesson08", "lesson09", "lesson11", "lesson12")
"""Their questions need a model, so `make test` asks them to the first wrong answer of each exercise alone."""


@cache
def _first(lesson: str, exercise: str) -> NamedChange:
    return next(wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise)


def _is_slow(lesson: str, wrong: NamedChange) -> bool:
    return lesson.startswith(OF_MODELS) and wrong != _first(lesson, wrong.exercise)


WRONG = [
    answer_row(lesson, wrong, *[pytest.mark.slow] * _is_slow(lesson, wrong))
    for lesson in LESSONS
    for wrong in wrong_answers(lesson)
]


@pytest.mark.parametrize("lesson, wrong", WRONG)
def test_a_suite_rejects_the_wrong_answer(lesson: str, wrong: NamedChange):
    assert is_rejected(with_change(lesson, wrong), lesson, wrong.exercise), f"no test of {wrong.exercise} rejects it"


def is_rejected(subject: Executor, lesson: str, exercise: str) -> bool:
    return any(failures(subject, exercise, lesson, explanation=NoExplanation))


@pytest.mark.parametrize("lesson, wrong", WRONG[::SAMPLE])
def test_the_wrong_answer_is_named(lesson: str, wrong: NamedChange):
    """By the first test that fails, in as many lines as a report may have. Where it raises, its exception speaks."""
    first = next(failures(with_change(lesson, wrong), wrong.exercise, lesson))
    assert len(str(first).splitlines()) <= MAX_LINES, str(first)
    assert first.error or first.cause == wrong.name, f"it names {first.cause}:\n{first}"


@pytest.mark.parametrize("lesson", LESSONS)
def test_wrong_answer_says_why_and_where(lesson: str):
    for wrong in wrong_answers(lesson):
        assert "\n" not in wrong.why and 20 <= len(wrong.why) <= 160, f"{wrong.name}: one line of explanation"
        if headings(lesson):
            assert wrong.read in headings(lesson), f"{wrong.name}: the README has no heading {wrong.read!r}"
    names = [wrong.name for wrong in wrong_answers(lesson)]
    assert len(names) == len(set(names)), "two wrong answers of one name"


SHOWS_NAN = [(1, "masked_mean"), (4, "compute_gae"), (11, "merge_statistics")]
"""Some of the exercises whose docstring promises to show the NaN of a real token: contract_test.py asks it of all."""
NAN_TO_0 = """

def without_nan(answer):
    if isinstance(answer, torch.Tensor) and answer.is_floating_point():
        return answer.masked_fill(answer.isnan(), 0.0)
    if isinstance(answer, dict):
        return {{name: without_nan(part) for name, part in answer.items()}}
    if isinstance(answer, tuple):
        parts = [without_nan(part) for part in answer]
        return type(answer)(*parts) if hasattr(answer, "_fields") else tuple(parts)
    return 0.0 if isinstance(answer, float) and answer != answer else answer


{name}_as_it_is = {name}


def {name}(*arguments, **named):
    return without_nan({name}_as_it_is(*arguments, **named))
"""
SHORT = {
    (1, "truncate_after_stop"): (
        "~response_mask(responses, stop_token_ids)",
        "~response_mask(responses, stop_token_ids) & (torch.arange(responses.shape[1]) < 100)",
    ),
    (3, "rewards_to_go"): ("gamma * to_go_t", "gamma * (t % 100 > 0) * to_go_t"),
    (4, "n_step_advantages"): ("range(min(n, ", "range(min(n, 100, "),
    (4, "compute_response_gae"): ("packed_values =", "dones[:, 100::100] = True; packed_values ="),
    (6, "penalize_missing_stop"): ("is_stop(responses,", "is_stop(responses[:, :100],"),
}
"""Exercise -> an edit of its solution with which it looks at a hundred steps or columns only."""


@pytest.mark.slow
@pytest.mark.parametrize("number, exercise", SHOWS_NAN)
def test_a_nan_made_0_at_the_end_is_rejected(number: int, exercise: str):
    lesson = read_lesson(str(number))
    file = f"{lesson.name}/{lesson.file_of(exercise)}"
    text = (SOLUTIONS / file).read_text("utf-8") + NAN_TO_0.format(name=exercise)
    assert is_rejected(solutions_changed({file: text}), lesson.name, exercise)


@pytest.mark.slow
@pytest.mark.parametrize("number, exercise", SHORT)
def test_a_look_at_a_hundred_steps_is_rejected(number: int, exercise: str):
    lesson = read_lesson(str(number)).name
    change = NamedChange(exercise, "short", "", "", edit(" => ".join(SHORT[number, exercise])))
    assert is_rejected(with_change(lesson, change), lesson, exercise)
