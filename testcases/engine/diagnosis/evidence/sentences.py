"""What is said of what an answer shows by itself, each as a template: where one is meant is decided beside its use."""

# What a call changes, keeps or leaves behind

KEPT = "something is kept from one call to the next, in a global, a default argument, an attribute, a cache by shape"
CHANGED = (
    "{} in place: by an operation that ends in `_`, by `+=`, or by an assignment to a part of it. "
    "`.float()`, `.long()` and `.to()` give the same tensor where there is nothing to convert"
)
GRADIENTS_LEFT = "gradients are left in {}: clear them after the step"
NOT_PUT_BACK = "something of the caller's is changed and not put back: {}"

# Where a gradient or a NaN is lost

UNDUE = "{} not detached: no gradient may flow there"
CUT_OFF = "the gradient into {} is cut off, by detach, no_grad, .item() or torch.tensor(...)"
FLAT = "no gradient arrives at {}: on its way it is multiplied by 0, clamped or rounded"
NAN_IN_GRADIENT = (
    "NaN is left out of the value after it was computed, by `where` or a mask, and still is in the gradient: "
    "select first, then compute"
)
NAN_HIDDEN = (
    "the NaN of a real token is hidden: by nan_to_num, nansum or nanmean, by a comparison, which is False for NaN, "
    "or by Python's min and max"
)

# What the numbers are made of

SIX_DIGITS = (
    "it agrees to six digits only: a small number is added that does not belong there, a float32 tensor is mixed in "
    "(x.to(other.dtype)), or two large numbers are subtracted that nearly cancel"
)
DEFAULT_DTYPE = "a tensor is made in torch's default dtype, float32: pass `dtype=` to zeros, empty, tensor, arange"
OTHER_DTYPE = "the dtype is {}, and is to be {}, whatever the arguments have: convert at the end, or where it is made"
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
    "right in float64, wrong in float32: digits are lost where nearly equal numbers are subtracted, or exp is taken of "
    "large ones. Use expm1, log1p, logsumexp, or compute in float64"
)
ANOTHER_NUMBER = (
    "this is the answer with `{0}` = {1}, where it is {2}: is there another default, or a number written out?"
)
NUMBERS_AS_WELL = ". The numbers are wrong as well: look at them once the dtype is right"

# What is wrong for one number only

DIVIDED = "something is divided by `{}`, which is 0 here"
APART = "`{}` = {} is handled apart, and wrongly"
FALSY = ": `if {0}:` and `{0} or ...` take 0 for no value"
NOT_EXPECTED = "the code does not expect {}"
EMPTY = "an empty `{}`, which may be"
EXACTLY_0 = "numbers of `{}` that are exactly 0 are handled apart (`!= 0`, `> 0`, `>= 0`), and may be ordinary ones"
EQUAL = "equal numbers of `{}` are taken for one: go by their places, not by their values"
COUNTED = "something is counted in a dtype that ends before: uint8 at 255; bfloat16 holds no 257, float16 no 2,049"
WRONG_WITH = "right with `{}` = {}, wrong with {}"

# What an answer depends on, and must or must not

PADDING_ENTERS = (
    "padding enters: what stands where `{}` is False changes the answer. Select the real tokens first, then compute"
)
MUST_BE_0 = "{} must be 0 where `{}` is False, and here it is not"
ROWS_MEET = "the rows run into each other: other numbers in row {} change {} as well"
RIGHT_ALONE = (
    "row {} is right by itself and wrong below the others: does a loop over rows end, or return, too early, is "
    "something of the rows before kept, or do the rows come back in another order?"
)
COUNTS = "`{}` at step {} counts {{}} times{}; it must count {{}} times (steps count from 0)"
ADDS = "one more in `{}[..., {}]` adds {{}} to {}; it must add {{}}"
SIGN = ": is a sign wrong?"
FACTOR_MISSING = ": is it to be multiplied by {}?"
FACTOR_TWICE = ": is it multiplied by {} once too often?"
STEPS = "`{}` at {unit} {} changes {}; it must change {} ({unit}s count from 0): {}"
TOO_MANY_STEPS = "is something summed, averaged or carried over {unit}s that belongs to each of them?"
NO_STEP = "is it left out there, cut off by a clamp, or written over?"
TOO_FEW_STEPS = "which {unit}s does the loop, or the slice, leave out, or what does it not carry on?"
OTHER_STEPS = "in which order does the loop run, and is something shifted by one?"
COLUMNS = "the answer depends on {}, and must depend on {}"
SHIFTED = ": is a slice off by one?"
OPPOSITE = "here it is the negative of the right answer, and in others the sign differs, too: is a minus missing?"
OTHER_WAY = "with a larger `{}` the answer must {}, and it {}: is a sign, or a quotient, the wrong way round?"
UNUSED = "`{}` changes nothing{}: is it used?"


def steps(numbers: set[int], unit: str) -> str:
    """Which steps, or other places, in words."""
    found = sorted(numbers)
    if not found:
        return f"no {unit}"
    if len(found) == 1:
        return f"{unit} {found[0]}"
    if found == list(range(found[0], found[-1] + 1)):
        return f"{unit}s {found[0]} to {found[-1]}"
    return f"{unit}s {', '.join(map(str, found))}"
