"""The practice programs of the lessons print what their texts say they print.

Arithmetic is run again and compared with the text, up to rounding. What trains is compared with the record of one run
(records.py), and a new run only by what the text says of it.
"""

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from testcases.course import records
from testcases.course.records import NUMBER, TRAINING, Change, Rows, changes, codes, output_of, programs, readme, rows
from testcases.harness.catalog import TUTORIAL

ARITHMETIC = [
    path
    for path in sorted(TUTORIAL.glob("lesson*/*.md"))
    if any(said for _, said in programs(path)) and path.parent.name[:8] not in ("lesson00", *TRAINING)
]


def differing(said: str, got: str) -> str | None:
    """What is wrong with an output, or None: its numbers in their order, each within 0.02 and a hundredth of it."""
    wanted, found = ([float(one) for one in NUMBER.findall(text)] for text in (said, got))
    if len(wanted) != len(found):
        return f"expected {len(wanted)} numbers, got {len(found)}:\n{got}"
    far = [(a, b) for a, b in zip(wanted, found, strict=True) if abs(a - b) > 0.02 + 0.01 * abs(a)]
    return f"said and printed: {far}\n{got}" if far else None


@pytest.mark.slow
@pytest.mark.parametrize("path", ARITHMETIC, ids=[f"{path.parent.name[:8]}-{path.stem}" for path in ARITHMETIC])
def test_a_practice_program_prints_what_its_text_says(path: Path):
    """Also changed, as a fold below it asks for."""
    outputs, shown = output_of(codes(path)), programs(path)
    wrong = [
        problem for (_, said), got in zip(shown, outputs, strict=False) if said and (problem := differing(said, got))
    ]
    assert not wrong, "\n\n".join(wrong)
    if path.stem == "README":
        check_folds(path, outputs)


def check_folds(path: Path, outputs: list[str]) -> None:
    """The last outputs are those of changed programs."""
    left = iter(outputs[-sum(bool(change.edits) for change in changes(path.parent.name[:8])) :])
    for change in changes(path.parent.name[:8]):
        output = next(left) if change.edits else outputs[change.program]
        missing = unsaid(path.read_text("utf-8"), change, output)
        assert not missing, (change.question, missing, output)


def unsaid(text: str, change: Change, output: str) -> list[str]:
    """The numbers that the program does not print, to the digits given, or that question and answer do not contain."""
    (answer,) = re.findall(rf"<summary>[^\n]*{re.escape(change.question)}[^\n]*\n.*?</details>", text, re.DOTALL)
    shown = [abs(float(number)) for number in NUMBER.findall(output)]
    return [
        number
        for number in change.said.split()
        if number not in answer.replace("Exactly 0", "0") or not any(rounds_to(value, number) for value in shown)
    ]


def rounds_to(value: float, said: str) -> bool:
    return abs(value - float(said)) <= 0.6 * 10 ** -len(said.partition(".")[2])


def unrecorded(said: str, output: str) -> list[str]:
    """The lines of an output in a text that were not recorded there; `...` ends one that is cut. Of a table, which says
    it in other words, the numbers that the recorded ones do not round to."""
    lines, recorded = said.strip("\n").splitlines(), output.strip("\n").splitlines()
    if said.startswith("|"):
        numbers, found = NUMBER.findall(said), [float(one) for one in NUMBER.findall(output)]
        assert len(numbers) == len(found), (numbers, found)
        return [number for number, value in zip(numbers, found, strict=True) if not rounds_to(value, number)]
    assert len(lines) == len(recorded), (said, output)
    return [line for line, one in zip(lines, recorded, strict=True) if not records.is_line(line, one)]


@pytest.mark.parametrize("lesson", TRAINING)
def test_a_text_prints_the_record_of_its_training_runs(lesson: str):
    """After a change: python -m testcases.course.records, with the lesson; it says what to print then."""
    path, outputs = readme(lesson), records.printed(lesson)
    wrong = [
        (line, output)
        for (_, said), output in zip(programs(path), outputs, strict=False)
        if said
        for line in unrecorded(said, output)
    ]
    assert not wrong, "\n\n".join(f"the text says {line}\nthe record:\n{output}" for line, output in wrong)
    check_folds(path, outputs)


def test_the_map_says_when_and_on_what_the_training_runs_were_recorded():
    text = " ".join((TUTORIAL / "README.md").read_text("utf-8").split())
    for lesson, one in records.recorded().items():
        day = date.fromisoformat(one["date"])
        assert f"{day.day} {day:%B %Y}" in text and one["processor"] in text, (lesson, one["date"], one["processor"])


def labels(output: str) -> list[str]:
    """What stands before and between the numbers of each line; what follows the last one may be a text of a model."""
    named = []
    for line in output.splitlines():
        *before, _ = [" ".join(part.split()) for part in NUMBER.split(line)]
        named.append(" # ".join(before))
    return named


