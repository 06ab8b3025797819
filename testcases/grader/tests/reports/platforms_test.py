"""Gradescope and GitHub Classroom can read their files, and what in ready/ is never run here passes its linters."""

import base64
import json
import re
import shlex
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from testcases.grader.marking.assignment import everything
from testcases.grader.reports import autograders, sheets
from testcases.grader.tests.forks import LONGEST
from testcases.grader.tests.reports.data import CAUSE, exercise, kept, result
from testcases.grader.tests.running import put
from testcases.harness.catalog import ROOT
from testcases.harness.suite.asserts import named

READY = autograders.READY.parent
WORKFLOWS = [READY / "github-classroom.yml", *(ROOT / ".github" / "workflows").glob("*.yml")]
FAKE_PYTHON = """\
#!/bin/sh
case "$2" in *.autograders) exec {python} "$@" ;; esac
printf '%s\\n' "$*" >> {folder}/calls
case "{refuses} $*" in "yes "*"--sandbox none"*) ;; yes*) exit 2 ;; esac
mkdir -p "$5/results" && cp {folder}/result.json "$5/results/submission.json"
ls -l "$3/submission" > {folder}/seen
"""


@named(
    "data, refuses",
    {"sandboxed": (result("submission"), "no"), "refused": (result("submission", sandbox="none"), "yes")},
)
def test_run_autograder_always_writes_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any], refuses: str
):
    for folder in ("submission/lesson04_gae", "source/course", "results", "venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "submission" / "link").symlink_to("/etc/passwd")
    python = tmp_path / "venv/bin/python"
    python.write_text(FAKE_PYTHON.format(python=shlex.quote(sys.executable), folder=tmp_path, refuses=refuses))
    python.chmod(0o755)
    (tmp_path / "result.json").write_text(json.dumps(data))
    script = (autograders.READY / "run_autograder").read_text("utf-8")
    (tmp_path / "run").write_text(script.replace("/autograder", str(tmp_path)))
    for name, path in (("PYTHONPATH", ROOT), ("TMPDIR", tmp_path)):
        monkeypatch.setenv(name, str(path))
    subprocess.run(["bash", str(tmp_path / "run")], timeout=LONGEST)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["--sandbox none" in call for call in calls] == ([False, True] if refuses == "yes" else [False])
    written = json.loads((tmp_path / "results" / "results.json").read_text("utf-8"))
    assert "link -> /etc/passwd" in (tmp_path / "seen").read_text()
    assert written["score"] == 3 and ("NOT SANDBOXED" in written["output"]) == (refuses == "yes")
    first, second = written["tests"]
    assert [first[key] for key in ("score", "max_score", "status")] == [2, 2, "passed"]
    assert [second[key] for key in ("score", "max_score", "status")] == [1, 4, "failed"]
    assert CAUSE in second["output"] and {written[key] for key in written if key.endswith("_format")} == {"text"}
    assert written["visibility"] == "visible" and written["stdout_visibility"] == "hidden"


def test_without_a_verdict_gradescope_gets_no_score(tmp_path: Path):
    written = autograders.results(sheets.only(tmp_path, everything()))
    assert "score" not in written and written["tests"] == [] and "GRADER ERROR" in written["output"]


def test_the_autograder_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "autograder.zip"
    put(tmp_path, {"hw.toml": "lessons = [1, 4]\npoints = 20\n"})
    monkeypatch.setattr("sys.argv", ["autograders", "zip", str(path), "--assignment", str(tmp_path / "hw.toml")])
    assert autograders.main() == 0
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in ("setup.sh", "run_autograder"):
            info = archive.getinfo(name)
            assert info.create_system == 3 and stat.S_IMODE(info.external_attr >> 16) & 0o111 == 0o111
            assert archive.read(name).startswith(b"#!/usr/bin/env bash\n") and b"\r" not in archive.read(name)
        assert "course/Makefile" in names and "course/testcases/grader/reports/templates/base.html" in names
        assert not [name for name in names if "__pycache__" in name or ".venv" in name or ".git/" in name]
        assert archive.read("course/assignment.toml").decode() == (tmp_path / "hw.toml").read_text("utf-8")


def test_classroom_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bad = exercise(1, 4, "wrong", told="::error::x\n##[group]\n" + f"{300 * 'y'}\n" * 3)
    out = kept(tmp_path, result(exercises={"td_errors": exercise(), "compute_gae": bad}))
    target = tmp_path / "output"
    monkeypatch.setenv("GITHUB_OUTPUT", str(target))
    monkeypatch.setattr("sys.argv", ["autograders", "classroom", str(out)])
    found = []
    for status in (0, 1):
        assert autograders.main() == status
        found.append(json.loads(base64.b64decode(target.read_text().splitlines()[-1].removeprefix("result="))))
        (out / "results" / "r0000.json").write_text("{", "utf-8")
    assert [(data["version"], data["status"]) for data in found] == [(3, "fail"), (3, "error")]
    assert found[0]["max_score"] == 6
    assert [(test["score"], test["status"]) for test in found[0]["tests"]] == [(2, "pass"), (1, "fail")]
    output = found[0]["tests"][1]["output"]
    assert len(output) <= 500 and not re.search(r"^\s*::|##\[", output, re.MULTILINE)


def test_workflows_and_scripts_pass_their_linters(tmp_path: Path):
    scripts = [*(READY / "gradescope").iterdir(), ROOT / ".ci/run"]
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
            for run in (step["run"] for step in job["steps"] if "run" in step):
                scripts.append(tmp_path / str(len(scripts)))
                # What GitHub fills in is a word to the shell.
                scripts[-1].write_text("#!/usr/bin/env bash\n" + re.sub(r"\$\{\{.*?\}\}", "w", run), "utf-8")
    schema = "--builtin-schema", "vendor.github-workflows"
    for program, *given in (["shellcheck", *scripts], ["check-jsonschema", *schema, *WORKFLOWS]):
        command = [Path(sys.executable).with_name(program), *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_container_holds_what_grading_needs_and_make_knows_what_it_is_given():
    container, workflow = ((READY / name).read_text("utf-8") for name in ("Containerfile", "github-classroom.yml"))
    lines = [line.split() for line in re.sub(r"\\\n", " ", container).splitlines() if line and line[0] != "#"]
    assert lines[0][0] == "FROM" and ["USER", "1000:1000"] in lines
    copied = {name for line in lines if line[0] == "COPY" for name in line[1:-1]}
    assert all((ROOT / name).exists() for name in copied) and copied >= set(autograders.CARRIED)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for name in re.findall(r"(?<![\w$-])(OUT|[A-Z]{5,})(?==)", container + workflow):
        assert f"$({name})" in makefile, name
    assert "id: check" in workflow and "CHECK_RESULTS:" in workflow and "steps.check.outputs.result" in workflow
