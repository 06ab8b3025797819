"""What the runs say: a point on a curve, a difference and its interval, two tables; and the record that texts quote."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .evaluation import ANSWERS
from .methods import METHODS
from .running import BEST_OF_N, SFT

FILE = Path(__file__).with_name("record.json")
AGAINST, LEVEL = "PPO", 1.7
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


def golds_at(rows: Iterable[Row], method: str, kl: float) -> dict[int, float]:
    """Return the gold reward of each seed whose curve, from the SFT model on, reaches this KL."""
    curves: dict[int, list[Row]] = {}
    for row in rows:
        if row["method"] in (SFT, method):
            curves.setdefault(row["seed"], []).append(row)
    found = {seed: gold_at(curve, kl) for seed, curve in curves.items()}
    return {seed: gold for seed, gold in found.items() if gold is not None}


def minus_ppo(rows: Sequence[Row], method: str, kl: float) -> Difference | None:
    """Subtract PPO's gold reward, paired by seed; None if the curve of a seed does not reach so far."""
    ours, theirs = golds_at(rows, method, kl), golds_at(rows, AGAINST, kl)
    is_whole = ours.keys() == theirs.keys() == {row["seed"] for row in rows}
    return mean_of([ours[seed] - theirs[seed] for seed in ours]) if is_whole else None


def middle(rows: Iterable[Row], method: str) -> list[Row]:
    """Return each seed's run with the coefficient of the tuning; for best of n the one with PRICED_N."""
    coefficient = PRICED_N if method == BEST_OF_N else METHODS[method].middle
    return [row for row in rows if (row["method"], row["coefficient"]) == (method, coefficient)]


def mean(rows: Sequence[Row], what: str) -> float:
    return sum(row[what] for row in rows) / len(rows)


def tokens_to_level(row: Row) -> int | None:
    """Count the tokens sampled until the gold reward was first seen at LEVEL; None if it never was."""
    return next((point["tokens"] for point in row.get("trace", ()) if point["gold"] >= LEVEL), None)


def over_kl(rows: Sequence[Row]) -> list[list[str]]:
    """Tabulate, below a header, PPO's gold reward at an equal KL, and each other method's minus that."""
    seeds = len({row["seed"] for row in rows})
    golds = [golds_at(rows, AGAINST, kl).values() for kl in ALONG]
    table = [["", *(f"KL {kl:g}" for kl in ALONG)]]
    table.append([AGAINST, *(f"{sum(gold) / seeds:.2f}" if len(gold) == seeds else "-" for gold in golds)])
    for name in ran(rows)[1:]:
        differences = [minus_ppo(rows, name, kl) for kl in ALONG]
        table.append([f"{name}, minus PPO", *("-" if one is None else str(one) for one in differences)])
    return table


def ends(rows: Sequence[Row]) -> list[list[str]]:
    """Tabulate, below a header, where the runs with the middle coefficient end, and what they cost."""
    wanted = f"gold, proxy, KL, grammatical, thousand tokens, thousand tokens to gold {LEVEL:g}, seconds"
    table = [["", *wanted.split(", ")]]
    for name in ran(rows):
        runs = middle(rows, name)
        reached = [one for one in map(tokens_to_level, runs) if one is not None]
        table.append(
            [
                f"best of {PRICED_N}, {ANSWERS:,} answers" if name == BEST_OF_N else name,
                *(f"{mean(runs, what):.2f}" for what in ("gold", "proxy", "kl")),
                f"{mean(runs, 'valid'):.0%}",
                f"{mean(runs, 'tokens') / 1000:.0f}",
                f"{sum(reached) / len(reached) / 1000:.0f}" if len(reached) == len(runs) else "-",
                f"{mean(runs, 'seconds'):.1f}",
            ]
        )
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


def recorded() -> dict[str, Any]:
    """Read the record that comes with the course: `settings` by method, and `runs`."""
    return json.loads(FILE.read_text("utf-8"))
