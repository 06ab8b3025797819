"""Whose lessons a run is built from: the reference's, or a student's own, which may be unfinished."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOLUTIONS = Path(__file__).parents[1]
STUB = re.compile(r'raise NotImplementedError\("lesson(\d\d): ([\w.]+)"\)')
LEFT_OUT: dict[int, tuple[str, ...]] = {
    1: (),
    2: ("ranking_loss", "token_pairwise_loss"),
    4: ("gae_ends", "n_step_advantages"),
    5: ("clipped_objective", "compute_kl_penalty_loss", "update_beta"),
    6: ("nonnegative_kl", "AdaptiveKLController.update"),
    7: ("SharedPolicyAndValue.forward", "reference_mode"),
    8: (),
    9: (),
    12: (),
}
"""The lessons that the toy environment's run uses, and which of their exercises it does not."""
OF_THE_CONTEST = LEFT_OUT | {
    3: ("rewards_to_go", "reinforce_loss"),
    13: ("cispo_token_losses", "sequence_ratio", "truncated_importance_weights", "best_of_n_kl"),
}
"""The same for the contest."""
RECORDED = Path(__file__).with_name("ten_seeds.json")
"""The summaries of `make demo SEED=0` to `SEED=9`."""
COMPARED = (("reward_model", "accuracy"), ("sft", "gold"), ("ppo", "gold"), ("ppo", "valid"))
MARGIN = 0.5
"""Of the range's width, on either side: an eleventh seed of the reference falls outside ten others easily."""


def own_folder() -> Path | None:
    """Return the student's folder that the lessons come from, or None for the reference's."""
    package = sys.modules[__name__.partition(".")[0]]
    folder = Path(str(package.__file__)).parent
    return None if folder == SOLUTIONS else folder


def check_finished(folder: Path, run: str, left_out: Mapping[int, Sequence[str]]) -> None:
    """Look into each file of the lessons that a run needs, before anything is loaded.

    Raises:
        ValueError: a file is missing, or an exercise in it is not written.
    """
    for number in sorted(left_out):
        for file in sorted(SOLUTIONS.glob(f"lesson{number:02d}_*/*.py")):
            own = folder / file.relative_to(SOLUTIONS)
            shown = own.relative_to(folder.parent).as_posix()
            if not own.is_file():
                raise ValueError(
                    f"the {run} is waiting for lesson {number}: there is no file {shown}; "
                    f"make reset LESSON={number} brings it back"
                )
            for _, exercise in STUB.findall(own.read_text("utf-8", errors="replace")):
                if exercise not in left_out[number]:
                    raise ValueError(
                        f"the {run} is waiting for lesson {number}: `{exercise}` in {shown} is not written yet; "
                        f"run the reference with make {run}"
                    )


def check_right(folder: Path) -> None:
    """Ask the suites, in their order, whether the exercises that the demo uses agree with the reference's.

    Raises:
        ValueError: those of a lesson don't; what its suite says is printed first.
    """
    print("do your lessons agree with the reference? ", end="", flush=True)
    course = Path(__file__).resolve().parents[2]
    suites = [str(suite) for number in LEFT_OUT for suite in course.glob(f"testcases/lesson{number:02d}_*")]
    left_out = [f"not lesson{number:02d}-{name}" for number, names in LEFT_OUT.items() for name in names]
    chosen = " and ".join(["agrees_with_the_reference", *left_out])
    options = ["-x", "-p", "no:randomly", "-k", chosen, f"--subject={folder}"]
    command = [sys.executable, "-m", "pytest", *suites, *options]
    asked = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
    if asked.returncode:
        print(f"no\n{asked.stdout}{asked.stderr}")
        found = re.search(r"lesson(\d\d)_\w+", asked.stdout)
        lesson, suite = (f"lesson {int(found[1])}", found[0]) if found else ("a lesson", "")
        raise ValueError(
            f"the demo is waiting for {lesson}, which does not agree with the reference: "
            f"pytest testcases/{suite} says where; run the reference with make demo"
        )
    print("yes")


def verdict(summary: dict[str, Any]) -> str:
    """Say whether right lessons would give such a run, by the reference's ten seeds."""
    runs = json.loads(RECORDED.read_text("utf-8"))["runs"]
    if any(all(summary[part] == run[part] for part in run) for run in runs):
        return "Your blocks give the reference's numbers of this seed, to the last digit."
    outside = []
    for part, name in COMPARED:
        numbers, found = [run[part][name] for run in runs], summary[part][name]
        low, high = min(numbers), max(numbers)
        if not low - MARGIN * (high - low) <= found <= high + MARGIN * (high - low):
            outside.append(f"{part} {name} {found:.2f} ({low:.2f} to {high:.2f})")
    if not outside:
        return "Your blocks landed within the range of the reference's ten seeds, give or take half its width."
    return (
        f"Your blocks landed outside the range of the reference's ten seeds: {', '.join(outside)}. Run another seed; "
        "if it is outside again, one of your lessons is probably wrong in a way that no test saw."
    )
