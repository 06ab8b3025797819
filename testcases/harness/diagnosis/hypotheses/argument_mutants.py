"""The general hypotheses of one exercise, derived from its signature and the values that its examples lead to."""

import ast
import copy
import dataclasses
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .mutation_bench import Arguments, Bench, Hypothesis
from .transforms import OF_REAL_TOKENS, OVER_TIME, images_of, is_flags, rows_for, scaled

Path = tuple[str, ...]
ANSWER = "with its answer "
MAX_IMAGES, MAX_ROWS_OF_HELPERS = 8, 10


def altered_questions(bench: Bench) -> Iterator[Hypothesis]:
    """The exercise asked with one argument changed, images of its answer, then the same of each helper it calls."""
    yield from of_arguments(bench, "")
    yield from of_settings(bench)
    yield from of_answers(bench, "")
    yield from _together(bench)
    for helper in bench.helpers:
        yield from of_arguments(bench, helper)
        yield from of_answers(bench, helper)
        yield from _left_out(bench, helper)


def of_arguments(bench: Bench, place: str) -> Iterator[Hypothesis]:
    """One argument, or one field of an argument, at another value; then two of a kind swapped."""
    found = _values(bench, place)
    when, here = (f"when `{_short(place)}` is called ", [_short(place)]) if place else ("", [])
    defaults = _defaults(bench, place)
    for path, values in found.items():
        name, default = ".".join(path), defaults.get(path[0], inspect.Parameter.empty)
        if len(path) == 1 and default is not inspect.Parameter.empty and (default is None or default not in (0, 1)):
            text, change = f"{when}with `{name}` at its default {default!r}", _set(path, _always(default))
            yield Hypothesis(text, place, arguments=change, names=_words(name, *here), unused=(name,))
        words = sorted({value for value in values if isinstance(value, str)})
        for word in words:
            text, change = f"{when}with `{name}` always {word!r}", _set(path, _always(word))
            yield Hypothesis(text, place, arguments=change, names=_words(name, *here), unused=(name,))
        for word, taken in itertools.permutations(words, 2):
            text, change = f"{when}with `{name}` {word!r} taken for {taken!r}", _set(path, _taken_for(word, taken))
            yield Hypothesis(text, place, arguments=change, names=_words(name, *here))
    for one, other in itertools.combinations(found, 2):
        if any(_alike(*pair) for pair in zip(found[one], found[other], strict=False)):
            text, names = f"{when}with `{'.'.join(one)}` and `{'.'.join(other)}` swapped", _words(*one, *other, *here)
            swapped = functools.partial(_swapped, one, other)
            yield Hypothesis(text, place, arguments=swapped, names=names, is_swap=True)
            for kept, lost in ((one, other), (other, one)):
                text = f"{when}with `{'.'.join(kept)}` in place of `{'.'.join(lost)}`"
                yield Hypothesis(text, place, arguments=functools.partial(_copied, kept, lost), names=names)
    for path, values in found.items():
        rows, name = rows_for(next((value for value in values if value is not None), None)), ".".join(path)
        for row in rows[: MAX_ROWS_OF_HELPERS if place and bench.is_slow else None]:
            names, unused = _words(name, *row.names, *here), (name,) if row.leaves_unused else ()
            change = _set(path, row.change)
            yield Hypothesis(when + row.text.format(name), place, arguments=change, names=names, unused=unused)
    yield from _masked(found, place, when, here)


def _masked(found: dict[Path, list[Any]], place: str, when: str, here: list[str]) -> Iterator[Hypothesis]:
    """A tensor set to 0 where a mask of its shape is False, or True."""
    seen = {path: [value for value in values if value is not None] for path, values in found.items()}
    masks = [path for path, values in seen.items() if is_flags(values[0])]
    for path, mask in itertools.product(found, masks):
        first, flags = seen[path][0], seen[mask][0]
        if path != mask and isinstance(first, Tensor) and first.dim() == flags.dim():
            names = ".".join(path), ".".join(mask)
            for keep, word in ((True, "False"), (False, "True")):
                text = f"{when}with `{names[0]}` set to 0 where `{names[1]}` is {word}"
                filled = functools.partial(_filled, path, mask, keep)
                yield Hypothesis(text, place, arguments=filled, names=_words(*names, *here))
            for row in OF_REAL_TOKENS if first.is_floating_point() else ():
                text, change = when + row.text.format(names[0]), functools.partial(_of_real, row.change, path, mask)
                yield Hypothesis(text, place, arguments=change, names=_words(names[0], *here))


