import torch


def td_errors(rewards, values, dones, gamma=0.99):
    raise NotImplementedError("lesson04: td_errors")
