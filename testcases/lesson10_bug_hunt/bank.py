"""The implementations that a student's tests are run against: right ones, and wrong ones of which each is proved wrong.

    python -m testcases.lesson10_bug_hunt.bank        writes bank.json anew; after each change of lessons 1, 4, 5 or 6

Right are the reference and the other right answers of those lessons. Wrong are their wrong answers, and small changes
of the reference (`mutants`), as far as they answer every probe without an error and in the right shape, so that
looking at shapes alone catches nothing.
"""

import itertools
import json
import marshal
import random
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from testcases.harness.catalog.lessons import SOLUTIONS
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.execution.executor import InProcess, solutions, solutions_changed
from testcases.harness.execution.messages import Call, Outcome, Record
from testcases.harness.oracle.mutations import (
    Change,
    NamedChange,
    WrongAnswer,
    changed_source,
    region_text,
    right_answers,
)
from testcases.harness.oracle.mutations import wrong_answers as answers_of
from testcases.harness.report.compare import same_outcome
from testcases.harness.suite.asserts import as_argument

from .more_masks import MORE
from .probes import PROBES

BANK = Path(__file__).with_name("bank.json")
FAMILIES = {
    "compute_gae": ("lesson04_gae", ("compute_gae", "td_errors")),
    "compute_ppo_loss": ("lesson05_ppo_loss", ("compute_ppo_loss",)),
    "compute_rewards": ("lesson06_kl_rewards", ("compute_rewards", "estimate_kl")),
    "response_mask": ("lesson01_masked_sequences", ("response_mask",)),
}
"""Function -> its lesson, and the exercises of which a change reaches it."""
MOST = 80
"""Of one family."""


class Implementation(NamedTuple):
    """One way to write a function."""

    name: str
    source: str
    """The whole file."""
    probe: int | None
    """The first probe on which it differs from the reference; None if it is right."""


def calls(family: str) -> list[Call]:
    """The probes as calls."""
    lesson, _ = FAMILIES[family]
    return [
        Call(
            lesson,
            family,
            {name: as_argument(value) for name, value in probe.arguments.items()},
            0,
            None,
            probe.grad_of,
        )
        for probe in PROBES[family]
    ]


@cache
def right(family: str) -> tuple[Implementation, ...]:
    """The reference first."""
    lesson, (own, *_) = FAMILIES[family]
    path = SOLUTIONS / lesson / read_lesson(lesson).file_of(own)
    others = [answer for answer in right_answers(lesson) if answer.exercise == own]
    return (
        Implementation("reference", path.read_text("utf-8"), None),
        *(Implementation(answer.name, changed_source(lesson, answer)[1], None) for answer in others),
    )


@cache
def wrong(family: str) -> tuple[Implementation, ...]:
    """As bank.json lists them."""
    lesson, own = FAMILIES[family]
    by_name = {answer.name: answer for answer in answers_of(lesson) if answer.exercise in own}
    found = []
    for kept in json.loads(BANK.read_text("utf-8"))[family]:
        if "name" in kept:
            answer = by_name[kept["name"]]
        else:
            answer = _more(kept["more"]) if "more" in kept else _generated(**kept)
        found.append(Implementation(answer.name, changed_source(lesson, answer)[1], kept["probe"]))
    return tuple(found)


def _generated(exercise: str, old: str, new: str, probe: int = -1) -> WrongAnswer:
    change = Change("", "", replaced=((old, new),))
    return WrongAnswer(exercise, f"{old!r} -> {new!r}", "", "", change)


def _more(name: str) -> WrongAnswer:
    return WrongAnswer("response_mask", name, "", "", Change("", "", whole=MORE[name]))


def drawn(family: str, seed: object, size: int) -> tuple[list[Implementation], Tensor]:
    """Implementations in an order that the seed chooses, all right ones and so many wrong ones of every class; and
    their texts, packed."""
    draw = random.Random(f"{family} {seed}")
    by_class: dict[int | None, list[Implementation]] = {}
    for one in draw.sample(wrong(family), len(wrong(family))):
        by_class.setdefault(one.probe, []).append(one)
    in_turn = [one for row in itertools.zip_longest(*by_class.values()) for one in row if one is not None]
    chosen = [*right(family), *in_turn[:size]]
    draw.shuffle(chosen)
    return chosen, packed([one.source for one in chosen])


