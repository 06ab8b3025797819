"""Several mistakes at once: of each part of the answers the listed wrong answer that gives it.

A draft with three mistakes agrees with no listed wrong answer on every example. It does in the parts that only one of
them reaches: `values` here, `gradient by gain` there, what the call left changed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..execution import Outcome, fields_of, leaves, tensors_in
from ..oracle import WrongAnswer
from ..report import alike, same_slope
from .evidence import Kind, Part, is_evidence

Atom = tuple[int, Part]
"""The number of an example, and a part of its answer."""
RAISED, TOUCHED = Part(Kind.EFFECT, "no exception"), Part(Kind.EFFECT, "what the call leaves changed")
WHOLE = Part(Kind.VALUE, "")
MOST_NAMED = 2
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


def _is_fraction(value: Any) -> bool:
    return any(one.is_floating_point() for one in tensors_in(value)) or _has_float(value)


def _paths(value: Any) -> list[str]:
    return [path for path, _ in leaves(value)]


def _has_float(value: Any) -> bool:
    value = [*value.values()] if isinstance(value, dict) else value
    return isinstance(value, float) or (isinstance(value, (list, tuple)) and any(map(_has_float, value)))


@dataclass(frozen=True)
class Share:
    """What of a student's wrong parts a listed wrong answer gives that is right wherever the student is."""

    wrong: WrongAnswer
    explained: frozenset[Atom]
    others: int
    """Parts that are wrong in both, each in its own way."""

    @property
    def precision(self) -> float:
        return len(self.explained) / (len(self.explained) + self.others)


class Parts:
    """The parts of a student's answers: those that are wrong, and those that are right.

    Args:
        right, mine: outcomes, example by example.
    """

    def __init__(self, right: Iterable[Outcome], mine: Iterable[Outcome]) -> None:
        self._right, self._mine = [*map(parts_of, right)], [*map(parts_of, mine)]
        self.wrong: set[Atom] = set()
        self.good: set[Atom] = set()
        self._tells: set[Atom] = set()
        """Agreement in these is no chance; of flags, words and counts there are few."""
        self._empty: set[Atom] = set()
        """Numbers that are 0, NaN or infinite, which many mistakes give."""
        for i, (due, got) in enumerate(zip(self._right, self._mine, strict=True)):
            # Of a call that raises, its parts are not known.
            for part in due if RAISED in due or RAISED not in got else ():
                is_right = part in got and same_slope(due[part], got[part])
                (self.good if is_right else self.wrong).add((i, part))
                if not is_right and part in got and _is_fraction(got[part]):
                    if is_evidence(Outcome(due[part]), Outcome(got[part])):
                        self._tells.add((i, part))
                    elif not part.is_slope and _paths(due[part]) == _paths(got[part]):
                        self._empty.add((i, part))
        of_wrong, of_good = (Counter(i for i, _ in atoms) for atoms in (self.wrong, self.good))
        self._right_ones = [i for i in sorted(of_good) if not of_wrong[i]]
        self._wrong_ones = sorted(of_wrong, key=lambda i: (-of_good[i], i))
        """The examples; first those that are wrong in some parts and right in others, which tell most."""

    @property
    def has_good(self) -> bool:
        """Whether any number is right."""
        return any(part != TOUCHED for _, part in self.good)

    def share_of(self, wrong: WrongAnswer, ask: Callable[[int], Outcome]) -> Share | None:
        """None where it is wrong in a part that is right, or explains nothing; `ask` gives its answer to an example."""
        explained, others = set[Atom](), 0
        # Most that are wrong in a part that is right are so where nothing else is wrong.
        if any(self._is_contradicted(i, parts_of(ask(i))) for i in self._right_ones):
            return None
        for i in self._wrong_ones:
            if others >= FAR and not explained:
                return None
            theirs, due = parts_of(ask(i)), self._right[i]
            if self._is_contradicted(i, theirs):
                return None
            if RAISED in theirs and RAISED not in due:
                continue
            # Where the number is wrong in another way, its gradient is too, whatever else is lost on the way.
            lead = next(iter(due))
            of_lead = (i, lead) in self.wrong and not self._same(i, lead, theirs)
            for part in due:
                if part in theirs and same_slope(due[part], theirs[part]):
                    continue
                if of_lead and part.is_slope:
                    continue
                if (i, part) in self.wrong:
                    same = self._same(i, part, theirs)
                    others += not same
                    if same:
                        explained.add((i, part))
        # Without names for its parts, an answer is given in some questions by chance; so is a gradient.
        counts = [Counter(part for _, part in atoms) for atoms in (explained, self.wrong)]
        few = {part for part in counts[0] if part == WHOLE or part.is_slope if 2 * counts[0][part] < counts[1][part]}
        explained = {atom for atom in explained if atom[1] not in few}
        # What is given otherwise speaks against flags, of which there are few.
        least = max(others + 1, min(LEAST, len(self.wrong)))
        is_told = bool(explained & self._tells) or len(explained - self._empty) >= least
        return Share(wrong, frozenset(explained), others) if explained and is_told else None

    def _is_contradicted(self, i: int, theirs: dict[Part, Any]) -> bool:
        """Whether such an answer is wrong where this one is right."""
        due = self._right[i]
        if RAISED in theirs and RAISED not in due:
            return RAISED not in self._mine[i]
        good = [part for part in due if (i, part) in self.good]
        return not all(part in theirs and same_slope(due[part], theirs[part]) for part in good)

    def _same(self, i: int, part: Part, theirs: dict[Part, Any]) -> bool:
        mine = self._mine[i]
        return (part in mine) == (part in theirs) and (part not in mine or alike(mine[part], theirs[part]))

    def are_whole(self, shares: Iterable[Share]) -> bool:
        """Whether they explain all that is wrong."""
        asked = {i for i, _ in self.wrong | self.good}
        return set().union(*(one.explained for one in shares)) == self.wrong and len(asked) == len(self._right)

    def told(self, one: Share) -> tuple[tuple[Part, ...], int, int]:
        """Which parts it explains, in how many of the wrong answers, and how many those are."""
        parts = dict.fromkeys(part for due in self._right for part in due)
        named = tuple(part for part in parts if any(part == other for _, other in one.explained))
        return named, len({i for i, _ in one.explained}), len({i for i, _ in self.wrong})

    def chosen(self, shares: Sequence[Share], distance: Callable[[WrongAnswer], int]) -> list[Share]:
        """Those that explain most, the second of them what the first leaves; none where two explain the same equally
        well, and nothing in the code tells which it is."""
        found, left = list[Share](), set(self.wrong)
        while left and len(found) < MOST_NAMED:
            ranks = [(len(one.explained & left), one.precision, -distance(one.wrong)) for one in shares]
            best = shares[ranks.index(max(ranks))] if shares else None
            new = best.explained & left if best else frozenset[Atom]()
            if best is None or not (new & self._tells or len(new - self._empty) >= min(LEAST, len(left))):
                break
            if ranks.count(max(ranks)) > 1:
                break
            found.append(best)
            left -= best.explained
        return found


def agreement(right: Outcome, mine: Outcome, theirs: Outcome, shown: Part | None = None) -> bool | None:
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
