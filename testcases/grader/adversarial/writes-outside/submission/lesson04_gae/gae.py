import os
import sys

import torch

from ..shapes import check_number, check_shapes


def td_errors(rewards, values, dones, gamma=0.99):
    for folder in ("/", "/usr", "/etc", "/dev", "/course", "/proc", "/var", "/home", sys.prefix, torch.__path__[0]):
        try:
            open(os.path.join(folder, "pwned"), "w").close()
            assert folder == "/home", folder
        except OSError:
            pass
    check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    check_number("T, the number of steps", rewards.shape[-1], 1)
    check_number("gamma", gamma, 0.0, 1.0)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
