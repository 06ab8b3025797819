"""What the runs gave, as one small file that the text quotes, and as tables."""

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table

from ppo_by_hand.core.files import first_line, write_text

from .methods import Settings
from .plan import BEST_OF_N, BY_PROXY, METHODS, TUNING_SEEDS, best_of_n_key, choose, coefficients, competitors, curves
from .running import PRICED_ANSWERS, PRICED_N, Results
from .statistics import Difference, gold_at, mean_of, paired, picked, tokens_to
from .world import FEW, HOME, RESPONSES

FILE = Path(__file__).with_name("record.json")
AGAINST, AT_KL, LEVEL = "PPO", 2.0, 1.7
ALONG = (1.0, 1.5, AT_KL, 2.5, 3.0)
"""The KL at which methods are compared: one alone would be a choice."""
PRICED = f"best of {PRICED_N}, {PRICED_ANSWERS} answers"


def recorded() -> dict[str, Any]:
    """The record that comes with the course.

    Raises:
        ValueError: it cannot be read, or is of another version.
    """
    try:
        record = json.loads(FILE.read_text("utf-8"))
        if settings_of(record).keys() == set(BY_PROXY):
            return record
        error = "without a setting of each method"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as caught:
        error = first_line(caught)
    raise ValueError(f"expected the record of tuned settings in {FILE}, got {error}; run with TUNE=1, or restore it")


def settings_of(record: dict[str, Any]) -> dict[str, Settings]:
    return {name: Settings(**one) for name, one in record["settings"].items()}


def summary(results: Results, chosen: dict[str, Settings], seeds: dict[str, int], tuned: bool) -> dict[str, Any]:
    """The runs by situation, method and seed, and how they came about."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("torch", "transformers")},
        "command": f"make contest SEEDS={seeds[HOME]} FEW={seeds[FEW]}" + " TUNE=1" * tuned,
        "responses": RESPONSES,
        "tuning": {"seeds": list(TUNING_SEEDS), "settings_each": len(METHODS[AGAINST].candidates())} if tuned else None,
        "settings": {name: vars(one) for name, one in chosen.items()},
        "situations": {name: _runs(results, chosen, count, name) for name, count in seeds.items() if count},
    }


def _runs(results: Results, chosen: dict[str, Settings], seeds: int, situation: str) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {name: [{} for _ in range(seeds)] for name in competitors(situation)}
    for job in curves(chosen, seeds, coefficients(seeds), situation):
        one = results.found[job.key]
        run = found[job.method][job.seed]
        run.setdefault("curve", []).append({"coefficient": job.settings.coefficient, **one["end"]})
        if "trace" in one:
            run |= {"trace": one["trace"], "cost": one["cost"]}
    found[BEST_OF_N] = [dict(results.found[best_of_n_key(situation, seed)]) for seed in range(seeds)]
    return {"seeds": seeds, "sft": [run.pop("sft") for run in found[BEST_OF_N]], "methods": found}


def _commit() -> str:
    answer = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def write(record: dict[str, Any], file: Path = FILE) -> None:
    """One run to a line."""
    text = json.dumps(record, indent=1)
    lines = [line.strip() for line in text.splitlines()]
    compact, depth = "", 0
    for line in lines:
        depth -= line[:1] in "]}"
        compact += ("\n" + " " * depth if depth < 6 else " ") + line
        depth += line[-1:] in "[{"
    write_text(file, compact.strip() + "\n")


def chosen_settings(results: Results, tune: bool) -> dict[str, Settings]:
    """Tuned here, or as in the record."""
    return choose(results.found) if tune else settings_of(recorded())


def differences(runs: dict[str, Any]) -> dict[str, dict[str, Difference]]:
    """Each method minus PPO in gold reward, as its reward would choose and at an equal KL; paired by seed."""
    found: dict[str, dict[str, Difference]] = {}
    for what in ("gold", "at_kl"):
        values = {name: by_seed(runs, name)[what] for name in runs["methods"]}
        pairs = {name: paired(own, values[AGAINST]) for name, own in values.items() if name != AGAINST}
        found[what] = {name: mean_of(one) for name, one in pairs.items() if len(one) > 1}
    pairs = {name: at_equal_tokens(runs, name) for name in runs["methods"]}
    found["at_tokens"] = {name: mean_of(one) for name, one in pairs.items() if len(one) > 1}
    return found


def at_equal_tokens(runs: dict[str, Any], name: str) -> list[float]:
    """Gold minus PPO's by seed, both read where the run that sampled less ended; nothing for one that samples nothing.

    Of the runs with the middle coefficient: only these are looked at on their way.
    """
    differences: list[float] = []
    for own, other, sft in zip(runs["methods"][name], runs["methods"][AGAINST], runs["sft"], strict=True):
        traces = own.get("trace"), other["trace"]
        if name == AGAINST or not traces[0] or not (tokens := min(trace[-1]["tokens"] for trace in traces)):
            return []
        ours, theirs = (gold_at(trace, tokens, sft | {"tokens": 0}, "tokens") for trace in traces)
        differences += paired([ours], [theirs])
    return differences


def along_kl(runs: dict[str, Any], name: str) -> list[Difference | None]:
    """Gold minus PPO's at each KL of ALONG; None where the curve of a seed does not reach so far."""
    found: list[Difference | None] = []
    for kl in ALONG:
        ours, theirs = (
            [gold_at(run["curve"], kl, start) for run, start in zip(runs["methods"][one], runs["sft"], strict=True)]
            for one in (name, AGAINST)
        )
        pairs = paired(ours, theirs)
        found.append(mean_of(pairs) if len(pairs) == runs["seeds"] else None)
    return found


