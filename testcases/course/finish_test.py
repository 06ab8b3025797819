"""make finish: a page that stands alone, of a run of one's own, once all lessons pass."""

import json
from datetime import date
from pathlib import Path

import pytest

from solutions.apps.comparison import reference_runs
from testcases import finish
from testcases.harness.catalog import SOLUTIONS, course_lessons, entries
from testcases.harness.student import Result, progress

NAME = "Ada <b>Lovelace & Co"


@pytest.fixture
def own_run(tmp_path: Path) -> Path:
    """The folder of a run with three updates."""
    summary = {**reference_runs("tiny")[0], "preset": "tiny"}
    (tmp_path / "summary.json").write_text(json.dumps(summary), "utf-8")
    for name in finish.BOTH:
        file = tmp_path / "log" / name / "metrics.jsonl"
        file.parent.mkdir(parents=True)
        rows = [{"update": i, "kl": i * i - 1e-7, "score": i / 2} for i in range(3)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def all_passed() -> dict[str, dict[str, Result]]:
    return {entry.node: {"": Result("passed")} for lesson in course_lessons() for entry in entries(lesson)}


def test_a_page_stands_alone_and_shows_the_run_beside_ten_seeds(own_run: Path) -> None:
    tests = [finish.Best("test_compute_gae", 60, 67, "def test_compute_gae():\n    assert 1 < 2")]
    page = finish.page(NAME, date(2026, 2, 3), finish.read_run(own_run), tests, 1060)
    assert "Ada &lt;b&gt;Lovelace &amp; Co" in page and "<b>" not in page
    assert "<script" not in page and "http" not in page
    assert page.count("<circle") == 2 * 11 and page.count("<polyline") == 2 and "3 February 2026" in page
    assert "catches 60 of 67" in page and "assert 1 &lt; 2" in page
    gold = [run["ppo"]["gold"] for run in reference_runs("tiny")]
    assert f"<td>{gold[0]:.2f}</td><td>{min(gold):.2f} to {max(gold):.2f}</td>" in page


def test_a_run_of_another_preset_has_no_seeds_beside_it(own_run: Path) -> None:
    summary = json.loads((own_run / "summary.json").read_text("utf-8")) | {"preset": "small"}
    (own_run / "summary.json").write_text(json.dumps(summary), "utf-8")
    page = finish.page(NAME, date(2026, 2, 3), finish.read_run(own_run), [], 1060)
    assert page.count("<circle") == 2 and "ten seeds" not in page


@pytest.mark.parametrize("name, passed, has_run, says", [
    ("", True, True, 'expected a name, got none: make finish NAME="Ada Lovelace"'),
    ("Ada", False, True, "exercises left, the first is gather_log_probs: pytest testcases/lesson01"),
    ("Ada", True, False, "expected a finished run of your own in"),
])  # fmt: skip
def test_what_is_missing_is_one_sentence(name, passed, has_run, says, own_run: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("NAME", name)
    monkeypatch.setattr(progress, "so_far", all_passed if passed else dict)
    monkeypatch.setattr("sys.argv", ["finish", "--out", str(own_run if has_run else own_run / "none")])
    with pytest.raises(SystemExit) as stop:
        finish.main()
    said = capsys.readouterr().err
    assert stop.value.code == 2 and says in said and said.count("\n") == 1
    assert not (own_run / "finish.html").exists()


def test_the_page_is_written_beside_the_run(own_run: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("NAME", "Ada")
    monkeypatch.setattr(progress, "so_far", all_passed)
    monkeypatch.setattr(finish, "best_tests", lambda folder: iter(()))
    monkeypatch.setattr("sys.argv", ["finish", "--out", str(own_run)])
    finish.main()
    assert "<h1>Ada</h1>" in (own_run / "finish.html").read_text("utf-8")


@pytest.mark.slow
def test_the_best_tests_of_the_solution_catch_all() -> None:
    found = {one.name: one for one in finish.best_tests(SOLUTIONS)}
    assert [*found] == ["test_compute_gae", "test_compute_ppo_loss", "test_compute_rewards", "test_response_mask"]
    assert all(one.caught == one.of >= 40 and one.code.startswith(f"def {one.name}") for one in found.values())
