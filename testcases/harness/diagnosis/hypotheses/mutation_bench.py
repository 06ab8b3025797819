"""One exercise of the reference with one thing changed: an argument, its answer, a helper's call, or its code."""

import ast
import copy
import functools
import inspect
import re
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import CodeType, ModuleType
from typing import Any

import torch

from ...catalog import SOLUTIONS, region_of
from ...execution import LocalEvaluator, Outcome, Request, View, copy_plain, tensors_in, to_plain
from ...oracle import examples, kept
from ...report import alike

SECONDS = 0.25
"""A changed reference may run for ever; the reference itself never needs as much."""
CHEAP = 5.0
"""Seconds that a question is given unless it trains; only what is as cheap is asked again, or in other forms."""
MAX_KEPT = 2_000
HOOK = "_altered_arguments"
MAX_OBSERVED, MAX_CALLS = 12, 400
EVERYWHERE = "*"

Arguments = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One thing that may be wrong with an answer. Exactly one of the changes is given."""

    change: str
    """In words: "with `lam` = 1"."""
    place: str = ""
    """The helper whose call is changed; empty for the exercise itself."""
    arguments: Callable[[Arguments], Arguments] | None = None
    answer: Callable[[Any], Any] | None = None
    around: Callable[[Callable[..., Any], Arguments], Any] | None = None
    """Given the function and its arguments, what it answers in their place."""
    code: Callable[[], CodeType] | None = None
    words: Counter[str] = field(default_factory=Counter)
    """How many more there are of each in the changed code; below 0: fewer."""
    names: frozenset[str] = frozenset()
    """Of which the change in words speaks."""
    unused: tuple[str, ...] = ()
    """The arguments that have no say in such an answer."""
    is_swap: bool = False
    listed: tuple[str, ...] = ()
    """The names of the listed wrong answers that it is made of."""
    lead: str = ""
    """What leads to the change in words, where it is not said beside another one."""

    @property
    def text(self) -> str:
        """Completes "this is what `f` gives": "with `lam` = 1: is `lam` used?"."""
        asked = f"is `{self.unused[0]}`" if len(self.unused) == 1 else "are both"
        return f"{self.lead}{self.change}" + (f": {asked} used?" if self.unused else "")

    def changed(self, call: Callable[..., Any], given: Arguments) -> Any:
        """What is answered in place of `call(**given)`; arguments of the exercise are changed at its region's hook."""
        if self.around:
            return self.around(call, given)
        answer = call(**(self.arguments(given) if self.place and self.arguments else given))
        return self.answer(answer) if self.answer else answer


class Code:
    """A function whose variants are tried: its syntax tree, and the lines of the file in which they differ."""

    lesson: str
    exercise: str
    module: ModuleType
    tree: ast.FunctionDef
    region: tuple[int, int]
    """The line before the first, and the last."""

    def contains(self, node: ast.AST) -> bool:
        """Whether a node stands in the region."""
        return self.region[0] < getattr(node, "lineno", 0) <= self.region[1]

    def nodes(self) -> Iterator[ast.AST]:
        """All of the region's syntax tree."""
        return (node for one in self.tree.body if self.contains(one) for node in ast.walk(one))


