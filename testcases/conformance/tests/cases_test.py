"""The cases: read, of their schema, and the same as a second, slow implementation computes."""

import copy
import hashlib
import json
import math
from pathlib import Path

import numpy
import pytest

from testcases.conformance.ppo_conformance import operation, operations, variants
from testcases.conformance.ppo_conformance.cases import FILE
from testcases.conformance.ppo_conformance.slow import OPERATIONS

STEP = 1e-4
PUBLISHED = Path(__file__).with_name("published.txt")
CASES = [pytest.param(name, case, id=case.id) for name in operations() for case in operation(name).cases]


def test_every_operation_has_its_cases():
    assert set(operations()) == set(OPERATIONS) and 280 <= len(CASES) <= 350


def _line(name, version, case):
    """What published.txt says of an id: the version that brought it, and the digest of its numbers."""
    numbers = [name, *(case.get(key) for key in ("arguments", "expected", "gradient"))]
    return f"{case['id']} {version} {hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]}"


def test_an_id_never_changes_its_meaning():
    """To published.txt lines are added, and none is changed or taken out: people have cited these ids."""
    lines = PUBLISHED.read_text().splitlines()
    since = dict(line.split()[:2] for line in lines)
    assert len(since) == len(lines), "an id has two meanings"
    for record in json.loads(FILE.read_text("utf-8"))["operations"]:
        versions = [since.get(case["id"], record["version"]) for case in record["cases"]]
        wanted = [_line(record["operation"], *row) for row in zip(versions, record["cases"], strict=True)]
        new = sorted(set(wanted) - set(lines))
        assert not new, f"a changed case takes a new id, a new one the next version, and its line is added: {new}"
        assert record["version"] == max(versions, key=lambda one: [*map(int, one.split("."))])


def _slow(name, arguments, **options):
    made = OPERATIONS[name](**{**arguments, **options})
    return made if isinstance(made, dict) else {operation(name).returns[0]: made}


@pytest.mark.parametrize("name, case", CASES)
def test_a_case_is_what_the_slow_implementation_computes(name, case):
    for key, value in _slow(name, case.arguments).items():
        numpy.testing.assert_allclose(value, case.expected[key], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name, case", [row for row in CASES if row.values[1].gradient])
def test_a_gradient_is_the_slope_of_the_slow_implementation(name, case):
    """Central differences at two step widths, which together leave an error of the fourth power of the step."""

    def total(arguments):
        of = numpy.array(_slow(name, arguments)[case.gradient["of"]], float)
        weights = numpy.array(case.gradient.get("weights", 1.0))
        return math.fsum(numpy.ravel(numpy.where(weights == 0, 0.0, of * weights)))

    def slope(argument, place):
        def moved(by):
            arguments = copy.deepcopy(case.arguments)
            inner = arguments[argument]
            for index in place[:-1]:
                inner = inner[index]
            inner[place[-1]] += by
            return total(arguments)

        near, far = ((moved(h) - moved(-h)) / (2 * h) for h in (STEP, 2 * STEP))
        return (4 * near - far) / 3

    rounding = 1e-15 / STEP * numpy.max(numpy.abs(numpy.array(case.expected[case.gradient["of"]], float)))
    for argument, wanted in case.gradient["by"].items():
        wanted = numpy.array(wanted, float)
        values = numpy.array(case.arguments[argument], float)
        for place in numpy.ndindex(wanted.shape):
            if math.isfinite(values[place]):
                assert slope(argument, place) == pytest.approx(wanted[place], abs=1e-7 + rounding), (argument, place)
            else:
                assert wanted[place] == 0


@pytest.mark.slow
def test_the_file_has_the_form_of_its_schema():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(FILE.with_name("cases.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(FILE.read_text("utf-8")))


@pytest.mark.parametrize("name", operations())
def test_every_variant_gives_another_answer_somewhere_and_every_convention_is_quoted(name):
    """A convention or a mistake that no case tells from the rule has no place here."""
    for variant in variants(name):
        assert ("=" in variant.name) == bool(variant.quoted), f"{variant.name}: a convention is a choice, and is quoted"
        assert not variant.quoted or (variant.quoted["place"] and variant.quoted["text"])
        apart = [
            case.id
            for case in operation(name).cases
            for key, value in _slow(name, case.arguments, **variant.options).items()
            if not numpy.allclose(value, case.expected[key], equal_nan=True)
        ]
        assert apart or not variant.options, variant.name
