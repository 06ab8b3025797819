"""What is found, as values, and the one place where they are said: kinds with their templates, filled at the end."""

import enum
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch


@dataclass(frozen=True)
class Evidence:
    """What shows by itself, whatever the code: equal to another one where it says the same of the same."""

    kind: "Said"
    of: tuple[Any, ...] = ()
    more: tuple["Evidence", ...] = ()
    """What is said at its end."""

    def __add__(self, more: "Evidence | None") -> "Evidence":
        return replace(self, more=(*self.more, more)) if more else self

    def __format__(self, form: str) -> str:
        return self.text

    @property
    def text(self) -> str:
        of = (str(one).removeprefix("torch.") if isinstance(one, torch.dtype) else one for one in self.of)
        return self.kind.value.format(*of) + "".join(one.text for one in self.more)


class Said(enum.Enum):
    """A kind of evidence by its template; called with what fills it, it is evidence."""

    def __call__(self, *of: Any) -> Evidence:
        return Evidence(self, of)


class Kind(enum.IntEnum):
    """What a part of an answer is."""

    VALUE = 0
    SLOPE = 1
    EFFECT = 2


class Part(NamedTuple):
    """A value by its path ("" where the answer is whole), a gradient by its argument, or what else a call did."""

    kind: Kind
    name: str

    @property
    def is_slope(self) -> bool:
        """A scenario has gradients among its values, under such names."""
        return self.kind is Kind.SLOPE or self.name.endswith("_gradient")

    def holds(self, part: "Part") -> bool:
        """Whether it is this one, or, of a whole value, one of its parts."""
        return self.kind is part.kind and self.name in ("", part.name)

    def __format__(self, form: str) -> str:
        """`{:of}`: after what is found there; `{:bare}`: without back-quotes; `{:plain}`: a value has them."""
        is_named = self.kind is Kind.VALUE and self.name.isidentifier()
        quote = "" if form == "bare" or (form == "plain" and not is_named) else "`"
        if self.kind is Kind.SLOPE:
            return f"{' of the ' if form == 'of' else ''}gradient by {quote}{self.name}{quote}"
        if not self.name:
            return {"of": "", "bare": "answer"}.get(form, "the answer")
        return f"{' of ' if form == 'of' else ''}{quote}{self.name}{quote}"


class Several(tuple[Any, ...]):
    """`{}`: "`a` and `b`"; `{:are}`: with a verb; `{:bare}`: "a, b"; each other form is what stands between them."""

    def __format__(self, form: str) -> str:
        if form == "bare":
            return ", ".join(map(str, self))
        said = (" and " if form in ("", "are") else form).join(map(_shown, self))
        return f"{said} {'is' if len(self) == 1 else 'are'}" if form == "are" else said


def _shown(one: Any) -> str:
    if isinstance(one, str):
        return f"`{one}`"
    return f"{one:g}" if type(one) in (int, float) else f"{one}"


class Steps(NamedTuple):
    """Numbers of steps, or of other places."""

    numbers: frozenset[int]
    unit: str

    def __format__(self, form: str) -> str:
        found, unit = sorted(self.numbers), self.unit
        if not found:
            return f"no {unit}"
        if len(found) == 1:
            return f"{unit} {found[0]}"
        if found == list(range(found[0], found[-1] + 1)):
            return f"{unit}s {found[0]} to {found[-1]}"
        return f"{unit}s {', '.join(map(str, found))}"