def of_settings(bench: Bench) -> Iterator[Hypothesis]:
    """A method's own settings: numbers of `self`, and of its `config`, that the region reads."""
    read = {node.attr for node in bench.nodes() if isinstance(node, ast.Attribute)}
    seen: dict[Path, tuple[Any, Any]] = {}
    for owner in [given.get("self") for place, given in bench.observed() if not place]:
        config = getattr(owner, "config", None)
        fields, own = _fields(config), getattr(owner, "__dict__", {})
        found: dict[Path, tuple[Any, Any]]
        found = {("config", name): (value, getattr(type(config), name, None)) for name, value in fields.items()}
        found |= {(name,): (value, None) for name, value in own.items() if name in read}
        for path, (value, default) in found.items():
            if isinstance(value, (bool, int, float, str)):
                seen.setdefault(path, (value, default))
    for path, (value, default) in seen.items():
        name = path[-1]
        if default is not None and default not in (0, 1):
            text, change = (
                f"with `{name}` at its default {default!r}",
                functools.partial(_with_setting, path, _always(default)),
            )
            yield Hypothesis(text, around=change, names=_words(name), unused=(name,))
        for row in rows_for(value)[: None if name in read else 3]:
            change = functools.partial(_with_setting, path, row.change)
            unused = (name,) if row.leaves_unused else ()
            yield Hypothesis(row.text.format(name), around=change, names=_words(name, *row.names), unused=unused)


def of_answers(bench: Bench, place: str) -> Iterator[Hypothesis]:
    """Images of the answer, of all its parts or of one."""
    answer = bench.answer_of(place)
    prefix, here = (f"when the answer of `{_short(place)}` is ", [_short(place)]) if place else ("", [])
    parts = _parts(answer)
    for name in [None, *(parts if len(parts) > 1 else ())]:
        lead = "" if place or name is not None else ANSWER
        subject = prefix if name is None else f"{prefix}changed in `{name}`: " if place else f"with `{name}` "
        sample = parts[name] if name is not None else next(iter(parts.values()), None)
        images = images_of(sample)
        for row in images[: MAX_ROWS_OF_HELPERS if place and bench.is_slow else None]:
            names, image = _words(name or "", *row.names, *here), functools.partial(_imaged, row.change, name)
            yield Hypothesis(subject + row.text, place, answer=image, names=names, lead=lead)
    for one, other in itertools.combinations(parts, 2):
        if _alike(parts[one], parts[other]):
            yield Hypothesis(
                f"{prefix or 'with '}`{one}` and `{other}` swapped",
                place,
                answer=functools.partial(_exchanged, one, other),
                names=_words(one, other, *here),
                is_swap=True,
            )
    if not place and any(isinstance(part, (Tensor, float)) for part in parts.values()):
        for text, change in scaled():
            yield Hypothesis(f"with its answer {text}", around=functools.partial(_scaled, change))
        masks = [path[0] for path, values in _values(bench, "").items() if is_flags(values[0]) and len(path) == 1]
        for mask, row in itertools.product(masks, OVER_TIME):
            text, image = f"with its answer {row.text}, and 0", functools.partial(_imaged_and_masked, row.change, mask)
            yield Hypothesis(f"{text} where `{mask}` is False", around=image, names=_words(mask, *row.names))


def _together(bench: Bench) -> Iterator[Hypothesis]:
    """Rows apart, rows as one, rows and columns exchanged."""
    yield Hypothesis("for each row by itself, then averaged over the rows", around=functools.partial(_row_by_row, True))
    yield Hypothesis("for each row by itself", around=functools.partial(_row_by_row, False))
    yield Hypothesis("with rows and columns exchanged: along the wrong dimension?", around=_transposed)
    yield Hypothesis("with all rows as one: they run into each other", around=_flattened)


def _left_out(bench: Bench, helper: str) -> Iterator[Hypothesis]:
    """What goes into a helper in place of what comes out."""
    answer = bench.answer_of(helper)
    for path, values in _values(bench, helper).items():
        if len(path) == 1 and _alike(values[0], answer):
            text = f"with `{path[0]}` as it is in place of the answer of `{_short(helper)}`"
            names = _words(path[0], _short(helper))
            yield Hypothesis(text, helper, around=functools.partial(_passed_through, path[0]), names=names)


