"""Two kinds of wrong answers, made from the solutions: every exercise that they concern has to reject them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testcases.harness.catalog import SOLUTIONS, read_lesson, regions
from testcases.harness.diagnosis.code import definition
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.executor import Executor, solutions_changed
from testcases.harness.oracle.mutations import WrongAnswer, edit
from testcases.harness.oracle.reference import with_change
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

SHOWN = re.compile(r"NaN[^.]*\bshows\b")
WITHOUT_NAN = {
    "first_true_index", "response_mask", "truncate_after_stop", "position_ids", "update_beta", "plan_microbatches",
    "gradient_weight",
}  # fmt: skip
"""They stand in these files and answer whole numbers or flags, or take no number of a token."""
IN_OTHER_WORDS = {
    "kl_rewards.compute_rewards",
    "merging.merge_statistics",
    "merging.merge_moments",
    "merging.global_masked_whiten",
}


def shows_nan(path: Path) -> Iterator[str]:
    """The exercises of a file which promise it, in the docstring of the file or in their own."""
    text = path.read_text("utf-8")
    for name in (one.exercise for one in regions(path)):
        docs = [ast.get_docstring(one) or "" for one in (ast.parse(text), definition(text, name)) if one]
        if (any(map(SHOWN.search, docs)) and name not in WITHOUT_NAN) or f"{path.stem}.{name}" in IN_OTHER_WORDS:
            yield name


SHOWS_NAN = [(path, name) for path in sorted(SOLUTIONS.glob("lesson*/*.py")) for name in shows_nan(path)]
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

# Exercise -> an edit of its solution with which it looks at so many steps or columns only.
SHORT = {
    (1, "first_true_index"): ("nothing_yet =", "flags = flags.clone(); flags[:, {most}:] = False; nothing_yet ="),
    (1, "response_mask"): ("stops_before = stops", "stops[:, {most}:] = 0; stops_before = stops"),
    (1, "truncate_after_stop"): (
        "~response_mask(responses, stop_token_ids)",
        "~response_mask(responses, stop_token_ids) & (torch.arange(responses.shape[1]) < {most})"),
    (1, "position_ids"): (
        "attention_mask.long()", "attention_mask.long() * (torch.arange(attention_mask.shape[1]) < {most})"),
    (3, "rewards_to_go"): ("gamma * to_go_t", "gamma * (t % {most} > 0) * to_go_t"),
    (4, "gae_ends"): ("gamma * following", "gamma * (t % {most} > 0) * following"),
    (4, "n_step_advantages"): ("range(min(n, ", "range(min(n, {most}, "),
    (4, "compute_gae"): ("gamma * lam * next", "gamma * lam * (t % {most} > 0) * next"),
    (4, "compute_response_gae"): ("packed_values =", "dones[:, {most}::{most}] = True; packed_values ="),
    (6, "compute_rewards"): ("last_token_index(mask)", "last_token_index(mask[:, :{most}])"),
    (6, "penalize_missing_stop"): ("is_stop(responses,", "is_stop(responses[:, :{most}],"),
}  # fmt: skip


def rejecting(subject: Executor, lesson: str, exercise: str) -> Iterator[str]:
    """The tests of an exercise that fail."""
    with Engine(subject, explanation=NoExplanation).active():
        yield from (f"{case.node}[{case.label}]" for case in cases_of(lesson, exercise) if case.run())


@pytest.mark.slow
@pytest.mark.parametrize("path, name", [pytest.param(*row, id=row[1]) for row in SHOWS_NAN])
def test_a_nan_made_0_at_the_end_is_rejected(path: Path, name: str):
    lesson, text = path.parent.name, path.read_text("utf-8") + NAN_TO_0.format(name=name)
    file = path.relative_to(SOLUTIONS).as_posix()
    assert any(rejecting(solutions_changed(lesson, {file: text}), lesson, name))


def test_so_many_exercises_promise_to_show_a_nan():
    assert len(SHOWS_NAN) == 30


@pytest.mark.slow
@pytest.mark.parametrize("number, exercise", SHORT)
def test_a_look_at_a_hundred_steps_is_rejected(number: int, exercise: str):
    lesson = read_lesson(str(number)).name
    old, new = SHORT[number, exercise]
    change = WrongAnswer(exercise, "short", "", "", edit(f"{old} => {new.format(most=100)}"))
    assert any(rejecting(with_change(lesson, change), lesson, exercise))
