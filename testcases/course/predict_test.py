"""make predict: asked first, compared at the end, kept between runs."""

import math
from collections.abc import Iterator

import pytest

from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.catalog import lesson_names
from testcases.harness.student import predict, progress

LESSONS = [name for name in lesson_names() if predict.predictions(read_lesson(name))]


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "KEPT", tmp_path / "predictions.json")


def typed(monkeypatch, *lines: str) -> None:
    left: Iterator[str] = iter(lines)

    def answer(question: str) -> str:
        print(question)
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)


@pytest.mark.parametrize("name", LESSONS)
def test_every_answer_is_a_number_that_the_question_does_not_tell(name: str):
    lesson = read_lesson(name)
    for one in predict.predictions(lesson):
        assert math.isfinite(one.number(lesson)) and 0 < one.within <= 0.1 and one.why


def test_the_right_numbers_are_shown_at_the_end_only(monkeypatch, capsys):
    lesson = read_lesson("5")
    numbers = [one.number(lesson) for one in predict.predictions(lesson)]
    typed(monkeypatch, *map(str, numbers))
    said = predict.ask(lesson)
    assert f"{len(numbers)} of {len(numbers)} right" in said and "computed" in said
    assert "computed" not in capsys.readouterr().out


def test_a_wrong_number_is_not_right(monkeypatch):
    lesson = read_lesson("5")
    typed(monkeypatch, *["7"] * len(predict.predictions(lesson)))
    assert "0 of 4 right" in predict.ask(lesson)


def test_what_is_no_number_is_asked_again_and_an_end_keeps_the_rest(monkeypatch, capsys):
    lesson = read_lesson("4")
    typed(monkeypatch, "about half", "0,2")
    assert "1 of 3 are kept" in predict.ask(lesson)
    assert "expected a number such as -0.5, got 'about half'" in capsys.readouterr().out
    assert progress.read(predict.KEPT)["lesson04_gae"] == {predict.predictions(lesson)[0].ask: 0.2}
    typed(monkeypatch, "0.5", "6")
    assert "3 of 3 right" in predict.ask(lesson)


def test_a_lesson_without_any_names_those_that_have_some():
    assert "for the lessons 4, 5, 6" in predict.ask(read_lesson("11"))