def packed(texts: Sequence[str]) -> Tensor:
    """Texts as bytes, compiled: no message shows them."""
    return torch.frombuffer(bytearray(marshal.dumps([_compiled(text) for text in texts])), dtype=torch.uint8)


@cache
def _compiled(source: str) -> bytes:
    return zlib.compress(marshal.dumps(compile(source, "<implementation>", "exec", dont_inherit=True)))


def difference(family: str, executor: InProcess) -> int | None:
    """The first probe on which it differs; None where it is right, or is seen by its shape or an error alone."""
    first = None
    for number, (asked, expected) in enumerate(zip(calls(family), _reference(family), strict=True)):
        got = executor.run(asked)
        if got.error or got.changed or _form(got.value) != _form(expected.value):
            return None
        if first is None and not same_outcome(got, expected):
            first = number
    return first


@cache
def _reference(family: str) -> list[Outcome]:
    reference = solutions()
    return [reference.run(asked) for asked in calls(family)]


def _form(value: Any) -> Any:
    if isinstance(value, Record):
        return value.fields, [_form(part) for part in value.values]
    return (value.shape, value.dtype) if isinstance(value, Tensor) else type(value)


def executor_of(family: str, source: str) -> InProcess:
    """The lesson of a family with another text for the file of its function."""
    lesson, (own, *_) = FAMILIES[family]
    return solutions_changed(lesson, {f"{lesson}/{read_lesson(lesson).file_of(own)}": source})


def candidates(family: str) -> Iterator[tuple[dict[str, Any], NamedChange]]:
    """What may enter the bank, as bank.json says it: hand-written changes, then the mutants of the regions."""
    from testcases.harness.oracle.mutants import mutants

    lesson, own = FAMILIES[family]
    for answer in answers_of(lesson):
        if answer.exercise in own:
            yield {"name": answer.name}, answer
    for name in MORE if family == "response_mask" else ():
        yield {"more": name}, _more(name)
    path = SOLUTIONS / lesson / read_lesson(lesson).file_of(own[0])
    for mutant in mutants(path):
        if mutant.exercise in own:
            old, new = _smallest_edit(
                region_text(lesson, mutant.exercise), _region_of(mutant.source, path, mutant.exercise)
            )
            kept = {"exercise": mutant.exercise, "old": old, "new": new}
            yield kept, _generated(**kept)


def _region_of(source: str, path: Path, exercise: str) -> str:
    """The changed region: as many lines are before and after it as in the reference."""
    import textwrap

    from testcases.harness.catalog.lessons import regions

    region = next(region for region in regions(path) if region.exercise == exercise)
    after = len(path.read_text("utf-8").splitlines()) - region.last
    lines = source.splitlines()
    return textwrap.dedent("\n".join(lines[region.first + 1 : len(lines) - after]))


def _smallest_edit(old: str, new: str) -> tuple[str, str]:
    """The part that differs, with whole lines around it until it stands in the text once."""
    before, after = old.splitlines(), new.splitlines()
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    parts = ["\n".join(lines[first : len(lines) - last]) for lines in (before, after)]
    while old.count(parts[0]) != 1 or not parts[0]:
        first -= 1
        parts = ["\n".join(lines[first : len(lines) - last]) for lines in (before, after)]
    return parts[0], parts[1]


def write() -> None:
    """Choose: every hand-written one that qualifies, and mutants until there are MOST, no two with the same answers."""
    found = {}
    for family in FAMILIES:
        lesson, _ = FAMILIES[family]
        seen: list[list[Outcome]] = []
        kept = []
        for entry, change in candidates(family):
            try:
                executor = executor_of(family, changed_source(lesson, change)[1])
                number = difference(family, executor)
            except (LookupError, SyntaxError):
                continue
            outcomes = [executor.run(asked) for asked in calls(family)]
            if number is None or any(all(map(same_outcome, outcomes, other)) for other in seen):
                continue
            seen.append(outcomes)
            kept.append({**entry, "probe": number})
        found[family] = kept[:MOST]
        print(family, len(right(family)), "right,", len(found[family]), "wrong of", len(kept))
    BANK.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write()
