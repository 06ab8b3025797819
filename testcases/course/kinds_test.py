"""Two kinds of wrong answers, made from the solutions: every exercise that they concern has to reject them."""

import ast
import re
from collections.abc import Iterator

import pytest

from testcases.course.students import reference
from testcases.harness.catalog.lessons import SOLUTIONS, regions
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.executor import Executor, solutions_changed
from testcases.harness.oracle.mutations import WrongAnswer, edit
from testcases.harness.oracle.reference import with_change
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

SHOWN = re.compile(r"NaN[^.]*\bshows\b")
"""In the docstring of a file: it holds for all its exercises."""
# "A NaN of a real token shows", in the docstring of the file or of the function.
SHOWS_NAN = {
    "lesson01_masked_sequences/masked.py": [
        "gather_log_probs", "response_log_probs", "token_entropy", "masked_mean", "masked_whiten"],
    "lesson03_policy_gradient/policy_gradient.py": ["rewards_to_go", "leave_one_out_baseline", "reinforce_loss"],
    "lesson04_gae/gae.py": ["td_errors", "gae_ends", "n_step_advantages", "compute_gae", "compute_response_gae"],
    "lesson05_ppo_loss/ppo_loss.py": [
        "clipped_objective", "compute_ppo_loss", "compute_value_loss", "combine_losses", "ppo_statistics",
        "compute_kl_penalty_loss"],
    "lesson06_kl_rewards/kl_rewards.py": ["compute_rewards"],
    "lesson11_scaling/merging.py": ["merge_statistics", "merge_moments", "global_masked_whiten"],
    "lesson13_after_ppo/groups.py": ["group_advantages"],
    "lesson13_after_ppo/losses.py": [
        "clipped_token_losses", "cispo_token_losses", "reduce_losses", "sequence_ratio", "kl_token_losses",
        "truncated_importance_weights"],
}  # fmt: skip
WITHOUT_NAN = {
    "first_true_index", "response_mask", "truncate_after_stop", "position_ids", "update_beta", "plan_microbatches",
    "gradient_weight",
}  # fmt: skip
"""They stand in these files and answer whole numbers or flags, or take no number of a token."""
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
    with Engine(subject, reference=reference(), explanation=NoExplanation).active():
        yield from (f"{case.node}[{case.label}]" for case in cases_of(lesson, exercise) if case.run())


@pytest.mark.slow
@pytest.mark.parametrize("file, name", [(file, name) for file, names in SHOWS_NAN.items() for name in names])
def test_a_nan_made_0_at_the_end_is_rejected(file: str, name: str):
    lesson = file.partition("/")[0]
    text = (SOLUTIONS / file).read_text("utf-8") + NAN_TO_0.format(name=name)
    assert any(rejecting(solutions_changed(lesson, {file: text}), lesson, name))


def test_every_exercise_that_promises_to_show_a_nan_is_asked():
    promising = [
        path
        for path in SOLUTIONS.glob("lesson*/*.py")
        if SHOWN.search(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
    ]
    for path in promising:
        file = path.relative_to(SOLUTIONS).as_posix()
        assert {one.exercise for one in regions(path)} - WITHOUT_NAN == {*SHOWS_NAN.get(file, ())}, file


@pytest.mark.slow
@pytest.mark.parametrize("most", [6, 100])
@pytest.mark.parametrize("number, exercise", SHORT)
def test_a_look_at_a_few_steps_is_rejected(number: int, exercise: str, most: int):
    lesson = read_lesson(str(number)).name
    old, new = SHORT[number, exercise]
    change = WrongAnswer(exercise, "short", "", "", edit(f"{old} => {new.format(most=most)}"))
    assert any(rejecting(with_change(lesson, change), lesson, exercise))
