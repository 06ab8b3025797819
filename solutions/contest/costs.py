"""Peak memory of a method, measured in a process of its own: python -m solutions.contest.costs PPO"""

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TQDM_DISABLE", "1")

import torch  # noqa: E402

from tiny_models.checkpoints import REWARD_MODEL

from ..lesson02_reward_model import RewardModel
from .evaluation import best_of_n
from .methods import Settings
from .plan import BEST_OF_N, METHODS
from .running import BEST_OF_N_PROMPTS, PRICED_N
from .world import World

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(method: str) -> float | None:
    """MiB that a run needs above what is loaded before it begins; None where the system does not say."""
    if not CLEAR.exists():
        return None
    command = [sys.executable, "-m", f"{__package__}.costs", method]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(answer.stdout.split()[-1])


def main() -> None:
    torch.set_num_threads(1)
    world, name = World(0), sys.argv[1]
    world.reward_model = RewardModel.from_pretrained(REWARD_MODEL)  # the shipped one: memory is the same
    world.proxy, world.pairs, world.prompts, world.evaluation_prompts  # noqa: B018
    _give_back()
    CLEAR.write_text("5")  # forget the peak of what was loaded
    before = _kibibytes("VmRSS")
    if name == BEST_OF_N:
        best_of_n(world, (PRICED_N,), BEST_OF_N_PROMPTS)
    else:
        METHODS[name].run(world, Settings(1e-3, 1, METHODS[name].middle), lambda *so_far: None)
    print((_kibibytes("VmHWM") - before) / 1024)


def _give_back() -> None:
    """Memory that is free already goes back to the system, so that a run does not take it unseen."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # the GNU library has it
    if trim is not None:
        trim(0)


def _kibibytes(name: str) -> int:
    line = next(line for line in STATUS.read_text("utf-8").splitlines() if line.startswith(name + ":"))
    return int(line.split()[1])


if __name__ == "__main__":
    main()
