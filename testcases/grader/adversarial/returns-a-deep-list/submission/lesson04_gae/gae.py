import torch


def td_errors(rewards, values, dones, gamma=0.99):
    value = []
    for _ in range(1000):
        value = [value]
    return value
