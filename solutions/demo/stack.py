"""Whose lessons a run is built from: the reference's, or a student's own, which may be unfinished."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SOLUTIONS = Path(__file__).parents[1]
STUB = re.compile(r'raise NotImplementedError\("lesson(\d\d): ([\w.]+)"\)')
LEFT_OUT = {
    2: ("ranking_loss", "token_pairwise_loss"),
    4: ("gae_ends", "n_step_advantages"),
    5: ("clipped_objective", "compute_kl_penalty_loss", "update_beta"),
    6: ("nonnegative_kl", "AdaptiveKLController.update"),
    7: ("SharedPolicyAndValue.forward", "reference_mode"),
}
"""Exercises that the toy environment's run does not use, of the lessons that it does use."""
RECORDED = Path(__file__).with_name("ten_seeds.json")
"""The summaries of `make demo SEED=0` to `SEED=9`."""
COMPARED = (("reward_model", "accuracy"), ("sft", "gold"), ("ppo", "gold"), ("ppo", "valid"))
MARGIN = 0.5
"""Of the range's width, on either side: an eleventh seed of the reference falls outside ten others easily."""
LESSONS = (1, 2, 4, 5, 6, 7, 8, 9, 12)
OF_THE_CONTEST = {
    3: ("rewards_to_go", "reinforce_loss"),
    13: ("cispo_token_losses", "sequence_ratio", "truncated_importance_weights", "best_of_n_kl"),
}
"""The lessons that it uses besides, and what it does not use of them."""


class Unfinished(ValueError):
    """The stack cannot run; the message says which file or exercise is missing, in one sentence."""


def own_folder() -> Path | None:
    """Return the student's folder that the lessons come from, or None for the reference's."""
    package = sys.modules[__name__.partition(".")[0]]
    folder = Path(str(package.__file__)).parent
    return None if folder == SOLUTIONS else folder


def check_finished(folder: Path, run: str = "capstone", more: Mapping[int, tuple[str, ...]] | None = None) -> None:
    """Look into each file of the lessons that a run needs, LESSONS and `more`, before anything is loaded.

    Raises:
        Unfinished: a file is missing, or an exercise in it is not written.
    """
    command = "make demo" if run == "capstone" else f"make {run}"
    left_out = LEFT_OUT | dict(more or {})
    for number in sorted({*LESSONS, *left_out}):
        for file in sorted(SOLUTIONS.glob(f"lesson{number:02d}_*/*.py")):
            own = folder / file.relative_to(SOLUTIONS)
            if not own.is_file():
                raise Unfinished(
                    f"the {run} is waiting for lesson {number}: there is no file {_short(own, folder)}; "
                    f"make reset LESSON={number} brings it back"
                )
            for _, exercise in STUB.findall(own.read_text("utf-8", errors="replace")):
                if exercise not in left_out.get(number, ()):
                    raise Unfinished(
                        f"the {run} is waiting for lesson {number}: `{exercise}` in {_short(own, folder)} is not "
                        f"written yet; run the reference with {command}"
                    )


def check_right(folder: Path) -> None:
    """Ask the suites of LESSONS, in their order, whether the exercises that the run uses agree with the reference's.

    Raises:
        Unfinished: those of a lesson don't; what its suite says is printed first.
    """
    print("do your lessons agree with the reference? ", end="", flush=True)
    course = Path(__file__).resolve().parents[2]
    suites = [str(suite) for number in LESSONS for suite in course.glob(f"testcases/lesson{number:02d}_*")]
    chosen = ["agrees_with_the_reference"]
    for number, names in LEFT_OUT.items():
        chosen += [f"not test_{_short_name(name)}_agrees and not lesson{number:02d}-{name}" for name in names]
    options = ["-x", "-p", "no:randomly", "-k", " and ".join(chosen), f"--subject={folder}"]
    command = [sys.executable, "-m", "pytest", *suites, *options]
    asked = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
    if asked.returncode:
        print(f"no\n{asked.stdout}{asked.stderr}")
        found = re.search(r"lesson(\d\d)_\w+", asked.stdout)
        lesson, suite = (f"lesson {int(found[1])}", found[0]) if found else ("a lesson", "")
        raise Unfinished(
            f"the capstone is waiting for {lesson}, which does not agree with the reference: "
            f"pytest testcases/{suite} says where; run the reference with make demo"
        )
    print("yes")


def _short_name(exercise: str) -> str:
    """As the suites name their tests: a method by its own name, and `forward` by its class."""
    owner, _, name = exercise.rpartition(".")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", owner).lower() if name == "forward" else name


def code_of_lessons(folder: Path) -> str:
    """Return a number that changes when a lesson does: results belong to the lessons that they were made with."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("lesson*/*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _short(path: Path, folder: Path) -> str:
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def verdict(summary: dict[str, Any]) -> str:
    """Say whether right lessons would give such a run, by the reference's ten seeds."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    runs = recorded["runs"]
    if summary["preset"] != recorded["preset"]:
        return f"The reference's runs are recorded only for the preset {recorded['preset']}, so we can't compare them."
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
