import torch


def td_errors(rewards, values, dones, gamma=0.99):
    rewards += gamma * values[..., 1:].masked_fill(dones.bool(), 0.0)
    rewards -= values[..., :-1]
    return rewards
