"""The engine: views, scenarios, exercises that wait, comparison, and the tools of the way through."""

import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy
import pytest
import torch

from testcases.course.students import FILE, LESSON, replace_body, solved_folder
from testcases.harness.catalog import SOLUTIONS, TUTORIAL, lesson_names, on_the_path, read_lesson
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution import executor
from testcases.harness.execution.messages import Foreign, to_plain
from testcases.harness.oracle.mutations import published_answers
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.compare import first_difference
from testcases.harness.report.errors import Kept
from testcases.harness.report.failures import CheckFailed
from testcases.harness.student import hint, progress, reset, solution
from testcases.harness.student.progress import Result
from testcases.harness.suite.asserts import assert_equal, example, named, value_and_gradients
from testcases.harness.suite.questions import GAPS, NOT_FINITE, if_right
from testcases.harness.suite.runner import Case, by_node, cases, cases_of, entries
from testcases.harness.suite.session import Engine
from tutorial.lesson04_gae import compute_gae, td_errors

EPISODE = {"rewards": [1.0, 3.0], "values": [2.0, 4.0, 8.0], "dones": [0.0, 0.0], "gamma": 0.5}


def test_a_failure_says_what_pytest_expected_in_words():
    def of(test):
        with Engine(executor.InProcess(SOLUTIONS, own=False)).active():
            return str(Case(entries("lesson04_gae")[0], "", test, {}).run())

    def does_not_raise():
        with pytest.raises(ValueError):
            td_errors(**EPISODE)

    def says_something_else():
        with pytest.raises(ValueError, match="moon"):
            td_errors(**{**EPISODE, "gamma": -1.0})

    def made_of_answers():
        assert_equal(td_errors(**EPISODE) + 1.0, [1.0, 3.0])

    def a_plain_assert():
        assert td_errors(**EPISODE).sum() > 9, "a sum above 9"

    assert "did not raise\nexpected ValueError\ngot      [1, 3]" in of(does_not_raise)
    assert "unclear error message\nexpected a message with 'moon'\ngot      expected gamma" in of(says_something_else)
    assert "wrong value\nexpected [1, 3]\ngot      [2, 4]" in of(made_of_answers)
    assert "wrong value\nexpected a sum above 9\ngot      [1, 3]" in of(a_plain_assert)


def test_a_test_that_expects_what_is_wrong_blames_nobody():
    def expects_more():
        assert_equal(td_errors(**EPISODE), [1.01, 3.0])

    with Engine(executor.InProcess(SOLUTIONS, own=False)).active():
        failed = Case(entries(LESSON)[0], "", expects_more, {}).run()
    assert isinstance(failed, CheckFailed) and failed.kind == "wrong value" and not failed.causes, failed


def test_a_cause_in_a_neighbor_is_named(tmp_path: Path):
    folder = solved_folder(tmp_path)
    replace_body(folder, "return rewards + gamma * values[..., 1:] - values[..., :-1]")
    with Engine(executor.InProcess(folder)).active(), pytest.raises(CheckFailed) as failure:
        assert_equal(compute_gae(**{**EPISODE, "dones": [1.0, 0.0]}, lam=0.5), advantages=[-1.0, 3.0])
    assert "`td_errors`, which `compute_gae` calls, isn't right yet.\nThere, nothing is removed at a done" in str(
        failure.value
    )


def test_only_what_is_wrong_itself_is_to_be_repaired(tmp_path: Path):
    """`compute_gae` fails, too, but only because it calls `td_errors`."""
    folder = solved_folder(tmp_path)
    replace_body(folder, "return rewards + gamma * values[..., 1:] - values[..., :-1]")
    with Engine(executor.InProcess(folder), pays_once=True).active() as engine:
        assert engine.right_with(LESSON, "compute_response_gae") == ("td_errors",)


