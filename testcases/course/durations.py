"""How long the check of each wrong answer took when it was last recorded: python -m testcases.course.durations.

Written to durations.json, in processor seconds, which depend little on what else the machine does. `make test` takes
the quick ones, and of each exercise the quickest; one that is not recorded yet counts as quick.
"""

import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from testcases.harness.oracle.mutations import WrongAnswer, wrong_answers

FILE = Path(__file__).with_suffix(".json")
TEST = "testcases/course/suites_test.py::test_a_suite_rejects_the_wrong_answer"
QUICK = 0.1


@cache
def recorded() -> dict[str, dict[str, float]]:
    """`lesson04_gae.td_errors` -> name of a wrong answer -> seconds."""
    return json.loads(FILE.read_text("utf-8"))


def is_slow(lesson: str, wrong: WrongAnswer) -> bool:
    seconds = recorded().get(f"{lesson}.{wrong.exercise}", {})
    there = {one.name for one in wrong_answers(lesson) if one.exercise == wrong.exercise}
    quickest = min(there, key=lambda name: (seconds.get(name, 0.0), name))
    return seconds.get(wrong.name, 0.0) >= QUICK and wrong.name != quickest


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        began = time.process_time()
        try:
            return (yield)
        finally:
            lesson, wrong = item.callspec.params["lesson"], item.callspec.params["wrong"]
            taken = round(time.process_time() - began, 3)
            self.seconds.setdefault(f"{lesson}.{wrong.exercise}", {})[wrong.name] = taken


def main() -> int:
    clock = _Clock()
    failed = pytest.main([TEST, "--subject=solutions", "-p", "no:randomly"], plugins=[clock])
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in sorted(clock.seconds.items())]
    if not failed:
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