def overconfident(comparisons: Rows, search: Rows) -> None:
    """Lesson 2. The loss of the comparisons seen goes to 0, that of the others rises early, and a text of one word of
    praise has a high score."""
    _, *trained = comparisons
    losses = {(epochs, part): loss for (epochs, loss, _), part in zip(trained, ("seen", "held out") * 4, strict=True)}
    assert losses[1, "seen"] > losses[2, "seen"] > losses[4, "seen"] > losses[16, "seen"] < 0.02
    assert losses[16, "held out"] > 1.3 * losses[2, "held out"] > 1.3 * losses[2, "seen"]
    assert all(accuracy > 0.7 for *_, accuracy in trained)
    praise, blame, repeated, long = (score for score, _ in search)
    assert blame < 0 < min(praise, repeated, long) and [true for _, true in search] == [2, 0, 0, 0]


def a_clip_keeps_what_a_lucky_batch_loses(table: Rows, one_step: Rows) -> None:
    """Lesson 5."""
    unclipped, half, fifth, twentieth = table
    largest, fractions = ([row[place] for row in table] for place in (2, 4))
    assert largest == sorted(largest, reverse=True) and largest[0] > 10 and 1.2 < fifth[2] < 1.5
    assert fractions == sorted(fractions) and fractions[0] == 0
    worth = [row[5:] for row in table]
    assert min(worth[0]) < 1 < 2.7 < min(worth[2])
    assert sum(worth[3]) < sum(worth[2]) and min(one_step[0][5:]) > 2.6


def settings_of_the_trainer(table: Rows) -> None:
    """Lesson 9. Its columns: score, kl, ratio_max, first, explained; before them the numbers of the setting."""
    default, one, sixteen, stopped, priced, no_critic = (row[-5:] for row in table)
    assert all(abs(row[-2] - 1) < 0.01 for row in table)
    assert priced[0] == min(row[-5] for row in table) < 2 < min(default[0], one[0], sixteen[0], stopped[0])
    assert priced[1] == min(row[-4] for row in table) < 5 < stopped[1] < sixteen[1]
    assert one[2] < default[2] < sixteen[2] > stopped[2] and no_critic[0] > 2
    assert no_critic[4] == min(row[-1] for row in table) < 0.1 < default[4]


def one_process(lines: Rows) -> None:
    """Lesson 11."""
    index, first, *_, last, grad_norm = lines[0]
    assert index == 0 and first < 0.5 and last > 1.5 and abs(grad_norm - 1.02) < 0.1


def the_price_of_kl(table: Rows, no_penalty: Rows) -> None:
    """Lesson 12. Its columns: kl_coef, proxy, gold, KL, percent grammatical."""
    _, proxy, gold, kl, valid = ([row[place] for row in table] for place in range(5))
    assert proxy == sorted(proxy, reverse=True) and kl == sorted(kl, reverse=True) and kl[0] > 10
    assert gold[0] < 0.3 and max(gold) > gold[-1] + 0.2 and gold.index(max(gold)) in (1, 2, 3)
    assert valid[0] < 20 and min(valid[1:]) > 75
    assert abs(no_penalty[0][2] - gold[2]) < 0.15 and no_penalty[0][4] > 85


SHAPES: dict[str, Callable[..., None]] = {
    "lesson02": overconfident,
    "lesson05": a_clip_keeps_what_a_lucky_batch_loses,
    "lesson09": settings_of_the_trainer,
    "lesson11": one_process,
    "lesson12": the_price_of_kl,
}
"""What the texts say of their training runs, on every processor."""


@pytest.mark.parametrize("lesson", TRAINING)
def test_the_record_shows_what_its_text_says(lesson: str):
    SHAPES[lesson](*map(rows, records.printed(lesson)))


SHORTENED = {
    "lesson02": {"arange(600": "arange(160"},
    "lesson09": {"num_updates=30": "num_updates=2"},
    "lesson12": {"ppo_updates=25": "ppo_updates=2, ppo_batch_size=16", "prompts[:256]": "prompts[:64]"},
}
"""Long runs: a test makes two updates of them, or trains on fewer texts, and `records` all."""
TWO_UPDATES = ("lesson09", "lesson12")


@pytest.mark.slow
@pytest.mark.parametrize("lesson", TRAINING)
def test_a_new_training_run_shows_what_its_text_says(lesson: str):
    """Wherever it is run, and to whichever digits; two updates print the same lines, and show nothing."""
    shortened, programs_of_it = SHORTENED.get(lesson, {}), codes(readme(lesson))
    for old, new in shortened.items():
        assert old in programs_of_it[0], old
        programs_of_it = [code.replace(old, new) for code in programs_of_it]
    outputs = output_of(programs_of_it)
    assert [*map(labels, outputs)] == [*map(labels, records.printed(lesson))], outputs
    if lesson not in TWO_UPDATES:
        SHAPES[lesson](*map(rows, outputs))
