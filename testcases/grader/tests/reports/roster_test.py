"""The files for an LMS, and who is who in them."""

from dataclasses import replace
from pathlib import Path

from testcases.grader.reports import write_reports
from testcases.grader.reports.marks import Override, roster, sheets, slug, tables
from testcases.grader.tests.reports.data import batch_rows, grid, put, read_csv, report, result
from testcases.harness import named_cases


def named(*students: str) -> list[sheets.MarkSheet]:
    lesson = sheets.LessonMarks("l", 3, 6, ())
    return [
        sheets.MarkSheet(student, slug(student, f"{i}{student}"), 3, 6, "bwrap", lessons=(lesson,))
        for i, student in enumerate(students)
    ]


def roster_of(tmp_path: Path, text: str | bytes) -> roster.Roster:
    path = tmp_path / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return roster.read(path)


def matched(found: list[sheets.MarkSheet], people: roster.Roster) -> dict[str, str]:
    matching = roster.match(found, people)
    return {sheet.student: matching.person_of[sheet.page].name for sheet in found if sheet.page in matching.person_of}


def test_canvas_header_and_points_row(tmp_path: Path):
    people = roster_of(tmp_path, "student,name,id,sis_id,login,section\nann,Ann Lee,17,S1,alee,A\n")
    found = named("ann")
    head, points, ann = grid(tables.canvas(tmp_path / "c.csv", found, roster.match(found, people), "PPO (42)"))
    assert "Student" in head[0] and "ID" in head[1] and len(head) >= 4
    assert head[-2:] == ["Section", "PPO (42)"]
    assert points[0].strip() == "Points Possible" and points[-1] == "6"
    assert ann == ["Ann Lee", "17", "S1", "alee", "A", "3"]


def test_moodle_keeps_the_case_of_an_email_and_has_a_grade_wherever_it_has_feedback(tmp_path: Path):
    people = roster_of(tmp_path, "student,email,id number\nann,Ann.Lee@Example.org,007\nbob,bob@example.org,8\n")
    found = [*named("ann"), sheets.MarkSheet("bob", "bob-1")]
    head, *rows = grid(tables.moodle(tmp_path / "m.csv", found, roster.match(found, people)))
    assert head[:2] == ["Email address", "ID number"]
    assert rows == [["Ann.Lee@Example.org", "007", "", "ann", "3", "l 3/6"]]  # bob has no verdict: no row


def test_a_moodle_worksheet_is_filled_in_and_otherwise_unchanged(tmp_path: Path):
    text = (
        "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
        "Participant 12,Ann Lee,A@x.org,Submitted,,100.00,-,\n"
        "Participant 13,Bob Ray,b@x.org,No submission,5.00,100.00,-,old\n"
    )
    people = roster_of(tmp_path, text)
    assert people.is_moodle_worksheet
    found = named("Ann Lee_12_assignsubmission_file_")
    path = tables.moodle_worksheet(tmp_path / "w.csv", found, people, roster.match(found, people))
    head, ann, bob = grid(path)
    assert head == text.splitlines()[0].lstrip("\ufeff").split(",")
    assert ann == ["Participant 12", "Ann Lee", "A@x.org", "Submitted", "50.0", "100.00", "-", "l 3/6"]
    assert bob == ["Participant 13", "Bob Ray", "b@x.org", "No submission", "5.00", "100.00", "-", "old"]


@named_cases(
    "student, person",
    {
        "folder": ("ann", "Ann Lee"),
        "login": ("blee", "Bo Lee"),
        "sis-id": ("S3", "Cy Roe"),
        "email": ("cy@x.org", "Cy Roe"),
        "last-name-first": ("Lee, Bo", "Bo Lee"),
        "name-in-other-case": ("bo lee", "Bo Lee"),
        "canvas-download": ("leebo_LATE_22_9911_gae.zip", "Bo Lee"),
        "accents": ("jose nunez", "José Núñez"),
        "canvas-flat": ("leebo_22", "Bo Lee"),
        "two-logins": ("ppo-blee-alee", None),
        "nobody": ("nobody", None),
        "no-name": ("", None),
    },
)
def test_matching(tmp_path: Path, student: str, person: str | None):
    people = roster_of(
        tmp_path,
        "student,name,id,sis_id,login,email\nann,Ann Lee,21,S1,alee,\n,Bo Lee,22,S2,blee,\n,Cy Roe,23,S3,,cy@x.org\n"
        ",José Núñez,24,S4,,\n",
    )
    assert matched(named(student), people) == ({student: person} if person else {})


