import torch


def td_errors(rewards, values, dones):
    return rewards + 0.9 * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
