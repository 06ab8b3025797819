"""Lesson 10's bank of implementations, and what tests of several kinds earn on it."""

import importlib
import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solutions.lesson10_bug_hunt import diagnose
from testcases.course.students import HANGS
from testcases.harness.catalog.handles import Exercise
from testcases.harness.catalog.lessons import ROOT, TUTORIAL
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.diagnosis.invariants import broken
from testcases.harness.execution.executor import solutions_changed
from testcases.harness.execution.messages import Call, Outcome
from testcases.harness.oracle.mutations import NamedChange, WrongAnswer, edit, right_answers, suspects, wrong_answers
from testcases.harness.oracle.reference import examples, shared_reference, with_change
from testcases.harness.report.compare import same_outcome
from testcases.harness.report.failures import CheckFailed
from testcases.harness.student import own_tests
from testcases.harness.suite.asserts import named
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine
from testcases.lesson10_bug_hunt import bank
from testcases.lesson10_bug_hunt.grading import behind, grade
from testcases.lesson10_bug_hunt.probes import PROBES
from testcases.lesson10_bug_hunt.rules import OF_ANSWERS, foreign, problem
from testcases.lesson10_bug_hunt.runs import clear_run, run

LESSON = "lesson10_bug_hunt"
EACH = pytest.mark.parametrize("function", bank.FAMILIES)
HEAD = """
import torch
import pytest
from ..lesson01_masked_sequences import response_mask
from ..lesson04_gae import compute_gae
from ..lesson05_ppo_loss import compute_ppo_loss
from ..lesson06_kl_rewards import compute_rewards
"""
ONE = "compute_gae(torch.ones(1), torch.ones(2), torch.zeros(1))"
GAE = f"{HEAD}\ndef test_compute_gae():\n    "


def verdict(function: str, source: str | None = None, chosen: Any = None) -> dict[str, Any]:
    """What the scenario answers about a test file; the reference's own without one."""
    subject = shared_reference().executor
    if source is not None:
        subject = solutions_changed(LESSON, {f"{LESSON}/my_tests.py": source})
    packed = bank.packed([one.source for one in chosen])
    outcome = subject.run(behind(Exercise(LESSON, f"test_{function}"), "verdicts", function, packed))
    assert outcome.error is None, outcome.error
    return outcome.value


@EACH
def test_bank_holds_enough_of_both_kinds(function: str):
    assert len(bank.right(function)) >= 5 and len(bank.wrong(function)) >= 40
    assert len({one.source for one in (*bank.right(function), *bank.wrong(function))}) == len(
        bank.right(function) + bank.wrong(function)
    )


@EACH
def test_each_wrong_one_differs_from_the_reference_where_the_bank_says(function: str):
    questions = bank.calls(function)
    right = [shared_reference().run(asked) for asked in questions]
    for one in bank.wrong(function):
        executor = bank.executor_of(function, one.source)
        assert one.probe is not None and not same_outcome(executor.run(questions[one.probe]), right[one.probe])
    for one in bank.right(function):
        executor = bank.executor_of(function, one.source)
        assert all(same_outcome(executor.run(asked), answer) for asked, answer in zip(questions, right, strict=True))


@EACH
def test_reference_tests_accept_all_right_and_refuse_all_wrong_ones(function: str):
    chosen = [*bank.right(function), *bank.wrong(function)]
    found = verdict(function, chosen=chosen)
    assert not found["problem"]
    assert found["refused"] == [one.probe is not None for one in chosen]


@pytest.mark.slow
@EACH
def test_the_suites_catch_98_percent(function: str):
    """The basic and the advanced one; the generated agreement with the reference would catch the rest."""
    lesson, (own, *_) = bank.FAMILIES[function]
    suite = [case for case in cases_of(lesson, own) if "/contract" not in case.node]
    caught = 0
    for one in bank.wrong(function):
        with Engine(bank.executor_of(function, one.source), explanation=NoExplanation).active():
            caught += any(case.run() is not None for case in suite)
    assert caught >= 0.98 * len(bank.wrong(function))


WEAK = {
    "compute_gae": ONE,
    "compute_ppo_loss": "compute_ppo_loss(torch.ones(2), torch.ones(2), torch.ones(2))",
    "compute_rewards": "compute_rewards(torch.ones(1), torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2).bool())",
    "response_mask": "response_mask(torch.tensor([[5, 2, 6]]), (2,))",
}