@named("name, about", {"a-gap": ("trl", GAPS), "a-nan": ("verl", NOT_FINITE)})
def test_a_right_formula_hears_what_has_gone_wrong_with_it(name: str, about: str):
    """Of all that is hard in one question: a row with a gap in its mask, and NaN under it."""
    here = LESSON, "compute_response_gae"
    (one,) = [one for one in published_answers(LESSON) if (one.exercise, one.name) == (here[1], name)]
    (case,) = [case for case in cases_of(*here) if case.node.endswith("_agrees_with_the_reference")]
    with Engine(with_change(LESSON, one), explanation=NoExplanation).active():
        assert if_right(case.node, case.run()) == f"Your formula is right; this is about {about}."


def test_what_a_call_prints_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """However often the harness has to ask again to find out who pays for it, and why."""
    folder = solved_folder(tmp_path)
    replace_body(folder, "print('here')\nreturn 2 * rewards")
    with Engine(executor.InProcess(folder), pays_once=True).active(), pytest.raises((CheckFailed, Kept)):
        assert_equal(compute_gae(**EPISODE, lam=0.5), advantages=[1.75, 3.0])
    assert capsys.readouterr().out == "here\n"


SLOW = """import time
end = time.process_time() + 3
while time.process_time() < end:
    pass
return rewards"""
EXIT = """class Exit(Exception):
    pass
raise Exit"""


@named("body, kind", {"time-is-over-while-coverage-traces": (SLOW, "timeout"), "an-own-exit": (EXIT, "raised")})
def test_a_call_that_no_debugger_is_in_ends_in_an_outcome(tmp_path: Path, body: str, kind: str):
    folder, tracing = solved_folder(tmp_path), sys.gettrace()
    replace_body(folder, body)
    with Engine(executor.InProcess(folder)).active() as engine:
        sys.settrace(lambda *_: None)
        try:
            outcome = engine.ask(example(td_errors, **EPISODE, seconds=0.2))
        finally:
            sys.settrace(tracing)
    assert outcome.error and outcome.error.kind == kind


def test_a_plain_tuple_is_as_good_as_a_named_one():
    solved = (SOLUTIONS / LESSON / FILE).read_text("utf-8")
    plain = "\nright = compute_gae\ncompute_gae = lambda *given, **options: tuple(right(*given, **options))\n"
    with Engine(executor.solutions_changed({f"{LESSON}/{FILE}": solved + plain})).active():
        answer, slopes = value_and_gradients(compute_gae, **EPISODE, lam=0.5, wrt="rewards", of="returns")
        assert_equal(answer, advantages=[1.75, 3.0])
        assert_equal(slopes, rewards=[1.0, 1.25])


@pytest.mark.parametrize(
    "expected, got, kind",
    [
        (torch.tensor([1.0]), torch.tensor([math.nan]), "NaN in the answer"),
        (torch.tensor([math.nan]), torch.tensor([math.nan]), "wrong value"),
        (torch.tensor([1.0]), torch.tensor([1.0 + 1e-4]), "wrong value"),
        (torch.tensor([0.0, 2.0]).double(), torch.tensor([1e-7, 2.0]).double(), "wrong value, by rounding"),
        (torch.full((1,), 1e-10).double(), torch.full((1,), -1e-10).double(), "wrong value"),
        (torch.tensor([1.0, math.nan]), torch.tensor([math.nan, math.nan]), "NaN of a real token spread in the answer"),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), "wrong shape"),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), "wrong dtype"),
        (1.0, True, "returned a bool"),
        (1, 1.0, "returned a float"),
        (math.nan, math.nan, "NaN in the answer"),
        ({"a": 1.0}, {"b": 1.0}, "wrong keys"),
        ((1.0, 2.0), [1.0, 2.0], "returned a list of 2"),
    ],
)
def test_comparison_is_exact(expected, got, kind: str):
    found = first_difference(expected, got)
    assert found is not None
    assert found.kind == kind


