"""What the runs say: a point on a curve, a difference and its interval, two tables; and the record that texts quote."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .methods import METHODS
from .running import ANSWERS, BEST_OF_N, SFT, read_results

FILE = Path(__file__).with_name("record.json")
ALONG = (1.0, 1.5, 2.0, 2.5, 3.0)
"""The KL at which methods are compared: one alone would be a choice."""
PRICED_N = 8
"""Of best of n, where one n is shown."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""97.5 % quantile of Student's t with 1, 2, ... degrees of freedom."""
Row = Mapping[str, Any]


class Difference(NamedTuple):
    """A mean of paired differences and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def mean_of(values: Sequence[float]) -> Difference:
    """Return the mean of paired differences, one for each of two or more seeds, with Student's interval."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = STUDENT[min(len(values) - 1, len(STUDENT)) - 1] * math.sqrt(variance / len(values))
    return Difference(mean, mean - half, mean + half)


def gold_at(curve: Iterable[Row], kl: float) -> float | None:
    """Read the gold reward at this KL on straight lines over the *root* of the KL; None beyond the curve.

    Over the root a curve of gold reward is nearly straight at its beginning (Gao et al., 2022), over the KL it is not.
    """
    points = sorted((math.sqrt(max(point["kl"], 0.0)), point["gold"]) for point in curve)
    where = math.sqrt(kl)
    for (before, gold), (after, next_gold) in zip(points, points[1:], strict=False):
        if before <= where <= after and before < after:
            return gold + (where - before) / (after - before) * (next_gold - gold)
    return None


def golds_at(rows: Iterable[Row], method: str, kl: float) -> list[float]:
    """Return each seed's gold reward at this KL; none at all if the curve of a seed does not reach so far."""
    curves: dict[int, list[Row]] = {row["seed"]: [] for row in rows}
    for row in rows:
        if row["method"] in (SFT, method):
            curves[row["seed"]].append(row)
    found = [gold_at(curve, kl) for curve in curves.values()]
    return [] if None in found else [gold for gold in found if gold is not None]


def minus_ppo(rows: Sequence[Row], method: str, kl: float) -> Difference | None:
    """Subtract PPO's gold reward, paired by seed; None if the curve of a seed does not reach so far."""
    ours, theirs = golds_at(rows, method, kl), golds_at(rows, "PPO", kl)
    return mean_of([one - other for one, other in zip(ours, theirs, strict=True)]) if ours and theirs else None


def middle(rows: Iterable[Row], method: str) -> list[Row]:
    """Return each seed's run with the coefficient of the tuning; for best of n the one with PRICED_N."""
    coefficient = PRICED_N if method == BEST_OF_N else METHODS[method].middle
    return [row for row in rows if (row["method"], row["coefficient"]) == (method, coefficient)]


def mean(rows: Sequence[Row], what: str) -> float:
    return sum(row[what] for row in rows) / len(rows)


def over_kl(rows: Sequence[Row]) -> list[list[str]]:
    """Tabulate, below a header, PPO's gold reward at an equal KL, and each other method's minus that."""
    golds = [golds_at(rows, "PPO", kl) for kl in ALONG]
    table = [["", *(f"KL {kl:g}" for kl in ALONG)]]
    table.append(["PPO", *(f"{sum(gold) / len(gold):.2f}" if gold else "-" for gold in golds)])
    for name in ran(rows)[1:]:
        table.append([f"{name}, minus PPO", *(str(minus_ppo(rows, name, kl) or "-") for kl in ALONG)])
    return table


def ends(rows: Sequence[Row]) -> list[list[str]]:
    """Tabulate, below a header, where the runs with the middle coefficient end, and what they cost."""
    table = [["", "gold", "proxy", "KL", "grammatical", "thousand tokens", "seconds"]]
    for name in ran(rows):
        runs = middle(rows, name)
        shown = f"best of {PRICED_N}, {ANSWERS:,} answers" if name == BEST_OF_N else name
        numbers = [f"{mean(runs, what):.2f}" for what in ("gold", "proxy", "kl")]
        costs = [f"{mean(runs, 'tokens') / 1000:.0f}", f"{mean(runs, 'seconds'):.1f}"]
        table.append([shown, *numbers, f"{mean(runs, 'valid'):.0%}", *costs])
    return table


def ran(rows: Iterable[Row]) -> list[str]:
    """Return the methods that have runs."""
    names = {row["method"] for row in rows}
    return [name for name in (*METHODS, BEST_OF_N) if name in names]


def as_text(table: Sequence[Sequence[str]]) -> str:
    """Write a table for the terminal, which is Markdown for the page as well."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [table[0], ["-" * width for width in widths], *table[1:]]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def recorded() -> list[Row]:
    """Read the record that comes with the course: the results of ten seeds."""
    return list(read_results(FILE).values())
