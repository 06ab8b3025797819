"""The parts of answers, and how far a mistake agrees with a student in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Outcome, fields_of, leaves, tensors_in
from ..report.compare import EXACT, Rules, alike, close, same_outcome, same_slope
from .values import Kind, Mistake, Part, Seen

Atom = tuple[int, Part]
"""The number of a question, and a part of its answer."""
RAISED, TOUCHED = Part(Kind.EFFECT, "no exception"), Part(Kind.EFFECT, "what the call leaves changed")
WHOLE = Part(Kind.VALUE, "")
NEAR, NEAR_FLAGS = 0.75, 0.9
"""The share of the values that has to be given; of flags and counts there are few, so chance gives many of them."""
LEAST = 2
"""So many flags, words or counts have to agree; of other numbers one is enough."""
FAR = 5
"""Who is wrong otherwise in so many parts, and alike in none, is not asked any further."""


def parts_of(outcome: Outcome) -> dict[Part, Any]:
    """What a call gave, apart; of one that raised only that."""
    if outcome.error:
        return {RAISED: outcome.error.type_name}
    value, names = fields_of(outcome.value)
    named = value if isinstance(value, dict) else dict(zip(names, value, strict=True)) if names else {WHOLE.name: value}
    found = {Part(Kind.VALUE, name): part for name, part in named.items()}
    found |= {Part(Kind.SLOPE, name): slope for name, slope in outcome.gradients.items()}
    return found | {TOUCHED: (*outcome.changed, *outcome.left_behind)}


def floats_of(right: Any, mine: Any) -> list[tuple[float, float]]:
    """The Python floats that stand at one place in both."""
    if isinstance(right, dict) and isinstance(mine, dict):
        return [pair for key in right.keys() & mine.keys() for pair in floats_of(right[key], mine[key])]
    if isinstance(right, (list, tuple)) and isinstance(mine, (list, tuple)) and len(right) == len(mine):
        return [pair for one, other in zip(right, mine, strict=True) for pair in floats_of(one, other)]
    return [(right, mine)] if isinstance(right, float) and isinstance(mine, float) else []


def is_evidence(right: Outcome, mine: Outcome) -> bool:
    """Whether agreement with this wrong answer says something: it is not NaN, 0 or constant where it differs."""
    due, got = ([*tensors_in(one.value)] for one in (right, mine))
    if mine.error:
        return False
    slopes = [(one, mine.gradients.get(name)) for name, one in right.gradients.items()]
    pairs = [*zip(due, got, strict=False), *((a, b) for a, b in slopes if a is not None and b is not None)]
    pairs += [(torch.tensor(a), torch.tensor(b)) for a, b in floats_of(right.value, mine.value)]
    if [one.shape for one in due] != [one.shape for one in got]:
        return bool(got)
    differ = [(a, b) for a, b in pairs if a.dtype == b.dtype and not bool(close(a, b, EXACT).all())]
    return any(a.dtype != b.dtype for a, b in pairs) or any(_says_something(*pair) for pair in differ)


def _says_something(right: Tensor, got: Tensor) -> bool:
    if not got.is_floating_point():
        return True
    off = ~close(right, got, Rules(equal_nan=True))
    numbers = got[off] if got.dim() else got.reshape(1)
    return bool((numbers.isfinite() & (numbers != 0)).any())


def is_fraction(value: Any) -> bool:
    return any(one.is_floating_point() for one in tensors_in(value)) or any(
        isinstance(one, float) for _, one in leaves(value)
    )


def share_right(right: Any, mine: Any) -> float:
    """The share of the numbers that are right; of what is no tensor all or nothing."""
    due, got = fields_of(right)[0], fields_of(mine)[0]
    if isinstance(due, Tensor) and isinstance(got, Tensor):
        if due.shape != got.shape or due.dtype != got.dtype or not due.numel():
            return float(alike(due, got))
        loose = 1e-9 if due.dtype == torch.float64 else 1e-4
        return float(close(due, got, Rules(loose, loose, equal_nan=True)).double().mean())
    if isinstance(due, dict) and isinstance(got, dict) and due.keys() == got.keys() and due:
        return sum(share_right(due[key], got[key]) for key in due) / len(due)
    if isinstance(due, tuple) and isinstance(got, tuple) and len(due) == len(got) and due:
        return sum(map(share_right, due, got)) / len(due)
    return float(alike(due, got))


def share_of_outcome(right: Outcome, mine: Outcome) -> float:
    """The same of a whole answer, its gradients included."""
    due, got = parts_of(right), parts_of(mine)
    if RAISED in due or RAISED in got:
        return float(same_outcome(right, mine))
    shares = [share_right(due[part], got.get(part)) if not part.is_slope else _of_slope(due, got, part) for part in due]
    return sum(shares) / len(shares)


def _of_slope(due: dict[Part, Any], got: dict[Part, Any], part: Part) -> float:
    one, other = due[part], got.get(part)
    one = torch.zeros_like(other) if one is None and isinstance(other, Tensor) else one
    other = torch.zeros_like(one) if other is None and isinstance(one, Tensor) else other
    return share_right(one, other)


class On(Enum):
    """In what a mistake has to agree with a student."""

    ALL = auto()
    """In every answer, gradients and all that a call did included."""
    MOST = auto()
    """In three quarters of the values that either of the two has wrong."""
    PARTS = auto()
    """In parts of what is wrong; it has to be right wherever the student is."""


@dataclass(frozen=True)
class Share:
    """How far a mistake agrees."""

    mistake: Mistake
    explained: frozenset[Atom] = frozenset()
    others: int = 0
    """Parts that are wrong in both, each in its own way."""
    share: float = 1.0
    """Of the values that either has wrong."""

    @property
    def precision(self) -> float:
        return len(self.explained) / max(1, len(self.explained) + self.others)


@dataclass
class Answers:
    """A student's answers to some questions, beside the right ones."""

    seen: Sequence[Seen]
    wrong: set[Atom] = field(default_factory=set)
    good: set[Atom] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.due = [parts_of(right) for _, right, _ in self.seen]
        self.got = [parts_of(mine) for _, _, mine in self.seen]
        self.is_right = [same_outcome(right, mine) for _, right, mine in self.seen]
        self._tells: set[Atom] = set()
        """Agreement in these is no chance; of flags, words and counts there are few."""
        self._empty: set[Atom] = set()
        """Numbers that are 0, NaN or infinite, which many mistakes give."""
        for i, (due, got) in enumerate(zip(self.due, self.got, strict=True)):
            # Of a call that raises, its parts are not known.
            for part in due if RAISED in due or RAISED not in got else ():
                is_right = part in got and same_slope(due[part], got[part])
                (self.good if is_right else self.wrong).add((i, part))
                if not is_right and part in got and is_fraction(got[part]):
                    if is_evidence(Outcome(due[part]), Outcome(got[part])):
                        self._tells.add((i, part))
                    elif not part.is_slope and [*map(_path, leaves(due[part]))] == [*map(_path, leaves(got[part]))]:
                        self._empty.add((i, part))
        good = Counter(i for i, _ in self.good)
        self.wrong_ones = sorted((i for i, right in enumerate(self.is_right) if not right), key=lambda i: (-good[i], i))
        """The questions that are answered wrongly; first those of which parts are right, which tell most."""
        self.right_ones = [i for i, right in enumerate(self.is_right) if right]

    @property
    def has_good(self) -> bool:
        """Whether any number is right."""
        return any(part != TOUCHED for _, part in self.good)

    def is_contradicted(self, i: int, theirs: dict[Part, Any]) -> bool:
        """Whether such an answer is wrong where this one is right."""
        due = self.due[i]
        if RAISED in theirs and RAISED not in due:
            return RAISED not in self.got[i]
        good = [part for part in due if (i, part) in self.good]
        return not all(part in theirs and same_slope(due[part], theirs[part]) for part in good)

    def same(self, i: int, part: Part, theirs: dict[Part, Any]) -> bool:
        mine = self.got[i]
        return (part in mine) == (part in theirs) and (part not in mine or alike(mine[part], theirs[part]))

    def tells(self, explained: Iterable[Atom], least: int) -> bool:
        """Whether agreement in these is more than chance."""
        explained = set(explained)
        return bool(explained & self._tells) or len(explained - self._empty) >= least

    def chosen(self, shares: Sequence[Share], distance: Callable[[Mistake], int], most: int = 2) -> list[Share]:
        """Those that explain most, the second of them what the first leaves; none where two explain the same equally
        well, and nothing in the code tells which it is."""
        found, left = list[Share](), set(self.wrong)
        while left and len(found) < most:
            ranks = [(len(one.explained & left), one.precision, -distance(one.mistake)) for one in shares]
            best = shares[ranks.index(max(ranks))] if shares else None
            new = best.explained & left if best else frozenset[Atom]()
            if best is None or not self.tells(new, min(LEAST, len(left))) or ranks.count(max(ranks)) > 1:
                break
            found.append(best)
            left -= best.explained
        return found


