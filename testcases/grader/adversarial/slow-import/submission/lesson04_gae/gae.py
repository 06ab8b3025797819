import time

end = time.process_time() + 1.2
while time.process_time() < end:
    pass


def td_errors(rewards, values, dones, gamma=0.99):
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