def test_plain_data_holds_no_live_object():
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    value, tracked = to_plain((torch.ones(2, requires_grad=True) * 2, Odd(), {"a": [1]}, numpy.float64(2.5)))
    assert tracked == ("0",) and not value[0].requires_grad
    assert isinstance(value[1], Foreign) and value[2] == {"a": [1]} and type(value[3]) is float


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `.progress/`."""
    monkeypatch.setattr(progress, "STATE", tmp_path / "tests.json")
    monkeypatch.setattr(hint, "SHOWN", tmp_path / "hints.json")
    monkeypatch.setattr(reset, "FOLDER", tmp_path)
    return tmp_path


def test_hints_come_one_by_one(state: Path):
    lesson, steps = read_lesson("4"), hint.hints("lesson04_gae")["compute_gae"]
    texts = [" ".join(hint.next_hint(lesson, "compute_gae").split()) for _ in range(len(steps) + 1)]
    for count, text in enumerate(texts[:-1], start=1):
        assert all((step in text) == (number <= count) for number, step in enumerate(steps, start=1))
    assert "That was the last hint" in texts[-1]


def test_a_file_that_is_damaged_or_cannot_be_written_is_a_sentence_at_most(
    state: Path, capsys: pytest.CaptureFixture[str]
):
    (state / "hints.json").write_text('{"lesson04_gae.td_errors": "many"}', "utf-8")
    assert "(Hint 1 of " in hint.next_hint(read_lesson("4"), "td_errors")
    (state / "tests.json").mkdir()
    with pytest.raises(SystemExit), progress.said_plainly():
        progress.forget("lesson04_gae")
    assert "Is a directory" in capsys.readouterr().err


def test_a_hint_begins_with_the_remedy_for_what_the_last_run_showed(state: Path):
    (node, *_) = by_node("lesson04_gae")
    keep({node: {"": Result("failed", remedies=("Select with `where`.",))}})
    assert "About your last run: Select with `where`." in hint.next_hint(read_lesson("4"), "td_errors")
    assert "last run" not in hint.next_hint(read_lesson("4"), "compute_gae")


def known(lesson: str, statuses: Mapping[str, str], others: str) -> dict[str, progress.Test]:
    """All tests of a lesson, at the status of their exercise, or at another one."""
    return {e.node: progress.Test(e, {"": Result(statuses.get(e.exercise, others))}) for e in entries(lesson)}


def keep(results: progress.Results, whole: bool = True) -> dict[str, progress.Test]:
    """Put a run's results into what is kept, which it returns."""
    collected = [entry for lesson in {node.partition("/")[0] for node in results} for entry in entries(lesson)]
    progress.keep(progress.merged(progress.so_far(), collected, results, whole))
    return progress.so_far()


def test_progress_keeps_the_worst_case_of_a_function(state: Path):
    node = "lesson04_gae/basic_test.py::test_td_errors_by_hand"
    after = keep({node: {"a": Result("passed"), "b": Result("failed")}})
    assert progress.exercise_status("lesson04_gae", "td_errors", after) == "failed"
    after = keep({node: {"b": Result("passed")}}, whole=False)
    assert {case: one.status for case, one in after[node].cases.items()} == {"a": "passed", "b": "passed"}
    assert "  3/" in progress.bar("lesson04_gae", after)
    assert [*keep({node: {"b": Result("passed")}}, whole=True)[node].cases] == ["b"]


@named(
    "old, new",
    {
        "no-cases": ('"cases"', '"cases": null, "others"'),
        "an-unknown-status": ('"failed"', '"done"'),
        "points-in-quotes": ('"points": 1', '"points": "1"'),
    },
)
def test_progress_forgets_a_test_whose_record_makes_no_sense(state: Path, old: str, new: str):
    known, spoiled = [*by_node("lesson04_gae")][:2]
    keep({known: {"": Result("passed")}, spoiled: {"": Result("failed")}})
    before, node, after = progress.STATE.read_text("utf-8").partition(spoiled)
    progress.STATE.write_text(before + node + after.replace(old, new, 1), "utf-8")
    assert [*progress.so_far()] == [one for one in by_node("lesson04_gae") if one != spoiled]


def test_progress_counts_the_share_that_a_failed_test_earns(state: Path):
    node = "lesson10_bug_hunt/basic_test.py::test_test_compute_gae_accepts_the_right_and_refuses_the_wrong"
    after = keep({node: {"": Result("partly", 0.675)}})
    assert " 10/" in progress.bar("lesson10_bug_hunt", after) and after[node].status == "partly"
    assert "  0/" in progress.bar("lesson10_bug_hunt", keep({node: {"": Result("failed")}}))


