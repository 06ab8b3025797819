"""Lesson 0: train `ppo.py`, print how it goes, and draw it. You need not read this file.

python -m tutorial.lesson00_one_screen [--kl-coef 0] [--out runs/first]
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny_models.checkpoints import REWARD_MODEL, SFT

Row = tuple[float, float, float, str]
os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # before the import of transformers
PROXY, GOLD = "#D55E00", "#0072B2"  # Okabe and Ito's, which color-blind readers can tell apart
HEADER = 'update   proxy    gold      KL   a response to "review the film :"'


def line(number: int, row: Row) -> str:
    """One update, as it is printed."""
    proxy, gold, kl, text = row
    return f"{number:6d}  {proxy:6.2f}  {gold:6.2f}  {kl:6.1f}   {text}"


def coefficient(name: str, given: Any) -> float:
    """A number of at least 0.

    Raises:
        SystemExit: it is none.
    """
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        sys.exit(f"expected {name} to be a number of at least 0, such as 0.09 or 0, got {given!r}")
    return number


def make_folder(out: Path) -> None:
    """
    Raises:
        SystemExit: it cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"expected --out to be a folder that can be written, got {out} ({error.strerror}); choose another")


def draw(rows: list[Row], kl_coef: float, out: Path) -> Path:
    """Proxy and gold reward over the updates, and the KL below."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shape = {"figsize": (7, 5.6), "sharex": True, "height_ratios": (3, 1.3), "layout": "constrained"}
    figure, (rewards, distance) = plt.subplots(2, 1, **shape)
    proxy, gold, kl, _ = zip(*rows, strict=True)
    for values, color, label in ((proxy, PROXY, "proxy: what PPO is paid for"), (gold, GOLD, "gold: the truth")):
        rewards.plot(values, color=color, marker="o", markersize=3, label=label)
    rewards.axhline(2, color="#7F7F7F", linestyle=":", linewidth=1, label="the best possible review")
    title = f"PPO on one screen, KL_COEF = {kl_coef:g}"
    rewards.set(title=title, ylabel="mean over 64 responses", ylim=(-0.2, max(2.2, *proxy) + 0.05))
    rewards.legend(loc="center right")
    distance.plot(kl, color="#009E73")
    distance.set(ylabel="KL (nats)", xlabel="update", ylim=(0, None))
    picture = out / f"kl_coef-{kl_coef:g}.png"
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    return picture


def load(folders: tuple[Path, ...] = (SFT, REWARD_MODEL)) -> Any:
    """The one screen.

    Raises:
        SystemExit: the two small models that come with the course are not there.
    """
    for folder in folders:
        if not (folder / "model.safetensors").is_file():
            sys.exit(f"expected a small model in {folder}, got none; run python -m testcases.course.checkpoints")
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(1)  # models as small as these lose more to a second thread than they gain
    return importlib.import_module("tutorial.lesson00_one_screen.ppo")


def train(chosen: argparse.Namespace, load: Callable[[], Any], rows: list[Row]) -> None:
    """Print each update, and add it to the rows; `chosen` learns the coefficient and the number of updates."""
    screen = load()
    given = ("KL_COEF", screen.KL_COEF) if chosen.kl_coef is None else ("--kl-coef", chosen.kl_coef)
    chosen.kl_coef, chosen.of = coefficient(*given), f" of {screen.UPDATES}"
    print(
        f"{screen.UPDATES} updates of {len(screen.PROMPTS)} responses, KL_COEF = {chosen.kl_coef:g}: about 15 seconds"
    )
    print(f"\n{HEADER}")
    for row in screen.train(chosen.kl_coef):
        print(line(len(rows), row), flush=True)
        rows.append(row)


def main(arguments: list[str] | None = None, load: Callable[[], Any] = load) -> int:
    parser = argparse.ArgumentParser(prog="python -m tutorial.lesson00_one_screen", description="PPO on one screen.")
    parser.add_argument("--kl-coef", help="in place of KL_COEF in ppo.py; 0: without the penalty")
    parser.add_argument("--out", type=Path, default=Path("runs/first"), help="where the picture goes")
    chosen = parser.parse_args(arguments, argparse.Namespace(of=""))
    if chosen.kl_coef is not None:
        coefficient("--kl-coef", chosen.kl_coef)
    make_folder(chosen.out)
    rows: list[Row] = []
    code, why = 0, ""
    try:
        train(chosen, load, rows)
    except KeyboardInterrupt:
        code = 130
    except RuntimeError as error:
        if "nan" not in str(error):
            raise
        code, why = 1, ": expected probabilities, got nan; is LEARNING_RATE too large?"
    if code:
        print(f"\nstopped after {len(rows)}{chosen.of} updates{why}")
    if rows:
        print(f"\nThe picture: {draw(rows, chosen.kl_coef, chosen.out)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
