"""A run beside the reference's: the same seed, and the range of ten seeds as yardstick."""

import json
from typing import Any

from rich.table import Table

from .stack import RECORDED

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


def reference_runs(preset: str) -> list[dict[str, Any]]:
    """The summaries of the reference's ten seeds; none where the preset was not recorded."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    return recorded["runs"] if preset == recorded["preset"] else []


def comparison(summary: dict[str, Any]) -> Table | None:
    """Your run, the reference's with the same seed, and its ten seeds; None where the preset was not recorded."""
    runs = reference_runs(summary["preset"])
    if not runs:
        return None
    same = next((run for run in runs if run["seed"] == summary["seed"]), None)
    table = Table(title="\nyour run beside the reference's", title_justify="left")
    columns = ("", "yours", f"reference, seed {summary['seed']}", "reference, ten seeds")
    for column in columns:
        table.add_column(column, justify="left" if not column else "right")
    for part, name, label in ROWS:
        numbers = [run[part][name] for run in runs]
        beside = f"{same[part][name]:.2f}" if same else "-"
        table.add_row(label, f"{summary[part][name]:.2f}", beside, f"{min(numbers):.2f} to {max(numbers):.2f}")
    return table
