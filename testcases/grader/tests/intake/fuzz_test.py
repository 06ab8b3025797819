"""Whatever one submission holds is a matter of that submission alone; of its name see `class_test`."""

import ast
import encodings.aliases
import os
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.intake.exports import find
from testcases.grader.intake.submissions import read_submission, strange_encoding
from testcases.grader.marking.assignment import asked_for
from testcases.grader.marking.batch import Batch, grade_all
from testcases.grader.marking.grade import Grader, Secret
from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.status import ENCODING
from testcases.grader.tests.reports.data import check_reports, kept, looked_at, report, result
from testcases.grader.tests.running import TARGET, put
from testcases.grader.text import text_of
from testcases.harness.catalog import SOLUTIONS

SOURCE = (SOLUTIONS / TARGET).read_text("utf-8")
DEEP = {
    "sum": lambda n: "1 + " * n + "1",
    "attributes": lambda n: "x" + ".a" * n,
    "brackets": lambda n: "(" * n + ")" * n,
    "lambdas": lambda n: "lambda: " * n + "1",
    "texts": lambda n: ' +\\\n    "a line"'.join(["''"] + [""] * n),
}
TEXTS = {
    "nul": SOURCE.encode() + b"\0",
    "half-letters": SOURCE.encode() + b"\nx = '\\ud800'\n# \xed\xa0\x80\n",
    "one-long-line-of-code": b"x = [" + b"1," * 450_000 + b"]\n",
    "many-lines": b"\n" * 900_000,
    "blocks": b"".join(b" " * depth + b"if x:\n" for depth in range(99)) + b" " * 99 + b"pass\n",
    "digits": b"x = " + b"1" * 5000 + b"\n",
    "returns": SOURCE.replace("\n", "\r").encode(),
    "utf-16": SOURCE.encode("utf-16"),
    "bytes": bytes(range(256)) * 100,
    "nothing": b"",
}
SECRET = Secret("x")


def handed_in(folder: Path, texts: dict[str, bytes]) -> Path:
    return put(folder, {f"{name}/{TARGET}": data for name, data in texts.items()})


@pytest.mark.parametrize("kind", [*DEEP, "other"])
def test_any_text_is_read_and_shown(tmp_path: Path, kind: str):
    texts, results = TEXTS, []
    if kind in DEEP:
        depths = (50, 300, 960, 1500, 3000)
        texts = {f"{n}": f"{SOURCE}\n\ndef f(x):\n    return {DEEP[kind](n)}\n".encode() for n in depths}
    for one in find(handed_in(tmp_path / "in", texts)):
        found = read_submission(one)
        assert found.files[TARGET] == texts[one.student], found.notes
        # Which starts nothing, since nothing is asked.
        results.append(Grader(Sandbox("bwrap", Limits()), SECRET).result(found, result()["lessons"]))
        assert (results[-1]["files"][0]["cut"] > 0) == (one.student == "many-lines")
    check_reports(kept(tmp_path / "out", *results))


def test_a_text_that_is_not_what_it_reads_like_is_looked_at(tmp_path: Path):
    """In each codec that Python has, where a comment becomes code, and wherever Python looks for a codec's name."""
    body = b"x = 1\n# +AAo-y = 2\n# \\u000az = 3\n"
    texts = [f"# coding: {codec}\n".encode() + body for codec in sorted({*encodings.aliases.aliases.values()})]
    tricks = b"# \xff\n", b"#\r", b"\r\n", b"\xef\xbb\xbf", b"#\r#\r", b"\f\n", b"x = 1\r", b"'\n"
    texts += [trick + b"# coding: raw_unicode_escape\n# \\u000az = 3\n" for trick in tricks]
    hidden = 0
    for data in texts:
        try:
            runs = ast.dump(ast.parse(data))
        except (SyntaxError, ValueError, LookupError):
            continue
        assert ast.dump(ast.parse(text_of(data))) == runs, "no page shows what runs"
        if "'y'" in runs or "'z'" in runs:
            hidden += 1
            assert strange_encoding(data), data
    assert hidden > 3
    folder = handed_in(tmp_path, {"ann": b"# coding: utf-7\n# +AAo-x = 1\n", "bob": b"# coding: cp932\n", "cem": b""})
    assert [[one.kind for one in read_submission(hand_in).doubts] for hand_in in find(folder)] == [[ENCODING], [], []]


def test_the_grader_fails_at_one_and_marks_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """It says at whom: each fault of ours on somebody's text ends here."""

    def grade(grader: Any, submission: Any, keep: Any) -> dict[str, Any]:
        if submission.student == "Bob Roe":
            raise RecursionError("\ud800" * 999)
        if submission.student == "dan":
            os._exit(1)
        keep(grader.result(submission, {}))
        return grader.result(submission, {})

    monkeypatch.setattr(Grader, "grade", grade)
    folder = handed_in(tmp_path / "in", dict.fromkeys(("ann", "Bob Roe", "cem", "dan"), SOURCE.encode()))
    grade_all(find(folder), tmp_path / "out", Batch("bwrap", SECRET, 1, Limits(), asked_for(lessons="td_errors")))
    said = capsys.readouterr().err
    assert "Bob Roe: grader error: RecursionError" in said
    assert "dan: grader error: the grader's own process died" in said
    marks, _ = report(tmp_path / "out")
    assert {mark.folder: mark.mark for mark in marks} == {"ann": 0, "Bob Roe": None, "cem": 0, "dan": None}
    assert looked_at(tmp_path / "out") == [("Bob Roe", "no verdict"), ("dan", "no verdict")]
