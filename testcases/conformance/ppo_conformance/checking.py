"""check: a function against the cases of an operation. One line for a difference, however many cases show it."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy

from .calling import Answer, Way, ask, label_of, must_fit
from .cases import Case, Operation, operation, operations
from .report import ORDINARY, PLAIN, Difference, Report, shown
from .slow import OPERATIONS

EXACT, SIX_DIGITS, SINGLE = 1e-9, 2e-6, 1e-4
Numbers = dict[str, Any]
"""The results of an operation by name, each an array."""


@dataclass(frozen=True)
class Variant:
    """Another answer that has a name. One that a paper or a project states is a convention; another is a mistake."""

    operation: str
    name: str
    says: str
    options: Mapping[str, Any]
    compare: str = ""
    given: Mapping[str, str] | None = None
    """How an argument is given in the place of the file's own way."""
    quoted: Mapping[str, str] | None = None


@cache
def variants(name: str) -> tuple[Variant, ...]:
    """The conventions and the known mistakes of an operation."""
    records = json.loads((Path(__file__).parent / "variants.json").read_text())
    made = [Variant(**{"options": {}, **record}) for record in records]
    return tuple(one for one in made if one.operation in ("*", name))


def check(
    function: Callable[..., Any],
    name: str,
    *,
    conventions: Iterable[str] = (),
    not_supported: Iterable[str] = (),
    framework: str = "",
    dtype: str = "float64",
) -> Report:
    """Ask `function` every case of the operation `name`, and say where its answers are others.

    Args:
        function: takes the case's arguments by name (`ppo-conform --as NAME` lists them).
        name: of the operation, such as "gae_response"; `operations()` lists them.
        conventions: declared, such as ["dual_clip=3"]; `ppo-conform --as NAME` lists them.
        not_supported: what the function leaves to its caller, such as "gaps": these cases are left out and counted.
        framework: "torch" (where it is installed), "numpy" or "list".
        dtype: of the arguments, float64 or float32.

    Raises:
        ValueError: the operation or a convention is unknown, or the function cannot be called with the names of the
            arguments.
    """
    of = operation(name)
    declared = _declared(of, conventions)
    given = {key: value for one in declared for key, value in (one.given or {}).items()}
    way = Way(framework, dtype, given)
    asked, known = set(not_supported), _needs(name)
    if not asked <= known and (unknown := asked.difference(*map(_needs, operations()))):
        raise ValueError(f"no case of any operation needs {sorted(unknown)}; those of {name} need {sorted(known)}")
    without = asked & known  # one list may serve all operations
    must_fit(function, min((list(case.arguments) for case in of.cases), key=len))
    check_of = _Check(function, of, way, frozenset(without))
    inferred = check_of.infer(declared)
    return check_of.report(label_of(function), declared, inferred)


def _needs(name: str) -> set[str]:
    return {need for case in operation(name).cases for need in case.needs}


def _declared(of: Operation, conventions: Iterable[str]) -> tuple[Variant, ...]:
    known = {one.name: one for one in variants(of.name) if one.quoted}
    if unknown := [one for one in conventions if one not in known]:
        raise ValueError(f"{of.name} has no convention {unknown[0]!r}; it has {', '.join(known)}")
    return tuple(known[one] for one in conventions)


@dataclass(frozen=True, eq=False)
class _Deviation:
    kind: str
    case: Case
    expected: Any
    got: Any
    cause: str = ""


