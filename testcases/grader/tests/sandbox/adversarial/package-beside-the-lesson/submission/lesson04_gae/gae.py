from .mine import checked
from .mine.values import next_values


def td_errors(rewards, values, dones, gamma=0.99):
    checked(rewards, values, dones, gamma)
    return rewards + gamma * next_values(values, dones) - values[..., :-1]
