"""A run beside the reference's: the same seed, and the range of ten seeds as yardstick."""

import json
from pathlib import Path
from typing import Any

from rich.table import Table

RECORDED = Path(__file__).with_name("ten_seeds.json")
"""The summaries of `make demo SEED=0` to `SEED=9`."""
ROWS = (
    ("reward_model", "accuracy", "reward model: accuracy"),
    ("sft", "gold", "SFT: gold"),
    ("ppo", "gold", "PPO: gold"),
    ("ppo", "proxy", "PPO: proxy (std)"),
    ("ppo", "kl", "PPO: KL (nats)"),
    ("ppo", "valid", "PPO: valid"),
    ("no_kl", "gold", "without KL penalty: gold"),
    ("no_kl", "proxy", "without KL penalty: proxy (std)"),
    ("no_kl", "kl", "without KL penalty: KL (nats)"),
)
COMPARED = (("reward_model", "accuracy"), ("sft", "gold"), ("ppo", "gold"), ("ppo", "valid"))
MARGIN = 0.5
"""Of the range's width, on either side: an eleventh seed of the reference falls outside ten others easily."""


def reference_runs(preset: str) -> list[dict[str, Any]]:
    """The summaries of the reference's ten seeds; none where the preset was not recorded."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    return recorded["runs"] if preset == recorded["preset"] else []


def comparison(summary: dict[str, Any], runs: list[dict[str, Any]]) -> Table:
    """Your run, the reference's with the same seed, and its ten seeds."""
    same = next((run for run in runs if run["seed"] == summary["seed"]), None)
    table = Table(title="\nyour run beside the reference's", title_justify="left")
    for column in ("", "yours", f"reference, seed {summary['seed']}", "reference, ten seeds"):
        table.add_column(column, justify="left" if not column else "right")
    for part, name, label in ROWS:
        low, high = _range(runs, part, name)
        beside = f"{same[part][name]:.2f}" if same else "-"
        table.add_row(label, f"{summary[part][name]:.2f}", beside, f"{low:.2f} to {high:.2f}")
    return table


def verdict(summary: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    """Whether a run is one that right blocks would give."""
    if any(all(summary[part] == run[part] for part in run) for run in runs):
        return "Your blocks give the reference's numbers of this seed, to the last digit."
    outside = []
    for part, name in COMPARED:
        (low, high), found = _range(runs, part, name), summary[part][name]
        margin = MARGIN * (high - low)
        if not low - margin <= found <= high + margin:
            outside.append(f"{part} {name} {found:.2f} ({low:.2f} to {high:.2f})")
    if not outside:
        return "Your blocks landed within the range of the reference's ten seeds, give or take half its width."
    return (
        f"Your blocks landed outside the range of the reference's ten seeds: {', '.join(outside)}. Run another seed; "
        "if it is outside again, one of your lessons is probably wrong in a way that no test saw."
    )


def _range(runs: list[dict[str, Any]], part: str, name: str) -> tuple[float, float]:
    numbers = [run[part][name] for run in runs]
    return min(numbers), max(numbers)