class _Check:
    """The answers of one function, asked once, and compared under this or that convention."""

    def __init__(self, function: Callable[..., Any], of: Operation, way: Way, without: frozenset[str]) -> None:
        self.of, self.without = of, without
        self.has_gradients = way.kind == "torch"
        self.exact, self.close = (EXACT, SIX_DIGITS) if way.dtype == "float64" else (SINGLE, SINGLE)
        left_out = {need for need in without if not _is_nan(need)}
        self.cases = [case for case in of.cases if not left_out & set(case.needs)]
        self.finite = {case.id: _finite(case) for case in self.cases if _has_nan(case)}
        self.answers = {case.id: ask(function, of, case, case.arguments, way) for case in self.cases}
        self.of_finite = {id: ask(function, of, of.case(id), asked, way) for id, asked in self.finite.items()}

    def infer(self, declared: tuple[Variant, ...]) -> tuple[Variant, ...]:
        """The smallest set of conventions with which all ordinary, or else all plain cases agree, and most others."""
        free = [one for one in variants(self.of.name) if one.quoted and one.options and one not in declared]
        for asked, size in itertools.product((ORDINARY, PLAIN), range(3)):
            sets = list(itertools.combinations(free, size))
            wrong = [[case.situation for case in self.cases if self._of_values(case, declared + one)] for one in sets]
            if fits := [(len(at), index) for index, at in enumerate(wrong) if not set(asked) & set(at)]:
                return sets[min(fits)[1]]
        return ()

    def report(self, label: str, declared: tuple[Variant, ...], inferred: tuple[Variant, ...]) -> Report:
        assumed = declared + inferred
        found = [one for case in self.cases for one in self._deviations(case, assumed)]
        failing = {one.case.id for one in found}
        agreed = [case for case in self.cases if case.id not in failing]
        asked, agree = (Counter(case.situation for case in cases) for cases in (self.cases, agreed))
        return Report(
            operation=self.of.name,
            version=self.of.version,
            function=label,
            conventions=tuple((one.name, dict(one.quoted or {})) for one in declared),
            inferred=tuple((one.name, dict(one.quoted or {})) for one in inferred),
            agreed=tuple(case.id for case in agreed),
            six_digits=tuple(case.id for case in agreed if self._wrong(case, *self._asked(case, assumed), self.exact)),
            left_out={need: sum(need in case.needs for case in self.of.cases) for need in sorted(self.without)},
            fails_in={one: f"{asked[one] - agree[one]} of {asked[one]}" for one in asked if agree[one] < asked[one]},
            differences=tuple(
                sorted(self._grouped(found, assumed), key=lambda one: (not one.is_plain, one.is_of_tools))
            ),
        )

    def _expected(self, case: Case, assumed: Iterable[Variant], arguments: Mapping[str, Any] | None = None) -> Numbers:
        options = {key: value for one in assumed for key, value in one.options.items()}
        if not options and arguments is None:
            return _arrays(case.expected)
        made = OPERATIONS[self.of.name](**{**(arguments or case.arguments), **options})
        return _arrays(made if isinstance(made, dict) else {self.of.returns[0]: made})

    def _asked(self, case: Case, assumed: tuple[Variant, ...]) -> tuple[Answer, Numbers]:
        """The answer, and what it is held against: where NaN leaks, those of the case with finite numbers instead."""
        answer, expected = self.answers[case.id], self._expected(case, assumed)
        if case.id not in self.finite or not (self.without & set(case.needs) or self._wrong(case, answer, expected)):
            return answer, expected
        return self.of_finite[case.id], self._expected(case, assumed, self.finite[case.id])

    def _wrong(self, case: Case, answer: Answer, expected: Numbers, digits: float | None = None) -> bool:
        real = _real(case)
        return bool(answer.failed) or any(
            not _close(answer.results[name], value, digits or self.close, real) for name, value in expected.items()
        )

    def _of_values(self, case: Case, assumed: tuple[Variant, ...]) -> list[_Deviation]:
        """What is wrong at the real tokens: nothing, or one thing."""
        answer, expected = self._asked(case, assumed)
        if answer.failed:
            return [_Deviation("raises", case, expected, answer.failed, answer.failed.partition(":")[0])]
        for name, value in expected.items():
            if answer.results[name].shape != value.shape:
                shapes = [f"{name} of shape {one.shape}" for one in (value, answer.results[name])]
                return [_Deviation("shape", case, *shapes)]
        if self._wrong(case, answer, expected):
            return [_Deviation("value", case, expected, answer.results)]
        if answer is self.of_finite.get(case.id) and not self.without & set(case.needs):
            leak, kind = self.answers[case.id], next(filter(_is_nan, case.needs))
            return [_Deviation(kind, case, self._expected(case, assumed), leak.failed or leak.results)]
        return []

    def _deviations(self, case: Case, assumed: tuple[Variant, ...]) -> list[_Deviation]:
        found = self._of_values(case, assumed)
        if found and found[0].kind in ("raises", "shape"):
            return found
        answer, expected = self._asked(case, assumed)
        compare = {one.compare for one in assumed}
        real = _real(case)
        if real is not None and "real tokens only" not in compare:
            of_mask = {name: value for name, value in expected.items() if value.shape == real.shape}
            other = [one for one in of_mask if not _close(answer.results[one], of_mask[one], SIX_DIGITS, ~real)]
            for name in other[:1]:
                found.append(_Deviation("padding is not 0", case, {name: of_mask[name]}, {name: answer.results[name]}))
        if answer.changed:
            found.append(_Deviation("changed in place", case, None, None, f"({', '.join(answer.changed)})"))
        asks_gradient = case.gradient and self.has_gradients and "values only" not in compare
        if asks_gradient and not any(one.kind == "value" for one in found) and not any(one.options for one in assumed):
            found += self._of_gradient(case, answer)
        return found

    def _of_gradient(self, case: Case, answer: Answer) -> list[_Deviation]:
        wanted = _arrays(case.gradient["by"])
        got = answer.gradient or {}
        if all(got.get(name) is None for name in wanted):
            return [_Deviation("no gradient", case, wanted, "an answer without a gradient")]
        digits = 10 * self.close
        agree = all(got[name] is not None and _close(got[name], value, digits, None) for name, value in wanted.items())
        return [] if agree else [_Deviation("gradient", case, wanted, got)]

    def _grouped(self, found: list[_Deviation], assumed: tuple[Variant, ...]) -> Iterator[Difference]:
        rest = [one for one in found if one.kind != "value"]
        values = [one for one in found if one.kind == "value"]
        while named := self._cause(values, assumed):
            cause, explained = named
            yield _difference(explained, cause.name, cause.says)
            values = [one for one in values if one not in explained]
        # What is wrong on plain input shows at the corners as well: until it is gone, these say nothing of their own.
        whole = any(one.case.situation in PLAIN for one in values)
        for situation in dict.fromkeys("" if whole else one.case.situation for one in values):
            yield _difference([one for one in values if whole or one.case.situation == situation])
        for kind, cause in dict.fromkeys((one.kind, one.cause) for one in rest):
            yield _difference([one for one in rest if (one.kind, one.cause) == (kind, cause)], cause)

    def _cause(self, values: list[_Deviation], assumed: tuple[Variant, ...]) -> tuple[Variant, list[_Deviation]] | None:
        """The variant that gives exactly the most of these answers, and contradicts none of those that agreed."""
        wrong = {one.case.id for one in values}
        best: tuple[Variant, list[_Deviation]] | None = None
        for variant in variants(self.of.name):
            with_it = assumed + (variant,)
            if not variant.options or variant in assumed:
                continue
            explained = [one for one in values if not self._wrong(one.case, *self._under(one.case, with_it))]
            if len(explained) > len(best[1] if best else []) and not any(
                self._wrong(case, *self._under(case, with_it))
                for case in self.cases
                if case.id not in wrong and not self._of_values(case, assumed)
            ):
                best = variant, explained
        return best

    def _under(self, case: Case, with_it: tuple[Variant, ...]) -> tuple[Answer, Numbers]:
        if case.id in self.finite:
            return self.of_finite[case.id], self._expected(case, with_it, self.finite[case.id])
        return self.answers[case.id], self._expected(case, with_it)