def altered_twice(bench: Bench) -> Iterator[Hypothesis]:
    """Two arguments unused, or one unused and the answer an image."""
    unused = [hypothesis for hypothesis in of_arguments(bench, "") if hypothesis.unused]
    for one, other in itertools.combinations(unused, 2):
        text, change = f"{one.change} and {other.change}", functools.partial(_both, one.arguments, other.arguments)
        names, both = one.names | other.names, one.unused + other.unused
        yield Hypothesis(text, arguments=change, names=names, unused=both)
    images = [hypothesis for hypothesis in of_answers(bench, "") if hypothesis.answer][:MAX_IMAGES]
    for one, image in itertools.product(unused, images):
        text, names = f"{one.change} and {image.text}", one.names | image.names
        yield Hypothesis(text, arguments=one.arguments, answer=image.answer, names=names)
    for one, other in itertools.combinations(images, 2):
        text, change = f"{one.text}, then {other.change}", functools.partial(_both, one.answer, other.answer)
        yield Hypothesis(text, answer=change, names=one.names | other.names)


def _both(first: Any, second: Any, value: Any) -> Any:
    return second(first(value))


# ---- values by path


def _words(*names: str) -> frozenset[str]:
    """Those of `batch.mask` are two."""
    return frozenset(word for name in names for word in re.findall(r"\w+", name))


def _short(place: str) -> str:
    return place.rpartition(".")[2]


def _values(bench: Bench, place: str) -> dict[Path, list[Any]]:
    """By path, what was seen there: an argument, or a part of one whose name the function speaks of.

    A record of a trainer's settings has fifty parts, of which a function reads five.
    """
    found: dict[Path, list[Any]] = {}
    code = inspect.unwrap(bench.helper(place or bench.exercise)).__code__
    for where, given in bench.observed():
        for name, value in given.items() if where == place else ():
            if name == "self":
                continue
            found.setdefault((name,), []).append(value)
            for field, part in _fields(value).items():
                if field in code.co_names or field in code.co_varnames:
                    found.setdefault((name, field), []).append(part)
    return {path: values for path, values in found.items() if any(value is not None for value in values)}


