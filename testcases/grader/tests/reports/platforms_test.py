"""Gradescope and GitHub Classroom can read their files."""

import json
import re
import shlex
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from testcases.grader.reports import classroom, gradescope
from testcases.grader.reports.sheets import Sheet
from testcases.grader.tests.reports.data import CAUSE, exercise, put, result, sheet
from testcases.grader.tests.running import LONGEST


def test_gradescope_fields():
    data = gradescope.results(sheet(result()))
    assert data["score"] == 3 and type(data["execution_time"]) is float
    assert [(t["number"], t["score"], t["max_score"], t["status"]) for t in data["tests"]] == [
        ("1.1", 2, 2, "passed"),
        ("1.2", 1, 4, "failed"),
    ]
    assert CAUSE in data["tests"][1]["output"] and data["tests"][1]["tags"] == ["wrong"]
    for key in ("output_format", "test_output_format", "test_name_format"):
        assert data[key] == "text"
    assert data["visibility"] == "visible" and data["stdout_visibility"] == "hidden"


def test_gradescope_gets_no_score_without_a_verdict():
    mixed = sheet(result(exercises={"a": exercise(), "td_errors": exercise(0, 2, "grader-error")}))
    for one in (Sheet("ann", "ann"), mixed):
        data = gradescope.results(one)
        assert "score" not in data and data["tests"] == [] and "GRADER ERROR" in data["output"]


def test_the_autograder_zip(tmp_path: Path):
    path = gradescope.make_autograder_zip(tmp_path / "autograder.zip")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in ("setup.sh", "run_autograder"):
            info = archive.getinfo(name)
            assert info.create_system == 3 and stat.S_IMODE(info.external_attr >> 16) & 0o111 == 0o111
            assert archive.read(name).startswith(b"#!/usr/bin/env bash\n") and b"\r" not in archive.read(name)
        assert "course/Makefile" in names and "course/testcases/grader/reports/templates/base.html" in names
        assert not [name for name in names if "__pycache__" in name or ".venv" in name or ".git/" in name]
    assert path.read_bytes() == gradescope.make_autograder_zip(tmp_path / "again.zip").read_bytes()


FAKE_PYTHON = """\
#!/bin/sh
case "$2" in *.gradescope) exec {python} "$@" ;; esac
printf '%s\\n' "$*" >> {folder}/calls
case "{refuses} $*" in "yes "*"--sandbox none"*) ;; yes*) exit 2 ;; esac
[ -e {folder}/result.json ] || exit 1
mkdir -p "$5/results" && cp {folder}/result.json "$5/results/submission.json"
ls -l "$3/submission" > {folder}/seen
"""


@pytest.mark.parametrize("refuses", [False, True], ids=["sandboxed", "refused"])
@pytest.mark.parametrize("works", [True, False], ids=["verdict", "grader-fails"])
def test_run_autograder_always_writes_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool, works: bool
):
    for folder in ("submission/lesson04_gae", "source/course", "results", "venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "submission" / "link").symlink_to("/etc/passwd")
    python = tmp_path / "venv/bin/python"
    words = {"python": shlex.quote(sys.executable), "folder": tmp_path, "refuses": "yes" if refuses else "no"}
    python.write_text(FAKE_PYTHON.format(**words))
    python.chmod(0o755)
    if works:
        data = result("submission", sandbox="none" if refuses else "bwrap")
        (tmp_path / "result.json").write_text(json.dumps(data))
    (tmp_path / "run").write_text(gradescope.RUN.replace("/autograder", str(tmp_path)))
    monkeypatch.setenv("PYTHONPATH", str(gradescope.ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    subprocess.run(["bash", str(tmp_path / "run")], timeout=LONGEST)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [("--sandbox none" in call) for call in calls] == ([False, True] if refuses else [False])
    written = json.loads((tmp_path / "results" / "results.json").read_text("utf-8"))
    if works:
        assert written["score"] == 3 and ("NOT SANDBOXED" in written["output"]) == refuses
        assert "link -> /etc/passwd" in (tmp_path / "seen").read_text()
    else:
        assert "score" not in written and written["tests"] == [] and "GRADER ERROR" in written["output"]


def test_classroom_workflow_runs_make_check(capsys: pytest.CaptureFixture[str]):
    yaml = pytest.importorskip("yaml")
    assert classroom.main(["workflow"]) == 0
    data = yaml.safe_load(capsys.readouterr().out)
    (job,) = data["jobs"].values()
    steps = {step["name"]: step for step in job["steps"] if "name" in step}
    assert "make check" in steps["Grade"]["run"] and steps["Grade"]["id"] == "check"
    assert steps["Autograding Reporter"]["with"]["runners"] == "check"
    assert "CHECK_RESULTS" in steps["Autograding Reporter"]["env"]


def test_classroom_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    import base64

    bad = exercise(1, 4, "wrong", told="::error::x\n##[group]\n" + "y" * 1000)
    out = put(tmp_path, result(exercises={"td_errors": exercise(), "compute_gae": bad}, notes=["::set-env name=x::y"]))
    target = tmp_path / "output"
    target.touch()
    monkeypatch.setenv("GITHUB_OUTPUT", str(target))
    assert classroom.main(["points", str(out)]) == 0
    (line,) = target.read_text().splitlines()
    data = json.loads(base64.b64decode(line.removeprefix("result=")))
    assert (data["version"], data["status"], data["max_score"]) == (3, "fail", 6)
    assert [(test["score"], test["status"]) for test in data["tests"]] == [(2, "pass"), (1, "fail")]
    assert len(data["tests"][1]["output"]) <= 500
    shown = capsys.readouterr().out + data["tests"][1]["output"]
    assert not re.search(r"^\s*::|##\[", shown, re.MULTILINE)
    (out / "results" / "r0000.json").write_text("{", "utf-8")
    assert classroom.main(["points", str(out)]) == 1
    assert json.loads(base64.b64decode(target.read_text().splitlines()[1].removeprefix("result=")))["status"] == "error"
