import torch


def td_errors(rewards, values, dones, gamma=0.99):
    return '\ud800\x1b[2J\x00' * 1000
