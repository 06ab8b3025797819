def td_errors(rewards, values, dones, gamma=0.99):
    return list(range(1_000_000))