@EACH
@pytest.mark.parametrize("test", ["pass", "assert True", "shape"])
def test_tests_that_look_at_nothing_or_at_shapes_earn_less_than_a_tenth(function: str, test: str):
    call = WEAK[function]
    body = f"first, second = {call}, {call}\n    assert type(first) is type(second)\n    assert len(PARTS) and all("
    body += "part.shape == other.shape and part.dtype == other.dtype and part.dim() < 3 for part, other in PARTS)"
    parts = "zip(first, second)" if function == "compute_gae" else "[(first, second)]"
    body = body.replace("len(PARTS) and ", "").replace("PARTS", parts) if test == "shape" else test
    found = verdict(function, f"{HEAD}\ndef test_{function}():\n    {body}\n", bank.wrong(function))
    assert not found["problem"] and sum(found["refused"]) < 0.1 * len(found["refused"])


@pytest.mark.parametrize(
    "line",
    [
        "'{0.__closure__}'.format(compute_gae)",
        "torch.importlib.import_module('os')",
        "torch.builtins.getattr(compute_gae, '__code__')",
        "from torch import inspect",
        "import torch.utils._python_dispatch",
        "import typing as t; t.operator.attrgetter('__code__')(compute_gae)",
        "typing.get_type_hints(compute_gae)",
        "pytest.importorskip('inspect').getsource(compute_gae)",
        "kept = [torch]; kept[0].hub",
        "Spy = type('Spy', (torch.Tensor,), {'__torch_function__': print})",
        "make = type; make('Spy', (torch.Tensor,), {'__torch_function__': print})",
        "class Spy(torch.Tensor):\n        __torch_function__ = print",
        "match compute_gae:\n        case object(__closure__=cells):\n            pass",
        "functools.update_wrapper(print, compute_gae, assigned=('__code__',))",
        "compute_gae(x).advantages.grad_fn.next_functions",
        "compute_gae.returns.__globals__",
        "compute_gae(x).deltas",
        "torch.from_file('x', shared=True, size=9)",
        "from math import pi as __builtins__",
        "with torch.autograd.detect_anomaly(): pass",
        "from torch.autograd import set_detect_anomaly",
        "torch.autograd.profiler.profile()",
        "torch.autograd.graph.saved_tensors_hooks(print, print)",
        "class Spy(torch.Tensor):\n        def exp(self): pass",
        "class Spy(float): pass",
        "class Spy(metaclass=Meta): pass",
        "type(int)('Spy', (torch.Tensor,), {})",
        "import dataclasses; dataclasses.inspect.getsource(compute_gae)",
        "from dataclasses import make_dataclass",
        "import contextlib; contextlib.sys.modules",
        "typing.functools.update_wrapper(print, compute_gae)",
        "(torch.os for _ in [1])",
        "def patch(self): self.exp = print\n    patch(torch.Tensor)",
        "def patch(self): self.__call__ = print\n    patch(torch.Tensor)",
        "torch.get_device_module('cuda').importlib.import_module('operator').attrgetter('f_back')(x)",
        "get_device_module = importlib = 1; torch.get_device_module('cuda').importlib",
        "from torch import get_device_module",
        "import copy; copy.dispatch_table[0]",
        "typing.get_args(typing.Optional['1 + 1'])[0].evaluate()",
        "torch.initial_seed()",
        "torch.Generator().get_state()",
        "torch.overrides.get_ignored_functions()",
        "torch.ops.aten.add(x, x)",
        "torch.library.custom_op",
        "x.sum().register_hook; torch.utils",
        "torch.set_printoptions(profile='full')",
        "(n for n in [1]).gi_yieldfrom",
        "match x:\n        case object(gi_running=cells):\n            pass",
        "with pytest.warns(UserWarning) as caught: pass\n    caught[0].lineno",
        "with pytest.raises(ValueError) as caught: pass\n    caught.value.__traceback__",
    ],
)
def test_no_way_leads_from_a_test_to_the_implementation(line: str):
    found = problem(f"import functools, typing{GAE}{line}\n", "compute_gae")
    assert found.startswith("my_tests.py, line "), line


