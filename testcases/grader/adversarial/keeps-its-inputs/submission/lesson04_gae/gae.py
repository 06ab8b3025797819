kept = []


def td_errors(rewards, values, dones, gamma=0.99):
    kept.append((rewards, rewards.detach().clone()))
    assert all((a == b).all() or (a != a).any() for a, b in kept)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
