"""The page of failure messages: the course's own wrong answers, run through its own suites."""

import hashlib
import json
from pathlib import Path

from ppo_by_hand.core.files import write_json
from testcases.harness.catalog.lessons import ROOT, SOLUTIONS, TESTCASES, lesson_names
from testcases.harness.catalog.lessons import lesson as read_lesson

IN_FULL = (1, 3, 4, 5, 6)
ONE_OF = {
    2: "pairwise_loss",
    7: "make_reference",
    8: "sample_token",
    9: "PPOTrainer.compute_loss",
    10: "diagnose",
    11: "plan_microbatches",
    12: "sft_loss",
    13: "group_advantages",
}
"""Those that need torch alone in full, of each other lesson what is fast: all would take half a minute more."""
CACHE = ROOT / "runs" / "book-cache"
INTRODUCTION = """# Failure messages

If an exercise is wrong, `pytest` tells you what it called, what it expected, what came, the likely cause, and where to
read. On this page you see that for one wrong answer to each exercise of the lessons that need only PyTorch, and for one
exercise of every other lesson. The suites made these messages when this book was built. If you haven't touched an
exercise, it's "not started", and it never fails.
"""


def pages() -> dict[str, str]:
    parts = [INTRODUCTION]
    for lesson in lesson_names():
        parts.append(f"## Lesson {read_lesson(lesson).number}\n")
        for exercise, message in _kept(lesson).items():
            parts.append(f"### {exercise}\n\n```text\n{message}\n```\n")
    return {"messages.md": "\n".join(parts)}


def _kept(lesson: str) -> dict[str, str]:
    """From the last build, unless something that could change them has changed since."""
    folders = (TESTCASES / "harness", TESTCASES / lesson, SOLUTIONS / lesson)
    files = [Path(__file__), *(path for folder in folders for path in sorted(folder.glob("*.py")))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    kept = CACHE / f"{lesson}-{digest}.json"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        for stale in kept.parent.glob(f"{lesson}-*.json"):
            stale.unlink()
        made = _messages(lesson)
        write_json(kept, made)
    return json.loads(kept.read_text("utf-8"))


def _messages(lesson: str) -> dict[str, str]:
    from testcases.harness.oracle.mutations import wrong_answers
    from testcases.harness.oracle.reference import shared_reference
    from testcases.harness.report.failures import CheckFailed
    from testcases.harness.suite.runner import cases_of
    from testcases.harness.suite.session import Engine

    made, about = {}, read_lesson(lesson)
    for exercise in about.exercises if about.number in IN_FULL else [ONE_OF[about.number]]:
        wrong = next(wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise)
        with Engine(shared_reference().changed(lesson, wrong)).active():
            verdicts = (case.run() for case in cases_of(lesson, exercise))
            made[exercise] = str(next(verdict for verdict in verdicts if isinstance(verdict, CheckFailed)))
    return made
