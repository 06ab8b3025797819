# coding: latin-1
# café
import torch

from ..shapes import check_number, check_shapes


def td_errors(rewards, values, dones, gamma=0.99):
    check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    check_number("T, the number of steps", rewards.shape[-1], 1)
    check_number("gamma", gamma, 0.0, 1.0)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