@pytest.mark.parametrize(
    "line",
    [
        "assert compute_gae(x)._asdict() == {} and compute_gae(x)._fields == ()",
        "found = compute_gae(x)\n    assert torch.equal(found.returns, found.advantages + x)",
        "import torch.nn.functional as F; F.pad(x, (0, 1)); torch.testing.assert_close(x, x)",
        "from torch.autograd import gradcheck; from torch.testing import assert_close; gradcheck(compute_gae, x)",
        "with pytest.raises(ValueError, match='gamma') as caught: pass\n    assert 'x' in str(caught.value)",
        "x.requires_grad = True; x.grad = None; assert type(x) is torch.Tensor and isinstance(x.dtype, torch.dtype)",
        "assert functools.reduce(lambda a, b: a * b, [1, 2]) == 2 and f'{x.sum():.3f}' and '%.2f' % 2.0",
        "case: typing.Any = copy.deepcopy(x); random.seed(0); torch.manual_seed(0); torch.Generator().manual_seed(1)",
        "def given(size: int = 3, *, scale=2.0): return scale * torch.arange(size)\n    assert given(2).sum() == 2",
        "Case = typing.NamedTuple('Case', [('x', float)]); assert Case(x=1.0) == (1.0,)",
        "class Case(typing.NamedTuple):\n        x: float\n    assert Case(1.0).x == pytest.approx(1.0, abs=1e-6)",
        "@dataclass\n    class Case:\n        x: float = 1.0\n    assert Case() == Case(1.0)",
        "class Oracle:\n        def __init__(self, x): self.gamma = x\n        def __call__(self): return 1",
        "with suppress(ValueError): compute_gae(-x)",
        "assert __name__ and all(a == b for a, b in zip([1], [1], strict=True)), f'{x!r} is {[1][0]:>3}'",
        "assert x.max(dim=1).values.tolist() and x.sort().indices.shape == x.size() and torch.topk(x, 1).values.ndim",
        "import statistics; statistics.mean([1]); import collections; collections.Counter('a').most_common(1)",
        "Case = collections.namedtuple('Case', 'rewards values'); assert Case(1, 2).rewards == 1",
        "old = torch.get_default_dtype(); torch.set_default_dtype(torch.float64); torch.finfo(x.dtype).eps",
        "with torch.no_grad(): x.add_(1); x.detach().clone().requires_grad_().backward(torch.ones(1))",
        "torch.linalg.norm(x); torch.special.expit(x); torch.autograd.functional.jacobian(compute_gae, x)",
        "rows = itertools.product([1], [2]); assert math.isclose(1.0, 1.0) and not math.isnan(x.sum().item())",
    ],
)
def test_what_tests_are_made_of_breaks_no_rule(line: str):
    head = "from contextlib import suppress\nfrom dataclasses import dataclass\n"
    head += "import copy, functools, itertools, math, random, typing"
    assert problem(f"{head}{GAE}{line}\n", "compute_gae") == ""


def test_an_answer_may_be_read_by_the_names_of_its_docstring_and_by_no_other():
    named: set[str] = set()
    for function, (lesson, _) in bank.FAMILIES.items():
        written = getattr(importlib.import_module(f"solutions.{lesson}"), function)
        fields = getattr(inspect.signature(written, eval_str=True).return_annotation, "_fields", ())
        assert all(name in inspect.getdoc(written) for name in fields)
        named |= {*fields}
    assert named == OF_ANSWERS and not named & foreign()


def test_parts_read_by_name_earn_what_parts_read_by_place_do():
    by_name = f"{GAE}assert {ONE}.advantages.item() == pytest.approx(0.99)\n"
    by_place = by_name.replace(".advantages", "[0]")
    found = [verdict("compute_gae", source, bank.wrong("compute_gae")) for source in (by_name, by_place)]
    assert found[0] == found[1] and any(found[0]["refused"]) and not all(found[0]["refused"])


def test_a_rule_broken_in_one_test_costs_no_other_function():
    source = f"{GAE}open('x')\n\ndef test_compute_rewards():\n    pass\n"
    assert problem(source, "compute_gae") and not problem(source, "compute_rewards")
    everywhere = source.replace("    open('x')", "    pass\n\nopen('x')")
    assert problem(everywhere, "compute_gae") and problem(everywhere, "compute_rewards")


@named(
    "before, line, after",
    {
        "called": ("", "test_compute_rewards()", "def test_compute_rewards():\n    import os\n"),
        "decorated": ("", "pass", "@run\ndef test_compute_rewards():\n    import os\n"),
        "another-encoding": ("\r# coding: utf-7\n", "pass", ""),
        "too-long-to-read": ("", "pass", "# coding: utf-8\n" * 5000),
        "too-deep-to-read": ("", "pass", "x = " + "-" * 50_000 + "1"),
        "an-expression-too-deep": ("", "pass", "x = " + "a." * 20_000 + "b"),
        "no-utf-8": ("", "pass", "# K\ufffdln, where a byte is no letter\n"),
        "the-first-encoding-counts": ("# coding: cp1252 (utf-8)\n", "pass", ""),
    },
)
def test_what_is_looked_at_is_what_runs(before: str, line: str, after: str):
    assert problem(f"{before}import torch{GAE}{line}\n\n{after}", "compute_gae").startswith("my_tests.py")
    assert not problem(f"# -*- coding: UTF_8 -*-\nimport torch{GAE}pass\n", "compute_gae")