def _difference(group: list[_Deviation], cause: str = "", says: str = "") -> Difference:
    smallest = min(
        group, key=lambda one: (one.case.situation not in ORDINARY, _has_nan(one.case), len(str(one.case.arguments)))
    )
    return Difference(
        kind=group[0].kind,
        cause=cause,
        says=says,
        situations=tuple(dict.fromkeys(one.case.situation for one in group)),
        cases=tuple(one.case.id for one in group),
        needs=tuple(sorted(set.intersection(*(set(one.case.needs) for one in group)))),
        only_rounded=group[0].kind == "value" and all(map(_is_rounded, group)),
        smallest=smallest.case.id,
        expected=shown(smallest.expected),
        got=shown(smallest.got),
    )


def _is_rounded(one: _Deviation) -> bool:
    """Whether float32 somewhere inside would give these numbers."""
    real = _real(one.case)
    return all(_close(one.got[name], value, SINGLE, real) for name, value in one.expected.items())


def _has_nan(case: Case) -> bool:
    return any(map(_is_nan, case.needs))


def _is_nan(need: str) -> bool:
    return need.startswith("nan ")


def _finite(case: Case) -> dict[str, Any]:
    """The arguments with 7 wherever NaN or infinity stands, which is where nothing may be read."""
    return json.loads(json.dumps(case.arguments), parse_constant=lambda name: 7.0)


def _real(case: Case) -> Any:
    mask = case.arguments.get("mask")
    return None if mask is None else numpy.array(mask, dtype=bool)


def _arrays(results: Mapping[str, Any]) -> Numbers:
    return {name: numpy.array(value, dtype=float) for name, value in results.items()}


def _close(got: Any, expected: Any, digits: float, where: Any) -> bool:
    """Whether the numbers are the same, at the places `where` if they have its shape."""
    if got.shape != expected.shape:
        return False
    if where is not None and where.shape == expected.shape:
        got, expected = got[where], expected[where]
    with numpy.errstate(invalid="ignore"):
        apart = numpy.abs(got - expected) <= digits * numpy.maximum(1, numpy.abs(expected))
    return bool(numpy.all(apart | (got == expected) | (numpy.isnan(got) & numpy.isnan(expected))))
