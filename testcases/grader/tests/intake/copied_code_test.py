"""Which regions are the reference's own."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from testcases.grader.intake import LONG, MY_TESTS, copies, course_files, long_regions
from testcases.grader.tests.reports.data import load_one, read_csv, report, result
from testcases.harness import named_cases
from testcases.harness.catalog import SOLUTIONS, course_lessons
from testcases.harness.oracle import Change, all_stubs, changed_source, right_answers

GAE = "lesson04_gae/gae.py"
SOURCE = (SOLUTIONS / GAE).read_text("utf-8")
NAMES = ("gae_ends", "n_step_advantages", "compute_gae", "compute_response_gae")
ALL = {"regions": [f"lesson04_gae.{name}" for name in NAMES], "of": len(NAMES)}


def test_long_regions_have_more_than_five_statements():
    found = {f"{path}:{exercise}" for path, exercises in long_regions().items() for exercise in exercises}
    assert LONG == 6 and len(found) >= 20
    assert f"{GAE}:compute_gae" in found and f"{GAE}:td_errors" not in found


@pytest.mark.slow
def test_the_solutions_are_copies_and_the_stubs_are_not():
    solutions = copies({path: (SOLUTIONS / path).read_bytes() for path in course_files()})
    assert len(solutions["regions"]) == solutions["of"] == sum(map(len, long_regions().values()))
    assert copies({path: all_stubs()[path].encode() for path in course_files()}) == {"regions": [], "of": 0}


@named_cases(
    "change",
    {
        "as-it-is": lambda text: text,
        "other-names": lambda text: re.sub(r"\b(next_)?advantage\b", r"\1carry", text).replace("delta", "surprise"),
        "other-comments-and-layout": lambda text: text.replace("\n", "  # mine\n\n"),
        "no-marks": lambda text: "\n".join(line for line in text.splitlines() if "region" not in line),
        "trailing-commas": lambda text: text.replace(")", ",)").replace("(,)", "()"),
        "other-ends-of-lines": lambda text: text.replace("\n    ", ";\\\n    "),
        "lines-of-an-old-mac": lambda text: text.replace("\n", "\r"),
        "the-stub-s-error-in-a-comment": lambda text: text + '# "lesson04: compute_gae" is done\n',
        "pass-after-each-statement": lambda text: re.sub(r"(?m)^( +)(\w+ = .*[)\]}\w])$", r"\1\2\n\1pass", text),
        "texts-and-dead-names": lambda text: re.sub(
            r"(?m)^( +)(\w+ = .*[)\]}\w])$", r"\1'so'\n\1dead_\2\n\1\2", text.replace("delta", "surprise")
        ),
        "another-order": lambda text: re.sub(r"(?m)^(    \w+ = .*)\n(    \w+ = .*)$", r"\2\n\1", text),
        "elsewhere": lambda text: "mine = 1\n" + text.replace("def ", "def my_"),
    },
)
def test_names_comments_and_layout_hide_no_copy(change: Callable[[str], str]):
    assert copies({GAE: change(SOURCE).encode()}) == ALL


@named_cases(
    "change",
    {
        "another-computation": ("deltas[..., t] + gamma", "gamma * deltas[..., t]"),
        "two-names-have-become-one": ("next_advantage", "advantage"),
        "another-method": ("advantages.append(advantage)", "advantages.insert(0, advantage)"),
    },
)
def test_another_computation_is_no_copy(change: tuple[str, str]):
    assert change[0] in SOURCE
    found = copies({GAE: SOURCE.replace(*change).encode()})
    assert "lesson04_gae.compute_gae" not in found["regions"] and found["of"] == len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", course_lessons())
def test_no_right_answer_of_the_banks_is_a_copy(lesson: str):
    """Nor is what two people may write alike."""
    for answer in right_answers(lesson):
        if isinstance(answer.change, Change) and not answer.change.first:
            path, text = changed_source(lesson, answer)
            region = f"{lesson}.{answer.exercise}"
            assert region not in copies({path: text.encode()})["regions"], answer.name


def test_a_module_beside_the_lesson_hides_no_copy():
    for module in ("lesson04_gae/mine.py", "lesson04_gae/mine/deep.py", "mine.py"):
        assert copies({GAE: b"from .mine import *", module: SOURCE.encode()}) == ALL
    assert copies({GAE: b"x = 1", "lesson05_ppo_loss/mine.py": SOURCE.encode()}) == {"regions": [], "of": len(NAMES)}


@pytest.mark.parametrize("text", ["", "\x00" * 1000, "'\"\\" * 10_000, "n = n\n" * 20_000, "(" * 100_000, "\ud800"])
def test_any_text_can_be_asked(text: str):
    assert copies({GAE: text.encode("utf-8", "surrogatepass")})["regions"] == []


@pytest.mark.usefixtures("no_figures")
def test_a_copy_is_flagged_by_its_share_and_keeps_its_mark(tmp_path: Path):
    copied = result("ann", copies={"regions": ["lesson04_gae.compute_gae"], "of": 4})
    sheet = load_one(tmp_path, copied)
    assert sheet.all_flags == ("the reference's own: 1 of 4 long regions (25%)",) and sheet.mark == 3
    report(tmp_path)
    (row,) = read_csv(tmp_path / "gradebook.csv")
    assert row["flags"] == sheet.all_flags[0] and row["score"] == "3"
    told = {path.name for path in tmp_path.rglob("*.*") if "1 of 4 (25%)" in path.read_text("utf-8")}
    told |= {path.name for path in tmp_path.rglob("*.*") if sheet.all_flags[0] in path.read_text("utf-8")}
    assert told == {"gradebook.csv", "index.html"}, "for the instructor alone"


def test_tables_of_the_course_s_own_suites_are_no_tests_of_a_student():
    suite = (SOLUTIONS.parent / "testcases/lesson04_gae/basic_test.py").read_bytes()
    assert copies({MY_TESTS: suite})["regions"] == ["lesson10_bug_hunt.my_tests"]
    assert copies({MY_TESTS: (SOLUTIONS / MY_TESTS).read_bytes()})["regions"] != ["lesson10_bug_hunt.my_tests"]