@named(
    "body, says",
    {
        "reads-the-source": ("import inspect\n    inspect.getsource(compute_gae)", "import of inspect"),
        "reads-the-name": ("assert compute_gae.__name__ == 'compute_gae'", "use of .__name__"),
        "deletes-a-file": ("import os\n    os.remove('x')", "import of os"),
        "writes-a-file": ("open('x', 'w')", "use of open"),
        "needs-the-network": ("import urllib.request", "import of urllib.request"),
        "patches-torch": ("torch.exp = None", "assignment to .exp"),
        "patches-by-name": ("setattr(torch, 'exp', None)", "use of setattr"),
        "another-function-as-oracle": ("from ..lesson04_gae import td_errors", "import of td_errors from lesson04_gae"),
        "the-solution": ("from solutions.lesson04_gae import compute_gae", "import of solutions"),
        "by-chance": ("assert torch.rand(1) < 0.5", "do not agree"),
        "passes-only-alone": (
            "seen.append(1)\n    assert len(seen) < 2\n\nseen = []\ntest_compute_gae_again = test_compute_gae",
            "do not agree",
        ),
        "passes-only-in-one-order": (
            "seen.append(1)\n\nseen = []\ndef test_compute_gae_again():\n    assert seen",
            "do not agree",
        ),
    },
)
def test_a_file_that_breaks_a_rule_earns_nothing_and_reads_one_sentence(body: str, says: str):
    subject = solutions_changed(LESSON, {f"{LESSON}/my_tests.py": f"{GAE}{body}\n"})
    with Engine(subject, explanation=NoExplanation).active(), pytest.raises(CheckFailed) as caught:
        grade(Exercise(LESSON, "test_compute_gae"))
    assert caught.value.share == 0.0
    assert says in str(caught.value) or "raised" in caught.value.kind, str(caught.value)


RIGHT = "compute_gae(torch.ones(1), torch.tensor([1.0, 3.0]), torch.zeros(1), 0.5, 0.5)[0]"


def failure(source: str, seconds: float) -> CheckFailed:
    """What the report of test_compute_gae says about a test file."""
    with Engine(solutions_changed(LESSON, {f"{LESSON}/my_tests.py": source}), seconds=seconds).active():
        with pytest.raises(CheckFailed) as caught:
            grade(Exercise(LESSON, "test_compute_gae"))
    return caught.value