@named_cases(
    "students, people",
    {
        "title-before": (("hw2-blee", "hw2-alee", "hw2-cy-x"), ("Bo Lee", "Ann Lee", None)),
        "title-behind": (("blee-hw2", "alee-hw2", "x-cy-hw2"), ("Bo Lee", "Ann Lee", None)),
        "login-is-the-title": (("hw2-blee", "hw2-alee", "hw2-hw2"), ("Bo Lee", "Ann Lee", "Tim Tle")),
        "one-alone": (("hw2-cy",), (None,)),
    },
)
def test_a_repository_is_whose_login_is_all_of_its_name_but_the_title(
    tmp_path: Path, students: tuple[str, ...], people: tuple[str | None, ...]
):
    """Who is called cy-x, and is not on the roster, has not handed in for Cy Roe."""
    known = roster_of(tmp_path, "name,login\nAnn Lee,alee\nBo Lee,blee\nCy Roe,cy\nTim Tle,hw2\n")
    wanted = {student: person for student, person in zip(students, people, strict=True) if person}
    assert matched(named(*students), known) == wanted


def test_a_name_that_one_writes_oneself_is_nobody_elses(tmp_path: Path):
    """On Gradescope: only an address is verified."""
    people = roster_of(tmp_path, "name,email\nAnn Lee,ann@x.edu\nBob Roe,bob@x.edu\n")
    found = [
        replace(sheet, system="Gradescope", aliases=aliases)
        for sheet, aliases in zip(
            named("ann@x.edu", "Ann Lee", "R. Roe"), (("mallory@x.edu",), ("eve@x.edu",), ("BOB@x.edu",)), strict=True
        )
    ]
    assert matched(found, people) == {"R. Roe": "Bob Roe"}
    assert len(roster.match(found, people).ambiguous) == 2


def test_nobody_is_lost_and_nobody_is_guessed(tmp_path: Path):
    people = roster_of(tmp_path, "student,name\nANN,Ann Lee\nbob,Bob One\nbob,Bob Two\ncy,Cy Roe\n\ndee,Dee Poe\n")
    found = named("ann", "Ann", "bob", "cy", "eve")
    matching = roster.match(found, people)
    assert matched(found, people) == {"cy": "Cy Roe"}
    problems = {(kind, line, name) for kind, line, name, _ in matching.problems}
    assert problems == {
        *(("submission without roster row", None, name) for name in ("ann", "Ann", "bob", "eve")),
        *(
            ("roster row without submission", line, name)
            for line, name in ((2, "Ann Lee"), (3, "Bob One"), (4, "Bob Two"), (7, "Dee Poe"))
        ),
    }


def test_the_gradebook_has_everybody(tmp_path: Path):
    out, path = put(tmp_path / "out", result("ann"), result("eve"), result("bo")), tmp_path / "roster.csv"
    path.write_text("name,student\nAnn Lee,ann\nBo One,Bo\nBo Two,BO\n=cy,cy\n", "utf-8")
    report(out, path)
    rows = [(row["student"], row["name"], row["score"], row["status"]) for row in read_csv(out / "gradebook.csv")]
    assert rows == [
        ("ann", "Ann Lee", "3", "graded"),
        ("bo", "", "3", "graded"),
        ("eve", "", "3", "graded"),
        ("Bo", "Bo One", "", "unclear"),
        ("BO", "Bo Two", "", "unclear"),
        ("cy", "'=cy", "", "unclear"),
    ]
    notes = [row["notes"] for row in read_csv(out / "gradebook.csv")]
    assert notes[0] == "" and notes[2] == "not on the roster" and "may be theirs" in notes[3]
    assert "several lines of the roster (3, 4)" in notes[1]
    assert len(grid(out / "canvas.csv")) == 3


def test_the_exact_name_wins_over_one_in_other_case(tmp_path: Path):
    people = roster_of(tmp_path, "student,name\nann,Small\nANN,Large\n")
    assert matched(named("ANN", "ann"), people) == {"ann": "Small", "ANN": "Large"}
    (why,) = roster.match(named("ANN", "ann", "ann "), people).ambiguous.values()
    assert "another submission fits it better: look at both" in why


@named_cases(
    "text, complaint",
    {
        "empty": (b"", "empty"),
        "no-known-column": (b"x,y\n1,2\n", "expected a header"),
        "binary": (b"\x00\xff\xfe\x01", "expected a header"),
        "a-cell-without-end": (b'name\n"' + b"x" * 200_000, "cannot be read"),
        "no-such-file": (None, "cannot be read"),
    },
)
def test_a_bad_roster_is_reported_and_stops_nothing(tmp_path: Path, text: bytes | None, complaint: str):
    out, path = put(tmp_path / "out", result("ann")), tmp_path / "roster.csv"
    if text is not None:
        path.write_bytes(text)
    report(out, path)
    problems = read_csv(out / "roster_report.csv")
    assert complaint in problems[0]["what_to_do"]
    assert problems[1]["problem"] == "submission without roster row"
    assert len(read_csv(out / "gradebook.csv")) == 1