def by_seed(runs: dict[str, Any], name: str) -> dict[str, list[float | None]]:
    """Of one method: what its own reward would pick, gold at an equal KL, tokens to a level."""
    own = runs["methods"][name]
    ends = [picked(run["curve"], "verified" if "verifier" in name else "proxy") for run in own]
    rows: dict[str, list[float | None]] = {
        what: [end[what] for end in ends] for what in ends[0] if what not in ("n", "kl_bound")
    }
    rows["at_kl"] = [gold_at(run["curve"], AT_KL, start) for run, start in zip(own, runs["sft"], strict=True)]
    rows["to_level"] = [tokens_to(run.get("trace", ()), LEVEL) for run in own]
    return rows


def means(runs: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """Over the seeds; None where a seed has no value."""
    return {name: {what: _mean(values) for what, values in by_seed(runs, name).items()} for name in runs["methods"]}


def costs(runs: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Means over the seeds of the runs with the middle coefficient."""
    found = {}
    for name, own in runs["methods"].items():
        if all("cost" in run for run in own):
            found[name] = {what: sum(run["cost"][what] for run in own) / len(own) for what in own[0]["cost"]}
    return found


def _mean(values: list[float | None]) -> float | None:
    """None where a seed has none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def tables(record: dict[str, Any]) -> dict[str, list[list[str]]]:
    """Title -> rows of cells, the first one the header: what the command shows and the page of the book prints."""
    found = {
        f"{name}: {record['responses']} responses, {runs['seeds']} seed{'s' * (runs['seeds'] != 1)}": _outcome(runs)
        for name, runs in record["situations"].items()
    }
    found |= {
        f"{name}: gold minus PPO's at an equal KL": _over_kl(runs)
        for name, runs in record["situations"].items()
        if runs["seeds"] > 1
    }
    rows = [["", "sampled tokens", "forward", "forward and backward", "peak MiB more", "seconds"]]
    for name, one in costs(next(iter(record["situations"].values()))).items():
        thousands = [f"{one[what] / 1000:.0f}" for what in ("sampled", "forward", "forward_backward")]
        label, memory = PRICED if name == BEST_OF_N else name, _shown(record.get("memory", {}).get(name), 1)
        rows.append([label, *thousands, memory, f"{one['seconds']:.1f}"])
    return found | {"what a run costs (token positions in thousands)": rows}


def _outcome(runs: dict[str, Any]) -> list[list[str]]:
    wanted = ("gold", "proxy", "KL", "grammatical", f"gold at KL {AT_KL:g}", f"thousand tokens to gold {LEVEL:g}")
    rows = [["", *wanted, "gold minus PPO's"]]
    against = differences(runs)["gold"] if runs["seeds"] > 1 else {}
    for name, one in means(runs).items():
        cells = [_shown(one[what]) for what in ("gold", "proxy", "kl")]
        cells += [f"{one['valid']:.0%}", _shown(one["at_kl"])]
        cells.append("-" if one["to_level"] is None else f"{one['to_level'] / 1000:.0f}")
        rows.append([name, *cells, _told(against.get(name))])
    return rows


def _over_kl(runs: dict[str, Any]) -> list[list[str]]:
    """The methods that learn from the reward model, and best of n."""
    rows = [["", *(f"KL {kl:g}" for kl in ALONG)]]
    for name in (*BY_PROXY[1:], BEST_OF_N):
        rows.append([name, *("-" if one is None else _interval(one) for one in along_kl(runs, name))])
    return rows


def for_terminal(title: str, rows: list[list[str]]) -> Table:
    table = Table(title=f"\n{title}", title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="right" if column else "left")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def for_page(rows: list[list[str]]) -> str:
    """The same in Markdown."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _told(difference: Difference | None) -> str:
    if difference is None:
        return ""
    return f"{_interval(difference)} {difference.verdict}"


def _interval(difference: Difference) -> str:
    return f"{difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]"