@pytest.mark.slow
@named(
    "body, kind, says",
    {
        "another-number": (
            f"found = {RIGHT}.item()\n    assert found == 2, 'not two'",
            "a right implementation is refused",
            ["compute_gae([1] (float32), [1, 3] (float32), [0] (float32), 0.5, 0.5)", "1.5", "not two"],
        ),
        "asserted-elsewhere": (
            f"torch.testing.assert_close({RIGHT}, torch.ones(1))",
            "a right implementation is refused",
            ["assert_close(compute_gae", "not close"],
        ),
        "in-a-helper": (
            f"helper({RIGHT})\n\ndef helper(found):\n    assert found.grad is not None",
            "a right implementation is refused",
            ["line 13\n    assert found.grad is not None"],
        ),
        "broke": ("assert y", "your test broke", ["NameError: name 'y'", "line 10\n    assert y"]),
        "no-such": ("compute_gae(1, x=2)", "a call outside of the contract", ["keyword argument 'x'"]),
        "refused-argument": (
            "compute_gae(torch.ones(1), torch.ones(3), torch.ones(1))",
            "a call outside of the contract",
            ["line 10", "ValueError: expected rewards"],
        ),
        "spy": ("class Spy:\n        pass\n    compute_gae(Spy(), 1, 1)", "a call outside of the contract", ["Spy"]),
        "endless": (
            "helper()\n\ndef helper():\n    while True:\n        pass",
            "took too long",
            ["test_compute_gae does not end, or is slow: it was stopped after 1 seconds", "my_tests.py, line 1"],
        ),
        "asks-for-a-fixture": (
            "pass\n\ndef test_compute_gae_rows(rows):\n    assert rows",
            "your test broke",
            ["Fixtures are not known here"],
        ),
        "makes-a-fixture": (
            "pass\n\n@pytest.fixture\ndef rows():\n    return 1",
            "a rule is broken",
            ["Fixtures are not known here"],
        ),
        "setup": ("pass\n\ndef setup_function():\n    pass", "a rule is broken", ["def setup_function. It is not run"]),
        "helpers": ("pass\n\nfrom .helpers import oracle", "a rule is broken", ["from helpers", "imports torch"]),
        "in-a-class": (
            "pass\n\nclass TestGae:\n    def test_one(self):\n        pass",
            "mistakes not caught",
            ["line 12: TestGae is not run"],
        ),
        "no-function": (
            "pass\n\nclass Check:\n    def __call__(self):\n        pass\ntest_compute_gae_too = Check()",
            "mistakes not caught",
            ["test_compute_gae_too is not run"],
        ),
        "asynchronous": (
            "pass\n\nasync def test_compute_gae_too():\n    pass",
            "your test broke",
            ["is not async Read:"],
        ),
        "misnamed": ("pass\n\ndef test_gae():\n    pass", "mistakes not caught", ["line 12: test_gae is not run"]),
    },
)
def test_a_report_says_whose_mistake_it_is_and_shows_the_line(body: str, kind: str, says: list[str]):
    found = failure(f"{GAE}{body}\n", seconds=1.0 if "while" in body else HANGS)
    assert found.kind == kind and found.share == 0.0, str(found)
    assert all(" ".join(part.split()) in " ".join(str(found).split()) for part in says), str(found)


@pytest.mark.parametrize(
    "mark, refused",
    [
        ("parametrize(argnames='wanted', argvalues=[1.0, 1.5])", True),
        ("parametrize(('wanted',), [(1.5,)], ids=['right'])", False),
        ("parametrize('wanted, more', [pytest.param(1.5, 0.0, id='right')])", False),
        ("parametrize('wanted', (number for number in [1.0]))", True),
        ("skip(reason='later')", False),
        ("skipif(True, reason='later')", False),
        ("xfail", False),
    ],
)
def test_marks_are_those_of_pytest(mark: str, refused: bool):
    body = f"pass\n\n@pytest.mark.{mark}\ndef test_compute_gae_marked(wanted=0.0, more=0.0):\n"
    source = f"{GAE}{body}    assert {RIGHT}.item() == wanted + more\n"
    assert verdict("compute_gae", source, bank.right("compute_gae")[:1])["refused"] == [refused]


@named(
    "line, refused, left_out",
    {
        "partial": ("test_compute_gae_too = functools.partial(check, 1)", True, ""),
        "wrapped": ("test_compute_gae_too = functools.cache(functools.partial(check, 1))", True, ""),
        "lambda": ("test_compute_gae_too = lambda: check(1)", True, ""),
        "no-function": ("test_compute_gae_too = Check()", False, "test_compute_gae_too"),
        "partial-of-another-name": ("test_gae = functools.partial(check, 1)", False, "test_gae"),
        "of-another-function": ("test_compute_rewards_too = Check()", False, ""),
        "numbers": ("test_compute_gae_rows = [1, 2]", False, ""),
    },
)
def test_what_is_run_is_what_pytest_runs(line: str, refused: bool, left_out: str):
    helpers = "import functools\n\ndef check(n):\n    assert n == 2\n\n"
    helpers += "class Check:\n    def __call__(self):\n        check(1)\n"
    found = verdict("compute_gae", f"{GAE}pass\n\n{helpers}\n{line}\n", bank.right("compute_gae")[:1])
    assert found == {"problem": "", "refused": [refused], "left_out": left_out}


def test_own_tests_run_as_plain_tests_of_pytest_on_the_course_s_functions(tmp_path: Path, capsys: Any):
    file = tmp_path / "tutorial" / LESSON / "my_tests.py"
    file.parent.mkdir(parents=True)
    for package in (file.parent, file.parent.parent):
        (package / "__init__.py").touch()
    file.write_text(f"{GAE}found = {RIGHT}.item()\n    assert found == 1.5\n    assert found == 2\n")
    mine = str(TUTORIAL / LESSON / "my_tests.py")
    for arguments, says in (
        ([f"{file}::test_compute_gae"], ["assert 1.5 == 2", "my_tests.py:12: Ass", "1 failed"]),
        ([f"{mine}::test_compute_gae", "--collect-only"], ["my_tests.py::test_compute_gae", "1 test collected"]),
    ):
        pytest.main(
            [*arguments, "-p", "no:randomly", "-p", "no:cacheprovider", "--import-mode=importlib"], plugins=[own_tests]
        )
        printed = capsys.readouterr().out
        assert all(part in printed for part in says), printed