class Sign(Said):
    """What is wrong with the code, as an answer or an exception shows it."""

    # What a call changes, keeps or leaves behind

    KEPT = (
        "something is kept from one call to the next, in a global, a default argument, an attribute, a cache by shape"
    )
    RIGHT_AT_FIRST, OTHER_AT_FIRST = ": asked first, the answer is right", ": asked first, the answer is another one"
    CHANGED = (
        "{:are} changed in place: by an operation that ends in `_`, by `+=`, or by an assignment to a part of it. "
        "`.float()`, `.long()` and `.to()` give the same tensor where there is nothing to convert"
    )
    GRADIENTS_LEFT = "gradients are left in {:bare}: clear them after the step, and after one that is skipped"
    NOT_PUT_BACK = "something of the caller's is changed and not put back: {:bare}"
    NOT_YET = "something in line {}, `{}`, is not right yet"

    # Where a gradient or a NaN is lost

    UNDUE = "{:are} not detached: no gradient may flow there"
    CUT_OFF = "the gradient into {} is cut off, by detach, no_grad, .item() or torch.tensor(...)"
    WEIGHTS = "the weights"
    FLAT = "no gradient arrives at {}: on its way it is multiplied by 0, clamped or rounded, or two parts of it cancel"
    NAN_IN_GRADIENT = (
        "NaN is left out of the value after it was computed, by `where`, a mask or a slice, and still is in the "
        "gradient: select first, then compute"
    )
    NAN_HIDDEN = (
        "the NaN of a real token is hidden: by nan_to_num, nansum or nanmean, by a comparison, which is False for NaN, "
        "or by Python's min and max"
    )

    # What the numbers are made of

    SIX_DIGITS = (
        "it agrees to six digits only: a number that is small beside the others is added or left out, a float32 tensor "
        "is mixed in (x.to(other.dtype)), or two large numbers are subtracted that nearly cancel"
    )
    DEFAULT_DTYPE = "a tensor is made in torch's default dtype, float32: pass `dtype=` to zeros, empty, tensor, arange"
    OTHER_DTYPE = (
        "the dtype is {}, and is to be {}, whatever the arguments have: convert at the end, or where it is made"
    )
    OVERFLOWS = (
        "exp of a large number is infinite (above 88 in float32): subtract the largest first, or use logsumexp, "
        "log_softmax, logsigmoid"
    )
    CUT_DOWN = "`.float()` or torch.float32 cuts float64 down: the answer keeps the precision of its arguments"
    TIMES_INFINITY = (
        "0 times infinity or NaN is NaN: such a number is multiplied by 0, as by a one-hot vector, a mask or 1 - done. "
        "Select with gather, where or masked_fill"
    )
    DIGITS_LOST = (
        "right in float64, wrong in float32: digits are lost where nearly equal numbers are subtracted, or exp is "
        "taken of large ones. Use expm1, log1p, logsumexp, or compute in float64"
    )
    ANOTHER_NUMBER = (
        "this is the answer with `{}` = {:g}, where it is = {:g}: is there another default, or a number written out?"
    )
    ANOTHER_DEFAULT = (
        "this is the answer with `{}` = {:g}, where it is at its default: is there another default, or a number "
        "written out?"
    )
    NUMBERS_AS_WELL = ". The numbers are wrong as well: look at them once the dtype is right"

    # What is wrong for one number only

    DIVIDED = "something is divided by `{}`, which is 0 here"
    APART = "`{}` = {:g} is handled apart, and wrongly"
    FALSY = ": `if {0}:` and `{0} or ...` take 0 for no value"
    NOT_EXPECTED = "the code does not expect `{}` = {:g}"
    EMPTY = "the code does not expect an empty `{}`, which may be"
    EXACTLY_0 = "numbers of `{}` that are exactly 0 are handled apart (`!= 0`, `> 0`, `>= 0`), and may be ordinary ones"
    EQUAL = "equal numbers of `{}` are taken for one: go by their places, not by their values"
    COUNTED = "something is counted in a dtype that ends before: uint8 at 255; bfloat16 holds no 257, float16 no 2,049"
    WRONG_WITH = "right with `{}` = {}, wrong with {}"

    # What an answer depends on, and must or must not

    PADDING_ENTERS = (
        "padding enters: what stands where `{}` is False changes the answer. Select the real tokens first, then compute"
    )
    MUST_BE_0 = "{} must be 0 where `{}` is False, and is not always"
    ROWS_MEET = "the rows run into each other: other numbers in row {} change row {}{:of} as well"
    RIGHT_ALONE = (
        "row {} is right by itself and wrong below the others: does a loop over rows end, or return, too early, is "
        "something of the rows before kept, or do the rows come back in another order?"
    )
    COUNTS = "`{}` at step {} counts {:.4g} times at step {}{:of}; it must count {:.4g} times (steps count from 0)"
    ADDS = "one more in `{}[..., {}]` adds {:.4g} to {:bare}[{:bare}]; it must add {:.4g}"
    SIGN = ": is a sign wrong?"
    NUMBER, PRODUCT, REST = "`{}`", "`{}` times `{}`", "1 - `{}`"
    FACTOR_MISSING = ": is it to be multiplied by {}?"
    FACTOR_TWICE = ": is it multiplied by {} once too often?"
    STEPS = "`{0}` at {1} {2} changes {3}{4:of}; it must change {5} ({1}s count from 0): {6}"
    TOO_MANY_STEPS = "is something summed, averaged or carried over {}s that belongs to each of them?"
    NO_STEP = "is it left out there, cut off by a clamp, or written over?"
    TOO_FEW_STEPS = "which {}s does the loop, or the slice, leave out, or what does it not carry on?"
    OTHER_STEPS = "in which order does the loop run, and is something shifted by one?"
    COLUMNS = "the answer depends on {}, and must depend on {}"
    COLUMN = "`{}[:, {}]`"
    SHIFTED = ": is a slice off by one?"
    OPPOSITE = "here it is the negative of the right answer, and in others the sign differs, too: is a minus missing?"
    MUST_RISE = "with a larger `{}` the answer must rise, and it falls: is a sign, or a quotient, the wrong way round?"
    MUST_FALL = "with a larger `{}` the answer must fall, and it rises: is a sign, or a quotient, the wrong way round?"
    UNUSED = "`{}` changes nothing: is it used?"
    UNUSED_AT = "`{}` changes nothing (the same answer with {}): is it used?"

    # Type and shape

    A_NUMBER = (
        "a Python number, which no gradient passes: `.item()`, `float()` or Python's arithmetic makes one of a tensor, "
        "or it was one from the start, as of a loop that has nothing to add"
    )
    A_TENSOR = "a tensor where a Python number is due: `.item()`"
    REAL_ALONE = (
        "only the real tokens are returned, one after another: put each back in its place (masked_scatter, where)"
    )
    SIZE_1_LEFT = "a dimension of size 1 is left: `squeeze` it, or reduce without `keepdim`"
    EVERY_INDEX = "`x[..., index]` takes every index at every place: `gather` takes to each place its own"
    LEFT_AT_END = "a dimension is left at the end: it is to be summed over, averaged, or picked from with `gather`"
    REDUCED = "a dimension too many is reduced: pass `dim=`"
    NONE_AT_ALL = "there is no {} at all: a slice is empty"
    ONE_OF_MANY = "there is one {} where {} are due: is one picked, are they summed, or does a slice begin too late?"
    AS_MANY_AS = "there are as many {}s as `{}` has: is a slice missing?"
    NEVER_EARLIER = "there are always as many {}s as `{}` says: does nothing end it earlier?"
    ONE_TOO_MANY = "there is one {} too many: is a slice, or a loop, off by one?"
    ONE_TOO_FEW = "there is one {} too few: is a slice, or a loop, off by one?"
    OTHER_KEY = "the key is `{}`, not `{}`"
    NO_KEY = "the answer has no `{}`"

    # What an exception says

    RAISED = "{}"
    WRITTEN_OUT = '"{}" is written out in this line, and here nothing has that name: take what is given'
    NOT_IMPORTED = "the file does not import `{}`: `{}` at its top"
    UNKNOWN_NAME, IMPORT_MISSING = "the file has no `{}`", ": is an import missing?"
    HAS_NAME, THERE_IS = "; it has `{}`", "; there is `{}`"
    NO_ATTRIBUTE, MISSPELT = "a value of type {} has no `{}`", ": is the name misspelt, or the value another one?"
    MAY_BE_NONE = "`{}` may be None, which stands for something of its own: see the docstring"
    LEFT_OUT = "an optional argument may be left out, and is None then; or a function has no `return`"
    ONE_ENTRY = "two tensors differ by one entry: is one of them to be sliced, `[..., :-1]` or `[..., 1:]`?"
    DO_NOT_FIT = (
        "two tensors do not fit together: print their shapes; `unsqueeze` puts a dimension where one is missing"
    )
    ONE_PAST = "an index runs one past the end: indices end at size - 1; is `t + 1` read at the last step?"
    PAST_END = "an index runs past the end: print it beside the size"


