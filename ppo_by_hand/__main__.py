"""The command `ppo-by-hand`; under `accelerate launch` it is `-m ppo_by_hand`.

ppo-by-hand train --policy gpt2 --reward my_module:my_function --prompts prompts.txt --out runs/mine
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from . import CONFIGS, __version__
from .core.progress import while_read


@while_read()
def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for bad input or an error, and those of `demo.folder`."""
    parser = argparse.ArgumentParser(prog="ppo-by-hand", description="PPO for language models.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="tune a policy with PPO")
    train.add_argument("--policy", required=True, help="a causal language model, name or folder")
    train.add_argument("--reward", required=True, help="a reward model, name or folder, or module:function")
    train.add_argument("--prompts", required=True, type=Path, help="a text file, one prompt per line, or JSONL")
    train.add_argument("--out", required=True, type=Path, help="folder for the tuned policy, metrics and checkpoints")
    train.add_argument("--seed", type=int, default=0, help="decides every random number")
    train.add_argument("--value", default="policy", help="what the critic starts from: policy, reward, or a model")
    train.add_argument("--set", default="", dest="settings", help='options such as "num_updates=200 kl_coef=0.1"')
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out")
    commands.add_parser("configs", help="print the folder of configuration files for accelerate launch")
    options = parser.parse_args(arguments)
    if options.command == "configs":
        print(CONFIGS)
        return 0
    return _train(options)


def _train(options: argparse.Namespace) -> int:
    from .core.progress import quiet
    from .demo.folder import run_to_the_end
    from .demo.hub import run_hub

    quiet()  # what it would warn of is said here in one sentence
    sys.path.insert(0, os.getcwd())  # where module:function is looked for; `python -m` does the same
    policy, reward = (os.path.expanduser(name) for name in (options.policy, options.reward))
    prompts, out = (path.expanduser() for path in (options.prompts, options.out))
    settings = f"{options.settings} value={shlex.quote(os.path.expanduser(options.value))}"
    how = (options.seed, out, print, settings, options.resume)
    return run_to_the_end(lambda: run_hub(policy, reward, prompts, *how), out)


if __name__ == "__main__":
    sys.exit(main())