def test_half_of_the_mistakes_are_half_of_the_points_and_one_question():
    body = "assert compute_gae(torch.ones(1), torch.tensor([1.0, 3.0]), torch.zeros(1), 0.5, 0.5)[0].item() == 1.5\n"
    with Engine(solutions_changed(LESSON, {f"{LESSON}/my_tests.py": GAE + body})).active():
        with pytest.raises(CheckFailed) as caught:
            grade(Exercise(LESSON, "test_compute_gae"))
    assert 0.1 < caught.value.share < 0.9 and any(
        probe.question in str(caught.value) for probe in PROBES["compute_gae"]
    )
    assert not any(one.name in str(caught.value) for one in bank.wrong("compute_gae"))


@pytest.mark.parametrize("fault, seed, looks", [("step_too_large", 265, "collapse"), ("entropy_collapse", 66, "step")])
def test_a_run_that_looks_like_another_fault_is_not_asked(fault: str, seed: int, looks: str):
    assert looks in diagnose(run(fault, seed))
    assert diagnose(clear_run(fault, seed)) == fault


def test_bank_is_sorted_as_it_is_written():
    kept = json.loads(Path(bank.BANK).read_text("utf-8"))
    assert set(kept) == set(bank.FAMILIES) == set(PROBES)


def test_a_suite_that_takes_only_worth_from_the_engine_gets_handles():
    code = "from testcases.harness.suite.asserts import named; from tutorial.lesson10_bug_hunt import diagnose; "
    code += "print(diagnose.target)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Exercise("), done.stdout


@named(
    "file, exercise, old, new, told",
    {
        "as-handed-out": ("pessimism", "pessimistic_gain", "torch.minimum", "torch.maximum", ""),
        "another-mistake": ("pessimism", "pessimistic_gain", "merits.sign()", "1.0", "while no ratio is out"),
        "none-broken": ("bounded", "bounded_error", ".where(free_error > held_error, free_error, held_error).mean()",
                        ".maximum(free_error.mean(), held_error.mean())", ""),
    },
)  # fmt: skip
def test_a_wrong_repair_without_a_known_cause_reads_an_invariant_that_it_breaks(
    file: str, exercise: str, old: str, new: str, told: str
):
    path = f"{LESSON}/{file}.py"
    source = (ROOT / "solutions" / path).read_text("utf-8").replace(old, new)
    with Engine(solutions_changed(LESSON, {path: source}), reference=shared_reference()).active():
        said = [str(verdict) for case in cases_of(LESSON, exercise) if (verdict := case.run())]
    assert said and told in said[0] and ("Must hold:" in said[0]) == bool(told)


SUSPECTS = suspects(LESSON)
UNLISTED = {
    "logged_before_the_update": edit(
        '(batch["target"] - critic).square() => (batch["target"] - rate * batch["target"].mean(dim=0)).square()'
    ),
    "never_negative": edit("torch.stack(entropies) => -torch.stack(entropies)"),
}
"""What breaks an invariant that no listed answer breaks."""


@pytest.mark.slow
@pytest.mark.parametrize("exercise", SUSPECTS)
def test_right_repairs_keep_all_invariants_and_each_is_broken_by_a_wrong_one(exercise: str):
    def is_broken(invariant: Any, answer: NamedChange) -> bool:
        subject, alone = with_change(LESSON, answer), replace(SUSPECTS[exercise], invariants=(invariant,))

        def both(asked: Call) -> tuple[Outcome, Outcome]:
            return shared_reference().run(asked), subject.run(asked)

        return bool(broken(alone, examples(LESSON, exercise), both))

    right, wrong = ([one for one in of(LESSON) if one.exercise == exercise] for of in (right_answers, wrong_answers))
    for invariant in SUSPECTS[exercise].invariants:
        unlisted = [
            WrongAnswer(exercise, "unlisted", "", "", UNLISTED[name]) for name in UNLISTED if name == invariant.__name__
        ]
        assert not any(is_broken(invariant, one) for one in right), invariant.__name__
        assert any(is_broken(invariant, one) for one in (*wrong, *unlisted)), invariant.__name__