class Trait(Said):
    """What an argument is like, as it is said after "only with x"."""

    IN_CALLS, GIVEN, IS = "in calls like this one", "given", "= {!r}"
    IS_0, IS_1, BELOW_0, LARGE, NEARLY_0, ABOVE_1 = "= 0", "= 1", "below 0", "large", "nearly 0", "above 1"
    EMPTY, SINGLE, SEVERAL = "empty", "of a single entry", "of several entries"
    AT_DEFAULT, BEYOND = "left at its default", "beyond the last column"
    EQUAL, NEARLY_EQUAL = "equal to `{}` somewhere", "nearly equal to `{}` somewhere"
    SLOPE_THROUGH = "for the gradient through `{}`"
    DIMENSIONS_3, DIMENSION_1 = "of more than two dimensions", "of one dimension"
    ENTRY_1, ROW_1, COLUMN_1 = "of one entry", "of one row", "of one column"
    SQUARE, COLUMNS_100 = "of as many rows as columns", "of more than 100 columns"
    NO_ENTRIES, CONSTANT, IN_DTYPE = "without entries", "the same everywhere", "in {}"
    VIEW = "laid out as a view (not contiguous: `reshape`, not `view`)"
    FALSE, FALSE_ROW, FALSE_BETWEEN = "False somewhere", "False in a whole row", "False between two True"
    FALSE_START, FALSE_END = "False at the start of a row", "False at the end of a row"
    TRUE, TRUE_1 = "True everywhere", "with a single True"
    NAN, INFINITE, ZERO, ABOVE_100 = "NaN somewhere", "infinite somewhere", "0 somewhere", "above 100 somewhere"


