"""The command `ppo-by-hand`; under `accelerate launch` it is `-m ppo_by_hand`.

ppo-by-hand train --policy gpt2 --reward my_module:my_function --prompts prompts.txt --out runs/mine
ppo-by-hand train --help
ppo-by-hand configs     prints the folder of configuration files for accelerate launch
ppo-by-hand --version
"""

from __future__ import annotations

import sys

from . import CONFIGS, __version__


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for bad input or an error, 2 for an unknown command."""
    command, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command == "train":
        from .demo.hub import main as train

        return int(train(rest))
    said = {"configs": str(CONFIGS), "--version": f"ppo-by-hand {__version__}", "--help": __doc__, "-h": __doc__}
    print(said.get(command, __doc__), file=sys.stdout if command in said else sys.stderr)
    return 0 if command in said else 2


if __name__ == "__main__":
    sys.exit(main())