def _parts(value: Any) -> dict[str, Any]:
    """By name or position; one that is whole has the name ""."""
    if isinstance(value, dict):
        return {key: part for key, part in value.items() if isinstance(key, str)}
    if isinstance(value, tuple):
        return dict(zip(getattr(value, "_fields", map(str, range(len(value)))), value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return {"": value}


def _rebuilt(value: Any, parts: dict[str, Any]) -> Any:
    """With these parts in place of its own."""
    if isinstance(value, dict):
        return {**value, **parts}
    if isinstance(value, tuple):
        named: Any = value
        return named._replace(**parts) if hasattr(value, "_fields") else tuple((_parts(value) | parts).values())
    if dataclasses.is_dataclass(value):
        other = copy.copy(value)
        for name, part in parts.items():
            object.__setattr__(other, name, part)  # A frozen one, too, and without its checks.
        return other
    return parts.get("", value)


def _fields(value: Any) -> dict[str, Any]:
    """The parts of a record."""
    return {} if type(value) is tuple else {name: part for name, part in _parts(value).items() if name}


def _get(given: Arguments, path: Path) -> Any:
    value = given[path[0]]
    return _parts(value)[path[1]] if len(path) > 1 else value


def _put(given: Arguments, path: Path, value: Any) -> Arguments:
    whole = _rebuilt(given[path[0]], {path[1]: value}) if len(path) > 1 else value
    return {**given, path[0]: whole}


def _set(path: Path, change: Callable[[Any], Any]) -> Callable[[Arguments], Arguments]:
    def changed(given: Arguments) -> Arguments:
        value = _get(given, path)
        return given if value is None else _put(given, path, change(value))

    return changed


def _swapped(one: Path, other: Path, given: Arguments) -> Arguments:
    first, second = _get(given, one), _get(given, other)
    return _put(_put(given, one, second), other, first)


def _copied(kept: Path, lost: Path, given: Arguments) -> Arguments:
    return _put(given, lost, _get(given, kept))


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _taken_for(one: str, other: str) -> Callable[[Any], Any]:
    return lambda value: other if value == one else value


def _filled(path: Path, mask: Path, keep: bool, given: Arguments) -> Arguments:
    flags = _get(given, mask).bool()
    return _put(given, path, _get(given, path).masked_fill(~flags if keep else flags, 0))


def _of_real(change: Callable[[Tensor], Tensor], path: Path, mask: Path, given: Arguments) -> Arguments:
    value, flags = _get(given, path), _get(given, mask)
    flags = torch.ones_like(value, dtype=torch.bool) if flags is None else flags.bool()
    return _put(given, path, torch.zeros_like(value).masked_scatter(flags, change(value[flags])))


def _alike(one: Any, other: Any) -> bool:
    """Whether one may stand where the other belongs."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and (one.dtype == other.dtype or is_flags(one) == is_flags(other))
    return type(one) is type(other) and isinstance(one, (bool, int, float, str, tuple, list))


def _defaults(bench: Bench, place: str) -> dict[str, Any]:
    function = bench.function if not place else bench.helper(place)
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


# ---- what stands around a call


def _with_setting(path: Path, change: Callable[[Any], Any], function: Callable[..., Any], given: Arguments) -> Any:
    owner, (name, *field) = given["self"], path
    before = getattr(owner, name)
    value = _rebuilt(before, {field[0]: change(getattr(before, field[0]))}) if field else change(before)
    setattr(owner, name, value)
    try:
        return function(**given)
    finally:
        if getattr(owner, name) is value:
            setattr(owner, name, before)


def _passed_through(name: str, function: Callable[..., Any], given: Arguments) -> Any:
    return given[name]


def _imaged(image: Callable[[Any], Any], name: str | None, answer: Any) -> Any:
    """All parts that are numbers, or one of them."""
    numbers = {key: part for key, part in _parts(answer).items() if isinstance(part, (Tensor, bool, int, float))}
    return _rebuilt(answer, {key: image(part) for key, part in numbers.items() if key == name or name is None})


def _exchanged(one: str, other: str, answer: Any) -> Any:
    parts = _parts(answer)
    return _rebuilt(answer, {one: parts[other], other: parts[one]})


def _imaged_and_masked(image: Callable[[Any], Any], mask: str, function: Callable[..., Any], given: Arguments) -> Any:
    answer = function(**given)
    flags = given[mask].bool()
    return _imaged(lambda part: image(part).masked_fill(~flags, 0), None, answer)


def _scaled(change: Callable[..., Any], function: Callable[..., Any], given: Arguments) -> Any:
    tensors = [value for value in given.values() if isinstance(value, Tensor) and value.dim()]
    masks = [value for value in tensors if value.dtype == torch.bool]
    tensor = next(value for value in tensors if value.dim() == max(one.dim() for one in tensors))
    mask = masks[-1] if masks else torch.ones_like(tensor, dtype=torch.bool)
    return _imaged(lambda part: change(part, tensor, mask), None, function(**given))


def _row_by_row(average: bool, function: Callable[..., Any], given: Arguments) -> Any:
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor) and value.dim()}
    rows = next(len(value) for value in tensors.values())
    batched = {name: value.split(1) for name, value in tensors.items() if len(value) == rows}
    answers = []
    for row in range(rows):
        try:
            answers.append(function(**{**given, **{name: values[row] for name, values in batched.items()}}))
        except ValueError:
            if not average:
                raise
    parts = [_parts(answer) for answer in answers]
    join = (lambda rows: torch.stack(rows).mean(0)) if average else torch.cat
    return _rebuilt(answers[0], {key: join([part[key] for part in parts]) for key in parts[0]})


def _transposed(function: Callable[..., Any], given: Arguments) -> Any:
    flat = {name: value.T for name, value in given.items() if isinstance(value, Tensor) and value.dim() == 2}
    answer = function(**{**given, **flat})
    return _imaged(lambda part: part.T if isinstance(part, Tensor) and part.dim() == 2 else part, None, answer)


def _flattened(function: Callable[..., Any], given: Arguments) -> Any:
    chosen = {name: value for name, value in given.items() if isinstance(value, Tensor) and value.dim() == 2}
    shape = next(iter(chosen.values())).shape
    answer = function(**{**given, **{name: value.reshape(1, -1) for name, value in chosen.items()}})
    return _imaged(lambda part: part.reshape(shape) if isinstance(part, Tensor) and part.dim() else part, None, answer)