def _path(leaf: tuple[str, Any]) -> str:
    return leaf[0]


def agree(mistake: Mistake, ask: Callable[[int], Outcome], answers: Answers, on: On) -> Share | None:
    """How far a mistake gives a student's answers; None where that is not enough. `ask` gives what it answers to a
    question, by its number."""
    if on is On.ALL:
        same = (same_outcome(answers.seen[i][2], ask(i)) for i in (*answers.wrong_ones, *answers.right_ones))
        return Share(mistake, frozenset(answers.wrong)) if all(same) else None
    if on is On.MOST:
        return _most(mistake, ask, answers)
    return _parts(mistake, ask, answers)


def _most(mistake: Mistake, ask: Callable[[int], Outcome], answers: Answers) -> Share | None:
    """Many changes raise an error of one type: it makes none of them near."""
    if all(mine.error for _, _, mine in answers.seen):
        return None
    off = [not same_outcome(right, mine, values_only=True) for _, right, mine in answers.seen]
    near = NEAR if any(is_fraction(mine.value) for _, _, mine in answers.seen) else NEAR_FLAGS
    agreed, differ, left = 0, 0, sum(off)
    for i in (*answers.wrong_ones, *answers.right_ones):
        _, right, mine = answers.seen[i]
        theirs = ask(i)
        if off[i] or not same_outcome(theirs, right, values_only=True):
            same = same_outcome(mine, theirs, values_only=True)
            agreed, differ = agreed + same, differ + (not same)
        left -= off[i]
        if agreed + left < near * (agreed + left + differ):
            return None  # It is far, whatever comes.
    return Share(mistake, share=agreed / (agreed + differ)) if agreed else None


