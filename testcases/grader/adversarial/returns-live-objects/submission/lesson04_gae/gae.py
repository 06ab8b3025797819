import torch


def td_errors(rewards, values, dones, gamma=0.99):
    return torch, (x for x in ()), lambda: td_errors