class Place(Said):
    """Where an answer differs, and by how much."""

    BESIDE = "the answer itself is right; not left as before the call: {:bare}"
    OTHER_RIGHT = "`{}` is wrong: with a right one, this call of `{}` is right. Fix it first"
    OTHER_RAISES = "`{}` is wrong: with a right one, this call of `{}` does not raise. Fix it first"
    ROW_ALONE = "row {} is wrong by itself: {:, } gives {}, not {}"
    ROW_GIVEN = "{}={}"

    # On which questions

    ORDINARY_RIGHT, HERE = "the {} ordinary examples are all right", "; here {}"
    ONLY, WITH = "only {}", "with {:, } {}"

    # In which part

    ONLY_SLOPES = "only in the {: and the }, the value is right"
    SLOPES_LOST = "only in the {: and the }: none arrives, the value is right"
    SLOPES_UNDUE = "only in the {: and the }: none is due, the value is right"
    ONLY_IN = "only in {:, }"
    ONLY_VALUE = "only in the value, the gradient is right"
    DTYPE = "the dtype{:of} is {} in place of {}"
    DIMENSIONS = "the number of dimensions{:of} is {} in place of {}"
    TOO_LARGE, TOO_SMALL = "the shape{:of} is too large", "the shape{:of} is too small"
    TYPE = "the type{:of} is {} in place of {}"
    FEWER_PARTS, MORE_PARTS = "there are fewer parts than are due", "there are more parts than are due"

    # At which places

    LAST_COLUMN, FIRST_COLUMN = "in the last column", "in the first column"
    AFTER_FIRST_COLUMN, BEFORE_LAST_COLUMN = "after the first column", "before the last column"
    FIRST_ROW, LAST_ROW, AFTER_FIRST_ROW = "in the first row", "in the last row", "after the first row"
    ABOVE_0, BELOW_0, IS_0 = "where `{}` is above 0", "where `{}` is below 0", "where `{}` is 0"
    FALSE, TRUE = "where `{}` is False", "where `{}` is True"
    AFTER_TRUE, BEFORE_TRUE = "one step after a True of `{}`", "one step before a True of `{}`"
    UP_TO_LAST_TRUE = "up to the last True of `{}`"
    FIRST_TRUE, LAST_TRUE = "at the first True of `{}`", "at the last True of `{}`"
    ROWS_TRUE, ROWS_WITH_FALSE = "in rows whose `{}` is True throughout", "in rows whose `{}` is False somewhere"
    ROWS_FALSE, ROWS_WITH_GAP = "in rows whose `{}` is False throughout", "in rows whose `{}` has a gap"
    ROWS_FALSE_FIRST, ROWS_WITH_ONE = "in rows whose `{}` begins with False", "in rows whose `{}` has a single True"

    # By how much

    DIGITS = "in the last digits only"
    FACTOR, FACTORS = "by a factor: {:.6g}", "by a factor of its own in each answer"
    OFFSET, OFFSETS = "by a constant: {:.6g}", "by a constant of its own in each answer"
    SAME_ALONG = "the same number all along a row"
    WHITENED = "with mean 0 and standard deviation 1: is it whitened?"
    SCALED = "with standard deviation 1: is it scaled?"
    MOST_LAST, MOST_FIRST = "most in the last column", "most in the first column"