def test_next_is_the_exercise_at_fault_not_one_that_calls_it():
    lesson, failed = "lesson04_gae", {"compute_response_gae": "failed", "compute_gae": "failed"}
    assert progress.next_step([lesson], known(lesson, failed, "passed")).startswith("Next: compute_gae, ")
    after = known(lesson, {"compute_response_gae": "failed"}, "passed")
    assert progress.next_step([lesson], after).startswith("Next: compute_response_gae, ")


def test_next_follows_the_text_and_what_failed_comes_first():
    lesson = "lesson08_rollout"
    assert [name for name in progress.left(lesson, {})][:2] == ["sample_token", "generate"]
    after = known(lesson, {"evaluate_responses": "failed"}, "not started")
    assert progress.next_step([lesson], after).startswith("Next: evaluate_responses, ")


def test_the_path_is_the_maps():
    """After lesson 6 comes lesson 2, in what a run says as in the map."""
    text = (TUTORIAL / "README.md").read_text("utf-8").partition("## Your path")[2].partition("**How long")[0]
    linked = dict.fromkeys(re.findall(r"\((lesson\d\d_\w+)/README.md\)", text))
    assert tuple(name for name in linked if name in lesson_names()) == on_the_path(lesson_names())
    said = progress.next_step([lesson := "lesson06_kl_rewards"], known(lesson, {}, "passed"))
    assert said.endswith("Read tutorial/lesson02_reward_model/README.md first.")


def test_solution_shows_ones_own_code_and_the_courses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = solved_folder(tmp_path)
    replace_body(folder, "following = values[..., 1:]\nreturn rewards + gamma * following - values[..., :-1]")
    monkeypatch.setattr(solution, "TUTORIAL", folder)
    shown = solution.both(read_lesson("4"), "td_errors")
    assert shown.startswith("td_errors, in gae.py") and "Args:" not in shown
    places = [shown.index(part) for part in ("yours", "following = ", "the course's", "next_values")]
    assert places == sorted(places)
    (folder / "lesson04_gae" / "gae.py").write_text("def td_errors(:", "utf-8")
    with pytest.raises(LookupError, match="tutorial/lesson04_gae/gae.py has no td_errors that can be read"):
        solution.own_code(read_lesson("4"), "td_errors")


def test_reset_keeps_a_copy(state: Path, tmp_path: Path):
    folder = solved_folder(tmp_path / "student")
    (folder / "lesson04_gae" / "README.md").write_text("text", "utf-8")
    (node, *_) = by_node("lesson04_gae")
    keep({node: {"": Result("passed")}})
    kept = reset.reset(read_lesson("4"), folder)
    assert progress.so_far() == {}
    assert kept is not None and "next_values" in (kept / "gae.py").read_text("utf-8")
    assert 'raise NotImplementedError("lesson04: compute_gae")' in (folder / "lesson04_gae" / "gae.py").read_text(
        "utf-8"
    )
    assert (folder / "lesson04_gae" / "README.md").read_text("utf-8") == "text"


OTHERWISE = """

right = rewards_to_go


def rewards_to_go(rewards, mask, gamma={}):
    return right({})
"""


@named(
    "default, arguments, test",
    {
        "another-default": (0.9, "rewards, mask, gamma", "keeps_its_defaults"),
        "answers-in-float64": (1.0, "rewards.double(), mask, gamma", "agrees_with_the_reference"),
        "takes-any-gamma": (1.0, "rewards, mask, min(gamma, 1.0)", "refuses_bad_arguments"),
        "another-answer": (1.0, "rewards, mask, gamma**2", "agrees_with_the_reference"),
    },
)
def test_a_test_that_the_engine_makes_rejects_what_it_is_for(default: float, arguments: str, test: str):
    lesson, path = "lesson03_policy_gradient", "lesson03_policy_gradient/policy_gradient.py"
    text = (SOLUTIONS / path).read_text("utf-8") + OTHERWISE.format(default, arguments)
    made = [case for case in cases(lesson) if case.node.endswith(f"contract_test.py::test_rewards_to_go_{test}")]
    with Engine(executor.solutions_changed({path: text})).active():
        assert any(isinstance(case.run(), CheckFailed) for case in made)