def _parts(mistake: Mistake, ask: Callable[[int], Outcome], answers: Answers) -> Share | None:
    explained, others = set[Atom](), 0
    # Most that are wrong in a part that is right are so where nothing else is wrong.
    if any(answers.is_contradicted(i, parts_of(ask(i))) for i in answers.right_ones):
        return None
    for i in answers.wrong_ones:
        if others >= FAR and not explained:
            return None
        theirs, due = parts_of(ask(i)), answers.due[i]
        if answers.is_contradicted(i, theirs):
            return None
        if RAISED in theirs and RAISED not in due:
            continue
        # Where the number is wrong in another way, its gradient is too, whatever else is lost on the way.
        lead = next(iter(due))
        of_lead = (i, lead) in answers.wrong and not answers.same(i, lead, theirs)
        for part in due:
            if (part in theirs and same_slope(due[part], theirs[part])) or (of_lead and part.is_slope):
                continue
            if (i, part) in answers.wrong:
                same = answers.same(i, part, theirs)
                others += not same
                if same:
                    explained.add((i, part))
    # Without names for its parts, an answer is given in some questions by chance; so is a gradient.
    counts = [Counter(part for _, part in atoms) for atoms in (explained, answers.wrong)]
    has_fractions = any(is_fraction(mine.value) for _, _, mine in answers.seen)
    least_share = {WHOLE: 0.5 if has_fractions else NEAR_FLAGS}
    few = {
        part
        for part, count in counts[0].items()
        if (part == WHOLE or part.is_slope) and count < least_share.get(part, 0.5) * counts[1][part]
    }
    explained = {atom for atom in explained if atom[1] not in few}
    # What is given otherwise speaks against flags, of which there are few.
    least = max(others + 1, min(LEAST, len(answers.wrong)))
    if not explained or not answers.tells(explained, least):
        return None
    return Share(mistake, frozenset(explained), others)


def fits(right: Outcome, mine: Outcome, theirs: Outcome, shown: Part | None = None) -> bool | None:
    """Whether a wrong answer gives a part of this one that is wrong, of those that are `shown`; None where it is wrong
    in a part that is right.
    """
    due, got, given = map(parts_of, (right, mine, theirs))
    if any(RAISED in one for one in (due, got, given)):
        raised = RAISED in due, RAISED in got, RAISED in given
        return {(True, False, False): True, (False, False, True): None, (True, True, False): None}.get(raised, False)
    is_wrong = {part: part not in got or not same_slope(due[part], got[part]) for part in due}
    if any(not is_wrong[part] and not same_slope(due[part], given.get(part)) for part in due):
        return None
    among = [part for part in due if shown is None or shown.holds(part)] or list(due)

    def is_given(part: Part) -> bool:
        if part == TOUCHED:  # Each of several things is changed by a mistake of its own.
            return bool(new := {*given[part]} - {*due[part]}) and new <= {*got[part]}
        return alike(got[part], given.get(part))

    return any(is_wrong[part] and part in got and is_given(part) for part in among)


def reaches(right: Outcome, theirs: Outcome, shown: Part | None = None) -> bool:
    """Whether a wrong answer has a value wrong that is shown, in whatever way: a mistake of the student's elsewhere may
    have changed its number. Of a gradient nobody can say so."""
    due, given = parts_of(right), parts_of(theirs)
    among = [part for part in due if not part.is_slope and (shown is None or shown.holds(part))]
    return any(not same_slope(due[part], given.get(part)) for part in among)