class Bench(Code):
    """The reference's exercise in a view of its own, with hooks at its region, its answer and its helpers."""

    def __init__(self, lesson: str, exercise: str) -> None:
        self.lesson, self.exercise = lesson, exercise
        self._view = View(SOLUTIONS, [lesson])
        self._evaluator = LocalEvaluator(lambda name: self._view)
        self._tried: Hypothesis | None = None
        self._observed: list[tuple[str, Arguments]] | None = None
        self._seen_answers: dict[str, Any] = {}
        self._kept: dict[tuple[Hypothesis, str], Outcome] = {}
        self._inside = 0
        self.examples = examples(lesson, exercise)
        self.is_slow = any(request.scenario for request in self.examples)
        self.function = self._view.resolve(lesson, exercise)
        self.plain = inspect.unwrap(self.function)
        self.module = sys.modules[self.plain.__module__]
        self.tree, self.region = _region(lesson, exercise)
        self._right = compiled(self._hooked())
        self.helpers = self._helpers()
        self._install()
        self._hooked_function = self._view.resolve(lesson, exercise)

    def ask(self, hypothesis: Hypothesis, request: Request) -> Outcome:
        """What the exercise answers with this one thing changed; to a slow question kept for the next student."""
        given = [request.grad_weights, *request.arguments.values()]
        if request.seconds <= CHEAP or any(True for _ in tensors_in(given)):  # A tensor's text does not say all.
            return self._answer(hypothesis, request)
        key = hypothesis, repr(request)
        if key not in self._kept:
            if len(self._kept) == MAX_KEPT:
                self._kept.clear()
            self._kept[key] = self._answer(hypothesis, request)
        return self._kept[key]

    def _answer(self, hypothesis: Hypothesis, request: Request) -> Outcome:
        with self._trying(hypothesis):
            return self._evaluator.evaluate(replace(request, seconds=min(request.seconds, SECONDS)))

    @contextmanager
    def _trying(self, hypothesis: Hypothesis) -> Iterator[None]:
        self._tried = hypothesis
        try:
            self.plain.__code__ = hypothesis.code() if hypothesis.code else self._right
            yield
        finally:
            self._tried, self._inside, self.plain.__code__ = None, 0, self._right

    def may_give(self, hypothesis: Hypothesis, request: Request, mine: Outcome) -> bool:
        """Whether the value may be this one: most are told apart here."""
        if request.scenario or (mine.error and mine.error.kind != "raised"):
            return True
        try:
            value = self.value_of(hypothesis, request)
        except Exception as error:
            return mine.error is not None and mine.error.type_name == type(error).__name__
        return not mine.error and alike(value, mine.value)

    def value_of(self, hypothesis: Hypothesis, request: Request) -> Any:
        """What it gives, no scenario's; without gradients and guards it takes half the time. It may raise anything."""
        with self._trying(hypothesis), torch.no_grad(), torch.random.fork_rng(devices=()):
            return to_plain(self._hooked_function(**copy_plain(request.arguments)))[0]

    @kept
    def ask_example(self, hypothesis: Hypothesis, index: int) -> Outcome:
        """The same on an example, kept for the next student."""
        return self.ask(hypothesis, self.examples[index])

    def observed(self) -> list[tuple[str, Arguments]]:
        """Place ("" for the exercise, or a helper) and arguments of the calls that the first examples lead to."""
        if self._observed is None:
            self._observed = []
            for request in self.examples[:: max(1, len(self.examples) // MAX_OBSERVED)]:
                self.ask(Hypothesis("", EVERYWHERE), request)
        return self._observed

    def answer_of(self, place: str) -> Any:
        """One answer of the exercise, or of a helper."""
        self.observed()
        return self._seen_answers.get(place)

    def _note(self, place: str, call: Callable[..., Any], given: Arguments) -> Any:
        assert self._observed is not None
        if len(self._observed) < MAX_CALLS:
            self._observed.append((place, dict(given)))
        answer = call(**given)
        self._seen_answers.setdefault(place, answer)
        return answer

    def _hooked(self) -> ast.FunctionDef:
        """The function, its region preceded by `a, b = hook(a=a, b=b)`: after the checks, which a student has too."""
        names = parameters(self.tree)
        keywords = [ast.keyword(name, ast.Name(name, ast.Load())) for name in names]
        targets = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        hook = ast.Assign([targets], ast.Call(ast.Name(HOOK, ast.Load()), [], keywords))
        hooked = copy.copy(self.tree)
        first = next(i for i, one in enumerate(self.tree.body) if self.contains(one))
        hooked.body = [*self.tree.body[:first], hook, *self.tree.body[first:]]
        return ast.fix_missing_locations(hooked)

    def code_of(self, region: str) -> CodeType:
        """The function's with another text for its region.

        Raises:
            SyntaxError: it is no Python.
        """
        lines, place = region_of(self.lesson, self.exercise)
        indent = lines[place.first].partition("#")[0]
        inside = textwrap.indent(textwrap.dedent(region), indent).splitlines()
        start = self.tree.lineno - 1
        end = self.tree.end_lineno or len(lines)
        text = [*lines[start : place.first], *inside, *lines[place.last + 1 : end]]
        holder = ["class Holder:"] if "." in self.exercise else []
        return _code_in("\n".join([*holder, *text]), self.tree.name)

    def _helpers(self) -> tuple[str, ...]:
        """Functions of the course that the region calls by name, and methods that it calls on `self`."""
        calls = [node.func for node in self.nodes() if isinstance(node, ast.Call)]
        names = {one.id for one in calls if isinstance(one, ast.Name)}
        owner = self.exercise.rpartition(".")[0]
        own = {one.attr for one in calls if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self"}
        names |= {f"{owner}.{name}" for name in own}
        found = {name: self.helper(name) for name in sorted(names)}
        return tuple(name for name, value in found.items() if inspect.isfunction(value) and _of_the_course(value))

    def helper(self, place: str) -> Any:
        """A helper's function, such as "td_errors" or "PPOTrainer.optimize"; None if there is none of the name."""
        owner, _, name = place.rpartition(".")
        return vars(self._home(owner)).get(name)

    def _home(self, owner: str) -> Any:
        return functools.reduce(getattr, owner.split("."), self.module) if owner else self.module

    def _install(self) -> None:
        setattr(self.module, HOOK, self._arguments)
        for place in ("", *self.helpers):
            owner, _, name = (place or self.exercise).rpartition(".")
            function = self.helper(place or self.exercise)
            if inspect.isfunction(function) and place != self.exercise:
                setattr(self._home(owner), name, self._wrapped(place, function))

    def _arguments(self, /, **given: Any) -> Any:
        hypothesis = self._tried
        if hypothesis and hypothesis.arguments and not hypothesis.place:
            given = hypothesis.arguments(given)
        return tuple(given.values())

    def _wrapped(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        def call(**given: Any) -> Any:
            bound = inspect.BoundArguments(signature, given)  # type: ignore[arg-type]
            return function(*bound.args, **bound.kwargs)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            hypothesis = self._tried
            if hypothesis is None or (place and not self._inside):
                return function(*args, **kwargs)
            with self._entered(not place):
                if hypothesis.place not in (place, EVERYWHERE) or hypothesis.code:
                    return function(*args, **kwargs)
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                if hypothesis.place == EVERYWHERE:
                    return self._note(place, call, bound.arguments)
                return hypothesis.changed(call, bound.arguments)

        return wrapped

    @contextmanager
    def _entered(self, is_exercise: bool) -> Iterator[None]:
        """Inside the exercise; a warning of a changed reference is no error there, as it is none of a student's."""
        self._inside += is_exercise
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield
            finally:
                self._inside -= is_exercise


def _of_the_course(function: Any) -> bool:
    package = function.__module__.partition(".")
    return package[0] == "solutions" or package[0].startswith("_subject_")


def parameters(tree: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters."""
    given = tree.args
    starred = [one for one in (given.vararg, given.kwarg) if one]
    return [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]]


def _region(lesson: str, exercise: str) -> tuple[ast.FunctionDef, tuple[int, int]]:
    """The function's syntax tree, and its region's first and last line."""
    lines, region = region_of(lesson, exercise)
    return bare_function("\n".join(lines), exercise), (region.first + 1, region.last + 1)


def definitions_in(text: str, exercise: str) -> list[ast.stmt]:
    """Where a file defines a function or method, in the order in which Python comes to it: the last one counts.

    An assignment, such as `compute_gae = second_try`, stands for the function that it names. One that wraps the
    function defined before, such as `f = torch.compile(f)`, defines none.

    Raises:
        SyntaxError: the file is no Python.
    """
    owner, _, name = exercise.rpartition(".")
    body = ast.parse(text).body
    if owner:
        body = [one for holder in definitions_in(text, owner)[-1:] for one in getattr(holder, "body", ())]
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and one.name == name:
            found.append(one)
        elif isinstance(one, ast.Assign) and name in {getattr(target, "id", "") for target in one.targets}:
            used = [node.id for node in ast.walk(one.value) if isinstance(node, ast.Name)]
            named = [other for other in body if getattr(other, "name", "") in used and other.lineno < one.lineno]
            found += [] if name in used else named[-1:] or [one]
        elif isinstance(one, ast.ImportFrom) and name in {other.asname or other.name for other in one.names}:
            found.append(one)
    return found


def bare_function(text: str, exercise: str) -> ast.FunctionDef:
    """The tree of a function or method of a file, without decorators, annotations and docstring.

    Raises:
        LookupError: there is none of the name.
        SyntaxError: the file is no Python.
    """
    for node in definitions_in(text, exercise)[-1:]:
        if isinstance(node, ast.FunctionDef):
            return _bare(node)
    raise LookupError(exercise)


@functools.lru_cache(maxsize=64)
def function_in(text: str, exercise: str) -> str:
    """The lines of a function or method in a file; empty where there is none."""
    with suppress(SyntaxError, ValueError, RecursionError):
        for node in definitions_in(text, exercise)[-1:]:
            return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
    return ""


def words_of(code: str) -> Counter[str]:
    """How often each name, number and sign stands in a piece of code, comments left out."""
    return Counter(re.findall(r"\w+|[^\w\s]", re.sub("#.*", "", code)))


def distance(words: Counter[str], others: Counter[str]) -> int:
    """Between what two pieces of code have otherwise than the reference; 0 where the second has nothing otherwise."""
    return sum(abs(words[word] - count) - abs(words[word]) for word, count in others.items())


def _bare(tree: ast.FunctionDef) -> ast.FunctionDef:
    """A function without decorators, annotations and docstring: its code is compiled many times."""
    bare = copy.copy(tree)
    bare.decorator_list, bare.returns, bare.args = [], None, copy.deepcopy(tree.args)
    for node in ast.walk(bare.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    bare.body = list(tree.body[1:] if ast.get_docstring(tree) is not None else tree.body)
    return bare


def compiled(tree: ast.FunctionDef) -> CodeType:
    """The code of a bare function, to be put in place of another's; in a class, so that `super()` finds its cell."""
    holder = ast.copy_location(ast.ClassDef("Holder", [], [], [tree], []), tree)
    if sys.version_info >= (3, 12):
        holder.type_params = []
    return _code_in(ast.Module([holder], []), tree.name)


def _code_in(whole: ast.Module | str, name: str) -> CodeType:
    """Of the only function there, at the top or in a class."""
    code: Any = compile(whole, "<changed reference>", "exec", dont_inherit=True)
    while code.co_name != name:
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name in ("Holder", name))
    return code
