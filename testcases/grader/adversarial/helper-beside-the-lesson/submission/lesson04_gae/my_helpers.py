from ..shapes import check_number, check_shapes


def checked(rewards, values, dones, gamma):
    check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    check_number("T, the number of steps", rewards.shape[-1], 1)
    check_number("gamma", gamma, 0.0, 1.0)


def next_values(values, dones):
    return values[..., 1:].masked_fill(dones.bool(), 0.0)