@named_cases(
    "data",
    {
        "semicolons": "name;login\nZoë Ng;zng\n".encode(),
        "bom": "\ufeffname,login\nZoë Ng,zng\n".encode(),
        "utf-16-tabs": "name\tlogin\nZoë Ng\tzng\n".encode("utf-16"),
        "windows": "name,login\nZoë Ng,zng\n".encode("cp1252"),
        "first-and-last": "First name,Last name,Username\nZoë,Ng,zng\n".encode(),
        "canvas": "Student,ID,SIS Login ID,Section,A (1)\n    Points Possible,,,,5\nZoë Ng,1,zng,S,\n".encode(),
    },
)
def test_rosters_as_other_programs_write_them(tmp_path: Path, data: bytes):
    assert [person.name for person in roster_of(tmp_path, data).people] == ["Zoë Ng"]


def test_marks_go_back_under_the_roster_s_own_heading(tmp_path: Path):
    (tmp_path / "class.csv").write_text(
        "name,login,email,PPO by Hand (777)\nAnn Lee,al,a@x.edu,\nBo Roe,bo,b@x.edu,\n", "utf-8"
    )
    put(tmp_path, result("al"))
    report(tmp_path, tmp_path / "class.csv")
    # One may be graded alone, late: the others keep what they have, until somebody asks for their 0.
    assert (
        "Bo Roe" not in (tmp_path / "canvas.csv").read_text("utf-8")
        and "b@x" not in (tmp_path / "moodle.csv").read_text()
    )
    assert read_csv(tmp_path / "gradebook.csv")[1]["score"] == ""
    report(tmp_path, tmp_path / "class.csv", missing=0)
    assert read_csv(tmp_path / "gradebook.csv")[1]["score"] == "0" and "b@x" in (tmp_path / "moodle.csv").read_text()
    found = grid(tmp_path / "canvas.csv")
    assert found[0][-1] == "PPO by Hand (777)" and [row[-1] for row in found[2:]] == ["3", "0"]
    pages = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*.html"))
    assert "Ann Lee" in pages and "<bdi>al</bdi>" not in pages


def test_nobody_has_a_0_while_it_is_not_known_whose_a_submission_is(tmp_path: Path):
    (tmp_path / "class.csv").write_text("name,login\nAnn Lee,al\nBo Roe,bo\n", "utf-8")
    report(put(tmp_path, result("al"), result("who?")), tmp_path / "class.csv")
    assert [row[-1] for row in grid(tmp_path / "canvas.csv")[2:]] == ["3"]
    assert [row["status"] for row in read_csv(tmp_path / "gradebook.csv")] == ["graded", "graded", "unclear"]


def test_whose_work_may_be_one_of_two_has_no_0_and_can_have_a_mark(tmp_path: Path):
    people, out = tmp_path / "class.csv", put(tmp_path, result("ann"), result("Ann"), result("bo"))
    people.write_text("name,student,email\nAnn Lee,ANN,a@x.edu\nBo Roe,bo,b@x.edu\nCy Poe,cy,c@x.edu\n", "utf-8")
    report(out, people)
    told = {row["name"]: (row["score"], row["status"]) for row in read_csv(out / "gradebook.csv") if row["name"]}
    assert told == {"Bo Roe": ("3", "graded"), "Cy Poe": ("", "unclear"), "Ann Lee": ("", "unclear")}
    write_reports(out, batch_rows(out), people, overrides=[Override(2, "Ann Lee", score=5)])
    marks = [(row["name"], row["score"]) for row in read_csv(out / "gradebook.csv")]
    assert marks.count(("Ann Lee", "5")) == 1 and ("", "3") in marks
    assert [row[-2] for row in grid(out / "moodle.csv")[1:]] == ["5", "3"]


def test_the_identifier_of_a_github_classroom_is_a_name(tmp_path: Path):
    (tmp_path / "roster.csv").write_text(
        "identifier,github_username,github_id,name\nBob Roe,bob,1,\nl@x.edu,lee,2,Lee One\n", "utf-8"
    )
    assert [one.shown for one in roster.read(tmp_path / "roster.csv").people] == ["Bob Roe", "Lee One"]
